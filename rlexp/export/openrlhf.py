"""OpenRLHF (commit 3c3be623): flags of ``openrlhf.cli.train_ppo_ray``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlexp.export.common import (
    CLAMPED,
    ENDED,
    OF_UPDATES,
    POINTLESS,
    UNBOUNDED,
    WARM_UP,
    over_common,
    rounding,
    stepwise,
)
from rlexp.export.openrlhf_optim import CRITIC, OPTIMIZER, OUT_OF_REACH
from rlexp.export.rule import NOTHING, Framework, Note, Rule, fixed, kl_in_reward, knob, off_policy, updates, when

ESTIMATOR = "--algo.advantage.estimator"
COEF = "--algo.kl.init_coef"
ROUNDING = rounding("nearly 1")
REFILL = ["the number of rounds has no cap there", "needs --reward.remote_url or --train.agent_func_path there"]
CLIP = {"--actor.policy_loss_type": "ppo", "--actor.eps_clip_low_high": lambda node, config: [node.low, node.high]}
OPEN = {"--actor.policy_loss_type": "ppo", "--actor.eps_clip_low_high": [1, OUT_OF_REACH]}
WHITENED = ["the variance is at least eps there, here eps is added to the deviation", *fixed(eps=1e-8, ddof=0)]
KL_AFTER = kl_in_reward(
    "KL in the reward is subtracted after the group's mean there, token by token with reward to go; here before"
)
OF_THE_SAMPLER = when(
    lambda node, config: config.clip.name == "gspo",
    "with gspo it multiplies nothing there: the ratio of the completion is taken to the sampler, without bounds",
)


def advantage(estimator: str, *notes: str | Note, **settings: Any) -> Rule:
    """Return the rule of an advantage estimator; settings are those of ``algo.advantage``."""
    return Rule({ESTIMATOR: estimator} | {f"--algo.advantage.{name}": value for name, value in settings.items()}, notes)


def penalty(estimator: str, in_loss: bool, *notes: str | Note) -> Rule:
    """Return the rule of a penalty."""
    settings = {COEF: knob("coef"), "--algo.kl.estimator": estimator, "--algo.kl.use_loss": in_loss}
    return Rule(settings, ["penalties are clamped at ±10 there", *notes])


def correction(name: str, *notes: str | Note) -> Rule:
    """Return the rule of a correction of the sampler's mismatch."""
    settings = {
        "--algo.advantage.is_correction_enable": True,
        "--algo.advantage.is_correction_type": name,
        "--algo.advantage.is_correction_threshold": lambda node, config: [node.low, node.high],
    }
    return Rule(settings, [OF_THE_SAMPLER, *notes])


def after_the_end(node: Any, config: Any) -> float:
    """Return the coefficient of a cut-off completion: a factor, or below 0 the reward itself."""
    return node.scale if node.penalty == 0 else -node.penalty


BY_TOKEN = ("token", "bnpo")
TOKEN_KL = when(lambda node, config: config.agg.name not in BY_TOKEN, "KL in the loss is a mean over tokens there")
RUN = Rule(
    {
        "--rollout.n_samples_per_prompt": knob("group_size.completions"),
        "--rollout.batch_size": knob("group_size.prompts"),
        "--train.batch_size": lambda node, config: (
            config.group_size.completions * config.group_size.prompts // config.minibatches
        ),
        "--train.max_epochs": knob("inner_steps"),
        "--rollout.max_new_tokens": knob("task.cap"),
        "--rollout.temperature": knob("temperature"),
        "--actor.adam.lr": knob("lr"),
        "--actor.lr_scheduler": lambda node, config: (
            "constant_with_warmup" if config.lr_final == 1 else "cosine_with_min_lr"
        ),
        "--actor.min_lr_ratio": knob("lr_final"),
        "--actor.lr_warmup_ratio": lambda node, config: min(
            1.0, config.warmup_steps / (config.steps * updates(config))
        ),
        "--actor.max_norm": knob("grad_clip", lambda norm: OUT_OF_REACH if norm is None else norm),
        "--actor.entropy_coef": knob("entropy_coef"),
        "--reward.clip_range": lambda node, config: [-(bound := config.advantage_clip or OUT_OF_REACH), bound],
        "--train.seed": knob("seed"),
    },
    [
        "learning rate and response length are those of a tiny policy; the number of steps follows from the data",
        when(
            lambda node, config: config.advantage_clip is None,
            "--reward.clip_range, ±10 by default, clips after the group's mean and deviation: out of reach",
        ),
        when(
            lambda node, config: config.advantage_clip is not None and config.norm.name.startswith("reinforce"),
            "--reward.clip_range bounds rewards before they are whitened there",
        ),
        *OF_UPDATES,
        when(
            lambda node, config: config.entropy_coef > 0 and config.agg.name not in BY_TOKEN,
            "the entropy bonus is a mean over tokens there, here it is aggregated as the loss",
        ),
        WARM_UP,
        when(lambda node, config: config.lr_final != 1, "the learning rate falls as a cosine there, here along a line"),
    ],
)

