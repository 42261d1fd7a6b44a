"""What choices are called in frameworks that have no table of settings here, by part and function.

``versions`` has the commits that were read.
"""

from __future__ import annotations

from collections.abc import Mapping

FRAMEWORKS = ("open-instruct", "prime-rl", "slime", "ROLL", "oat")

NAMES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "shaping": {
        "truncated": {"oat": "`non_stop_penalty`, `non_stop_fixed_reward`"},
        "length_cost": {"prime-rl": "length penalty, weighed with the mean reward"},
        "clip": {"ROLL": "`reward_clip`, after the norm"},
    },
    "filter.refill": {
        "zero_variance": {
            "open-instruct": "`active_sampling`",
            "prime-rl": "`AdvRangeGate`",
            "slime": "dynamic sampling filter, std > 1e-6",
            "ROLL": "`query_filter_config.type=std_filter`, std > a number of yours",
        },
        "difficulty": {"ROLL": "`query_filter_config.type=mean_filter`, open ends"},
    },
    "filter.loss": {
        "overlong": {
            "open-instruct": "`mask_truncated_completions`, removes rows before they are grouped",
            "ROLL": "`max_len_mask`",
            "oat": "`ignore_no_eos`",
        },
        "zero_variance": {
            "open-instruct": "`filter_zero_std_samples`, on by default",
            "prime-rl": "`filter_zero_advantages`, on by default",
        },
        "difficulty": {"ROLL": "`difficulty_mask`, open ends"},
    },
    "norm": {
        "none": {"ROLL": "`reinforce`"},
        "center": {
            "open-instruct": '`advantage_normalization_type="centered"`, default',
            "prime-rl": "`grpo`, its only form",
            "slime": "`--disable-grpo-std-normalization`",
            "ROLL": "`norm_mean_type=group, norm_std_type=None`",
            "oat": "`critic_type=drgrpo`",
        },
        "center_batch": {"ROLL": "`norm_mean_type=batch, norm_std_type=None`"},
        "local": {
            "open-instruct": '`advantage_normalization_type="standard"`, ddof 0, eps 1e-8',
            "slime": "`grpo`, `gspo`, `cispo`",
            "ROLL": "`adv_estimator=grpo`",
            "oat": "`critic_type=grpo`, eps 1e-8",
        },
        "global": {"ROLL": "`norm_mean_type=batch, norm_std_type=batch`"},
        "hybrid": {"ROLL": "`norm_mean_type=group, norm_std_type=batch`"},
        "hybrid_centered": {"ROLL": "`group_reward_norm(div_std_global=True)`"},
        "batch_mean_group_std": {"ROLL": "`norm_mean_type=batch, norm_std_type=group`, broken"},
        "running": {"ROLL": "`norm_mean_type=running, norm_std_type=running`"},
        "gae_whitened": {
            "slime": "`ppo`, whitened with `--normalize-advantages`",
            "ROLL": "`adv_estimator=gae`, whitened with `whiten_advantages`",
            "oat": "`critic_type=ppo`",
        },
        "ema": {"prime-rl": "`rae`"},
        "maxrl": {"prime-rl": "`max_rl`"},
        "reinforce": {"ROLL": "`reinforce`"},
        "reinforce_pp": {"slime": "`reinforce_plus_plus`, whitened with `--normalize-advantages`"},
        "reinforce_pp_baseline": {"slime": "`reinforce_plus_plus_baseline`"},
    },
    "teacher": {
        "added": {"slime": "`use_opd`", "ROLL": "`use_opd`"},
        "alone": {"prime-rl": "`opd`", "ROLL": "`is_pure_opd`"},
    },
    "clip": {
        "naive": {"ROLL": "`pg_variant=vanilla`", "oat": "`reinforce_update`"},
        "ppo": {
            "open-instruct": "`dapo`, 0.2 and 0.272 by default",
            "slime": "`--eps-clip`, `--eps-clip-high`",
            "ROLL": "`pg_clip`, `use_pg_clip_range`",
            "oat": "symmetric only",
        },
        "dual": {"slime": "`--eps-clip-c`", "ROLL": "`dual_clip_loss`, c = 1 + 2 · `pg_clip`"},
        "cispo": {
            "open-instruct": "`cispo`, 0 and 1 + ε",
            "slime": "`cispo`, 1 − ε and 1 + ε",
            "ROLL": "`pg_variant=cispo`, 0.9 and 1.1",
        },
        "topr": {"ROLL": "`pg_variant=topr`, sign of the reward"},
        "dppo_tv": {"prime-rl": "`default` until 2026-08, gradient through ρ"},
        "ipo_prime_rl": {"prime-rl": "`ipo`, default since 2026-08"},
        "dro": {"ROLL": "`pg_variant=kimi15`"},
        "gspo": {"slime": "`gspo`", "ROLL": "`importance_sampling=seq`"},
        "opsm": {"slime": "`--use-opsm`"},
    },
    "agg": {
        "token": {
            "open-instruct": '`loss_denominator="token"`, default',
            "prime-rl": "its only form",
            "slime": "`--calculate-per-token-loss`",
            "ROLL": "`token-mean`",
        },
        "sequence": {
            "slime": "default, siblings of a rollout pooled",
            "ROLL": "`seq-mean-token-mean`, default",
            "oat": "`critic_type=grpo`",
        },
        "sequence_sum": {"ROLL": "`seq-mean-token-sum`"},
        "dr_grpo": {
            "open-instruct": "`loss_denominator=<number>`, without ÷ (P · G)",
            "ROLL": "`seq-mean-token-sum-norm`, without ÷ (P · G)",
            "oat": "`critic_type=drgrpo`",
        },
    },
    "kl": {
        "k1 in the loss": {"open-instruct": "`kl_estimator=0`", "slime": "`k1`, default"},
        "k2 in the loss": {"open-instruct": "`kl_estimator=1`", "slime": "`k2`"},
        "k2_sampler in the loss": {"prime-rl": "`kl_tau`, without the ½, 1e-3 until 2026-09"},
        "k3 in the loss": {
            "open-instruct": "`kl_estimator=2`, default, β 0.05",
            "slime": "`k3`",
            "oat": "`beta`",
        },
        "low_var_kl in the loss": {"slime": "`low_var_kl`", "ROLL": "`use_kl_loss`, its only one in the loss"},
        "k1_corrected in the loss": {"open-instruct": "`kl_estimator=3`"},
        "k3_corrected in the loss": {"slime": "`use_unbiased_kl`"},
        "k1 in the reward": {
            "slime": "`kl_coef`, ignored by grpo, gspo and cispo",
            "ROLL": "`kl`",
            "oat": "`kl_penalty_coef`",
        },
        "k2 in the reward": {"ROLL": "`mse`"},
        "abs in the reward": {"ROLL": "`abs`"},
    },
    "kl_control": {"adaptive": {"ROLL": "on with a target"}},
    "reference": {
        "follow": {"open-instruct": "`ref_policy_update_freq`, `alpha`", "slime": "`ref-update-interval`"},
    },
    "mismatch": {
        "token_truncate": {
            "open-instruct": "at 2, on by default",
            "slime": "`--use-tis`",
            "ROLL": "`is_weight`, at 1.2",
            "oat": "min(κ, 2), on by default",
        },
        "token_mask": {
            "open-instruct": "`rho_mask_lower_bound`, `rho_mask_upper_bound`, with κ still at most 2",
            "slime": "`icepop_function`",
            "ROLL": "`filters` at 0.8 and 1.2 (no loss, no KL), κ only with `is_weight`",
        },
        "sequence_truncate": {"ROLL": "`sequence`"},
        "geometric_mask": {
            "open-instruct": "`rho_mask_sequence_level`, the geometric mean is the weight too, at most 2"
        },
    },
}
