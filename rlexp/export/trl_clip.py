"""TRL 1.16: what policy losses are in ``GRPOConfig``."""

from __future__ import annotations

from collections.abc import Mapping

from rlexp.export.rule import Rule, fixed, knob, off_policy, when

OUT_OF_REACH = 1e9
BOUNDS = {"epsilon": knob("low"), "epsilon_high": knob("high")}
SEQUENCE = {**BOUNDS, "importance_sampling_level": "sequence"}
TWO_SIDED = "metrics of the clip are of the ratio after delta there"
BY_TOKEN = when(
    lambda node, config: config.mismatch.name.startswith("token"),
    "the correction weighs a completion's gradient by their mean there, here each token's own",
)

CLIP: Mapping[str, Rule | str] = {
    "naive": Rule(
        {"epsilon": OUT_OF_REACH, "epsilon_high": OUT_OF_REACH},
        [off_policy("the loss is −ρA there, its gradient that of −A log π only while ρ = 1")],
    ),
    "unclipped": Rule({"epsilon": OUT_OF_REACH, "epsilon_high": OUT_OF_REACH}),
    "ppo": Rule(BOUNDS),
    "dual": Rule(
        {**BOUNDS, "delta": knob("c")},
        [
            TWO_SIDED,
            when(lambda node, config: node.c < 1 + node.high, "delta cuts off the clip of A > 0 too there"),
        ],
    ),
    "two_sided": Rule({**BOUNDS, "delta": knob("delta")}, [TWO_SIDED]),
    "scheduled": "epsilon_high is constant",
    "cispo": Rule(
        {"loss_type": "cispo", "epsilon_high": knob("upper")},
        [
            "epsilon_high is the bound itself there, not its distance from 1; unset it is 0.2, and so would be "
            "every weight",
            *fixed(lower=0.0),
        ],
        {"agg": ("token",)},
    ),
    "sapo": Rule(
        {
            "loss_type": "sapo",
            "sapo_temperature_pos": knob("tau_positive"),
            "sapo_temperature_neg": knob("tau_negative"),
        },
        implies={"agg": ("sequence",)},
    ),
    "gspo": Rule(SEQUENCE),
    "gspo_token": Rule(SEQUENCE, ["the gradient is the same as long as tokens share their advantage", BY_TOKEN]),
    "vespo": Rule(
        {
            "loss_type": "vespo",
            "vespo_k_pos": knob("k_positive"),
            "vespo_lambda_pos": knob("lambda_positive"),
            "vespo_k_neg": knob("k_negative"),
            "vespo_lambda_neg": knob("lambda_negative"),
        },
        [
            when(
                lambda node, config: config.mismatch.name.startswith("sequence"),
                "needs the token_truncate or token_mask of vLLM's correction",
            ),
            when(
                lambda node, config: config.mismatch.name.startswith("token"),
                "the correction is inside the weight there, here it multiplies the loss",
            ),
        ],
        implies={"agg": ("token",)},
    ),
    "opsm": Rule(
        {**BOUNDS, "off_policy_mask_threshold": knob("delta")},
        ["with vLLM the drift is from the sampler's log-probabilities there"],
    ),
    "gmpo": "only trl.experimental.gmpo has it: GMPOConfig(epsilon=low, epsilon_high=high) and GMPOTrainer",
}
