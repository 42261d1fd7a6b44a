"""What an ablation keeps: what is printed follows from it without this program, and each column is described."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from figure_checks import check
from schemas import check_schema

from rlexp.ablation.__main__ import main as ablation_command
from rlexp.ablation.train import ablate
from rlexp.analysis.figures.ablation import ablation_figure
from rlexp.analysis.report.ablation import write_files
from rlexp.analysis.report.ablation_files import NOTEBOOK, OTHERS, compared_curve, curve_table
from rlexp.analysis.stats.ablation import ABLATION_FILE, analyze
from rlexp.analysis.stats.noise import scores_statement
from rlexp.runfolder.files import json_with_checksum

pytestmark = pytest.mark.slow  # whole sweeps
TINY = ["task=bandit", "model=tabular", "steps=30", "eval.every=2", "logger=none"]
PARTS = "entropy_coef=1,norm=center,inner_steps=4"
ALL = ["factorial", "add-one", "leave-one-out", "ladder"]
FILES = ["runs.parquet", "curves.parquet", "arms.csv", "effects.csv"]
STORED = Path(__file__).parents[2] / "docs/ablate"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
ALONE = "import sys; sys.modules |= {'rlexp': None, 'analysis': None}  # to import them is an error\n"
TELL = "\nprint(json.dumps([table.reset_index().to_dict('records'), levels.reset_index().to_dict('records')]))"


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


def test_json_is_what_the_files_say(untuned, capsys):
    command = ["--parts", PARTS, *(f"--{design}" for design in ALL), "--seeds", "3", "--with", *TINY, "lr=0.05"]
    ablation_command([*command, "--folder", str(untuned.folder), "--json"])
    found = check_schema("ablation", capsys.readouterr().out)
    effects = pd.read_csv(untuned.folder / "ablation" / "effects.csv")
    assert [row["difference"] for row in found["effects"]] == pytest.approx(effects["difference"].tolist())
    assert len(found["arms"]) == len(untuned.arms) and found["parts"] == PARTS.split(",")


def run_notebook(place: Path) -> subprocess.CompletedProcess:
    """Run the cells of the notebook that is kept, in a process that cannot import this program."""
    cells = json.loads((place / "recompute.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    command = [sys.executable, "-c", ALONE + code + TELL]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


def recomputed(place: Path) -> list[pd.DataFrame]:
    """Return the tables of effects and levels that the notebook makes; it has found them to be those of the files."""
    ran = run_notebook(place)
    assert ran.returncode == 0, ran.stderr
    *_, said, tables = ran.stdout.splitlines()
    assert said.endswith("as printed")
    return [pd.DataFrame(rows) for rows in json.loads(tables)]


@pytest.mark.parametrize("which", [pytest.param("untuned", marks=pytest.mark.rare), "tuned"])
def test_what_is_printed_follows_from_the_files(which, request):
    place = request.getfixturevalue(which).folder / "ablation"
    effects, levels = recomputed(place)
    text = (place / "ablation.md").read_text(encoding="utf-8").replace("−", "-")
    assert len(effects) == (1 + 5 * 3 + 3 if which == "untuned" else 2) and len(levels) == (
        8 if which == "untuned" else 2
    )
    for _, row in effects.iterrows():
        kind, parts = row["kind"], row["parts"]
        table = text.split(f"**{kind}**")[1].split("**")[0] if kind != "whole recipe" else text
        printed = re.search(rf"\| {re.escape(parts)} \|.*?([-+]?[\d.]+) \[([-+]?[\d.]+), ([-+]?[\d.]+)\].*", table)
        half = 0.5 * 10.0 ** -len(printed[1].partition(".")[2]) + 1e-12
        assert [*map(float, printed.groups())] == pytest.approx([row["difference"], row["low"], row["high"]], abs=half)
        assert printed[0].endswith(f"| {row['word']} |")


@pytest.mark.parametrize(
    ("endpoint", "metric"), [("cost:eval/exact/accuracy>=0.3:tokens", None), ("auc:updates", "eval/exact/entropy")]
)
def test_other_numbers_of_a_run_are_computed_again_too(tuned, tmp_path, endpoint, metric):
    """Costs, of which lower is better, and areas; each from a copy of the folder in which that was asked."""
    folder = shutil.copytree(tuned.folder, tmp_path / "copy")
    asked = json.loads((folder / ABLATION_FILE).read_text())
    asked["declared"] |= {"endpoint": endpoint, "metric": metric}
    del asked["checksum"]
    (folder / ABLATION_FILE).write_bytes(json_with_checksum(json.dumps(asked, indent=2) + "\n"))
    write_files(analyze(folder))
    effects, _ = recomputed(folder / "ablation")
    assert effects["difference"].abs().max() > 0


def test_the_stored_example_is_computed_again():
    effects, levels = recomputed(STORED)
    assert len(effects) == 9 and len(levels) == 10
    sources = json.loads((STORED / "recompute.ipynb").read_text("utf-8"))["cells"]
    assert ["".join(cell["source"]) for cell in sources if cell["cell_type"] == "code"] == [
        "".join(cell["source"]) for cell in CELLS
    ]


@pytest.mark.parametrize(("file", "old"), [("effects.csv", "word"), ("effects.csv", "p_holm"), ("arms.csv", "iqm_low")])
def test_a_number_that_does_not_follow_is_found(tuned, tmp_path, file, old):
    place = shutil.copytree(tuned.folder / "ablation", tmp_path / "copy")
    table = pd.read_csv(place / file)
    table.loc[0, old] = "helps a bit" if old == "word" else table.loc[0, old] + 1e-6
    table.to_csv(place / file, index=False)
    ran = run_notebook(place)
    assert ran.returncode == 1 and "AssertionError" in ran.stderr


def test_each_effect_is_drawn_on_the_band_of_what_does_not_count_at_its_own_level(untuned):
    """A share's smallest effect is wide in the middle and narrow near 1."""
    effects, scale = untuned.effects, untuned.scale
    inside = (effects["margin_low"] < effects["difference"]) & (effects["difference"] < effects["margin_high"])
    assert (inside == (effects["effect"].abs() < untuned.smallest)).all()
    added = effects[effects["kind"] == "added first"].iloc[0]
    level = untuned.levels.loc["baseline", "mean"]
    wide = [scale.inverse(scale.forward(level) + each) - level for each in (-untuned.smallest, untuned.smallest)]
    assert [added["margin_low"], added["margin_high"]] == pytest.approx(
        wide, rel=0.02
    )  # a mean of log-odds or of shares
    stored = pd.read_csv(STORED / "effects.csv")
    figure = ablation_figure(stored, ["added first", "removed last"], "difference", "95 % intervals.")
    check(figure)
    (axes,) = figure.axes
    bands = [path.get_extents() for bars in axes.collections for path in bars.get_paths()]
    lines = [line for line in axes.lines if line.get_linewidth() == 1.5]
    assert len(bands) == len(lines) == 8
    for _, row in stored[stored["kind"] != "whole recipe"].iterrows():
        (at,) = (line.get_ydata()[0] for line in lines if tuple(line.get_xdata()) == (row["low"], row["high"]))
        (band,) = (each for each in bands if each.y0 < at < each.y1)
        assert (band.x0, band.x1) == pytest.approx((row["margin_low"], row["margin_high"]))
    assert len({round(each.x1, 6) for each in bands}) > 2


