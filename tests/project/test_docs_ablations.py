"""docs/ablations.md is what ``python -m benchmarks.ablations`` writes of the studies that are declared and kept."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.ablations import DECLARED, KEPT, PAGE, conditions, cost, page, pooled, read
from rlexp.ablation.parts import check_parts, parse_parts

NAMES = sorted(file.stem for file in DECLARED.glob("*.yaml"))


def test_the_page_is_written_from_what_is_declared_and_kept():
    assert PAGE.read_text(encoding="utf-8") == page()
    assert {place.name for place in KEPT.glob("*")} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_part_changes_something_in_each_condition(name):
    study = read(name)
    parts = parse_parts(",".join(study["parts"].values()))
    assert len(parts) == len(study["parts"])
    for overrides in conditions(study).values():
        check_parts(parts, [*study["with"], *overrides], alone=study["designs"] == ["add-one"])


@pytest.mark.parametrize("name", NAMES)
def test_as_many_runs_are_named_as_are_trained_to_begin_with(name):
    """The factorial trained 32 arms at 3 rates with 8 seeds in each of 2 conditions, before grids grew."""
    runs = int(cost(read(name)).split()[0])
    assert runs == {"dapo_factorial": 32 * 3 * 8 * 2, "speed_asymptote": 8 * 3 * 5 * 2}[name]


def rows(values, error=0.1, at_an_end=0.0):
    return [
        {"part": "a", "condition": str(place), "effect": effect, "error": error, "n": 9, "at_an_end": at_an_end}
        for place, effect in enumerate(values)
    ]


def test_two_conditions_are_pooled_in_equal_parts():
    (found,) = pooled(rows([1.0, 2.0]), "superior", 0.25)
    assert found["effect"] == pytest.approx(1.5)
    assert found["error"] == pytest.approx(0.1 / np.sqrt(2))
    assert found["word"] == "supported"


def test_a_condition_whose_arms_are_best_at_an_end_is_left_out():
    kept = [*rows([1.0]), {**rows([9.0], at_an_end=0.5)[0], "condition": "other"}]
    (found,) = pooled(kept, "superior", 0.25)
    assert (found["conditions"], found["effect"]) == (1, pytest.approx(1.0))
    (found,) = pooled(rows([1.0], at_an_end=1.0), "superior", 0.25)
    assert found["word"] == "cannot answer"


def test_arms_that_are_the_same_bit_by_bit_have_no_material_effect():
    (found,) = pooled(rows([0.0, 0.0], error=0.0), "superior", 0.25)
    assert found["word"] == "no material effect"


@pytest.mark.parametrize("name", [name for name in NAMES if (KEPT / name / "effects.csv").is_file()])
def test_effects_of_the_kept_numbers_are_those_of_their_conditions(name):
    table = pd.read_csv(KEPT / name / "effects.csv")
    assert {*table["condition"]} == {*conditions(read(name)), "all"}


def test_a_part_that_was_added_alone_is_its_arm_less_the_baseline():
    """Up to the luck of the best rate, which is taken off what is kept: less than a tenth of what counts."""
    study = read("speed_asymptote")
    table = pd.read_csv(KEPT / "speed_asymptote" / "effects.csv").query("condition == 'all' and number == 'final'")
    runs = [pd.read_parquet(KEPT / "speed_asymptote" / name / "runs.parquet") for name in conditions(study)]
    means = [each[each["best"]].groupby("arm")["on_scale"].mean() for each in runs]
    for part, effect, smallest in table[["part", "effect", "smallest"]].itertuples(index=False):
        found = np.mean([each[study["parts"][part]] - each["baseline"] for each in means])
        assert effect == pytest.approx(found, abs=smallest / 10), part
