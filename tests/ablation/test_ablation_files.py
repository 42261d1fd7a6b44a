"""What an ablation keeps: what is printed follows from it without this program, and each column is described."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlexp.ablation.train import ablate
from rlexp.analysis.report.ablation import write_files
from rlexp.analysis.report.ablation_files import FILES, OTHERS, curve_table
from rlexp.analysis.stats.ablation import ABLATION_FILE
from rlexp.analysis.stats.noise import scores_statement
from rlexp.analysis.stats.rates import response_curve

pytestmark = pytest.mark.slow  # whole sweeps
TINY = ["task=bandit", "model=tabular", "steps=30", "eval.every=2", "logger=none"]
PARTS = "entropy_coef=1,norm=center,inner_steps=4"
ALL = ["factorial", "add-one", "leave-one-out", "ladder"]
SCRIPT = Path(__file__).parents[1] / "support" / "recompute_ablation.py"


@pytest.fixture(scope="module")
def untuned(tmp_path_factory):
    place = tmp_path_factory.mktemp("files") / "x"
    found = ablate(parts=PARTS, designs=ALL, seeds=3, overrides=[*TINY, "lr=0.05"], folder=place)
    write_files(found)
    return found


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    place = tmp_path_factory.mktemp("files") / "y"
    asked = {"parts": "norm=center", "designs": ["add-one"], "tune": "lr=1e-2,1e-1"}
    found = ablate(**asked, seeds=3, overrides=TINY, folder=place)
    write_files(found)
    return found


def recomputed(found) -> dict:
    """In a process of its own, whose modules are neither this program's nor SciPy's."""
    command = [sys.executable, "-I", str(SCRIPT), str(found.folder / "ablation")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_effects_follow_from_the_numbers_of_the_runs(untuned):
    place, again = untuned.folder / "ablation", recomputed(untuned)
    columns = ["effect", "error", "difference", "low", "high"]
    kept = pd.read_csv(place / "effects.csv").set_index(["kind", "parts"])
    mine = pd.DataFrame(again["effects"]).set_index(["kind", "parts"]).reindex(kept.index)
    np.testing.assert_allclose(mine[columns].to_numpy(), kept[columns].to_numpy(), rtol=1e-6, atol=1e-12)
    text = (place / "ablation.md").read_text(encoding="utf-8").replace("−", "-")
    assert len(kept) == 1 + 5 * 3 + 3
    for (kind, parts), row in mine.iterrows():
        table = text.split(f"**{kind}**")[1].split("**")[0] if kind != "whole recipe" else text
        printed = re.search(rf"\| {re.escape(parts)} \|.*?([-+]?[\d.]+) \[([-+]?[\d.]+), ([-+]?[\d.]+)\]", table)
        half = 0.5 * 10.0 ** -len(printed[1].partition(".")[2]) + 1e-12
        assert [*map(float, printed.groups())] == pytest.approx([row["difference"], row["low"], row["high"]], abs=half)


def test_numbers_of_the_runs_follow_from_their_curves(untuned, tuned):
    for found in (untuned, tuned):
        runs = pd.read_csv(found.folder / "ablation" / "runs.csv")
        assert recomputed(found)["numbers"] == pytest.approx(runs["number"].tolist())
        scores = [json.loads((found.folder / name / "summary.json").read_text())["score"] for name in runs["folder"]]
        assert runs["number"].tolist() == scores and set(runs["status"]) == {"completed"}


def test_response_curves_follow_from_the_numbers_of_the_runs(tuned):
    again = pd.DataFrame(recomputed(tuned)["curves"])
    for arm, grid in tuned.grids.items():
        curve, mine = response_curve(grid), again[again["arm"] == tuned.label(arm)]
        expected = np.array([curve.rates, curve.mean, curve.low, curve.high])
        np.testing.assert_allclose(mine[["rate", "mean", "low", "high"]].to_numpy().T, expected, rtol=1e-6)
        best = tuned.levels.loc[tuned.label(arm)]
        runs = pd.read_csv(tuned.folder / "ablation" / "runs.csv").query("arm == @tuned.label(@arm) and best")
        assert set(runs["lr"]) == {best["value"]} and runs["number"].mean() == pytest.approx(best["mean"])
        assert mine.loc[mine["best"], "rate"].min() == best["value"], "of equal ones the lowest"


def test_the_page_begins_how_sure_with_the_luck_of_the_seeds(untuned, tuned):
    """In the metric's units, of the arms at their best, from the numbers as they are kept."""
    for found in (untuned, tuned):
        place = found.folder / "ablation"
        table = pd.read_csv(place / "runs.csv").query("best").pivot(index="seed", columns="arm", values="number")
        said = scores_statement([table.to_numpy()], "eval/exact/accuracy")
        assert said.startswith("Two single runs must differ by 0.") and " of the same 3 seeds by 0.0" in said
        assert f"How sure: {said} The smallest effect" in (place / "ablation.md").read_text(encoding="utf-8")
        assert f"<dt>How sure</dt><dd><p>{said} The" in (place / "ablation.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("endpoint", "metric", "columns"),
    [
        ("cost:policy/entropy<=1:tokens", None, ["completions", "tokens", "policy/entropy"]),
        ("matched:policy/entropy=1.5", None, ["completions", "eval/exact/accuracy", "policy/entropy"]),
        ("auc:updates", "exact/reward", ["completions", "updates", "eval/exact/reward"]),
    ],
)
def test_curves_are_of_what_an_endpoint_looks_at(untuned, endpoint, metric, columns):
    declared = {**untuned.declared, "endpoint": endpoint, "metric": metric}
    table = curve_table(untuned._replace(declared=declared))
    assert [*table] == ["folder", "seed", "step", *columns]
    assert set(table["folder"]) == {name for points in untuned.folders.values() for name in points[0]}
    assert table[columns[0]].notna().all() and table[columns[1:]].notna().any().all()


def test_the_schema_describes_each_column_and_the_card_each_file(untuned, tuned):
    for found in (untuned, tuned):
        place = found.folder / "ablation"
        schema = json.loads((place / "schema.json").read_text())
        assert [each["path"] for each in schema["resources"]] == [*FILES]
        for each in schema["resources"]:
            table, fields = pd.read_csv(place / each["path"]), each["schema"]["fields"]
            assert [field["name"] for field in fields] == [*table] and len(table)
            assert all(field["description"] for field in fields)
            kinds = {"integer": "i", "number": "fi", "boolean": "b", "string": "Of"}  # f: empty
            assert not [f for f in fields if table[f["name"]].dtype.kind not in kinds[f["type"]]]
        asked = json.loads((found.folder / ABLATION_FILE).read_text())
        assert schema["question"] == {"hash": asked["hash"], "declared": asked["declared"]}
        card = (place / "README.md").read_text()
        assert asked["hash"] in card and "rlexp ablate --parts" in card and "Apache License 2.0" in card
        assert all((place / name).is_file() and f"`{name}`" in card for name in (*FILES, *OTHERS))


def test_the_files_are_the_same_when_they_are_written_again(untuned):
    place = untuned.folder / "ablation"
    names = [*FILES, "schema.json", "README.md"]
    before = [(place / name).read_bytes() for name in names]
    write_files(untuned)
    assert [(place / name).read_bytes() for name in names] == before
