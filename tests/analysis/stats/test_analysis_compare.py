"""The comparison, its notes and files, and the command line."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import METRIC, random_scores, write_sweep
from rich.console import Console
from scipy import stats

from rlexp.analysis.compare import main, report
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import load
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.notes import comparison_notes

ROOT = Path(__file__).parents[3]
NAMES = ["norm=local", "norm=global", "norm=hybrid"]


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path / "sweep", random_scores(NAMES, 10), steps=10)


@pytest.fixture
def no_figures(monkeypatch) -> None:
    """Drawing takes most of the time of a report."""
    monkeypatch.setattr("rlexp.analysis.figures.gallery.FIGURES", {})


def printed(folder, width: int = 200, **options) -> tuple[str, object]:
    stream = StringIO()
    result = report(folder, console=Console(file=stream, width=width), **options)
    return stream.getvalue(), result


def test_a_row_has_the_published_statistics(sweep):
    scores = random_scores(NAMES, 10)
    row = compare(load(sweep)).table.loc["norm=hybrid"]
    test = stats.ttest_rel(scores["norm=hybrid"], scores["norm=local"])
    np.testing.assert_allclose(row[["difference_low", "difference_high"]].tolist(), test.confidence_interval())
    assert row["iqm"] == pytest.approx(stats.trim_mean(scores["norm=hybrid"], 0.25))
    assert (row["n"], row["n_pairs"], row["wins"], row["p"], row["p_holm"]) == (10, 10, 10, 2 / 2**10, 4 / 2**10)
    assert (row["runs"], row["failed"], row["collapsed"], row["collapsed_of"]) == (10, 0, 0, 10)


@pytest.mark.usefixtures("no_figures")
def test_the_baselines_own_difference_is_exactly_zero(sweep):
    comparison = compare(load(sweep), baseline="hybrid")
    row = comparison.table.loc["norm=hybrid"]
    assert comparison.baseline == "norm=hybrid" and row["difference"] == 0.0 and np.isnan(row["p"])
    assert comparison.table.loc["norm=local", "difference"] < 0
    assert "baseline" in markdown_of(sweep, baseline="hybrid").split("\n")[4]


def markdown_of(folder: Path, **options) -> str:
    return printed(folder, out=folder / "out", **options)[1].files[1].read_text()


def test_identical_arms_do_not_differ(tmp_path):
    values = random_scores(NAMES, 8)["norm=local"]
    row = compare(load(write_sweep(tmp_path, {"norm=a": values, "norm=b": values}, 10))).table.loc["norm=b"]
    assert (row["difference"], row["difference_low"], row["difference_high"], row["p_holm"]) == (0, 0, 0, 1)
    assert (row["wins"], row["effect_size"]) == (4, 0)


def test_only_seeds_that_both_have_are_paired(tmp_path):
    scores = random_scores(NAMES, 10)
    data = load(write_sweep(tmp_path, {**scores, "norm=hybrid": scores["norm=hybrid"][:7]}, 10))
    comparison = compare(data)
    expected = np.array(scores["norm=hybrid"][:7]) - scores["norm=local"][:7]
    assert comparison.table.loc["norm=hybrid", "n_pairs"] == 7
    assert comparison.table.loc["norm=hybrid", "difference"] == pytest.approx(expected.mean())
    assert any("hybrid 7, 8, 9" in note for note in comparison_notes(data, comparison))


def test_another_metric_is_the_mean_of_its_last_tenth(sweep):
    table = compare(load(sweep), metric="reward/mean").table
    assert table.loc["norm=local", "mean"] == 9.5  # 11 rows 0..10: the last 2
    longer = write_sweep(sweep.parent / "longer", random_scores(NAMES, 2), steps=39)
    assert compare(load(longer), metric="reward/mean").table.loc["norm=local", "mean"] == (36 + 37 + 38 + 39) / 4


@pytest.mark.usefixtures("no_figures")
def test_share_and_baseline_are_those_of_the_configuration(sweep):
    config = sweep / "norm=local,seed=0" / "config.yaml"
    config.write_text("score: {share: 0.28}\nbaseline: norm=hybrid\n")
    text, result = printed(sweep, metric="reward/mean")
    assert result.comparison.table.loc["norm=local", "mean"] == 8.5  # the last 4 of 0..10
    assert result.comparison.baseline == "norm=hybrid" and "over the last 28 %" in text
    config.write_text("baseline: norm=rloo\n")
    text, result = printed(sweep)
    assert "planned baseline norm=rloo has no run; compared with local" in text


def test_an_unknown_metric_lists_the_known(sweep):
    with pytest.raises(AnalysisError, match=r"eval/x.*reward/mean"):
        compare(load(sweep), metric="eval/x")


@pytest.mark.usefixtures("no_figures")
def test_few_seeds_are_said_to_be_few(tmp_path):
    text, result = printed(write_sweep(tmp_path / "a", random_scores(NAMES, 5), 10))
    assert result.notes[0].startswith("With 5 paired seeds p (Holm) cannot fall below 0.05")
    assert "smallest possible is 0.12 (0.062 before Holm's correction for 2). It takes 7 seeds." in text
    assert "the interval of the IQM is too narrow" in text
    assert [row[-1] for row in table_rows(result, "p (Holm)")] == ["", "–", "–"]
    text, result = printed(write_sweep(tmp_path / "b", random_scores(NAMES, 2), 10))
    assert "no intervals for fewer than 3 seeds" in text
    assert result.comparison.table.filter(regex="_low$|_high$").isna().all(axis=None)


def table_rows(result, header: str) -> list[list[str]]:
    from rlexp.analysis.report.tables import comparison_table, select_columns

    return select_columns(comparison_table(result.comparison), [header]).rows


@pytest.mark.usefixtures("no_figures")
def test_a_null_result_says_what_it_could_have_missed(tmp_path):
    rng = np.random.default_rng(3)
    folder = write_sweep(tmp_path, {name: list(rng.normal(0.5, 0.01, 10)) for name in NAMES}, 10)
    text, result = printed(folder)
    detectable = result.comparison.table.loc["norm=global", "detectable"]
    assert f"only if it is as large as {detectable:.2g} (global)" in text


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("scores", [{"default": [0.5, 0.6, 0.7]}, random_scores(NAMES, 1)])
def test_one_variant_or_one_seed_is_reported(tmp_path, scores):
    text, result = printed(write_sweep(tmp_path, scores, 10))
    assert result.exit_code == 0 and ("difference [95 %]" in text) == (len(scores) > 1)


def test_a_metric_without_any_value_is_reported(tmp_path):
    folder = write_sweep(tmp_path, random_scores(NAMES, 3), 4)
    for path in folder.glob("*/metrics.jsonl"):
        path.write_text('{"step": 0, "eval/x": null}\n')
    text, result = printed(folder, metric="eval/x")
    assert "No run of these has a score: local, global, hybrid" in text
    assert not any(file.suffix == ".png" for file in result.files)


def test_all_files_are_written_and_printed(sweep, monkeypatch):
    monkeypatch.chdir(sweep.parent)
    text, result = printed(sweep)
    names = {"table.csv", "table.md", "table.tex", "runs.csv", "fewer_seeds.csv", "comparison.json"}
    names |= {f"{figure}.{ending}" for figure in ("effects", "curves") for ending in ("svg", "pdf", "png")}
    assert {path.name for path in result.files} == names == {path.name for path in (sweep / "analysis").iterdir()}
    assert all(path.stat().st_size > 100 for path in result.files)
    listed = text.strip().split("\n")[-1]
    assert listed.startswith("sweep/analysis: table (csv md tex)  ") and "effects (svg pdf png)" in listed
    assert all(path.stem in listed for path in result.files)
    assert pd.read_csv(sweep / "analysis/table.csv")["variant"].tolist() == NAMES
    assert len(pd.read_csv(sweep / "analysis/runs.csv")) == 30
    again = {path: path.read_bytes() for path in result.files}
    printed(sweep)
    assert all(path.read_bytes() == content for path, content in again.items())


@pytest.mark.usefixtures("no_figures")
def test_a_failed_run_is_listed_and_the_rest_is_used(sweep):
    path = sweep / "norm=global,seed=3" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "diverged", "reason": "loss [bold]"}))
    text, result = printed(sweep)
    assert "norm=global,seed=3: diverged: loss [bold]" in text and result.exit_code == 1
    assert result.comparison.table.loc["norm=global", ["n", "failed", "runs"]].tolist() == [9, 1, 10]
    assert compare(load(sweep), metric="reward/mean").table.loc["norm=global", "n"] == 9


@pytest.mark.slow
def test_command_line(sweep, tmp_path):
    command = [sys.executable, "-m", "rlexp.analysis.compare"]
    options = ["--baseline", "norm=global", "--metric", "eval/reward", "--out", str(tmp_path / "out")]
    done = subprocess.run([*command, str(sweep), *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "eval/reward" in done.stdout and done.stderr == ""
    assert (tmp_path / "out/effects.svg").exists() and not (sweep / "analysis").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "'nowhere' is not a folder"),
        (["."], "no runs in '.'"),
        (
            ["sweep", "--baseline", "norm=lokal"],
            "'norm=lokal' is not a variant; choose one of: norm=local  norm=global",
        ),
        (["sweep", "--metric", "x"], "no run logged 'x'"),
        (["sweep", "--out", "file/out"], "cannot write to 'file/out'"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(sweep, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(sweep.parent)
    (sweep.parent / "file").touch()
    code = main(arguments)
    error = capsys.readouterr().err
    assert code == 2 and message in error and error.count("\n") == 1


@pytest.mark.usefixtures("no_figures")
def test_damaged_runs_exit_1(sweep, capsys):
    (sweep / "norm=local,seed=0/summary.json").unlink()
    assert main([str(sweep)]) == 1
    assert "1 problem" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_names_are_never_read_as_markup(tmp_path):
    names = ["task.sizes=[1,2],a=[red]", "task.sizes=[3,4],a=[/red]"]
    text, result = printed(write_sweep(tmp_path, {name: [0.1] for name in names}, 4))
    assert result.comparison.axis == "variant" and all(name in text for name in names)


def test_the_metric_of_the_scores_is_named(sweep):
    assert compare(load(sweep)).metric == METRIC
