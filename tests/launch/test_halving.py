"""`hydra/sweeper=halving`: rung by rung the best of a grid get more seeds, or more steps; each rung is one batch."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from command import command  # noqa: F811, F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows

from rlexp.launch import halving, hooks
from rlexp.launch.rungs import WORST, Grid, best_places, rungs_of, shares, survivors

HALVING = ["-m", "preset=tiny", "hydra/sweeper=halving", "hydra.sweep.dir=x"]
RATES = "lr=tag(log,interval(1e-4,1))"
SEEDS = "seed=range(0,9)"
SHORT = ["hydra.sweeper.factor=2", "lr=0.001,0.01,0.1,1", "seed=range(0,4)"]  # rungs of one, two and four seeds
BY_STEPS = ["hydra.sweeper.resource=steps", "steps=18", "seed=0,1"]


@pytest.fixture
def no_page(monkeypatch):
    """Let sweeps end without the seconds of a table and a page."""
    for last in ("compare", "write_page"):
        monkeypatch.setattr(hooks, last, lambda *_: None)


def hill(job):
    """A score that is best at a rate of .01, with a part of the seed's own; less for another norm than local."""
    return -abs(math.log10(job.config.lr / 0.01)) + job.config.seed - 5 * (job.config.norm.name != "local")


def rungs(folder):
    return json.loads((folder / "rungs.json").read_text())["rungs"]


def kept(folder):
    """The overrides of the points that each rung let go on."""
    return [[",".join(point["overrides"]) for point in rung["points"] if point["kept"]] for rung in rungs(folder)]


@pytest.mark.parametrize(
    ("points", "most", "factor", "least", "expected"),
    [
        (27, 400, 3, 1, [1 / 27, 1 / 9, 1 / 3, 1]),
        (26, 400, 3, 1, [1 / 9, 1 / 3, 1]),  # two are left in the last rung: fewer than the factor
        (27, 400, 3, 44, [1 / 9, 1 / 3, 1]),
        (27, 400, 3, 45, [1 / 3, 1]),
        (27, 9, 3, 1, [1 / 9, 1 / 3, 1]),
        (27, 2, 3, 1, [1]),
        (2, 400, 3, 1, [1]),
        (16, 100, 2, 1, [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]),
    ],
)
def test_there_are_as_many_rungs_as_in_scikit_learn(points, most, factor, least, expected):
    """Its HalvingGridSearchCV has min(1 + ⌊log(points)⌋, 1 + ⌊log(most / least)⌋) of them, logs to the factor."""
    found = shares(points, most, factor, least)
    assert found == pytest.approx(expected)
    logs = [math.floor(math.log(number) / math.log(factor) + 1e-9) for number in (points, most / least)]
    assert len(found) == 1 + min(logs)


def test_seeds_choose_once():
    found = rungs_of([1 / 9, 1 / 3, 1.0], list("abcdefghij"), "seed")
    assert [rung.seeds for rung in found] == [["a"], ["b", "c"], list("defghij")]
    assert all(rung.seeds == ["a", "b"] for rung in rungs_of([1 / 3, 1.0], ["a", "b"], "steps"))


def test_the_best_go_on_rounded_up_and_none_that_diverged():
    assert best_places([1.0, 3.0, 2.0, 3.0], 3) == [1, 3]
    assert best_places([2.0, 2.0, 2.0], 3) == [0]
    assert best_places([WORST, 0.0, WORST, WORST], 2) == [1]
    assert best_places([WORST] * 3, 3) == []


def test_arms_keep_their_best_rates():
    points = [[f"norm={norm}", f"lr={lr}"] for norm in ("local", "center") for lr in (1, 2, 3)]
    means = dict(enumerate([5.0, 6.0, 4.0, 1.0, 2.0, 3.0]))
    assert survivors(Grid(points, ["0"], ("lr",)), means, 3) == [1, 5]
    assert survivors(Grid(points, ["0"]), means, 3) == [0, 1]