TABLE = over_common(
    {
        "shaping": {
            "overlong": Rule(
                {
                    "--reward.overlong_buffer_len": knob("cache"),
                    "--reward.overlong_penalty_factor": knob("factor"),
                },
                [when(lambda node, config: node.cap != config.task.cap, "the cap is --rollout.max_new_tokens there")],
            ),
            "truncated": Rule(
                {"--reward.stop_properly_penalty_coef": after_the_end},
                [
                    when(
                        lambda node, config: node.scale != 0 and node.penalty != 0,
                        "a cut-off completion keeps a share of its reward or gets a fixed one there, not both",
                    ),
                    when(
                        lambda node, config: node.scale < 0 or node.scale > 1 or node.penalty < 0,
                        "the share is from 0 to 1 and the fixed reward negative there",
                    ),
                ],
            ),
        },
        "filter.refill": {
            "zero_variance": Rule(
                {"--algo.dynamic_filtering_enable": True, "--algo.dynamic_filtering_range": [0, 1]},
                [
                    "groups are kept by their mean reward there, between 0 and 1: the same only for rewards of 0 and 1",
                    *REFILL,
                ],
            ),
            "difficulty": Rule(
                {
                    "--algo.dynamic_filtering_enable": True,
                    "--algo.dynamic_filtering_range": lambda node, config: [node.low, node.high],
                },
                ["the range is open there, here closed", *REFILL],
            ),
        },
        "filter.loss": dict.fromkeys(
            ("overlong", "zero_variance", "difficulty", "top_entropy"), "there is no filter of the loss"
        ),
        "filter.statistics": dict.fromkeys(
            ("overlong", "zero_variance", "difficulty"), "every reward is in the statistics"
        ),
        "norm": {
            "center": advantage("dr_grpo", KL_AFTER),
            "local": advantage("group_norm", *fixed(eps=1e-9, ddof=1), ROUNDING, KL_AFTER),
            "rloo": advantage("rloo", KL_AFTER),
            "reinforce_pp": advantage("reinforce", *WHITENED, gamma=knob("gamma")),
            "reinforce_pp_baseline": advantage("reinforce_baseline", *WHITENED, *fixed(gamma=1.0)),
            "gae": "advantages are always whitened: norm=gae_whitened",
            "gae_whitened": advantage("gae", *WHITENED, *ENDED, gamma=knob("gamma"), lambd=knob("lam")),
            "value_baseline": "advantages are always whitened; gae with lambd=1",
            "none": "reinforce whitens over all tokens, and gae, the default, needs a critic",
        },
        "critic": {"value": CRITIC},
        "clip": {
            "naive": Rule(OPEN, [off_policy("the loss is −ρA there, its gradient that of −A log π only while ρ = 1")]),
            "unclipped": Rule(OPEN, [CLAMPED]),
            "ppo": Rule(CLIP, [CLAMPED]),
            "dual": Rule({**CLIP, "--actor.dual_clip": knob("c")}, [CLAMPED]),
            "two_sided": Rule({**CLIP, "--actor.dual_clip": knob("delta")}, [CLAMPED]),
            "gspo": Rule(
                {**CLIP, "--actor.policy_loss_type": "gspo"},
                ["completions without tokens leave the number of completions there", UNBOUNDED],
                {"agg": ("sequence",)},
            ),
        },
        "agg": {
            "token": Rule(
                notes=[when(lambda node, config: config.minibatches > 1, "tokens are those of an optimizer step there")]
            ),
            "bnpo": NOTHING,
            **dict.fromkeys(("sequence", "sequence_sum", "dr_grpo"), "tokens are averaged over the optimizer step"),
            "prompt": "no framework averages by prompt",
        },
        "kl": {
            "none": Rule({COEF: 0}),
            "k1 in the loss": penalty("k1", True, TOKEN_KL, POINTLESS),
            "k2 in the loss": penalty("k2", True, TOKEN_KL),
            "k3 in the loss": penalty("k3", True, TOKEN_KL),
            "k1 in the reward": penalty("k1", False),
            "k2 in the reward": penalty("k2", False),
            "k3 in the reward": penalty("k3", False),
        },
        "kl_control": {
            "adaptive": Rule(
                {"--algo.kl.target": knob("target"), "--algo.kl.horizon": knob("horizon", int)},
                ["is fed the estimator of the penalty there, here always k1"],
            ),
        },
        "entropy_control": {"adaptive": "entropy_coef is constant"},
        "optimizer": OPTIMIZER,
        "mismatch": {
            "none": NOTHING,
            "token_truncate": correction("tis"),
            "token_mask": correction("icepop"),
            "geometric_mask": correction("seq-mask-tis", UNBOUNDED),
            "sequence_mask": correction(
                "seq-mask-tis",
                "a completion is dropped by the geometric mean of its ratios there, and the tokens of the others are "
                "multiplied by their own, unbounded",
            ),
        },
    }
)


def written(value: Any) -> str:
    """Return a value as an argument; a flag that is on has none."""
    if value is True:
        return ""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def write(settings: Mapping[str, Any]) -> str:
    """Return the command; a flag that is off is left out."""
    arguments = (f"{name} {written(value)}".strip() for name, value in settings.items() if value is not False)
    return stepwise("python3 -m openrlhf.cli.train_ppo_ray", *arguments)


FRAMEWORK = Framework("OpenRLHF (3c3be623), openrlhf.cli.train_ppo_ray", TABLE, RUN, write)
