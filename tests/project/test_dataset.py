"""The data set of everything that is stored: it is small, says what it is, and its notebook computes its effects."""

import json
import subprocess
import sys
from hashlib import sha256

import pandas as pd
import pytest
from stored import stored_studies

from benchmarks.dataset import LARGEST, write

ALONE = (
    "import sys; sys.modules |= {'rlexp': None, 'analysis': None, 'benchmarks': None}  # to import them is an error\n"
)
pytestmark = pytest.mark.rare  # all studies are composed


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("dataset")
    write(place, stored_studies())
    return place


def notebook(place):
    cells = json.loads((place / "recompute.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return subprocess.run([sys.executable, "-c", ALONE + code], cwd=place, capture_output=True, text=True)


def test_it_is_small_and_every_file_has_its_checksum(place):
    assert 500_000 < sum(file.stat().st_size for file in place.iterdir()) < LARGEST
    sums = dict(reversed(line.split("  ")) for line in (place / "SHA256SUMS").read_text().splitlines())
    assert {*sums} == {path.name for path in place.iterdir()} - {"SHA256SUMS"}
    assert all(sha256((place / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())


def test_everything_that_is_stored_is_in_it(place):
    stored = stored_studies()
    findings, runs = pd.read_csv(place / "findings.csv"), pd.read_parquet(place / "runs.parquet")
    studies, curves = pd.read_csv(place / "studies.csv").set_index("study"), pd.read_parquet(place / "curves.parquet")
    assert [*studies.index] == [study.name for study in stored]
    assert len(findings) == sum(len(study.findings) for study in stored) > 900
    assert len(runs) == sum(len(study.runs) for study in stored) > 7_000
    assert len(curves) == sum(len(study.curves) for study in stored if study.curves is not None) > 80_000
    assert len(pd.read_csv(place / "levels.csv")) == sum(len(study.levels) for study in stored)
    assert findings.groupby("study")["verdict"].count().sum() == sum(
        bool(f.verdict) for s in stored for f in s.findings
    )
    assert {*findings["study"]} <= {*studies.index}
    assert studies["settings"].map(json.loads).map(type).eq(dict).all()
    known = runs.merge(curves[["study", "run"]].drop_duplicates(), on=["study", "run"])
    assert len(known) >= len(curves[["study", "run"]].drop_duplicates()) > 3_000


def test_the_notebook_computes_the_effects_and_fails_where_one_differs(place):
    done = notebook(place)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[-1]
    assert said.endswith("of kind sweep") and int(said.split()[0]) > 180, said
    runs = pd.read_parquet(place / "runs.parquet")
    kept = (place / "runs.parquet").read_bytes()
    runs.loc[runs["study"].eq("clipping").idxmax(), "score"] += 0.05
    runs.to_parquet(place / "runs.parquet")
    try:
        failed = notebook(place)
        assert failed.returncode == 1 and "clipping" in failed.stderr
    finally:
        (place / "runs.parquet").write_bytes(kept)


def test_the_card_and_croissant_describe_every_table(place):
    card = (place / "README.md").read_text("utf-8")
    for heading in ("What a seed randomizes", "Which studies", "Known faults", "Machine", "Files", "License"):
        assert f"## {heading}\n" in card
    found = json.loads((place / "croissant.json").read_text("utf-8"))
    assert {each["@id"] for each in found["distribution"]} == {
        path.name for path in place.iterdir() if path.suffix in (".csv", ".parquet")
    }
    for records in found["recordSet"]:
        (file,) = {field["source"]["fileObject"]["@id"] for field in records["field"]}
        rows = pd.read_csv(place / file) if file.endswith(".csv") else pd.read_parquet(place / file)
        assert [field["source"]["extract"]["column"] for field in records["field"]] == [*rows]


@pytest.mark.filterwarnings("ignore")
def test_croissant_is_read_by_its_own_library(place):
    croissant = pytest.importorskip("mlcroissant")
    rows = croissant.Dataset(jsonld=str(place / "croissant.json")).records("runs")
    assert sum(1 for _ in rows) == len(pd.read_parquet(place / "runs.parquet"))
