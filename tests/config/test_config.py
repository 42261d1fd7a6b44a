"""Every YAML composes, the schema holds, and what contradicts itself is said in words."""

import re
from itertools import zip_longest

import pytest
from omegaconf import OmegaConf
from small_runs import ABSENT, BESIDE, TAUGHT, compose, values

from rlexp.axes import norm
from rlexp.config.compose import CONF, composed, plain
from rlexp.config.schema import load, read, to_yaml
from rlexp.core.errors import ConfigError
from rlexp.core.facts import NormFacts, facts_of
from rlexp.tasks import SortLecture

FILES = sorted(CONF.glob("*/*.yaml"))
# Whether a choice is more than its YAML: a recipe, or one that builds upon another.
CHOICES = {f"{each.parent.name}={each.stem}": re.search("defaults:|@package", each.read_text()) for each in FILES}
COMPOSED_ELSEWHERE = {choice for choice in CHOICES if choice.startswith("preset=")}  # in test_presets


def problems(*overrides):
    """What is wrong with these overrides."""
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    return error.value.problems


TRIED = sorted({*CHOICES} - TAUGHT - ABSENT - COMPOSED_ELSEWHERE)


@pytest.mark.parametrize("choice", TRIED)
def test_every_choice_composes(choice):
    overrides = [choice, *BESIDE.get(choice, [])]
    try:
        compose(*overrides)
    except ConfigError as error:
        if not all("needs the extra" in problem for problem in error.problems):
            raise
        pytest.skip("; ".join(error.problems))


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("kl=k3", "kl.coef=0.5"),
        ("agg=dr_grpo", "task.cap=9", "~norm.eps", "+x=[1]"),
        ("start=mixture", "start.accuracy=0.1", "shaping=overlong", "eval.ks=[1,2]"),
        ("preset=ppo", "norm=global", "clip.high=0.5", "lr=1e-2"),
        ("study=lecture17", "norm=max", "steps=3"),
        ("study=transfer_agg_llama", "agg=token"),
    ],
    ids=" ".join,
)
def test_what_these_tests_take_for_hydra_is_what_hydra_makes(overrides):
    assert values(*overrides) == plain(composed(*overrides))


@pytest.mark.slow
def test_hydra_puts_every_choice_at_its_node():
    """The n-th choices of all groups at once: composing each alone takes Hydra a minute."""
    groups = {}
    for choice in sorted({*CHOICES} - COMPOSED_ELSEWHERE):
        group, name = choice.split("=")
        if not CHOICES[choice]:
            groups.setdefault(group, []).append(name)
    for names in zip_longest(*groups.values()):
        chosen = {group: name for group, name in zip(groups, names, strict=True) if name}
        node_of = composed(*(f"{group}={name}" for group, name in chosen.items()))
        for group, name in chosen.items():
            assert node_of[group] == OmegaConf.load(CONF / group / f"{name}.yaml"), (group, name)
    for choice in sorted({choice for choice in CHOICES if CHOICES[choice]} - COMPOSED_ELSEWHERE):
        assert values(choice) == plain(composed(choice)), choice


def test_a_saved_config_reads_back_as_the_same(tmp_path):
    config = compose("preset=grpo_tcr", "agg=dr_grpo", "grad_clip=null", "clip.high=inf", "lr=1e-6")
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 64])
def test_group_sizes_share_one_number_of_completions(size):
    group = read(values(f"group_size={size}")).group_size
    assert (group.completions, group.completions * group.prompts) == (size, 128)


def test_any_other_group_size_is_given_by_value():
    group = compose("group_size.completions=10", "group_size.prompts=12").group_size
    assert (group.completions, group.prompts) == (10, 12)


def test_numbers_of_the_task_reach_the_axes_and_the_score():
    config = compose("task.cap=9", "agg=dr_grpo", "shaping=overlong", "task.floor=0.25")
    assert (config.agg.length, config.shaping.cap, config.score.floor) == (9, 9, 0.25)
    assert config.score.metric == config.task.metric


