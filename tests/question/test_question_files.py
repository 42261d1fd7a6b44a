"""What an answer keeps: words, effects and intervals follow from its files without this program."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from figure_checks import check
from schemas import check_schema
from small_runs import SHORT, SMALL

from rlexp.analysis.figures.question import ForestRow, forest
from rlexp.analysis.report.ablation_files import NOTEBOOK as ABLATION_NOTEBOOK
from rlexp.analysis.report.question import figures, p_text, publish
from rlexp.analysis.report.question_files import NOTEBOOK, OTHERS
from rlexp.analysis.stats.question import answer
from rlexp.question.__main__ import main as ask_command
from rlexp.question.ask import ask
from rlexp.runfolder.files import json_with_checksum

ALONE = "import sys; sys.modules |= {'rlexp': None, 'analysis': None}  # to import them is an error\n"
WRITTEN = {
    "question": "Does it help to count each completion alike?",
    "assertions": [
        {"arm": "agg=sequence", "kind": "superior", "metric": "policy/entropy", "direction": "lower"},
        {"arm": "agg=sequence", "kind": "equivalent"},
    ],
    "conditions": {"temperature": [0.5, 0.8, 1.0], "inner_steps": [1]},
    "with": [*SHORT, *SMALL],
    "metric": "eval/sampled_accuracy",
    "tune": "lr=0.01,0.02",
    "seeds": 3,
}


def cells(path: Path) -> dict[str, str]:
    found = json.loads(path.read_text("utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in found if cell["cell_type"] == "code"}


def run_notebook(place: Path) -> subprocess.CompletedProcess:
    """Run the cells of the notebook that is kept, in a process that cannot import this program."""
    command = [sys.executable, "-c", ALONE + "\n".join(cells(place / "recompute.ipynb").values())]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("question") / "x"
    publish(ask(WRITTEN, folder=place))
    return place


def asked_again(folder, place, **changes):
    """The answer to another question about the same runs."""
    copied = Path(shutil.copytree(folder, place))
    written = json.loads((copied / "question.json").read_text())
    del written["checksum"]
    written["declared"] |= changes
    (copied / "question.json").write_bytes(json_with_checksum(json.dumps(written, indent=2) + "\n"))
    publish(answer(copied))
    return copied / "answer"


def test_json_is_what_is_written_and_nothing_else(folder, capsys):
    capsys.readouterr()
    ask_command(["--folder", str(folder), "--json"])
    printed = check_schema("answer", capsys.readouterr().out)
    assert printed == json.loads((folder / "answer" / "answer.json").read_text(encoding="utf-8"))


def test_cells_with_the_same_id_are_the_same_in_both_notebooks():
    own, other = cells(NOTEBOOK), cells(ABLATION_NOTEBOOK)
    shared = own.keys() & other.keys()
    assert {"scale", "draws", "estimate"} <= shared
    assert {name: own[name] for name in shared} == {name: other[name] for name in shared}


@pytest.mark.slow
def test_what_is_printed_follows_from_the_files(folder):
    ran = run_notebook(folder / "answer")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "2 assertions in 3 conditions: as printed\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [("not inferior", "superior"), pytest.param(("equivalent", "equivalent"), marks=pytest.mark.rare)]
)
def test_other_kinds_and_endpoints_are_computed_again_too(folder, tmp_path, kinds):
    first, second = json.loads((folder / "question.json").read_text())["declared"]["assertions"]
    changed = [
        first | {"kind": kinds[0], "smallest": 5.0},
        second | {"kind": kinds[1], "direction": "higher", "smallest": 2.0, "endpoint": "auc:updates"},
    ]
    place = asked_again(folder, tmp_path / "copy", assertions=changed)
    ran = run_notebook(place)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((place / "answer.json").read_text())["assertions"][0]["word"] != "cannot answer"


@pytest.mark.slow
def test_dropped_conditions_are_left_out_again(folder, tmp_path):
    check = {"metric": "length/mean", "arm": None, "above": 1e9, "below": None}
    place = asked_again(folder, tmp_path / "all", checks=[check])
    assert {each["word"] for each in json.loads((place / "answer.json").read_text())["assertions"]} == {"cannot answer"}
    assert run_notebook(place).returncode == 0


@pytest.mark.slow
def test_where_no_condition_has_the_number_the_word_is_that_it_cannot_be_answered(folder, tmp_path):
    first = json.loads((folder / "question.json").read_text())["declared"]["assertions"][0]
    level = {"endpoint": "matched:length/mean=1000000"}
    place = asked_again(folder, tmp_path / "all", **level, assertions=[first | level], secondary=["length/mean"])
    (assertion,) = json.loads((place / "answer.json").read_text())["assertions"]
    assert assertion["word"] == "cannot answer" and assertion["level"] is None and len(assertion["dropped"]) == 3
    assert all(why.endswith("12 never reached") for why in assertion["dropped"].values())
    runs = pd.read_parquet(place / "runs.parquet")
    assert len(runs) == 36 and runs["number"].isna().all() and not runs["best"].any()
    assert run_notebook(place).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("old", ["effect", "low", "p_holm", "word"])
def test_a_number_that_does_not_follow_is_found(folder, tmp_path, old):
    place = Path(shutil.copytree(folder / "answer", tmp_path / "copy"))
    printed = json.loads((place / "answer.json").read_text())
    was = printed["assertions"][0][old]
    printed["assertions"][0][old] = "contradicted" if old == "word" else was * 1.001 + 0.001
    (place / "answer.json").write_text(json.dumps(printed))
    ran = run_notebook(place)
    assert ran.returncode == 1 and "AssertionError" in ran.stderr


@pytest.mark.slow
def test_an_interval_holds_the_effect_where_a_lower_number_is_claimed(folder):
    """All three are of arm − versus."""
    claimed = json.loads((folder / "answer" / "answer.json").read_text())["assertions"][0]
    assert claimed["sign_of_claim"] == -1
    assert claimed["low"] < claimed["effect"] < claimed["high"]
    assert claimed["predicted"][0] < claimed["effect"] < claimed["predicted"][1]
    mean = np.mean([each["effect"] for each in claimed["conditions"]])
    assert np.sign(claimed["effect"]) == np.sign(mean)


@pytest.mark.slow
def test_the_package_describes_each_column_and_the_card_each_file(folder):
    place = folder / "answer"
    package = json.loads((place / "datapackage.json").read_text())
    for each in package["resources"]:
        path = place / each["path"]
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        assert [field["name"] for field in each["schema"]["fields"]] == [*table] and len(table)
    assert {len(scales) for scales in package["scales"].values()} == {3} and len(package["scales"]) == 3
    card = (place / "README.md").read_text()
    names = [each["path"] for each in package["resources"]]
    assert all((place / name).is_file() and f"`{name}`" in card for name in (*names, *OTHERS))


@pytest.mark.slow
def test_amounts_are_ratios_and_p_stands_beside_the_interval(folder):
    """The effect, its interval, the prediction and the levels of a moderator are all in the same unit."""
    text = (folder / "answer" / "answer.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^What came out: 1\..*", text, re.MULTILINE)
    claimed = json.loads((folder / "answer" / "answer.json").read_text())["assertions"][0]
    low, high = np.exp(claimed["predicted"])
    assert f": ×{np.exp(claimed['effect']):.2f} [" in said and "% interval; p " in said
    assert "| ratio [95 %] |" in text and "| difference [95 %] |" in text and "agg=sequence − default, all" in text
    assert f"it lies in [×{low:.3g}, ×{high:.3g}]." in said and "] %" not in said


def test_a_small_p_is_below_what_is_shown():
    assert (p_text(0.0204), p_text(1e-9)) == ("p = 0.020", "p < 0.001")


@pytest.mark.parametrize(
    "arms",
    [
        "filter=dynamic / filter=none",
        "teacher=self+distillation=reverse_kl − teacher=self+distillation=jsd",
        "teacher=self+distillation=reverse_kl / teacher=self+distillation=jsd",
        "shaping=flips+shaping.false_positives=0.6+shaping.false_negatives=0.6 − shaping=random",
    ],
)
def test_the_label_of_a_forest_is_on_the_figure_and_above_the_caption(arms):
    name = "task.hard_right=1,model.std=0.5"
    label = f"completions to eval/exact/accuracy ≥ 0.5 (ratio)\n{arms}"
    check(forest([ForestRow(name, 1.1, 0.6, 2.0, (0.8, 1.25))], None, None, label, "95 % intervals.", 1.0))


def test_each_condition_stands_on_the_band_of_what_does_not_count_there():
    margins = (-5.0, 6.0), (-2.0, 1.5), (-4.0, 4.5)
    rows = [ForestRow(f"a={n}", 1.0, -3.0, 4.0 + n, each) for n, each in enumerate(margins)]
    (axes,) = forest(rows[:2], rows[2], None, "points", "").axes
    bands = [path.get_extents() for bars in axes.collections for path in bars.get_paths()]
    assert [(band.x0, band.x1) for band in bands] == [*margins]
    assert all(band.y0 < place < band.y1 for band, place in zip(bands, axes.get_yticks(), strict=True))


def test_a_band_is_that_of_the_level_of_its_condition(folder):
    """A quarter of log-odds is 6 points in the middle and 2 at .9."""
    found = answer(folder)
    shares = found.assertions[1]
    effects = [each._replace(level=level) for each, level in zip(shares.effects, (0.5, 0.9, 0.1), strict=True)]
    drawn = figures(found._replace(assertions=[shares._replace(effects=effects, smallest=0.25)]))
    (axes,) = drawn["assertion_1"][0].axes
    bands = [path.get_extents() for bars in axes.collections for path in bars.get_paths()]
    m = shares.scale.count  # half a completion is added on both sides
    for level, band in zip((0.5, 0.9, 0.1), bands, strict=False):
        odds = (level * m + 0.5) / ((1 - level) * m + 0.5) * np.exp([-0.25, 0.25])
        ends = (odds / (1 + odds) * (m + 1) - 0.5) / m
        assert (band.x0, band.x1) == pytest.approx(tuple(100 * (ends - level)))


def test_ratios_are_drawn_on_a_log_axis_around_1():
    """An interval up to 14 times as much does not hide what happens near no effect."""
    rows = [ForestRow("a=1", 1.1, 0.6, 2.0, (0.8, 1.25)), ForestRow("a=2", 1.0, 0.08, 13.9, (0.8, 1.25))]
    (axes,) = forest(rows, None, None, "ratio", "", 1.0).axes
    assert axes.get_xscale() == "log" and axes.get_xlim()[0] > 0
    assert {tuple(line.get_xdata()) for line in axes.lines} >= {(1.0, 1.0), (0.08, 13.9)}
    (axes,) = forest(rows, None, None, "points", "").axes
    assert axes.get_xscale() == "linear"