def test_the_best_get_more_seeds_and_each_rung_is_one_batch(command, engine_of, tmp_path, no_page):  # noqa: F811
    places = []
    batches = engine_of(lambda job: places.append((job.folder.parent.name, job.config.seed)) or hill(job))
    result = command(*HALVING, RATES, SEEDS)
    assert result.code == 0 and [len(batch) for batch in batches] == [9, 6, 6]
    assert kept(tmp_path / "x") == [["lr=0.003162", "lr=0.01", "lr=0.03162"], ["lr=0.01"], ["lr=0.01"]]
    assert "trained 26% of what all points would have taken" in result.out
    found = rows(tmp_path / "x")  # the last rung is the sweep
    assert {row["variant"] for row in found} == {"preset=tiny,lr=0.01"}
    assert [row["seed"] for row in found] == [3, 4, 5, 6, 7, 8]
    assert [point["mean"] for point in rungs(tmp_path / "x")[2]["points"]] == [5.5]  # of its own seeds
    second = rungs(tmp_path / "x")[1]["points"]  # decided by the seeds of the first rung, too
    assert [point["mean"] for point in second] == pytest.approx([0.5, 1, 0.5], abs=1e-4)
    assert {*places} == {("rung_1", 0), ("rung_2", 1), ("rung_2", 2), *(("x", seed) for seed in range(3, 9))}
    for number, seeds in ((1, {0}), (2, {1, 2})):
        assert {row["seed"] for row in rows(tmp_path / "x" / f"rung_{number}")} == seeds


def test_steps_are_trained_to_their_own_end(command, engine_of, tmp_path, no_page):  # noqa: F811
    steps = []
    batches = engine_of(lambda job: steps.append((job.config.steps, job.folder.parent.name)) or hill(job))
    result = command(*HALVING, RATES, *BY_STEPS)
    assert result.code == 0 and "shorter runs want higher learning rates" in result.out + result.err
    assert [len(batch) for batch in batches] == [18, 6, 2]
    assert list(dict.fromkeys(steps)) == [(2, "rung_1"), (6, "rung_2"), (18, "x")]
    assert [row["variant"] for row in rows(tmp_path / "x")] == ["preset=tiny,lr=0.01,steps=18"] * 2


@pytest.mark.slow
def test_completions_are_equal_where_group_sizes_are_not(command, engine_of, tmp_path, no_page):  # noqa: F811
    found = set()
    engine_of(lambda job: found.add((job.config.group_size.completions, job.config.steps)) or hill(job))
    by_completions = ["hydra.sweeper.resource=completions", "steps=18", "seed=0,1"]
    assert command(*HALVING, "group_size.completions=2,4,6", *by_completions).code == 0
    assert found >= {(2, 6), (4, 3), (6, 2)} and (2, 18) in found


@pytest.mark.slow
def test_a_tuned_key_is_halved_within_each_arm(command, engine_of, tmp_path, no_page):  # noqa: F811
    engine_of(hill)
    result = command(*HALVING, *SHORT, "norm=local,center", "hydra.sweeper.tune=lr")
    assert result.code == 0 and kept(tmp_path / "x")[-1] == ["lr=0.01,norm=local", "lr=0.01,norm=center"]
    assert command(*HALVING, *SHORT, "norm=local,center", "hydra.sweep.dir=y").code == 0
    assert all("center" not in point for point in kept(tmp_path / "y")[0])


@pytest.mark.slow
def test_a_diverged_run_is_worst_and_no_failure(command, engine_of, tmp_path, no_page):  # noqa: F811
    engine_of(lambda job: FloatingPointError("diverged by step 1") if job.config.lr > 0.05 else hill(job))
    assert command(*HALVING, *SHORT).code == 0
    assert kept(tmp_path / "x")[0] == ["lr=0.001", "lr=0.01"]
    engine_of(lambda job: FloatingPointError("diverged by step 1"))
    result = command(*HALVING, *SHORT, "hydra.sweep.dir=y")
    assert result.code == 1 and "no point of rung 1 can go on: a run of each diverged" in result.err