def test_wandb_is_offline_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert read(values()).logger.mode == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert read(values()).logger.mode == "disabled"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("clip.high=-1", "clip.high=-1: must be at least 0"),
        ("lr=0", "lr=0: must be above 0"),
        ("lr=nan", "lr=nan: must be a finite number"),
        ("clip.high=nan", "clip.high=nan: is not a number"),
        ("lr=fast", "lr=fast: must be a number"),
        ("steps=0", "steps=0: must be at least 1"),
        ("seed=1.5", "seed=1.5: must be a whole number"),
        ("seed=true", "seed=true: must be a whole number"),
        ("score.share=2", "score.share=2: must be at most 1"),
        ("eval.ks=[0]", "eval.ks[0]=0: must be at least 1"),
        ("eval.ks=3", "eval.ks=3: must be a list, as [1,2]"),
        ("eval=3", "eval=3: must be a set of keys"),
        ("norm.name=locl", f"norm.name=locl: must be one of {', '.join(norm.FUNCTIONS)}"),
        ("~norm.eps", "norm.eps: is missing"),
        ("+norm.esp=1", "norm.esp=1: no such key; did you mean eps?"),
        ("+nrm=local", "nrm=local: no such key; did you mean norm?"),
        ("+eval.zzz=1", "eval.zzz=1: no such key; there are every, ks, prompts, samples"),
        ("minibatches=3", "minibatches=3: must divide the prompts of a step (group_size.prompts=16), groups are"),
        ("eval.ks=[1,99]", "eval.ks=[1,99]: pass@99 needs as many samples, and eval.samples=8"),
        ("kl.coef=0.1", "kl.coef=0.1: kl=none has no penalty to weigh; choose kl=k1, k2, k3"),
        ("kl_control=adaptive", "kl_control=adaptive: kl.coef=0 stays 0; choose a kl with a coefficient to begin with"),
        ("task.shortest=9", "task.shortest=9 must not exceed longest=4"),
        ("~task.weights.exact", "task.weights must name exact, graded"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_line_with_the_key_and_what_is_allowed(override, line):
    (found,) = problems(override)
    assert found.startswith(line)


def test_a_group_of_one_is_refused_where_it_would_mean_no_gradient(norm_choice):
    """Which norms these are is checked by tests/axes/test_contract.py."""
    chosen = f"norm={norm_choice.label}"
    overrides = ["group_size.completions=1", chosen, *BESIDE.get(chosen, [])]
    if facts_of(norm_choice, NormFacts).compares == "group":
        assert problems(*overrides)[0].startswith(f"norm={norm_choice.name}: compares a completion with others")
    elif norm_choice.name in ("rwr", "best_of_n"):
        assert problems(*overrides)[0].startswith(f"norm={norm_choice.name}: chooses among the completions of a group")
    else:
        read(values(*overrides))
    if facts_of(norm_choice, NormFacts).compares == "batch":
        (line,) = problems(*overrides, "group_size.prompts=1", "minibatches=1")
        assert line.startswith(f"norm={norm_choice.name}: compares a completion with others")


def test_pass_at_k_needs_k_completions():
    (line,) = problems("norm=pass_at_k", "norm.k=9", "group_size.completions=8")
    assert line == "norm.k=9: must be at most group_size.completions=8"


def test_hyperparameters_that_contradict_each_other_within_an_axis():
    assert problems("shaping=overlong", "shaping.cache=7") == ("shaping.cache=7: must be at most shaping.cap=6",)
    assert problems("shaping=overlong_quadratic", "shaping.cache=7") == (
        "shaping.cache=7: must be at most shaping.cap=6",
    )
    assert problems("shaping=flips", "shaping.low=2.0") == ("shaping.low=2: must be at most shaping.high=1",)
    assert problems("shaping=clip", "shaping.high=-1.5") == ("shaping.low=-1: must be at most shaping.high=-1.5",)
    for part in ("filter=difficulty", "loss"), ("filter=dynamic_difficulty", "refill"):
        assert problems(part[0], f"filter.{part[1]}.low=0.95") == (
            f"filter.{part[1]}.low=0.95: must be at most filter.{part[1]}.high=0.9",
        )
    assert problems("filter.refill.rounds=3") == ("filter.refill.rounds=3: filter.refill.name=none is of 1 round",)
    assert problems("filter=dynamic", "filter.refill.rounds=1") == (
        "filter.refill.rounds=1: filter.refill.name=zero_variance needs at least 2",
    )
    assert problems("model=transformer", "model.heads=3") == ("model.heads=3: must divide model.width=64",)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["clip=cispo", "clip.upper=0.2", "clip.lower=0.5"], "clip.lower=0.5: must be at most clip.upper=0.2"),
        (["clip=clip_cov", "clip.ub=-1.0"], "clip.lb=1: must be at most clip.ub=-1"),
        (["mismatch=token_mask", "mismatch.low=9.0"], "mismatch.low=9: must be at most mismatch.high=5"),
        (["clip=two_sided", "clip.high=4.0"], "clip.delta=4: must be at least 1 + clip.high, which it would cut off"),
        (["clip=dual", "clip.c=1.0"], "clip.c=1: must be above 1"),
    ],
)
def test_bounds_leave_something_between_them(overrides, line):
    assert problems(*overrides) == (line,)


def test_only_the_loss_is_filtered_by_token_and_only_groups_are_replaced():
    (line,) = problems("filter=top_entropy", "filter.statistics.name=top_entropy")
    assert line.startswith("filter.statistics.name=top_entropy: ")
    (line,) = problems("filter=dynamic", "filter.refill.name=overlong")
    assert line.startswith("filter.refill.name=overlong: ")


def test_a_start_that_cannot_exist(monkeypatch):
    assert problems("start=flattened", "start.entropy=2.5") == (
        "start.entropy=2.5: must be below that of a guess, 2.398 nats a token",
    )
    assert problems("start=sft", "start.accuracy=2") == ("start.accuracy=2: must be at most 1",)
    assert problems("start=sft", "+start.entropy=1")[0].startswith("start.entropy=1: no such key; there are accuracy,")
    monkeypatch.delattr(SortLecture, "oracle")
    (line,) = problems("start=sft", "task=sort_lecture")
    assert line == "start=sft: task=sort_lecture has no right answers to learn from; take start=random"


def test_every_problem_gets_its_line():
    assert problems("lr=-1", "clip.low=-1", "+norm.esp=1") == (
        "norm.esp=1: no such key; did you mean eps?",
        "clip.low=-1: must be at least 0",
        "lr=-1: must be above 0",
    )


def test_values_are_not_converted_in_silence():
    values = plain(composed())
    with pytest.raises(ConfigError, match="steps=40: must be a whole number"):
        read(values | {"steps": "40"})