def test_a_run_says_what_trained_it_and_where_it_stands(untuned, tuned):
    for found in (untuned, tuned):
        runs = pd.read_parquet(found.folder / "ablation" / "runs.parquet")
        summaries = [json.loads((found.folder / name / "summary.json").read_text()) for name in runs["folder"]]
        assert runs["number"].tolist() == [each["score"] for each in summaries] and set(runs["status"]) == {"completed"}
        assert runs["config"].tolist() == [each["identity"]["config"] for each in summaries]
        assert runs["wall_time_s"].tolist() == [each["wall_time_s"] for each in summaries]
        assert runs["config"].is_unique and runs["machine"].notna().all() and runs["code"].notna().all()
    best = runs[runs["best"]].groupby("arm")
    assert best["lr"].unique().map(list).tolist() == [[value] for value in tuned.levels["value"][list(best.groups)]]
    assert best["number"].mean().tolist() == pytest.approx(tuned.levels["mean"][list(best.groups)].tolist())


def test_the_page_begins_how_sure_with_the_luck_of_the_seeds(untuned, tuned):
    """In the metric's units, of the arms at their best, from the numbers as they are kept."""
    for found in (untuned, tuned):
        place = found.folder / "ablation"
        table = (
            pd.read_parquet(place / "runs.parquet").query("best").pivot(index="seed", columns="arm", values="number")
        )
        said = scores_statement([table.to_numpy()], "eval/exact/accuracy")
        assert said.startswith("Two single runs must differ by 0.") and " of the same 3 seeds by 0.0" in said
        assert f"How sure: {said} The smallest effect" in (place / "ablation.md").read_text(encoding="utf-8")
        assert f"<dt>How sure</dt><dd><p>{said} The" in (place / "ablation.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("endpoint", "metric", "columns"),
    [
        ("cost:policy/entropy<=1:tokens", None, ["completions", "tokens", "eval/exact/accuracy", "policy/entropy"]),
        ("matched:policy/entropy=1.5", None, ["completions", "eval/exact/accuracy", "policy/entropy"]),
        ("auc:updates", "exact/reward", ["completions", "updates", "eval/exact/reward"]),
    ],
)
def test_curves_are_of_what_an_endpoint_looks_at(untuned, endpoint, metric, columns):
    declared = {**untuned.declared, "endpoint": endpoint, "metric": metric}
    asked = untuned._replace(declared=declared)
    table = curve_table(asked).rows
    assert compared_curve(asked) == next(name for name in columns if name.startswith("eval/"))
    assert [*table] == ["folder", "seed", "step", *columns]
    assert set(table["folder"]) == {name for points in untuned.folders.values() for name in points[0]}
    assert table[columns[0]].notna().all() and table[columns[1:]].notna().any().all()


