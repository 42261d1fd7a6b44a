"""verl (commit 1dda039b): overrides of ``verl.trainer.main_ppo``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from shlex import quote
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from rlexp.config.schema import Config
from rlexp.core.errors import format_value
from rlexp.export.common import CLAMPED, NO_BOUND, NO_STOP, POINTLESS, WARM_UP, over_common, stepwise
from rlexp.export.rule import Framework, Note, Rule, fixed, knob, updates, when
from rlexp.export.verl.clip import ACTOR, AGG, CLIP, OUT_OF_REACH, SEQUENCE_MEAN
from rlexp.export.verl.norm import NORM
from rlexp.export.verl.optim import CRITIC, OPTIMIZER

CORRECTION = "algorithm.rollout_correction"
OVERLONG = "+reward.reward_kwargs.overlong_buffer_cfg"
BELOW_ALL = 1e-9  # no ratio is below it: log-ratios are clamped at ±20


def in_loss(estimator: str, *notes: str | Note) -> Rule:
    """Return the rule of a penalty in the loss."""
    settings = {
        f"{ACTOR}.use_kl_loss": True,
        f"{ACTOR}.kl_loss_type": estimator,
        f"{ACTOR}.kl_loss_coef": knob("coef"),
        "algorithm.use_kl_in_reward": False,
    }
    return Rule(settings, notes)


def in_reward(estimator: str, *notes: str | Note) -> Rule:
    """Return the rule of a penalty in the reward."""
    settings = {
        f"{ACTOR}.use_kl_loss": False,
        "algorithm.use_kl_in_reward": True,
        "algorithm.kl_penalty": estimator,
        "algorithm.kl_ctrl.kl_coef": knob("coef"),
    }
    return Rule(settings, notes)


def correction(level: str, threshold: Any, *notes: str | Note) -> Rule:
    """Return the rule of a correction of the sampler's mismatch."""
    settings = {
        f"{CORRECTION}.rollout_is": level,
        f"{CORRECTION}.rollout_is_threshold": threshold,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
    }
    return Rule(settings, [*notes, CLAMPED])


def bounds(node: Any, config: Config) -> str:
    """Return both bounds as verl reads them, which drops what is outside instead of clipping it."""
    return f"{max(float(node.low), BELOW_ALL)}_{float(node.high)}"


TINY = when(
    lambda node, config: node.low < BELOW_ALL,
    f"a low bound of 0 is refused there: {format_value(BELOW_ALL)} drops nothing, the ratio is at least e^−20",
)
LEAVES = "takes what it rejects out of the mask, and so out of every denominator"
CLAMPED_K3 = "k3 is clamped at 10 there, of differences clamped at ±20: kl=low_var_kl"

RUN = Rule(
    {
        "actor_rollout_ref.rollout.n": knob("group_size.completions"),
        "data.train_batch_size": knob("group_size.prompts"),
        f"{ACTOR}.ppo_mini_batch_size": lambda node, config: config.group_size.prompts // config.minibatches,
        f"{ACTOR}.ppo_epochs": knob("inner_steps"),
        "data.max_response_length": knob("task.cap"),
        "actor_rollout_ref.rollout.temperature": knob("temperature"),
        "trainer.total_training_steps": knob("steps"),
        f"{ACTOR}.optim.lr": knob("lr"),
        f"{ACTOR}.optim.lr_scheduler_type": lambda node, config: "constant" if config.lr_final == 1 else "cosine",
        f"{ACTOR}.optim.min_lr_ratio": knob("lr_final"),
        f"{ACTOR}.optim.lr_warmup_steps": lambda node, config: ceil(config.warmup_steps / updates(config)),
        f"{ACTOR}.optim.clip_grad": knob("grad_clip", lambda norm: OUT_OF_REACH if norm is None else norm),
        f"{ACTOR}.entropy_coeff": knob("entropy_coef"),
        "data.seed": knob("seed"),
    },
    [
        "learning rate, steps and response length are those of a tiny policy",
        NO_BOUND,
        NO_STOP,
        WARM_UP,
        when(
            lambda node, config: config.minibatches > 1,
            "devices share a rollout by length there, which can split a group over updates; here groups stay whole",
        ),
        when(lambda node, config: config.lr_final != 1, "the learning rate falls as a cosine there, here along a line"),
        when(
            lambda node, config: updates(config) > 1 and (config.warmup_steps > 0 or config.lr_final != 1),
            "the learning rate moves once a rollout there, here at every update",
        ),
    ],
)