@pytest.mark.slow
def test_a_failed_run_stops_it_and_is_trained_again(command, engine_of, tmp_path, no_page):  # noqa: F811
    engine_of(lambda job: OSError("the disk") if job.config.lr == 1 else hill(job))
    result = command(*HALVING, *SHORT)
    assert result.code == 1 and "1 runs in x/rung_1 did not complete (preset=tiny,lr=1" in result.err
    assert "resume=failed" in result.err and not (tmp_path / "x" / "rungs.json").exists()
    engine_of(hill)
    assert command(*HALVING, *SHORT, "resume=failed").code == 0 and len(rungs(tmp_path / "x")) == 3


@pytest.mark.slow
def test_a_halving_that_was_stopped_goes_on_as_it_would_have(command, engine_of, tmp_path, no_page):  # noqa: F811
    engine_of(hill)
    assert command(*HALVING, *SHORT, "hydra.sweep.dir=whole").code == 0
    calls = []

    def stop(job):
        calls.append(job)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return hill(job)

    engine_of(stop)
    result = command(*HALVING, *SHORT)
    assert result.code == 130 and result.err.rstrip().endswith("hydra.sweep.dir=x")
    assert len(rungs(tmp_path / "x")) == 1
    engine_of(hill)
    assert command(*HALVING, *SHORT).code == 0
    assert rungs(tmp_path / "x") == rungs(tmp_path / "whole")


@pytest.mark.slow
def test_another_halving_in_the_folder_is_refused(command, engine_of, tmp_path, no_page):  # noqa: F811
    engine_of(hill)
    assert command(*HALVING, *SHORT).code == 0
    result = command(*HALVING, *SHORT, "hydra.sweeper.factor=3")
    assert result.code == 2
    assert result.err == "x holds a halving that differs (factor): take another hydra.sweep.dir\n"
    assert command(*HALVING, *SHORT, "threads=1").code == 0
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "optuna.db").touch()
    result = command(*HALVING, *SHORT, "hydra.sweep.dir=y")
    assert result.code == 2 and result.err == "y holds a search: take another hydra.sweep.dir\n"


@pytest.mark.slow
def test_optuna_opens_it_with_a_value_a_rung(command, engine_of, tmp_path, no_page):  # noqa: F811
    optuna = pytest.importorskip("optuna")
    engine_of(lambda job: FloatingPointError("diverged by step 1") if job.config.lr == 1 else hill(job))
    for _ in range(2):  # the second time it is written anew
        assert command(*HALVING, *SHORT, "clip=symmetric,higher", "hydra.sweeper.tune=lr").code == 0
    found = optuna.load_study(study_name="rlexp", storage=f"sqlite:///{tmp_path / 'x' / 'optuna.db'}")
    states = [trial.state.name for trial in found.trials]
    assert states.count("COMPLETE") == 2 and states.count("PRUNED") == 6 and found.best_params["lr"] == 0.01
    assert found.best_value == 2.5 and found.best_trial.intermediate_values == {1: 0.0, 2: 0.5, 3: 2.5}
    first = found.trials[0]
    assert first.params == {"lr": 1e-3, "clip": "symmetric"} and list(first.intermediate_values) == [1, 2]
    assert [trial.intermediate_values for trial in found.trials if trial.params["lr"] == 1] == [{}, {}]
    assert first.user_attrs["overrides"] == ["preset=tiny", "lr=0.001", "clip=symmetric"]


