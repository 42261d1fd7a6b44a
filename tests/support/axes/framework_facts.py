"""What verl and OpenRLHF take: names, types and allowed values of the settings that the export writes.

Read from verl 1dda039b (``verl/trainer/config/ppo_trainer.yaml`` and its dataclasses, the registries of
``core_algos.py``) and OpenRLHF 3c3be623 (``openrlhf/cli/train_ppo_ray.py``). A test compares them with the packages
themselves where these are installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ACTOR = "actor_rollout_ref.actor"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
ESTIMATORS = (
    "gae grpo reinforce_plus_plus reinforce_plus_plus_baseline remax rloo opo grpo_passk gpg rloo_vectorized "
    "grpo_vectorized optimal_token_baseline tir_optimal_token_baseline gdpo"
).split()
LOSSES = "vanilla dppo_tv dppo_kl gspo sapo gpg clip_cov kl_cov geo_mean dro cispo bypass_mode".split()
PENALTIES = "kl k1 abs mse k2 low_var_kl k3".split()


def is_threshold(value: Any) -> bool:
    """Whether verl takes it as ``rollout_is_threshold``: an upper bound, or both as a text, all of them above 0."""
    if isinstance(value, str) and "_" in value:
        low, high = map(float, value.split("_"))
        return 0 < low <= high
    return isinstance(value, int | float) and value > 0


def is_list_of(kind: type) -> Any:
    """Return a test of a list."""
    return lambda value: isinstance(value, list) and all(isinstance(each, kind) for each in value)


# By name: a type, the allowed values, or a test of the value.
VERL: Mapping[str, Any] = {
    "actor_rollout_ref.rollout.n": int,
    "actor_rollout_ref.rollout.temperature": float,
    "actor_rollout_ref.rollout.top_k": int,
    "actor_rollout_ref.rollout.top_p": float,
    "actor_rollout_ref.rollout.calculate_log_probs": bool,
    f"{ACTOR}.calculate_sum_pi_squared": bool,
    f"{ACTOR}.clip_ratio_c": lambda value: value > 1,
    f"{ACTOR}.clip_ratio_high": float,
    f"{ACTOR}.clip_ratio_low": float,
    f"{ACTOR}.entropy_coeff": float,
    f"{ACTOR}.kl_loss_coef": float,
    f"{ACTOR}.kl_loss_type": [*PENALTIES, *(f"{name}+" for name in PENALTIES)],
    f"{ACTOR}.loss_agg_mode": "token-mean token-sum seq-mean-token-sum seq-mean-token-mean "
    "seq-mean-token-sum-norm".split(),
    f"{ACTOR}.loss_scale_factor": int,
    f"{ACTOR}.optim.clip_grad": float,
    f"{ACTOR}.optim.betas": is_list_of(float),
    f"{ACTOR}.optim.lr": float,
    f"{ACTOR}.optim.optimizer": ["AdamW", "SGD", "RMSprop"],
    f"{ACTOR}.optim.lr_scheduler_type": ["constant", "cosine"],
    f"{ACTOR}.optim.lr_warmup_steps": int,
    f"{ACTOR}.optim.min_lr_ratio": lambda value: 0 <= value <= 1,
    f"{ACTOR}.optim.weight_decay": float,
    f"{ACTOR}.policy_loss.clip_cov_lb": float,
    f"{ACTOR}.policy_loss.clip_cov_ratio": float,
    f"{ACTOR}.policy_loss.clip_cov_ub": float,
    f"{ACTOR}.policy_loss.dro_beta": lambda value: value > 0,
    f"{ACTOR}.policy_loss.kl_cov_ratio": float,
    f"{ACTOR}.policy_loss.loss_mode": LOSSES,
    f"{ACTOR}.policy_loss.ppo_kl_coef": float,
    f"{ACTOR}.ppo_epochs": int,
    f"{ACTOR}.ppo_mini_batch_size": int,
    f"{ACTOR}.tau_neg": float,
    f"{ACTOR}.tau_pos": float,
    f"{ACTOR}.use_kl_loss": bool,
    "algorithm.adv_estimator": ESTIMATORS,
    "algorithm.filter_groups.enable": bool,
    "algorithm.filter_groups.metric": str,
    "algorithm.gamma": float,
    "algorithm.lam": float,
    "algorithm.kl_ctrl.horizon": int,
    "algorithm.kl_ctrl.kl_coef": float,
    "algorithm.kl_ctrl.target_kl": float,
    "algorithm.kl_ctrl.type": ["fixed", "adaptive"],
    "algorithm.kl_penalty": PENALTIES,
    "algorithm.norm_adv_by_std_in_grpo": bool,
    "algorithm.rollout_correction.bypass_mode": bool,
    "algorithm.rollout_correction.rollout_is": [None, "token", "sequence"],
    "algorithm.rollout_correction.rollout_is_threshold": is_threshold,
    "algorithm.use_kl_in_reward": bool,
    "critic.cliprange_value": float,
    "critic.loss_agg_mode": "token-mean seq-mean-token-sum seq-mean-token-mean".split(),
    "critic.optim.clip_grad": float,
    "critic.optim.lr": float,
    "critic.optim.lr_scheduler_type": ["constant", "cosine"],
    "critic.optim.lr_warmup_steps": int,
    "critic.optim.min_lr_ratio": lambda value: 0 <= value <= 1,
    "critic.optim.weight_decay": float,
    "critic.ppo_epochs": int,
    "data.max_response_length": int,
    "data.seed": int,
    "data.train_batch_size": int,
    "reward.reward_manager.name": ["naive", "dapo", "gdpo", "remote"],
    "trainer.critic_warmup": int,
    "trainer.total_training_steps": int,
    "trainer.use_v1": bool,
}
# Not in verl's YAML, so that Hydra wants a + before the name.
VERL_ADDED: Mapping[str, Any] = {
    "algorithm.gdpo_reward_keys": is_list_of(str),
    "algorithm.gdpo_reward_weights": is_list_of(int | float),
    "reward.reward_kwargs.max_resp_len": int,
    f"{OVERLONG}.enable": bool,
    f"{OVERLONG}.len": int,
    f"{OVERLONG}.log": bool,
    f"{OVERLONG}.penalty_factor": float,
}
# What verl's v1 trainer, its default, cannot compute, as it does not hand over what they need.
OF_THE_LEGACY_TRAINER = {"remax", "gdpo", "optimal_token_baseline", "tir_optimal_token_baseline"}

NUMBER, COUNT, FLAG = {"type": float}, {"type": int}, {"action": "store_true"}
PAIR = {"type": float, "nargs": 2}
# By flag: what ``ArgumentParser.add_argument`` is told.
OPENRLHF: Mapping[str, Mapping[str, Any]] = {
    "--actor.adam.betas": PAIR,
    "--actor.adam.eps": NUMBER,
    "--actor.adam.lr": NUMBER,
    "--actor.adam.weight_decay": NUMBER,
    "--actor.dual_clip": NUMBER,
    "--actor.entropy_coef": NUMBER,
    "--actor.eps_clip_low_high": PAIR,
    "--actor.lr_scheduler": {"type": str},
    "--actor.lr_warmup_ratio": NUMBER,
    "--actor.max_norm": NUMBER,
    "--actor.min_lr_ratio": NUMBER,
    "--actor.policy_loss_type": {"type": str, "choices": ["ppo", "gspo"]},
    "--algo.advantage.estimator": {
        "type": str,
        "choices": ["gae", "reinforce", "rloo", "reinforce_baseline", "group_norm", "dr_grpo"],
    },
    "--algo.advantage.gamma": NUMBER,
    "--algo.advantage.is_correction_enable": FLAG,
    "--algo.advantage.is_correction_threshold": PAIR,
    "--algo.advantage.is_correction_type": {"type": str, "choices": ["tis", "icepop", "seq-mask-tis"]},
    "--algo.advantage.lambd": NUMBER,
    "--algo.dynamic_filtering_enable": FLAG,
    "--algo.dynamic_filtering_range": PAIR,
    "--algo.kl.estimator": {"type": str, "choices": ["k1", "k2", "k3"]},
    "--algo.kl.horizon": COUNT,
    "--algo.kl.init_coef": NUMBER,
    "--algo.kl.target": NUMBER,
    "--algo.kl.use_loss": FLAG,
    "--critic.adam.lr": NUMBER,
    "--critic.freezing_steps": COUNT,
    "--critic.lr_scheduler": {"type": str},
    "--critic.lr_warmup_ratio": NUMBER,
    "--critic.max_norm": NUMBER,
    "--critic.min_lr_ratio": NUMBER,
    "--critic.value_clip": NUMBER,
    "--reward.clip_range": PAIR,
    "--reward.overlong_buffer_len": NUMBER,
    "--reward.overlong_penalty_factor": NUMBER,
    "--reward.stop_properly_penalty_coef": NUMBER,
    "--rollout.batch_size": COUNT,
    "--rollout.max_new_tokens": COUNT,
    "--rollout.n_samples_per_prompt": COUNT,
    "--rollout.temperature": NUMBER,
    "--rollout.top_p": NUMBER,
    "--train.batch_size": COUNT,
    "--train.max_epochs": COUNT,
    "--train.seed": COUNT,
}
