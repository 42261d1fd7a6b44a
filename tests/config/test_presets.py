"""Every preset is what its source says, and the command line wins over it. That it trains is tested with the engine."""

import re

import pytest
from axis_choices import CONF
from small_runs import compose

from benchmarks.parts.yaml_files import comment
from rlexp.config.compose import compose as composed_by_hydra

PRESETS = sorted(file.stem for file in (CONF / "preset").glob("*.yaml"))
AXES = ("shaping", "filter", "norm", "clip", "agg", "kl")

SYMMETRIC, HIGHER, NAIVE = ("ppo", 0.2, 0.2), ("ppo", 0.2, 0.28), ("naive",)
LOCAL, NO_KL = ("local", 1e-6, 1), ("none", 0.0, "loss")
ALL = ("none", "none")
NEEDED = dict.fromkeys(("opsd", "sdpo"), ["task=addition", "task.hint=4"])
RECIPES = {
    # name: shaping; groups replaced, what is left out of the loss; norm and clip with their hyperparameters; agg; kl,
    # its weight and place; passes times minibatches and entropy bonus, None where the source leaves them open
    "a2po": ("none", ALL, ("a2po", 0.5), ("a2po", 1e-3), "sequence", NO_KL, (2, 0.0)),
    "aligned": ("none", ALL, ("hybrid", 1e-6, 1), HIGHER, "sequence", NO_KL, None),
    "best_of_n": ("none", ALL, ("best_of_n",), NAIVE, "sequence", NO_KL, (1, 0.0)),
    "beyond_80_20": ("overlong", ("none", "top_entropy"), LOCAL, HIGHER, "token", NO_KL, None),
    "chord": ("none", ALL, LOCAL, SYMMETRIC, "token", NO_KL, (None, 0.0)),
    "cispo": ("none", ALL, LOCAL, ("cispo", 0.0, 5.0), "token", NO_KL, None),
    "clip_cov": ("none", ALL, LOCAL, ("clip_cov", 0.2, 0.2, 2e-4, 1.0, 5.0), "token", NO_KL, None),
    "dapo": ("overlong", ALL, LOCAL, HIGHER, "token", NO_KL, None),
    "dapo_dynamic": ("overlong", ("zero_variance", "none"), LOCAL, HIGHER, "token", NO_KL, None),
    "deepseek_v3_2": (
        "none",
        ALL,
        ("center",),
        ("opsm", 0.2, 0.2, 1e-4),
        "sequence",
        ("k3_corrected", 0.04, "loss"),
        None,
    ),
    "dpo": ("none", ALL, ("none",), ("dpo", 0.1, 0.0, "all"), "sequence", NO_KL, (None, 0.0)),
    "dr_grpo": ("none", ALL, ("center",), SYMMETRIC, "dr_grpo", NO_KL, None),
    "flowrl": ("none", ALL, LOCAL, ("flowrl", 15.0, 10.0), "sequence", NO_KL, (None, 0.0)),
    "gmpo": ("none", ALL, LOCAL, ("gmpo", 0.4, 0.4), "sequence", NO_KL, None),
    "gpg": ("none", ALL, ("gpg",), NAIVE, "token", NO_KL, None),
    "grpo": ("none", ALL, LOCAL, SYMMETRIC, "sequence", ("k3", 0.04, "loss"), None),
    "grpo_four_pillars": ("none", ALL, LOCAL, SYMMETRIC, "sequence", NO_KL, None),
    "grpo_tcr": ("overlong", ALL, LOCAL, HIGHER, "token", ("k1", 0.01, "loss"), None),
    "gspo": ("none", ALL, LOCAL, ("gspo", 3e-4, 4e-4), "sequence", NO_KL, None),
    "ipo": ("none", ALL, ("none",), ("ipo", 0.1, "all"), "sequence", NO_KL, (None, 0.0)),
    "kl_cov": ("none", ALL, LOCAL, ("kl_cov", 2e-4, 0.1), "token", NO_KL, None),
    "lite_ppo": ("none", ALL, ("hybrid", 1e-6, 1), SYMMETRIC, "token", NO_KL, None),
    "luspo": ("none", ALL, LOCAL, ("gspo", 3e-4, 4e-4), "sequence_sum", NO_KL, None),
    "maxrl": ("none", ALL, ("maxrl",), NAIVE, "token", NO_KL, (1, None)),
    "oat": ("truncated", ALL, ("center",), SYMMETRIC, "dr_grpo", NO_KL, (None, 0.0)),
    "open_instruct": (
        "none",
        ("none", "zero_variance"),
        ("center",),
        ("ppo", 0.2, 0.272),
        "token",
        ("k3", 0.05, "loss"),
        (1, 0.0),
    ),
    "openrlhf": (
        "none",
        ALL,
        ("reinforce_pp", 1.0, 1e-8, 0),
        SYMMETRIC,
        "bnpo",
        ("k1", 0.01, "reward"),
        (8, 0.0),
    ),
    "opsd": ("none", ALL, ("none",), NAIVE, "token", NO_KL, (1, 0.0)),
    "opo": ("none", ALL, ("opo",), NAIVE, "token", NO_KL, (1, 0.0)),
    "ppo": ("none", ALL, ("gae_whitened", 1.0, 0.95, 0.0, 1e-8, 1), SYMMETRIC, "token", NO_KL, (8, 0.01)),
    "prime_rl": (
        "none",
        ("none", "zero_variance"),
        ("center",),
        ("ipo_prime_rl", 0.3),
        "token",
        NO_KL,
        (1, 0.0),
    ),
    "prorl_v2": (
        "truncated",
        ("zero_variance", "none"),
        ("reinforce_pp_baseline", 1.0, 1e-8, 1),
        ("ppo", 0.2, 0.27),
        "bnpo",
        ("k2", 1e-4, "loss"),
        (8, 0.0),
    ),
    "raft_pp": ("none", ALL, ("w_reinforce", 1.0, 0.0), SYMMETRIC, "token", NO_KL, (None, 0.0)),
    "reinforce": ("none", ALL, ("none",), NAIVE, "token", NO_KL, (1, None)),
    "reinforce_pp": ("none", ALL, ("reinforce_pp", 1.0, 1e-8, 1), SYMMETRIC, "token", ("k1", 0.01, "reward"), None),
    "reinforce_pp_baseline": (
        "none",
        ALL,
        ("reinforce_pp_baseline", 1.0, 1e-8, 1),
        SYMMETRIC,
        "token",
        ("k2", 0.01, "loss"),
        None,
    ),
    "reinforce_text": ("none", ALL, ("global", 1e-6, 1), NAIVE, "sequence_sum", NO_KL, (1, None)),
    "remax": ("none", ALL, ("remax",), NAIVE, "sequence_sum", ("k1", 0.01, "reward"), (1, None)),
    "rft": ("none", ALL, ("w_reinforce", 1.0, 0.0), NAIVE, "token", NO_KL, (None, 0.0)),
    "rlhf": (
        "none",
        ALL,
        ("gae_whitened", 1.0, 0.95, 0.0, 1e-8, 1),
        SYMMETRIC,
        "token",
        ("k1", 0.05, "reward"),
        (8, 0.0),
    ),
    "rloo": ("none", ALL, ("rloo",), NAIVE, "sequence_sum", ("k1", 0.05, "reward"), (1, None)),
    "roll": ("none", ALL, LOCAL, SYMMETRIC, "sequence", NO_KL, (None, 0.0)),
    "rwr": ("none", ALL, ("rwr", 1.0, 0.5, 1e-6, 1), NAIVE, "sequence", NO_KL, (None, 0.0)),
    "sapo": ("none", ALL, LOCAL, ("sapo", 1.0, 1.05), "sequence", NO_KL, None),
    "scale_rl": (
        "none",
        ("none", "zero_variance"),
        ("hybrid_centered", 1e-6, 1),
        ("cispo", 0.0, 5.0),
        "prompt",
        NO_KL,
        (None, 0.0),
    ),
    "sdpo": ("none", ALL, ("none",), NAIVE, "token", NO_KL, (None, 0.0)),
    "slime": ("none", ALL, LOCAL, SYMMETRIC, "sequence", NO_KL, (1, 0.0)),
    "topr": ("none", ALL, ("center",), ("topr",), "token", NO_KL, None),
    "trl": ("none", ALL, ("local", 1e-4, 1), SYMMETRIC, "token", NO_KL, (1, 0.0)),
    "trl_rloo": ("none", ALL, ("rloo",), NAIVE, "sequence_sum", ("k1", 0.05, "reward"), (1, 0.0)),
    "vapo": ("none", ALL, ("gae_length_adaptive", 1.0, 0.05, 1.0, 0.0), HIGHER, "token", NO_KL, None),
    "verl": ("none", ALL, LOCAL, ("dual", 0.2, 0.2, 3.0), "bnpo", NO_KL, (4, 0.0)),
    "vespo": ("none", ALL, LOCAL, ("vespo", 2.0, 3.0, 3.0, 2.0), "token", NO_KL, None),
    "wapo": ("none", ALL, ("center",), ("wapo", 9.0), "dr_grpo", NO_KL, None),
}


