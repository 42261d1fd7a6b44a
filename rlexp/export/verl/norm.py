"""verl (commit 1dda039b): what norms are among the overrides of ``verl.trainer.main_ppo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlexp.config.schema import Config
from rlexp.export.common import ENDED, rounding
from rlexp.export.rule import Note, Rule, fixed, kl_in_reward, knob, when
from rlexp.export.verl.advantages import size

ESTIMATOR = "algorithm.adv_estimator"
RAW = when(
    lambda node, config: config.group_size.completions == 1,
    "a group of one has its raw reward as advantage there, here 0",
)
ROUNDING = rounding("0.1")
WHITENED = ["eps is added to the variance there, here to the deviation", *fixed(eps=1e-8, ddof=1)]


def advantage(estimator: str, *notes: str | Note, **settings: Any) -> Rule:
    """Return the rule of an advantage estimator; settings are those of ``algorithm``."""
    return Rule(
        {ESTIMATOR: estimator} | {f"algorithm.{name}": value for name, value in settings.items()}, [*notes, size]
    )


def legacy(estimator: str, settings: Mapping[str, Any], lacks: str, *notes: str | Note) -> Rule:
    """Return the rule of an estimator that only the older trainer can compute: the newer one ``lacks`` its input."""
    return Rule(
        {ESTIMATOR: estimator, "trainer.use_v1": False, **settings},
        [
            f"runs in verl's legacy trainer only (trainer.use_v1=False): the v1 trainer, the default, {lacks}",
            when(
                lambda node, config: config.filter.refill.name != "none",
                "filter_groups acts in the v1 trainer only",
            ),
            *notes,
            size,
        ],
    )


def weighed(config: Config) -> Mapping[str, float]:
    """Return the components of the reward that have a weight."""
    return {name: weight for name, weight in config.task.weights.items() if weight}


def has_adjustments(node: Any, config: Config) -> bool:
    """Whether something but the task's components is in the reward."""
    return config.shaping.name != "none" or (config.kl.name != "none" and config.kl.place == "reward")


NORM: Mapping[str, Rule | str] = {
    "center": advantage("grpo", RAW, norm_adv_by_std_in_grpo=False),
    "local": advantage("grpo", *fixed(eps=1e-6, ddof=1), ROUNDING, RAW, norm_adv_by_std_in_grpo=True),
    "rloo": advantage("rloo", RAW),
    "opo": advantage("opo", RAW),
    "remax": legacy(
        "remax",
        {},
        "samples no greedy completions",
        kl_in_reward(
            "a token bears the KL of itself and of what follows there, here that of the whole completion; what came "
            "before it changes no expected gradient"
        ),
    ),
    "gpg": advantage("gpg", "scales by the number of rewards other than 0 there, not of groups that differ", RAW),
    "grpo_passk": advantage("grpo_passk", *fixed(eps=1e-6, ddof=1), norm_adv_by_std_in_grpo=True),
    "gdpo": legacy(
        "gdpo",
        {
            "+algorithm.gdpo_reward_keys": lambda node, config: list(weighed(config)),
            "+algorithm.gdpo_reward_weights": lambda node, config: list(weighed(config).values()),
        },
        "hands over no reward components",
        "compute_score has to return a dictionary with score and these components, a number each: NaN, a component "
        "that does not apply, is left out here and makes every advantage NaN there",
        "attention_mask has to be of whole numbers, as verl makes it: the estimator indexes by its sums",
        *fixed(eps=1e-6, ddof=1),
        "ends with a whitening over tokens there, here over completions",
        when(has_adjustments, "shaping and KL in the reward are no component there, and change nothing"),
    ),
    "reinforce_pp": advantage("reinforce_plus_plus", *WHITENED, gamma=knob("gamma")),
    "reinforce_pp_baseline": advantage(
        "reinforce_plus_plus_baseline",
        *WHITENED,
        kl_in_reward(
            "KL in the reward is in the group's mean there, and a token bears that of the whole completion; here it "
            "comes after the mean, and a token bears that of what follows it"
        ),
        *fixed(gamma=1.0),
    ),
    "optimal_token": legacy(
        "optimal_token_baseline",
        {"actor_rollout_ref.actor.calculate_sum_pi_squared": True},
        "hands over no Σπ²",
        "where one completion is left, its tokens keep A = G there, or 0; here A = 0",
        when(
            lambda node, config: config.mismatch.name != "none",
            "the correction, squared, also weighs the completions of the baseline there",
        ),
    ),
    "gae": "advantages are always whitened: norm=gae_whitened",
    "gae_whitened": advantage("gae", *WHITENED, *ENDED, gamma=knob("gamma"), lam=knob("lam")),
    "value_baseline": "advantages are always whitened; gae with lam=1",
    "none": "only grpo with rollout.n=1 leaves the reward as it is",
}
