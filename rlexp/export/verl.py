"""verl (commit 1dda039b): overrides of ``verl.trainer.main_ppo``."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from rlexp.config import Config
from rlexp.errors import shown
from rlexp.export.common import POINTLESS, over_common, rounding, stepwise
from rlexp.export.rule import Framework, Note, Rule, fixed, knob, updates, when
from rlexp.export.verl_clip import ACTOR, CLIP, OUT_OF_REACH

ESTIMATOR = "algorithm.adv_estimator"
CORRECTION = "algorithm.rollout_correction"
OVERLONG = "+reward.reward_kwargs.overlong_buffer_cfg"
RAW = when(
    lambda node, config: config.group_size.completions == 1,
    "a group of one has its raw reward as advantage there, here 0",
)
ROUNDING = rounding("0.1")


def advantage(estimator: str, *notes: str | Note, **settings: Any) -> Rule:
    """Return the rule of an advantage estimator; settings are those of ``algorithm``."""
    return Rule({ESTIMATOR: estimator} | {f"algorithm.{name}": value for name, value in settings.items()}, notes)


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
    return Rule(settings, notes)


def bounds(node: Any, config: Config) -> str:
    """Return both bounds as verl reads them, which drops what is outside instead of clipping it."""
    return f"{shown(node.low)}_{shown(node.high)}"


CLAMPED_K3 = "k3 is clamped at 10 there, of differences clamped at ±20: kl=low_var_kl"
WHITENED = ["eps is added to the variance there", *fixed(eps=1e-8, ddof=1)]
GROUP_KL = when(
    lambda node, config: config.kl.name != "none" and config.kl.place == "reward",
    "KL in the reward enters the group mean there",
)

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
        f"{ACTOR}.optim.weight_decay": 0.0,
        f"{ACTOR}.grad_clip": knob("grad_clip", lambda norm: OUT_OF_REACH if norm is None else norm),
        f"{ACTOR}.entropy_coeff": knob("entropy_coef"),
        "data.seed": knob("seed"),
    },
    [
        "learning rate, steps and response length are those of a tiny policy",
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
                    "algorithm.filter_groups.max_num_gen_batches": knob("rounds"),
                },
                [
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
        "norm": {
            "center": advantage("grpo", RAW, norm_adv_by_std_in_grpo=False),
            "local": advantage("grpo", *fixed(eps=1e-6, ddof=1), ROUNDING, RAW, norm_adv_by_std_in_grpo=True),
            "rloo": advantage("rloo", RAW),
            "opo": advantage("opo", RAW),
            "remax": advantage("remax"),
            "gpg": advantage(
                "gpg", "scales by the number of rewards other than 0 there, not of groups that differ", RAW
            ),
            "grpo_passk": advantage("grpo_passk", *fixed(eps=1e-6, ddof=1), norm_adv_by_std_in_grpo=True),
            "gdpo": advantage(
                "gdpo",
                *fixed(eps=1e-6, ddof=1),
                "ends with a whitening over tokens there, here over completions",
                "set algorithm.gdpo_reward_keys to the reward components",
            ),
            "reinforce_pp": advantage("reinforce_plus_plus", *WHITENED, gamma=knob("gamma")),
            "reinforce_pp_baseline": advantage("reinforce_plus_plus_baseline", *WHITENED, GROUP_KL, *fixed(gamma=1.0)),
            "optimal_token": Rule(
                {ESTIMATOR: "optimal_token_baseline", f"{ACTOR}.calculate_sum_pi_squared": True},
                ["where one completion is left, its tokens keep A = G there, or 0; here A = 0"],
            ),
            "none": "only grpo with rollout.n=1 leaves the reward as it is",
        },
        "teacher": dict.fromkeys(("added", "alone"), "distillation.* has losses of its own, none of them an advantage"),
        "clip": CLIP,
        "agg": {
            "token": Rule(
                {f"{ACTOR}.loss_agg_mode": "token-mean"},
                [when(lambda node, config: config.minibatches > 1, "tokens are those of an optimizer step there")],
            ),
            "bnpo": Rule({f"{ACTOR}.loss_agg_mode": "token-mean"}),
            "sequence": Rule({f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean"}),
            "sequence_sum": Rule({f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum"}),
            "dr_grpo": Rule(
                {f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm", f"{ACTOR}.loss_scale_factor": knob("length")},
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
        "mismatch": {
            "none": Rule({f"{CORRECTION}.rollout_is": None}),
            "token_truncate": correction("token", knob("high"), *fixed(low=0.0)),
            "token_mask": correction("token", bounds),
            "sequence_truncate": correction("sequence", knob("high"), *fixed(low=0.0)),
            "sequence_mask": correction("sequence", bounds),
        },
    }
)


def write(settings: Mapping[str, Any]) -> str:
    """Return the command."""
    arguments = {name: shown(value) for name, value in settings.items()}
    return f"python3 -m verl.trainer.main_ppo \\\n    {stepwise(arguments, '=')}"


FRAMEWORK = Framework("verl (1dda039b), verl.trainer.main_ppo", TABLE, RUN, write)
