"""Where starts vary they are counted, not the runs that share one."""

import json

import numpy as np
import pytest
from analysis_fixtures import write_lines, write_sweep

from rlexp.analysis.compare import report
from rlexp.analysis.data.load import load
from rlexp.analysis.data.runs import RunRecord
from rlexp.analysis.data.starts import in_units, merge_starts
from rlexp.analysis.stats.estimates import mean_difference
from rlexp.runfolder.variants import run_name, variant_name

STARTS, SEEDS = 4, 3


@pytest.fixture
def sweep(tmp_path):
    """Two arms from four starts with three seeds each; the scores of a start are near each other."""
    rng = np.random.default_rng(0)
    scores = {
        f"norm={norm},start.seed={start}": (0.5 + 0.1 * start + 0.02 * rng.standard_normal(SEEDS) + gain).tolist()
        for norm, gain in (("local", 0.0), ("global", 0.05))
        for start in range(STARTS)
    }
    folder = write_sweep(tmp_path / "sweep", scores)
    jobs = [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]
    for job in jobs:  # as training writes it: starts make no variant
        job["variant"] = variant_name(job["overrides"])
        summary = folder / job["name"] / "summary.json"
        summary.write_text(json.dumps(json.loads(summary.read_text()) | {"variant": job["variant"]}))
    write_lines(folder / "jobs.jsonl", jobs)
    return folder, scores


def test_a_start_has_the_mean_of_its_runs(sweep):
    folder, scores = sweep
    data = load(folder)
    assert data.unit == "start" and data.variants == ["norm=local", "norm=global"]
    assert data.runs["seed"].tolist() == [0, 1, 2, 3] * 2
    assert data.runs["score"].to_numpy() == pytest.approx([np.mean(each) for each in scores.values()])
    for start in range(STARTS):
        of_start = data.metrics[(data.metrics["variant"] == "norm=local") & (data.metrics["seed"] == start)]
        names = [f"norm=local,start.seed={start},seed={seed}" for seed in range(SEEDS)]
        rows = [[*map(json.loads, (folder / name / "metrics.jsonl").open())] for name in names]
        wanted = np.mean([[row.get("eval/reward", np.nan) for row in run] for run in rows], axis=0)
        assert of_start["eval/reward"].to_numpy() == pytest.approx(wanted, nan_ok=True)
        assert of_start["step"].tolist() == [row["step"] for row in rows[0]]


def test_all_that_is_said_counts_starts(sweep):
    folder, _ = sweep
    found = report(folder)
    assert found.comparison.table["n"].tolist() == [STARTS, STARTS]
    said = " ".join(found.notes)
    assert "Each number is the mean of 3 runs that share a start. n, p and intervals count the 4 starts" in said
    page = (folder / "analysis" / "effects.svg").read_text() + (folder / "analysis" / "table.md").read_text()
    assert "over paired starts" in page.replace("\n", " ") and "seeds" not in said.replace("seeds that", "")


def test_how_runs_start_stays_an_axis(tmp_path):
    """`start=random,sft` is a column of its own, whatever the seeds of starts are."""
    scores = {f"start={start}": [0.4, 0.5] for start in ("random", "sft")}
    assert load(write_sweep(tmp_path, scores)).runs["start"].tolist() == ["random"] * 2 + ["sft"] * 2


def test_a_start_of_which_a_run_is_missing_is_not_completed(sweep):
    folder, _ = sweep
    summary = folder / "norm=global,start.seed=2,seed=1" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"status": "failed", "reason": "x", "score": None}))
    data = load(folder)
    lost = data.runs[data.runs["status"] != "completed"]
    assert lost["name"].tolist() == ["norm=global,start.seed=2"] and lost["score"].isna().all()
    assert [problem.run for problem in data.problems] == ["norm=global,start.seed=2,seed=1"]


def record(start, score, variant="a"):
    facts = {"sweep": "s", "variant": variant, "name": f"{variant},seed=0", "status": "completed"}
    facts |= dict.fromkeys(("reason", "collapsed", "code", "commit", "machine", "tokens", "completions", "wall_time_s"))
    return RunRecord(facts | {"score": score, "seed": 0}, [], None, {"step": np.array([0])}, start)


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ([None, None], []),
        ([5, 5], ["All runs begin at start 5: intervals do not contain what another start would change."]),
        ([5, None], ["Some runs name their start and others do not, so seeds are counted, not starts."]),
    ],
)
def test_seeds_are_counted_where_starts_do_not_vary(starts, said):
    runs = [record(start, 0.5) for start in starts]
    assert merge_starts(runs) == (runs, "seed", said)


def test_intervals_over_starts_hold_for_another_start_and_those_over_runs_do_not():
    """Effects that scatter over starts as much as over seeds: 2,000 studies of 8 starts with 4 seeds each.

    The error of a share near .95 is half a point.
    """
    rng, covered, narrow = np.random.default_rng(1), 0, 0
    for _ in range(2000):
        effects = rng.standard_normal((8, 1)) + rng.standard_normal((8, 4))
        merged, unit, _ = merge_starts([record(start, each) for start in range(8) for each in effects[start]])
        assert unit == "start"
        found = mean_difference(np.array([run.facts["score"] for run in merged]))
        covered += found.low <= 0 <= found.high
        alone = mean_difference(effects.ravel())
        narrow += alone.low <= 0 <= alone.high
    assert covered / 2000 == pytest.approx(0.95, abs=0.015) and narrow / 2000 < 0.82


def test_names_have_the_start_before_the_seed_and_variants_have_neither():
    overrides = ["seed=3", "norm=local", "start.seed=1"]
    assert run_name(overrides) == "norm=local,start.seed=1,seed=3" and variant_name(overrides) == "norm=local"


def test_only_counted_seeds_become_starts():
    assert in_units('2 Seeds of a seed, as seed="range(0,6)"', "start") == (
        '2 Starts of a start, as start.seed="range(0,6)"'
    )
    assert in_units("10 seeds", "seed") == "10 seeds"
