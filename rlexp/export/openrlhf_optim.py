"""OpenRLHF (commit 3c3be623): what critics and optimisers are among the flags of ``openrlhf.cli.train_ppo_ray``."""

from __future__ import annotations

from collections.abc import Mapping

from rlexp.export.rule import Rule, knob, when

OUT_OF_REACH = 1000000  # argparse reads -1e9 as a flag
ADAM = {"--actor.adam.betas": lambda node, config: [node.beta1, node.beta2], "--actor.adam.eps": knob("eps")}
CRITIC = Rule(
    {
        "--critic.adam.lr": knob("lr"),
        "--critic.lr_scheduler": lambda node, config: (
            "constant_with_warmup" if node.lr_final == 1 else "cosine_with_min_lr"
        ),
        "--critic.min_lr_ratio": knob("lr_final"),
        "--critic.lr_warmup_ratio": lambda node, config: min(
            1.0, node.warmup_steps / (config.steps * node.updates * config.minibatches)
        ),
        "--critic.max_norm": knob("grad_clip", lambda norm: OUT_OF_REACH if norm is None else norm),
        "--critic.value_clip": knob("clip", lambda clip: OUT_OF_REACH if clip is None else clip),
    },
    [
        "it is a model of its own there, by default the reward model, with Adam as it ships (beta2 0.95)",
        lambda node, config: (
            f"the critic has --train.max_epochs passes there, as the policy; here {node.updates}"
            if node.updates != config.inner_steps
            else ""
        ),
        when(lambda node, config: node.coef != 1, "coef has no counterpart there: Adam takes it out"),
    ],
)

OPTIMIZER: Mapping[str, Rule | str] = {
    "adam": Rule(ADAM | {"--actor.adam.weight_decay": 0}),
    "adamw": Rule(ADAM | {"--actor.adam.weight_decay": knob("weight_decay")}),
    **dict.fromkeys(("sgd", "momentum", "rmsprop"), "--actor.optim is adam or muon"),
}
