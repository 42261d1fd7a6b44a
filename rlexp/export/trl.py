"""TRL 1.16: keyword arguments of ``GRPOConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlexp.config.nodes import chosen_function
from rlexp.config.schema import Config
from rlexp.core.registry import requested_names
from rlexp.export.common import NO_BOUND, NO_STOP, SHUFFLED, UNBOUNDED, WARM_UP, over_common, rounding
from rlexp.export.rule import Framework, Rule, fixed, knob, off_policy, updates, when
from rlexp.export.trl_clip import CLIP

IN_RLOO = "only RLOOTrainer has KL in the reward, as k1"
ROUNDING = rounding("1e-3")
EPS = fixed(eps=1e-4, ddof=1)
ADAM = {
    "optim": "adamw_torch_fused",
    "adam_beta1": knob("beta1"),
    "adam_beta2": knob("beta2"),
    "adam_epsilon": knob("eps"),
}


def schedule(node: Config, config: Config) -> str:
    """Return the scheduler that falls to ``lr_final`` of the peak."""
    return {0.0: "linear", 1.0: "constant_with_warmup"}.get(config.lr_final, "polynomial")


def schedule_knobs(node: Config, config: Config) -> dict[str, float]:
    """Return what the scheduler has to know beside its name."""
    falls = schedule(node, config) == "polynomial"
    return {"lr_end": config.lr * config.lr_final, "power": 1.0} if falls else {}


def minibatch(node: Config, config: Config) -> int:
    """Return the completions of an optimizer step."""
    return config.group_size.completions * config.group_size.prompts // config.minibatches


def exponentiates(config: Config) -> bool:
    """Whether some choice exponentiates a log-ratio that is bounded here."""
    functions = (chosen_function(config, axis) for axis in ("clip", "kl"))
    return any("log_ratio_bound" in requested_names(function) for function in functions)


def mismatch(mode: str) -> Rule:
    """Return the rule of a correction of the sampler's mismatch."""
    settings = {
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": mode,
        "vllm_importance_sampling_clip_min": knob("low"),
        "vllm_importance_sampling_clip_max": knob("high"),
    }
    return Rule(settings, ["acts only with use_vllm=True"])


RUN = Rule(
    {
        "num_generations": knob("group_size.completions"),
        "per_device_train_batch_size": minibatch,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": knob("minibatches"),
        "num_iterations": knob("inner_steps"),
        "max_completion_length": knob("task.cap"),
        "temperature": knob("temperature"),
        "max_steps": lambda node, config: config.steps * updates(config),
        "learning_rate": knob("lr"),
        "lr_scheduler_type": schedule,
        "lr_scheduler_kwargs": schedule_knobs,
        "warmup_steps": knob("warmup_steps"),
        "max_grad_norm": knob("grad_clip", lambda norm: norm or 0.0),
        "entropy_coef": knob("entropy_coef"),
        "seed": knob("seed"),
    },
    [
        "batch sizes are for one device; learning_rate, max_steps and max_completion_length are those of a tiny policy",
        when(
            lambda node, config: config.group_size.completions < 2,
            "num_generations must be at least 2 there",
        ),
        SHUFFLED,
        when(
            lambda node, config: config.entropy_coef > 0 and config.agg.name not in ("token", "bnpo"),
            "the entropy bonus is a mean over tokens there whatever the loss_type; here it is aggregated as the loss",
        ),
        when(
            lambda node, config: config.entropy_coef > 0 and config.minibatches > 1,
            "the entropy bonus is a mean over the tokens of each update there",
        ),
        lambda node, config: UNBOUNDED(node, config) if exponentiates(config) else "",
        NO_BOUND,
        NO_STOP,
        WARM_UP,
        when(
            lambda node, config: config.warmup_steps > 0 and config.lr_final != 1,
            "the learning rate falls from the end of the warm-up there, here from the first update",
        ),
    ],
)