def of(name):
    return compose(f"preset={name}", *NEEDED.get(name, []))


@pytest.mark.holds("S0.17", "S1.5", "S4.3", "S4.10")
@pytest.mark.parametrize("name", [name for name in PRESETS if name != "none"])
def test_a_recipe_is_what_its_source_says(name):
    config, default = of(name), compose()
    *axes, run = RECIPES[name]
    assert axes == [
        config.shaping.name,
        (config.filter.refill.name, config.filter.loss.name),
        tuple(config.norm.model_dump().values()),
        tuple(config.clip.model_dump().values()),
        config.agg.name,
        (config.kl.name, config.kl.coef, config.kl.place),
    ]
    updates, bonus = run or (None, None)
    expected = updates or default.inner_steps * default.minibatches, default.entropy_coef if bonus is None else bonus
    assert (config.inner_steps * config.minibatches, config.entropy_coef) == expected


# A paper, a commit or version of a framework, a source document, a year.
SOURCE = re.compile(r"arXiv \d{4}\.\d{5}|\([0-9a-f]{8}|TRL 1\.\d+|document|notebook|chapter|\(\d{4}\)")


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "none"])
def test_a_recipe_names_its_source(name):
    assert SOURCE.search(comment(CONF / "preset" / f"{name}.yaml"))


