"""What a recipe may change, what it means, and the seeds that follow from it."""

import pytest

from rlexp.core.errors import ConfigError
from rlexp.speedrun.recipe import FIXED, WORLDS, find_world, read_recipe
from rlexp.speedrun.records import SEEDS, draw_seeds

pytestmark = pytest.mark.slow  # much is composed

SORT = WORLDS["sort"]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["task.cap=3"], r"task.cap=3: the world sort fixes task.cap; a recipe may change all but task, model, "),
        (["seed=3"], "seed=3: the world sort fixes seed; "),
        (["start=sft"], "start=sft: the world sort fixes start; "),
        (["reference.run=x"], "reference.run=x: the world sort fixes reference.run; "),
        (["reference=random"], "reference=random: makes reference.begin 'random', which the world sort fixes"),
        (["preset=rlhf"], "preset=rlhf: makes .*, which the world sort fixes"),
        (["data=offline", "data.oracle=1"], "data.oracle=1: the world sort fixes data.oracle; "),
        (["logger=wandb"], "logger=wandb: changes no result, so it is no part of a recipe"),
        (["hydra.sweep.dir=x"], "hydra.sweep.dir=x: changes no result, so it is no part of a recipe"),
        (["lr=${oc.env:HOME}"], "plain values"),
        (["lr=1e-3,2e-3"], "lr=1e-3,2e-3: a sweep over several values needs -m"),
        (["nrm=local"], "nrm=local: no such key; did you mean norm"),
        (["norm=locl"], "norm=locl: no such choice"),
        (["lr=-1"], "lr=-1: must be above 0"),
        (["lr=3e-3", "norm=local"], "norm=local: changes nothing of this recipe; leave it out"),
        (["lr=3e-3", "grad_clip=1.0"], "grad_clip=1.0: changes nothing"),
        (["lr=2e-3", "lr=3e-3"], "lr=2e-3: changes nothing"),
        (["lr=1e-3"], "lr=1e-3: changes nothing"),
        (["fast"], "fast: a recipe is of overrides, as lr=3e-3"),
    ],
)
def test_a_recipe_that_is_none_is_refused_in_a_line(overrides, line):
    with pytest.raises(ConfigError, match=line) as caught:
        read_recipe(SORT, overrides)
    assert len(caught.value.problems) == 1


def test_temperature_is_part_of_an_evaluation_that_samples():
    assert read_recipe(SORT, ["temperature=0.8"]).changes == {"temperature": 0.8}
    with pytest.raises(ConfigError, match="fixes temperature"):
        read_recipe(WORLDS["bandit"], ["temperature=0.8"])


def test_a_recipe_means_its_changes_however_it_is_written():
    written = read_recipe(SORT, ["lr=3e-3", "filter=dynamic"])
    again = read_recipe(SORT, ["filter.refill={name: zero_variance, rounds: 10}", "lr=0.003"])
    assert written.changes == again.changes
    assert written.changes == {"filter.refill.name": "zero_variance", "filter.refill.rounds": 10, "lr": 0.003}
    assert "seed" not in written.config


def test_the_greedy_completions_of_a_baseline_count():
    assert read_recipe(SORT, ["norm=remax"]).uncounted == 16
    assert read_recipe(SORT, ["norm=remax", "group_size=4"]).uncounted == 32
    assert read_recipe(SORT, ["norm=a2po", "group_size=4"]).uncounted == 32 * 4
    assert read_recipe(SORT, ["norm=rloo"]).uncounted == 0


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)
def test_every_world_is_a_configuration_that_is_logged_when_it_is_evaluated(world):
    config = read_recipe(world, []).config
    assert config["log_every"] == config["eval.every"] and config["device"] == "cpu"
    keys = {key.partition(".")[0] for key in config} | {"seed", "study", "backend", "imitation"}
    assert {key.partition(".")[0] for key in FIXED} <= keys


def test_an_unknown_world_is_refused():
    with pytest.raises(ConfigError, match="srt: no such world; did you mean sort?"):
        find_world("srt")


def test_seeds_follow_from_the_changes_and_from_the_record_before():
    seeds = draw_seeds("bandit", {"lr": 0.2}, None)
    assert seeds[:3] == [537630189, 1296730156, 624238891], "other seeds than those of the records"
    assert len(set(seeds)) == SEEDS == 10 and all(0 <= seed < 2**31 for seed in seeds)
    others = [("bandit", {"lr": 0.21}, None), ("bandit", {"lr": 0.2}, "0f"), ("tiny", {"lr": 0.2}, None)]
    assert not any({*seeds} & {*draw_seeds(*other)} for other in others)