@pytest.mark.rare
def test_it_needs_no_optuna(command, engine_of, tmp_path, no_page, monkeypatch):  # noqa: F811
    engine_of(hill)
    monkeypatch.setattr(halving, "find_spec", lambda name: None)
    assert command(*HALVING, *SHORT).code == 0
    assert not (tmp_path / "x" / "optuna.db").exists() and len(rungs(tmp_path / "x")) == 3

    def broken(*_):
        raise OSError("the disk")

    monkeypatch.setattr(halving, "find_spec", lambda name: name)
    monkeypatch.setattr(halving, "write_study", broken)
    result = command(*HALVING, *SHORT)
    assert result.code == 0 and "no x/optuna.db for Optuna: OSError: the disk" in result.out + result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lr=0.1", SEEDS], "that is a single rung (points: 1, seeds: 9), and an ordinary sweep"),
        ([RATES, "seed=0,1"], "that is a single rung (points: 9, seeds: 2)"),
        ([RATES, "seed=interval(0,3)"], "seed=interval(0,3): seeds are listed, as seed=range(0,5)"),
        ([RATES, "seed=range(3,3)"], "hydra/sweeper=halving: there are no seeds; list them, as seed=range(0,9)"),
        (["lr=tag(log,interval(0,1))", SEEDS], "goes from a lower to a higher number, above 0 with log"),
        (["lr=-1,0.1,1", SEEDS], "lr=-1: must be above 0"),
        (["clip=symmetric,higer,unclipped", SEEDS], "clip=higer: no such choice; did you mean higher?"),
        ([RATES, SEEDS, "hydra.sweeper.factor=1"], "hydra.sweeper.factor=1: must be at least 2"),
        ([RATES, SEEDS, "hydra.sweeper.resource=epochs"], "must be one of seed, steps, completions"),
        ([RATES, SEEDS, "hydra.sweeper.tune=[norm]"], "hydra.sweeper.tune=norm: is not swept; there is lr"),
        ([RATES, *BY_STEPS[::2], "steps=9,18"], "hydra.sweeper.resource=steps: sets the steps, which are swept too"),
        ([RATES, SEEDS, "hydra.launcher.max_runs=20"], "9 points make 21 runs in 3 rungs, more than 20"),
        ([RATES, SEEDS, "until_decided=0.1"], "until_decided: is of a sweep whose arms are known beforehand"),
        ([RATES, SEEDS, "baseline=lr=0.1"], "baseline: is of a sweep whose arms are known beforehand"),
    ],
)
def test_mistakes_end_in_a_line_before_anything_is_written(command, tmp_path, arguments, said):  # noqa: F811
    result = command(*HALVING, *arguments)
    assert result.code == 2 and said in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.rare  # draws a page
def test_the_page_says_who_has_chosen(command, tmp_path):  # noqa: F811
    real = [*HALVING, "lr=1e-3,1e-2,1e-1", "eval.every=1"]
    assert command(*real, "seed=range(0,3)").code == 0
    page = (tmp_path / "x" / "analysis" / "report.html").read_text("utf-8")
    assert "what successive halving left of 3" in page and "None of the seeds here has chosen" in page
    assert {row["seed"] for row in rows(tmp_path / "x")} == {1, 2}
    before = {path: path.read_bytes() for path in (tmp_path / "x").glob("**/metrics.jsonl")}
    assert command(*real, "seed=range(0,3)").code == 0 and len(before) == 5
    assert all(path.read_bytes() == text for path, text in before.items())
    by_steps = ["hydra.sweeper.resource=steps", "steps=3", "seed=0,1"]
    assert command(*real, *by_steps, "hydra.sweep.dir=y").code == 0
    page = (tmp_path / "y" / "analysis" / "report.html").read_text("utf-8")
    assert "Seeds that have chosen are among those here" in page and "searched for" not in page


ROOT = Path(__file__).parents[2]


def test_the_document_has_the_numbers_on_file():
    found = json.loads((ROOT / "docs/statistics/halving.json").read_text("utf-8"))
    printed = (ROOT / "docs/statistics/halving.txt").read_text("utf-8")
    for world in found["worlds"].values():
        for row in world["ways"]:
            cells = (row["way"], f"{row['cost']:.0%}", f"{row['found']:.2f}", f"{row['lost']:.3f}")
            assert any(line.split() == " ".join(cells).split() for line in printed.splitlines())
    lines = [line.strip() for line in printed.splitlines()]
    document = [line.strip() for line in (ROOT / "docs/search.md").read_text("utf-8").splitlines()]
    assert set(lines) <= set(document)


@pytest.mark.rare
def test_the_benchmark_runs(tmp_path):
    out = tmp_path / "halving.json"
    command = [sys.executable, "-m", "benchmarks.halving", "--quick", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    for world in json.loads(out.read_text("utf-8"))["worlds"].values():
        cost = {row["way"]: row["cost"] for row in world["ways"]}
        assert cost["whole grid"] == 1 and cost["by seeds"] == pytest.approx((27 + 9 * 2 + 3 * 6) / 27 / 9)
        assert cost["by steps, from 3"] == pytest.approx((27 / 9 + 9 / 3 + 3) / 27)
