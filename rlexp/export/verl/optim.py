"""verl (commit 1dda039b): what critics and optimisers are among the overrides of ``verl.trainer.main_ppo``."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from rlexp.export.common import OTHER_OPTIMIZER
from rlexp.export.rule import Rule, fixed, knob, when
from rlexp.export.verl.clip import ACTOR, OUT_OF_REACH

ADAM = {
    f"{ACTOR}.optim.optimizer": "AdamW",
    f"{ACTOR}.optim.betas": lambda node, config: [node.beta1, node.beta2],
}
CRITIC = Rule(
    {
        "critic.optim.lr": knob("lr"),
        "critic.optim.lr_scheduler_type": lambda node, config: "constant" if node.lr_final == 1 else "cosine",
        "critic.optim.min_lr_ratio": knob("lr_final"),
        "critic.optim.lr_warmup_steps": lambda node, config: ceil(
            node.warmup_steps / (node.updates * config.minibatches)
        ),
        "critic.optim.weight_decay": lambda node, config: getattr(config.optimizer, "weight_decay", 0.0),
        "critic.optim.clip_grad": knob("grad_clip", lambda norm: OUT_OF_REACH if norm is None else norm),
        "critic.ppo_epochs": knob("updates"),
        "critic.cliprange_value": knob("clip", lambda clip: OUT_OF_REACH if clip is None else clip),
        "critic.loss_agg_mode": "token-mean",
    },
    [
        "it starts from critic.model.path there",
        OTHER_OPTIMIZER,
        when(lambda node, config: node.coef != 1, "coef has no counterpart there: Adam takes it out"),
    ],
)

OPTIMIZER: Mapping[str, Rule | str] = {
    "adam": Rule(ADAM | {f"{ACTOR}.optim.weight_decay": 0.0}, fixed(eps=1e-8)),
    "adamw": Rule(ADAM | {f"{ACTOR}.optim.weight_decay": knob("weight_decay")}, fixed(eps=1e-8)),
    "sgd": Rule({f"{ACTOR}.optim.optimizer": "SGD", f"{ACTOR}.optim.weight_decay": 0.0}),
    "momentum": "actor.optim.optimizer=SGD, and override_optimizer_config={momentum: 0.9} is yours to write",
    "rmsprop": Rule(
        {f"{ACTOR}.optim.optimizer": "RMSprop", f"{ACTOR}.optim.weight_decay": 0.0}, fixed(alpha=0.99, eps=1e-8)
    ),
}