def test_presets_whose_samplers_are_corrected():
    corrected = {name for name in PRESETS if of(name).mismatch.name != "none"}
    assert corrected == {"open_instruct", "oat"}
    assert compose("preset=oat").mismatch.high == 2.0


def test_presets_with_a_critic_or_a_loss_of_correct_completions():
    critics = {name: of(name).critic for name in PRESETS if of(name).critic.name != "none"}
    assert {name: (node.updates, node.critic_warmup) for name, node in critics.items()} == {
        "ppo": (4, None),
        "rlhf": (4, None),
        "vapo": (1, 50),
    }
    assert {name: of(name).positive_nll_coef for name in PRESETS if of(name).positive_nll_coef} == {"vapo": 0.1}


def test_presets_that_imitate_right_answers():
    nodes = {name: of(name).imitation for name in PRESETS if of(name).imitation.name != "none"}
    levels = {name: (node.name, node.mu_peak, node.mu_valley, node.mu_decay) for name, node in nodes.items()}
    assert levels == {"chord": ("sft_phi", 0.1, 0.1, 0.0)}


def test_presets_that_begin_at_a_start_and_whose_data_are_its_samples():
    started = {name for name in PRESETS if of(name).start.name == "sft"}
    offline = {name for name in PRESETS if of(name).data.name == "offline"}
    assert offline == {"dpo", "ipo", "rwr", "rft"} and started == offline | {"best_of_n", "raft_pp", "rlhf"}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS[::3])
def test_the_command_line_wins_over_a_recipe_on_every_axis(preset):
    """With choices that no recipe has; the norm among them asks for no critic."""
    choices = ("length_cost", "overlong_both", "max", "scheduled", "prompt", "k2_corrected")
    needed = NEEDED.get(preset, [])
    chosen = [*needed, "critic=none", *(f"{axis}={choice}" for axis, choice in zip(AXES, choices, strict=True))]
    config, expected = composed_by_hydra(f"preset={preset}", *chosen), compose(*chosen)
    assert compose(f"preset={preset}", *chosen) == config, "what these tests take for Hydra is what it makes"
    assert all(getattr(config, axis) == getattr(expected, axis) for axis in AXES if axis != "kl")
    assert (config.kl.name, config.kl.coef) == (expected.kl.name, expected.kl.coef)