TABLE = over_common(
    {
        "shaping": {
            "overlong": Rule(
                {
                    "reward.reward_manager.name": "dapo",
                    f"{OVERLONG}.enable": True,
                    f"{OVERLONG}.len": knob("cache"),
                    f"{OVERLONG}.penalty_factor": knob("factor"),
                    f"{OVERLONG}.log": False,
                    "+reward.reward_kwargs.max_resp_len": knob("cap"),
                },
                ["without the floor at −factor there, which lengths up to cap do not reach"],
            ),
        },
        "filter.refill": {
            "zero_variance": Rule(
                {
                    "algorithm.filter_groups.enable": True,
                    "algorithm.filter_groups.metric": "acc",
                },
                [
                    "the number of rounds has no cap there: max_num_gen_batches is ignored",
                    "asks for a deviation of exactly 0 there, which rounding defeats, if rewards are not 0 or 1",
                    "acc is the number that a reward function returns there; if it returns several, name one of them",
                ],
            ),
            "difficulty": "groups are filtered by their variance alone",
        },
        "filter.loss": dict.fromkeys(
            ("overlong", "zero_variance", "difficulty", "top_entropy"), "there is no filter of the loss"
        ),
        "filter.statistics": dict.fromkeys(
            ("overlong", "zero_variance", "difficulty"), "every reward is in the statistics"
        ),
        "critic": {"value": CRITIC},
        "norm": NORM,
        "teacher": dict.fromkeys(("added", "alone"), "distillation.* has losses of its own, none of them an advantage"),
        "clip": CLIP,
        "agg": {
            "token": Rule(
                {AGG: "token-mean"},
                [when(lambda node, config: config.minibatches > 1, "tokens are those of an optimizer step there")],
            ),
            "bnpo": Rule({AGG: "token-mean"}),
            "sequence": Rule({AGG: SEQUENCE_MEAN}),
            "sequence_sum": Rule({AGG: "seq-mean-token-sum"}),
            "dr_grpo": Rule(
                {AGG: "seq-mean-token-sum-norm", f"{ACTOR}.loss_scale_factor": knob("length")},
                ["loss_scale_factor unset is the width of each micro-batch there, no constant"],
            ),
            "prompt": "no framework averages by prompt",
        },
        "kl": {
            "none": Rule({f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": False}),
            "k1 in the loss": in_loss("kl", POINTLESS),
            "k2 in the loss": in_loss("mse"),
            "k3 in the loss": in_loss("low_var_kl", CLAMPED_K3),
            "low_var_kl in the loss": in_loss("low_var_kl", *fixed(bound=10.0)),
            "abs in the loss": in_loss("abs"),
            "k1_plus in the loss": in_loss("kl+"),
            "k3_plus in the loss": in_loss("low_var_kl+", CLAMPED_K3),
            "k1 in the reward": in_reward("kl"),
            "k2 in the reward": in_reward("mse"),
            "k3 in the reward": in_reward("low_var_kl", CLAMPED_K3),
            "low_var_kl in the reward": in_reward("low_var_kl", *fixed(bound=10.0)),
            "abs in the reward": in_reward("abs"),
        },
        "kl_control": {
            "fixed": Rule({"algorithm.kl_ctrl.type": "fixed"}),
            "adaptive": Rule(
                {
                    "algorithm.kl_ctrl.type": "adaptive",
                    "algorithm.kl_ctrl.target_kl": knob("target"),
                    "algorithm.kl_ctrl.horizon": knob("horizon", int),
                },
                [
                    "is fed the estimator of the penalty there, here always k1",
                    when(lambda node, config: config.kl.place == "loss", "acts only on KL in the reward there"),
                ],
            ),
        },
        "entropy_control": {"adaptive": "entropy_coeff is constant"},
        "optimizer": OPTIMIZER,
        "mismatch": {
            "none": Rule({f"{CORRECTION}.rollout_is": None}),
            "token_truncate": correction("token", knob("high"), *fixed(low=0.0)),
            "token_mask": correction("token", bounds, TINY),
            "sequence_truncate": correction("sequence", knob("high"), *fixed(low=0.0)),
            "sequence_mask": correction("sequence", bounds, TINY),
            "geometric_reject": f"rollout_rs=seq_mean_k1 {LEAVES}",
            "divergence_reject": f"rollout_rs=seq_mean_k3 {LEAVES}",
            "truncate_and_reject": f"rollout_is=token with rollout_rs=seq_mean_k1 {LEAVES}",
        },
    }
)


def hydra_value(value: Any) -> str:
    """Return a value as Hydra reads it back: in quotes, if it is a text that looks like a number (0.5_5 is 0.55)."""
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    if isinstance(value, str) and not is_read_as_text(value):
        return f"'{value}'"
    return format_value(value)


@cache
def is_read_as_text(text: str) -> bool:
    """Whether Hydra's grammar leaves a text as it is."""
    return OverridesParser.create().parse_override(f"key={text}").value() == text


def write(settings: Mapping[str, Any]) -> str:
    """Return the command."""
    arguments = (quote(f"{name}={hydra_value(value)}") for name, value in settings.items())
    return stepwise("python3 -m verl.trainer.main_ppo", *arguments)


FRAMEWORK = Framework("verl (1dda039b), verl.trainer.main_ppo", TABLE, RUN, write)
