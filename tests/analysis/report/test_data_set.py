"""`rlexp publish`: the data set says what it is, and its notebook computes what was printed."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis import publish

ALONE = "import sys; sys.modules |= {'rlexp': None, 'analysis': None}  # to import them is an error\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a data set of two sweeps, one of more seeds than have exact flips."""
    folder, rng = tmp_path_factory.mktemp("published"), np.random.default_rng(0)
    for name, seeds in {"norms": 6, "many": 16}.items():
        arms = {f"norm={each}": list(0.5 + 0.05 * rng.normal(size=seeds)) for each in "abc"}
        write_sweep(folder / name, arms, steps=4)
    sweeps = [str(folder / "norms"), str(folder / "many")]
    assert publish.main([*sweeps, "--out", str(folder / "data"), "--name", "two-sweeps", "--about", "Toys."]) == 0
    return folder / "data"


def notebook(place):
    cells = json.loads((place / "recompute.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return subprocess.run([sys.executable, "-c", ALONE + code], cwd=place, capture_output=True, text=True)


def test_the_notebook_computes_the_comparisons_and_fails_where_one_differs(place, tmp_path):
    done = notebook(place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "42 numbers of 6 variants: as printed"
    table = pd.read_csv(place / "comparisons.csv")
    table.loc[1, "difference"] += 1e-6
    kept = (place / "comparisons.csv").read_bytes()
    table.to_csv(place / "comparisons.csv", index=False)
    try:
        assert notebook(place).returncode == 1
    finally:
        (place / "comparisons.csv").write_bytes(kept)


def test_every_file_has_its_checksum_and_no_path_of_this_machine(place):
    sums = dict(reversed(line.split("  ")) for line in (place / "SHA256SUMS").read_text().splitlines())
    assert {*sums} == {path.name for path in place.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        content = (place / name).read_bytes()
        assert sha256(content).hexdigest() == digest
        assert str(place.parent).encode() not in content


def test_croissant_describes_each_column_of_each_file(place):
    found = json.loads((place / "croissant.json").read_text("utf-8"))
    assert found["name"] == "two-sweeps" and found["description"].startswith("Toys. 66 runs of 2 sweeps")
    files = {each["@id"]: each for each in found["distribution"]}
    assert all(sha256((place / name).read_bytes()).hexdigest() == each["sha256"] for name, each in files.items())
    for records in found["recordSet"]:
        sources = [field["source"] for field in records["field"]]
        (file,) = {source["fileObject"]["@id"] for source in sources}
        rows = pd.read_csv(place / file) if file.endswith(".csv") else pd.read_parquet(place / file)
        assert [source["extract"]["column"] for source in sources] == [*rows]
        assert {field["dataType"] for field in records["field"]} <= {"sc:Text", "sc:Integer", "sc:Float", "sc:Boolean"}


@pytest.mark.filterwarnings("ignore")
def test_croissant_is_read_by_its_own_library(place):
    croissant = pytest.importorskip("mlcroissant")
    runs = croissant.Dataset(jsonld=str(place / "croissant.json")).records("runs")
    assert sum(1 for _ in runs) == 66


def test_the_card_says_what_is_there(place):
    card = (place / "README.md").read_text("utf-8")
    for heading in ("What a seed randomizes", "Which runs", "Known faults", "Machine", "Files", "License"):
        assert f"## {heading}\n" in card
    assert "66 completed" in card and "data_files: curves.parquet" in card
    assert "Comparisons that are left out" not in card


def test_the_same_call_writes_the_folder_again_and_no_other(place, tmp_path, capsys):
    sweep = str(place.parent / "norms")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert publish.main([sweep, "--out", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'mine'}: has other files; name a new folder\n"
    assert publish.main([sweep, "--out", str(tmp_path / "new")]) == 0
    assert publish.main([sweep, "--out", str(tmp_path / "new")]) == 0


def test_no_runs_are_said_in_a_line(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert publish.main([str(tmp_path / "empty"), "--out", str(tmp_path / "data")]) == 2
    assert "no runs in" in capsys.readouterr().err and not (tmp_path / "data").exists()


def test_runs_of_another_tool_are_published_as_such(tmp_path, capsys):
    lines = [f"{arm},{seed},{0.5 + seed / 100 + (arm == 'b') / 10},1" for arm in "ab" for seed in range(6)]
    (tmp_path / "runs.csv").write_text("\n".join(["method,seed,accuracy,loss", *lines]) + "\n")
    assert publish.main([str(tmp_path / "runs.csv"), "--metric", "accuracy", "--out", str(tmp_path / "data")]) == 0
    card = (tmp_path / "data/README.md").read_text("utf-8")
    assert "rlexp did not train them" in card and "accuracy: higher is better, by its name. A score: as its row" in card
    assert "trained with rlexp" not in card and "start.seed" not in card and "None was found in the files." in card
    assert notebook(tmp_path / "data").returncode == 0
    assert "note: 12 runs of 2 arms read as CSV" in capsys.readouterr().err
