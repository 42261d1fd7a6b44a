"""verl (commit 1dda039b): what policy losses are among the overrides of ``verl.trainer.main_ppo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlexp.export.common import CLAMPED, UNBOUNDED
from rlexp.export.rule import Note, Rule, knob, when

OUT_OF_REACH = 1e9
ACTOR = "actor_rollout_ref.actor"
MODE = f"{ACTOR}.policy_loss.loss_mode"
AGG = f"{ACTOR}.loss_agg_mode"
SEQUENCE_MEAN = "seq-mean-token-mean"
BOUNDS = {f"{ACTOR}.clip_ratio_low": knob("low"), f"{ACTOR}.clip_ratio_high": knob("high")}
SINGLE = "clip_ratio alone changes nothing there: the config supplies clip_ratio_low and clip_ratio_high"
BY_TOKEN = when(
    lambda node, config: config.mismatch.name.startswith("token"),
    "the correction weighs each token's own gradient there, here a completion's gradient by their mean",
)
MEAN_WEIGHT = when(
    lambda node, config: config.mismatch.name.startswith("token"),
    "a completion is weighed by the geometric mean of its tokens' corrections there, here by their mean",
)


def loss(mode: str, settings: Mapping[str, Any], *notes: str | Note) -> Rule:
    """Return the rule of a policy loss."""
    return Rule({MODE: mode, **settings}, notes)


def sequence_loss(mode: str, settings: Mapping[str, Any], *notes: str | Note) -> Rule:
    """Return the rule of a policy loss that averages over completions whatever ``AGG``, which KL and entropy follow."""
    return Rule({MODE: mode, AGG: SEQUENCE_MEAN, **settings}, notes, {"agg": ("sequence",)})


CLIP: Mapping[str, Rule | str] = {
    "naive": loss("gpg", {}),
    "unclipped": loss(
        "vanilla",
        {
            f"{ACTOR}.clip_ratio_low": 1.0,
            f"{ACTOR}.clip_ratio_high": OUT_OF_REACH,
            f"{ACTOR}.clip_ratio_c": OUT_OF_REACH,
        },
        CLAMPED,
    ),
    "ppo": loss(
        "vanilla",
        {**BOUNDS, f"{ACTOR}.clip_ratio_c": OUT_OF_REACH},
        "a dual clip is always on there, at 3 by default: clip_ratio_c puts it out of reach",
        SINGLE,
        CLAMPED,
    ),
    "dual": loss("vanilla", {**BOUNDS, f"{ACTOR}.clip_ratio_c": knob("c")}, SINGLE, CLAMPED),
    "two_sided": loss("vanilla", {**BOUNDS, f"{ACTOR}.clip_ratio_c": knob("delta")}, SINGLE, CLAMPED),
    "scheduled": "clip_ratio_high is constant",
    "sapo": sequence_loss(
        "sapo", {f"{ACTOR}.tau_pos": knob("tau_positive"), f"{ACTOR}.tau_neg": knob("tau_negative")}, CLAMPED
    ),
    "cispo": loss(
        "cispo",
        {
            f"{ACTOR}.clip_ratio_low": knob("lower", lambda bound: round(1 - bound, 12)),
            f"{ACTOR}.clip_ratio_high": knob("upper", lambda bound: round(bound - 1, 12)),
        },
        "clip_ratio_low and _high are distances from 1 there",
        CLAMPED,
    ),
    "dppo_tv": loss(
        "dppo_tv",
        {**BOUNDS, f"{ACTOR}.clip_ratio_c": knob("upper")},
        "clip_ratio_c bounds the weight there; its default of 3 stands where the code means 20",
        CLAMPED,
    ),
    "dppo_kl": loss(
        "dppo_kl",
        {**BOUNDS, f"{ACTOR}.clip_ratio_c": knob("upper")},
        "clip_ratio_c bounds the weight there; its default of 3 stands where the code means 20",
        CLAMPED,
    ),
    "dro": loss("dro", {f"{ACTOR}.policy_loss.dro_beta": knob("beta")}),
    "gspo": sequence_loss(
        "gspo",
        BOUNDS,
        "is clip=gspo_token there: the gradient is the same as long as tokens share their advantage",
        BY_TOKEN,
        "log ρ̄ is at most 10",
    ),
    "gspo_token": sequence_loss("gspo", BOUNDS, "log ρ̄ is at most 10"),
    "gmpo": sequence_loss(
        "geo_mean",
        BOUNDS,
        "the loss is a plain mean over the completions of each micro-batch there: it grows with their number",
        MEAN_WEIGHT,
        UNBOUNDED,
    ),
    "clip_cov": loss(
        "clip_cov",
        {
            **BOUNDS,
            f"{ACTOR}.policy_loss.clip_cov_ratio": knob("share"),
            f"{ACTOR}.policy_loss.clip_cov_lb": knob("lb"),
            f"{ACTOR}.policy_loss.clip_cov_ub": knob("ub"),
        },
        UNBOUNDED,
    ),
    "kl_cov": loss(
        "kl_cov",
        {
            f"{ACTOR}.policy_loss.kl_cov_ratio": knob("share"),
            f"{ACTOR}.policy_loss.ppo_kl_coef": knob("coef"),
        },
        UNBOUNDED,
    ),
}