TABLE = over_common(
    {
        "shaping": {
            "overlong": Rule(
                {"reward_weights": knob("factor", lambda factor: [1.0, factor])},
                [
                    lambda node, config: (
                        "pass reward_funcs=[yours, get_soft_overlong_punishment(max_completion_len="
                        f"{node.cap}, soft_punish_cache={node.cache})] of trl.rewards beside it"
                    )
                ],
            ),
        },
        "filter.loss": {
            "none": Rule({"mask_truncated_completions": False}),
            "overlong": Rule({"mask_truncated_completions": True}),
            "zero_variance": "groups of equal rewards stay in the denominator and under KL",
            "difficulty": "there is no filter of groups",
            "top_entropy": Rule(
                {"top_entropy_quantile": knob("share")},
                [
                    "dropped tokens stay in the denominator and under KL there",
                    off_policy("the entropy is that of the policy at each update there, here that of the sampler"),
                ],
            ),
        },
        "filter.refill": {name: "there is no dynamic sampling" for name in ("zero_variance", "difficulty")},
        "filter.statistics": {
            name: "every reward is in the statistics" for name in ("overlong", "zero_variance", "difficulty")
        },
        "norm": {
            "none": "the group's mean is always subtracted",
            "center": Rule({"scale_rewards": "none"}),
            "local": Rule({"scale_rewards": "group"}, [*EPS, ROUNDING]),
            "hybrid": Rule({"scale_rewards": "batch"}, [*EPS, ROUNDING]),
            "hybrid_centered": "only RLOOTrainer has it, up to eps: normalize_advantages=True",
            "rloo": Rule(
                {"scale_rewards": "none"},
                [
                    "advantages are (G − 1)/G of ours there; RLOOTrainer has the factor, with one ratio a completion "
                    "that is a product, not a mean"
                ],
            ),
            **dict.fromkeys(("gae", "gae_whitened", "value_baseline"), "there is no critic"),
            "gdpo": Rule(
                {
                    "multi_objective_aggregation": "normalize_then_sum",
                    "reward_weights": lambda node, config: list(config.task.weights.values()),
                },
                [*EPS, "pass one function for each of the task's reward components as reward_funcs"],
            ),
        },
        "critic": {"value": "GRPOTrainer and RLOOTrainer have none; trl.experimental.ppo.PPOTrainer has"},
        "teacher": dict.fromkeys(("added", "alone"), "there is no teacher; trl.experimental.iw_opd has no rewards"),
        "clip": CLIP,
        "agg": {
            "token": Rule(
                {"loss_type": "dapo"},
                ["before TRL 1.16 the denominator was wrong if steps_per_generation was not the accumulation"],
            ),
            "bnpo": Rule({"loss_type": "bnpo"}, ["its minibatch is what one device holds at a time"]),
            "sequence": Rule({"loss_type": "grpo"}),
            "sequence_sum": Rule({"loss_type": "luspo"}),
            "dr_grpo": Rule({"loss_type": "dr_grpo", "max_completion_length": knob("length")}),
            "prompt": "no framework averages by prompt",
        },
        "kl": {
            "none": Rule({"beta": 0.0}),
            "k3 in the loss": Rule(
                {"beta": knob("coef"), "use_bias_correction_kl": False},
                ["use_bias_correction_kl is True there by default, which is kl=k3_corrected"],
            ),
            "k3_corrected in the loss": Rule(
                {"beta": knob("coef"), "use_bias_correction_kl": True},
                [
                    when(
                        lambda node, config: config.clip.name in ("gspo", "gspo_token"),
                        "the ratio that corrects is that of the completion there",
                    )
                ],
            ),
            "k1 in the reward": IN_RLOO,
        },
        "kl_control": dict.fromkeys(("adaptive", "ziegler"), "beta is constant"),
        "reference": {
            "frozen": Rule({"sync_ref_model": False}),
            "follow": Rule(
                {
                    "sync_ref_model": True,
                    "ref_model_mixup_alpha": knob("rate"),
                    "ref_model_sync_steps": lambda node, config: node.every * updates(config),
                }
            ),
        },
        "entropy_control": {
            "adaptive": Rule(
                {
                    "use_adaptive_entropy": True,
                    "entropy_coef": knob("initial"),
                    "entropy_target": knob("target"),
                    "entropy_coef_delta": knob("delta"),
                    "entropy_coef_min": knob("least"),
                    "entropy_coef_max": knob("most"),
                },
                ["it moves at every update there, by the exact entropy, here after each step by an estimate"],
            ),
        },
        "optimizer": {
            "adam": Rule(ADAM | {"weight_decay": 0.0}),
            "adamw": Rule(ADAM | {"weight_decay": knob("weight_decay")}, ["biases and norms do not decay there"]),
            "sgd": Rule({"optim": "sgd", "weight_decay": 0.0}),
            "momentum": 'optim="sgd" has no momentum; pass an optimizer of your own to the trainer',
            "rmsprop": Rule({"optim": "rmsprop", "weight_decay": 0.0}, fixed(alpha=0.99, eps=1e-8)),
        },
        "mismatch": {
            "none": Rule(
                {"vllm_importance_sampling_correction": False},
                ["TRL corrects by default wherever vLLM samples: sequence_mask at 3"],
            ),
            "token_truncate": mismatch("token_truncate"),
            "token_mask": mismatch("token_mask"),
            "sequence_truncate": mismatch("sequence_truncate"),
            "sequence_mask": mismatch("sequence_mask"),
        },
    }
)


def write(settings: Mapping[str, Any]) -> str:
    """Return Python that makes the config."""
    return "\n".join(["GRPOConfig(", *(f"    {name}={value!r}," for name, value in settings.items()), ")"])


FRAMEWORK = Framework("TRL 1.16, trl.GRPOConfig", TABLE, RUN, write)
