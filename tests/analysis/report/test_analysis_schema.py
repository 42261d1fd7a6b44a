"""comparison.schema.json describes what --json prints, all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, random_scores, write_sweep
from compare_command import no_figures, run  # noqa: F401 (a fixture that applies itself)
from jsonschema import Draft202012Validator
from study_sweeps import arriving, study_sweep

from rlexp.analysis import report

SCHEMA = json.loads((Path(report.__file__).parent / "comparison.schema.json").read_text(encoding="utf-8"))
TASKS = [f"task={task},norm={norm}" for task in ("sort", "copy") for norm in "ab"]
SQUARE = [f"norm={norm},clip={clip}" for norm in "ab" for clip in "cd"]
NORMS = ["norm=a", "norm=b"]


def claims_of(folder):
    """A study with every kind of claim, on costs that two runs of b never reach."""
    expect = [
        {"variant": "norm=b", "direction": "lower", "matched": f"{METRIC}=0.5"},
        {"variant": "norm=b", "direction": "equal", "control": True, "minimum_effect": 1},
        {"variant": "norm=b", "direction": "above", "value": 0.1},
        {"variant": "norm=b", "direction": "identical"},
        {"variant": "norm=c", "direction": "higher"},
    ]
    folder = study_sweep(folder, random_scores(NORMS, 8), expect)
    arriving(folder, {"norm=a": range(8), "norm=b": [*range(6), np.inf, np.inf]})
    return folder


SWEEPS = {
    "one variant": lambda folder: write_sweep(folder, random_scores(NORMS[:1], 3), 4),
    "one seed": lambda folder: write_sweep(folder, random_scores(NORMS, 1), 4),
    "tasks": lambda folder: write_sweep(folder, random_scores(TASKS, 6), 4),
    "two axes": lambda folder: write_sweep(folder, random_scores(SQUARE, 6), 4),
    "study": claims_of,
}
OPTIONS = [[], ["--endpoint", f"cost:{METRIC}>=0.5"], ["--metric", "collapsed"], ["--metric", METRIC, "--at", "tokens"]]


def errors_of(text):
    found = json.loads(text)
    return found, [
        f"{'/'.join(map(str, e.path))}: {e.message}" for e in Draft202012Validator(SCHEMA).iter_errors(found)
    ]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("name", SWEEPS)
def test_what_is_printed_is_as_described(tmp_path, capsys, name, options):
    code, out, _ = run(capsys, SWEEPS[name](tmp_path / "x"), "--json", *options)
    found, errors = errors_of(out)
    assert code == 0 and errors == [] and found["schema"] == 2


def test_a_verdict_says_everything_that_a_program_asks(tmp_path, capsys):
    found, _ = errors_of(run(capsys, claims_of(tmp_path / "x"), "--json")[1])
    cost, control, level, identical, unknown = found["verdicts"]
    assert (cost["direction"], cost["metric"], cost["control"]) == ("lower", f"steps at {METRIC} ≥ 0.5", False)
    assert (cost["variant"], cost["versus"], cost["stratum"]) == ("norm=b", "norm=a", None)
    assert control["control"] and level["versus"] is None and level["minimum_effect"] is None
    assert identical["metric"] is None and unknown["verdict"] == "not judged" and unknown["variant"] is None


def test_a_sweep_that_added_seeds_is_described_too(tmp_path, capsys):
    folder = write_sweep(tmp_path / "x", random_scores(NORMS, 8), 4)
    for path in folder.glob("*/config.yaml"):
        path.write_text(path.read_text() + "until_decided: 0.05\n")
    found, errors = errors_of(run(capsys, folder, "--json")[1])
    assert errors == [] and found["comparisons"][0]["arms"][1]["decided"] in ("higher", "lower", "equal", "open")


def test_what_is_not_described_is_an_error():
    """The schema is closed: a key that somebody adds is added to it too."""
    for name in ("comparison", "arm", "collapse", "verdict"):
        assert SCHEMA["$defs"][name]["additionalProperties"] is False
    assert SCHEMA["additionalProperties"] is False
