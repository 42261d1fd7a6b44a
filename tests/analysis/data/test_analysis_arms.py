"""What makes an arm: equal configurations are one, numbers stand in their order and with their key."""

import pytest
import yaml
from analysis_fixtures import METRIC, random_scores, write_sweep

from rlexp.analysis import load
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.curves import learning_curves


def configured(folder, scores, **settings):
    """A sweep whose runs say how they were set: a norm that is not named is local."""
    write_sweep(folder, scores, 6)
    for path in folder.glob("*/config.yaml"):
        own = dict(part.split("=") for part in path.parent.name.split(","))
        config = {"seed": int(own["seed"]), "norm": {"name": own.get("norm", "local")}, "steps": 6, "baseline": None}
        path.write_text(yaml.safe_dump(config | settings))
    return folder


def test_two_sweeps_of_one_configuration_are_one_arm(tmp_path):
    one = configured(tmp_path / "one", {"default": [0.1, 0.2, 0.3]}, logger={"name": "none"})
    two = configured(tmp_path / "two", {"norm=local": [0.1, 0.2, 0.3, 0.4], "norm=global": [0.2, 0.3, 0.4, 0.5]})
    data = load([one, two])
    assert data.variants == ["norm=local", "norm=global"] and data.axes == ("norm",)
    found = answer(data, Question())
    assert found.comparisons[0].table["n"].tolist() == [4, 4]
    assert "One arm each, as their configurations are equal: norm=local and default." in found.notes
    assert any(
        "same variant and seed: one/seed=0" in n or "same variant and seed: two/norm=local" in n for n in found.notes
    )
    assert answer(data, Question(baseline="default")).comparisons[0].baseline == "norm=local"


def test_within_a_sweep_too(tmp_path):
    data = load(configured(tmp_path, {"preset=grpo": [0.1, 0.2], "preset=none": [0.1, 0.2], "norm=max": [0.3, 0.4]}))
    assert data.variants == ["preset=grpo", "norm=max"]


def test_one_name_for_two_configurations_is_said(tmp_path):
    one = configured(tmp_path / "one", {"norm=local": [0.1, 0.2], "norm=max": [0.3, 0.4]})
    two = configured(tmp_path / "two", {"norm=local": [0.1, 0.2]}, steps=9)
    notes = answer(load([one, two]), Question()).notes
    assert "norm=local is not the same in two and one: steps is 9, there 6." in notes


def test_runs_that_left_no_configuration_are_equal_to_none(tmp_path):
    folder = configured(tmp_path, {"norm=a": [0.1], "norm=b": [0.1]})
    for path in folder.glob("*/config.yaml"):
        path.unlink()
    assert load(folder).variants == ["norm=a", "norm=b"]


def test_numbers_stand_in_their_order_and_with_their_key(tmp_path):
    sizes = [f"group_size={size}" for size in (16, 4, 8)]
    data = load(write_sweep(tmp_path / "a", random_scores(sizes, 3), 4))
    assert data.variants == ["group_size=4", "group_size=8", "group_size=16"]
    assert list(data.labels.values()) == data.variants
    comparison = compare(data)
    assert comparison.baseline == "group_size=16" and list(comparison.table.index) == data.variants  # the first run's
    assert compare(data, baseline="8").baseline == "group_size=8"
    both = [f"norm={norm},lr={lr}" for norm in ("b", "a") for lr in ("1e-2", "5e-4", "0.001")]
    data = load(write_sweep(tmp_path / "b", random_scores(both, 2), 4))
    assert data.variants == [f"norm={norm},lr={lr}" for norm in ("b", "a") for lr in ("5e-4", "0.001", "1e-2")]
    found = answer(data, Question(by=["lr"]))
    assert list(found.comparisons[0].table.index) == ["lr=5e-4", "lr=0.001", "lr=1e-2"]


def test_runs_that_have_not_ended_have_curves(tmp_path):
    folder = write_sweep(tmp_path, random_scores(["norm=a", "norm=b"], 3), 8)
    for path in folder.glob("norm=b*/summary.json"):
        path.unlink()
    data = load(folder)
    assert set(data.runs.loc[data.runs["variant"] == "norm=b", "status"]) == {"interrupted"}
    curves = learning_curves(data, compare(data))
    for path in folder.glob("norm=a*/summary.json"):  # now no run says what its score is
        path.unlink()
        (path.parent / "config.yaml").write_text(yaml.safe_dump({"score": {"metric": METRIC}}))
    data = load(folder)
    assert set(learning_curves(data, compare(data))) == {"norm=a", "norm=b"}
    assert curves["norm=b"].steps.tolist() == curves["norm=a"].steps.tolist() == pytest.approx([0, 2, 4, 6, 8])