def test_the_package_describes_each_column_and_the_card_each_file(untuned, tuned):
    for found in (untuned, tuned):
        place = found.folder / "ablation"
        package = json.loads((place / "datapackage.json").read_text())
        assert [each["path"] for each in package["resources"]] == FILES
        for each in package["resources"]:
            path = place / each["path"]
            table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
            fields = each["schema"]["fields"]
            assert [field["name"] for field in fields] == [*table] and len(table)
            assert all(field["description"] for field in fields)
            kinds = {"integer": "i", "number": "fi", "boolean": "b", "string": "Of"}  # f: empty
            assert not [f for f in fields if table[f["name"]].dtype.kind not in kinds[f["type"]]]
            assert not table.duplicated(each["schema"]["primaryKey"]).any()
        asked = json.loads((found.folder / ABLATION_FILE).read_text())
        assert package["question"]["hash"] == asked["hash"] and package["question"]["declared"] == asked["declared"]
        card = (place / "README.md").read_text()
        assert asked["hash"] in card and "rlexp ablate --parts" in card and "Apache License 2.0" in card
        assert all((place / name).is_file() and f"`{name}`" in card for name in (*FILES, *OTHERS))


def test_the_files_are_the_same_when_they_are_written_again(untuned):
    place = untuned.folder / "ablation"
    names = [*FILES, "datapackage.json", "README.md", "recompute.ipynb"]
    before = [(place / name).read_bytes() for name in names]
    write_files(untuned)
    assert [(place / name).read_bytes() for name in names] == before
