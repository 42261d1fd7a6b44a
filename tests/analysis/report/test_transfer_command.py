"""`rlexp transfer` for any number of sweeps, of ablations too, and its forecasts, as a user has them."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import write_sweep
from ladders import write_ablation
from schemas import check_schema

from rlexp.analysis import transfer
from rlexp.analysis.data.sweep_files import content_hash, first_start
from rlexp.analysis.figures.transfer import transfer_figure
from rlexp.analysis.report.forecast_file import hash_of
from rlexp.analysis.stats.ablation import analyze
from rlexp.analysis.stats.answer import Question
from rlexp.analysis.stats.rates import best_difference, best_value
from rlexp.analysis.stats.sweep_arms import read_sweep
from rlexp.analysis.stats.transfer import transfer as set_side_by_side

NORMS = {"local": 0.0, "global": 0.1, "hybrid": 0.2, "none": -0.1}


def scores(rng, factor=1.0, prefix="", norms=NORMS, n=8):
    """Of the norms; with a factor on their effects, and noise."""
    shared = 0.5 + 0.03 * rng.normal(size=n)
    return {
        f"{prefix}norm={name}": list(shared + factor * effect + 0.03 * rng.normal(size=n))
        for name, effect in norms.items()
    }


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with sweeps of three sizes, in which one is."""
    rng = np.random.default_rng(0)
    for name, factor, prefix in (("tiny", 0.5, ""), ("small", 0.8, "model=b,"), ("large", 1.0, "model=c,")):
        write_sweep(tmp_path / name, scores(rng, factor, prefix), steps=4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logits(values):
    right = 128 * np.asarray(values)
    return np.log((right + 0.5) / (128 - right + 0.5))


def test_each_smaller_sweep_is_set_against_the_largest(place, capsys):
    assert transfer.main(["tiny", "small", "large", "--sizes", "10000,70000,300000", "--json"]) == 0
    found = check_schema("transfer", capsys.readouterr().out)
    assert found["sweeps"] == ["tiny", "small", "large"] and found["weights"] == [10000, 70000, 300000]
    assert [each["sweep"] for each in found["decisions"]] == ["tiny", "small"] and found["scale"] == "log-odds"
    rng, read = np.random.default_rng(0), []
    for factor, prefix in ((0.5, ""), (0.8, "model=b,"), (1.0, "model=c,")):
        read.append(np.array([logits(values).mean() for values in scores(rng, factor, prefix).values()]))
    for each, means in zip(found["decisions"], read, strict=False):
        agree = [(means[i] - means[j]) * (read[-1][i] - read[-1][j]) > 0 for i, j in combinations(range(4), 2)]
        assert each["accuracy"] == pytest.approx(np.mean(agree)) and each["pairs"] == 6
        assert each["effects"]["pearson"]["value"] == pytest.approx(np.corrcoef(means, read[-1])[0, 1])
        assert each["low"] <= each["accuracy"] <= each["high"]
    row = next(each for each in found["differences"] if each["label"] == "hybrid")
    assert row["agreements"] == {"tiny": "agree", "small": "agree"} and len(row["found"]) == 3
    table = pd.read_csv("large/analysis/transfer/decisions.csv")
    assert table["sweep"].tolist() == ["tiny", "small"]
    assert table["accuracy"].tolist() == [each["accuracy"] for each in found["decisions"]]
    wide = pd.read_csv("large/analysis/transfer/transfer.csv")
    assert {"first_difference", "second_difference", "third_says", "first_agreement", "agreement"} <= {*wide.columns}


def test_the_text_has_a_column_for_each_smaller_sweep(place, capsys):
    assert transfer.main(["tiny", "small", "large"]) == 0
    out = capsys.readouterr().out
    assert "small: Of 3 signs: " in out and "Does it decide as large? [95 %]" in out and "undecided in large" in out
    assert "that of large in " in out and "weights" not in out
    files = {path.name for path in (place / "large/analysis/transfer").iterdir()}
    assert {"decisions.csv", "transfer.svg", "transfer.png", "transfer.pdf"} <= files


def test_a_sweep_beside_its_copy_decides_all(place, capsys):
    shutil.copytree("tiny", "again")
    assert transfer.main(["tiny", "again", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["decisions"]
    slope = one["effects"]["slope"]
    assert one["accuracy"] == 1 and slope["value"] == pytest.approx(1)
    assert slope["low"] < 0.99 and slope["high"] > 1.01  # the units of both are drawn, each for itself


def test_runs_say_how_many_weights_there_are(place, capsys):
    for name, weights in (("tiny", 17), ("small", 68_000)):
        file = next((place / name).glob("*/summary.json"))
        file.write_text(json.dumps(json.loads(file.read_text()) | {"weights": weights}))
    assert transfer.main(["tiny", "small", "large", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == [17, 68_000, None]


def test_arms_and_units_that_are_not_everywhere_are_left_out(place, capsys):
    rng = np.random.default_rng(1)
    write_sweep(place / "more", scores(rng, norms=NORMS | {"rank": 0.3}), steps=4)
    shutil.rmtree(place / "large/model=c,norm=none,seed=3")
    assert transfer.main(["more", "large", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["notes"] == ["Left out, as not every sweep has it: norm=rank."]
    assert found["units"] == ["8 seeds", "7 seeds"] and found["decisions"][0]["pairs"] == 6


PARTS = ("clip=higher", "agg=token")


def tuned(rng, factor=1.0):
    """Of all arms of two parts, at three rates, the second of which is the best."""
    effects = {"": 0.0, "clip=higher": 0.1, "agg=token": 0.02, "clip=higher,agg=token": 0.15}
    shared = 0.5 + 0.03 * rng.normal(size=6)
    return {
        arm: {
            rate: list(shared + factor * effect + at + 0.02 * rng.normal(size=6))
            for rate, at in ((1e-4, -0.1), (1e-3, 0.0), (1e-2, -0.2))
        }
        for arm, effect in effects.items()
    }


def test_arms_of_ablations_are_judged_at_their_best_rate(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        write_ablation(tmp_path / name, tuned(rng), PARTS)
    assert transfer.main(["a", "b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    labels = [each["label"] for each in found["differences"]]
    assert labels == ["clip=higher", "agg=token", "recipe"] and found["decisions"][0]["pairs"] == 6
    ablation = analyze(tmp_path / "b")
    grids = {ablation.label(arm): grid for arm, grid in ablation.grids.items()}
    for each in found["differences"]:
        wanted = best_difference(grids[each["label"]], grids["baseline"])
        level = ablation.scale.inverse(best_value(grids["baseline"]).value)
        one, ends = each["found"][1], [wanted.difference, wanted.low, wanted.high]
        shown = ablation.scale.change(np.array(ends), level)
        assert [one["difference"], one["low"], one["high"]] == pytest.approx(shown, abs=1e-3) and one["n"] == 6
    clip = next(each for each in found["differences"] if each["label"] == "clip=higher")["found"][1]
    assert clip["says"] == "higher" and clip["difference"] == pytest.approx(0.1, abs=0.03)
    words = ablation.effects.set_index(["kind", "parts"])["word"]
    assert words[("whole recipe", "all parts")] == "helps"


def test_each_arm_of_a_sweep_can_be_at_its_own_best_rate(tmp_path, capsys, monkeypatch):
    """As `rlexp compare --best-of` has it: chosen on the lower half of the seeds, reported on the others."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        runs = {f"norm={norm},lr={lr}": at for lr in (1, 2) for norm, at in (("local", 0.1 * lr), ("up", 0.5 - lr / 5))}
        write_sweep(tmp_path / name, {run: list(at + 0.01 * rng.normal(size=8)) for run, at in runs.items()}, steps=4)
    assert transfer.main(["a", "b", "--best-of", "lr", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["differences"]
    assert (row["label"], row["found"][0]["n"]) == ("up", 4)
    assert row["found"][0]["difference"] == pytest.approx(0.3 - 0.2, abs=0.03)


def test_the_figure_has_the_accuracies_above_and_a_mark_for_each_effect(place):
    sources = [read_sweep(name, Question()) for name in ("tiny", "small", "large")]
    found = set_side_by_side(sources, ("tiny", "small", "large"), weights=(1e4, 7e4, 3e5))
    below, above = transfer_figure(found).axes
    points = [line.get_xydata()[0] for line in above.get_lines() if line.get_marker() == "o"]
    filled = points[::2]
    assert [x for x, _ in filled] == pytest.approx(np.log10([1e4, 7e4]))
    assert [y for _, y in filled] == [each.accuracy for each in found.decisions]
    assert [tick.get_text() for tick in above.get_xticklabels()] == ["10,000", "70,000", "300,000"]
    marks = sorted(line.get_xdata()[0] for line in below.get_lines() if line.get_marker() == "o")
    assert marks == sorted(each.difference for row in found.differences for each in row.found) and len(marks) == 9


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["tiny", "ablation"], "ablation is an ablation and tiny is not: must be the same kind"),
        (
            ["ablation", "tiny", "--metric", "reward"],
            "ablation: is an ablation, which has declared its metric and its grid; leave out --metric",
        ),
        (
            ["ablation", "tiny", "--margin", "0.1"],
            "--margin: an ablation has declared its smallest effect that counts; leave it out",
        ),
        (["tiny", "small", "--units", "5"], "--units: goes with --forecast"),
        (["tiny", "small", "--target-name", "x"], "--target-name: goes with --forecast"),
        (["tiny", "--forecast", "f", "--units", "0"], "--units 0: must be at least 1"),
        (
            ["tiny", "--forecast", "f", "--score", "f"],
            "--forecast and --score: a forecast is scored later, on a sweep that is trained after it",
        ),
        (["tiny", "--score", "none.json"], "none.json: none.json is missing"),
        (["tiny", "--score", "ablation/ablation.json"], "ablation/ablation.json: is no forecast; "),
        (["tiny", "small", "large", "--names", "a,b"], "--names a,b: expected 3 different names"),
    ],
)
def test_what_does_not_go_is_said_in_a_line(place, capsys, arguments, line):
    write_ablation(place / "ablation", tuned(np.random.default_rng(0)), PARTS)
    assert transfer.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {line}") and error.count("\n") == 1


def moved(folder: Path, hours: float) -> None:
    """Let all files of a sweep be from so many hours later."""
    for path in folder.glob("*/*"):
        os.utime(path, (path.stat().st_mtime + 3600 * hours,) * 2)


def test_a_forecast_is_written_and_scored(place, capsys):
    assert transfer.main(["tiny", "small", "--forecast", "f.json", "--target-name", "big", "--units", "8"]) == 0
    assert "order: norm=hybrid > norm=global > norm=local > norm=none" in capsys.readouterr().out
    made = json.loads((place / "f.json").read_text())
    assert made["target"] == "big" and made["command"].startswith("rlexp transfer tiny small --forecast f.json")
    assert made["hash"] == hash_of(made) and made["between_sizes"]["sd"] is not None and made["note"] == ""
    assert [each["hash"] for each in made["read"]] == [content_hash(place / name) for name in ("tiny", "small")]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(made["created"])) < timedelta(minutes=2)
    moved(place / "large", 1)
    assert transfer.main(["tiny", "small", "large", "--score", "f.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["forecast"] for each in found["scores"]] == ["forecast", "copy", "no effect"]
    forecast, _, nothing = found["scores"]
    assert forecast["accuracy"] == 1 and forecast["intervals"] == 3 and nothing["brier"] == 0.25
    (stratum,) = made["strata"]
    rng = np.random.default_rng(0)
    large = [scores(rng, factor, prefix) for factor, prefix in ((0.5, ""), (0.8, ""), (1.0, ""))][-1]
    means = {arm: logits(values).mean() for arm, values in large.items()}
    gaps = [pair["probability"] - float(means[pair["first"]] > means[pair["second"]]) for pair in stratum["pairs"]]
    assert forecast["brier"] == pytest.approx(np.mean(np.square(gaps)))
    errors = [
        abs(pair["difference"] - (means["norm=local"] - means[pair["second"]]))
        for pair in stratum["pairs"]
        if pair["first"] == "norm=local"
    ]
    assert forecast["error"] == pytest.approx(np.mean(errors))
    for row, pair in zip(found["effects"], stratum["pairs"], strict=False):  # the other way around
        assert row["arm"] == pair["second"] and row["shown"] == pytest.approx(means[row["arm"]] - means["norm=local"])
        assert (row["forecast"], row["low"], row["high"]) == (-pair["difference"], -pair["high"], -pair["low"])
    assert (place / "large/analysis/transfer/score.csv").exists()
    assert transfer.main(["large", "--score", "f.json"]) == 0  # the smaller ones need not be there
    assert "copy of small" in capsys.readouterr().out


def test_of_one_sweep_a_forecast_says_what_its_intervals_lack(place, capsys):
    assert transfer.main(["small", "--forecast", "f.json", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["between_sizes"]["sd"] is None and "sampling error alone" in made["note"]
    moved(place / "large", 1)
    assert transfer.main(["large", "--score", "f.json"]) == 0
    assert "so it is the copy of it" in " ".join(capsys.readouterr().out.split())


def test_a_forecast_is_not_written_over(place, capsys):
    assert transfer.main(["tiny", "small", "--forecast", "f.json"]) == 0
    before = (place / "f.json").read_text()
    assert transfer.main(["tiny", "--forecast", "f.json"]) == 2
    assert "is there already" in capsys.readouterr().err and (place / "f.json").read_text() == before


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        ("late", "f.json: is no forecast: it was made at "),
        ("log", "f.json: is no forecast: it was made at "),
        ("changed", "f.json: was changed after it was written: its hash is another"),
        ("other", "tiny: is not what f.json was made from; its files are others"),
        ("arms", "the target has no two of the arms that were forecast"),
        ("scale", "the target is on another scale (log-odds) than the forecast (identity)"),
    ],
)
def test_a_forecast_that_proves_nothing_is_refused(place, capsys, spoil, line):
    metric = ["--metric", "eval/reward"] if spoil == "scale" else []
    assert transfer.main(["tiny", "small", "--forecast", "f.json", *metric]) == 0
    capsys.readouterr()
    moved(place / "large", -1 if spoil == "late" else 1)
    made, target = json.loads((place / "f.json").read_text()), "large"
    if spoil == "log":  # the files were copied later, but the log says when the run began
        next(iter(place.glob("large/*/summary.json"))).with_name("train.log").write_text("2020-01-01 10:00:00 INFO x\n")
    elif spoil == "changed":
        made["strata"][0]["pairs"][0]["probability"] = 0.5
        (place / "f.json").write_text(json.dumps(made))
    elif spoil == "other":
        shutil.rmtree(place / "tiny/norm=none,seed=3")
    elif spoil == "arms":
        target = "else"
        write_sweep(place / target, {f"clip={name}": [0.4, 0.5, 0.6] for name in "ab"}, steps=4)
        moved(place / target, 1)
    elif spoil == "scale":
        made["question"]["metric"] = None
        made["hash"] = hash_of(made)
        (place / "f.json").write_text(json.dumps(made))
    assert transfer.main(["tiny", "small", target, "--score", "f.json"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {line}")


def test_a_run_began_at_the_first_sign_of_it(place):
    files = [path for path in place.glob("tiny/*/*") if path.name in ("config.yaml", "metrics.jsonl", "summary.json")]
    for path in files:
        os.utime(path, (2e9, 2e9))
    os.utime(files[3], (1.9e9, 1.9e9))
    assert first_start(place / "tiny") == datetime.fromtimestamp(1.9e9, UTC)
    log = files[0].with_name("train.log")
    log.write_text("2021-02-03 04:05:06 INFO starts\n")
    assert first_start(place / "tiny") == datetime(2021, 2, 3, 4, 5, 6).astimezone()
    log.write_text("no time\n")
    os.utime(log, (2e9, 2e9))
    assert first_start(place / "tiny") == datetime.fromtimestamp(1.9e9, UTC)
