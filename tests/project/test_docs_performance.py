"""The tables of docs/performance.md whose file is kept have the rows of that file, and all of them."""

import json
from pathlib import Path

import pytest

from benchmarks import mixed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["factorial", "decided"])
def test_the_page_has_the_rows_of_the_file(name):
    document = json.loads((ROOT / "docs" / "statistics" / f"{name}.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    section = page.partition(f"`python -m benchmarks.{name} ")[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    assert table[0] == list(document["rows"][0])
    assert table[2:] == [[*row.values()] for row in document["rows"]]
    settings = {key: value for key, value in document["settings"].items() if value is not False}
    said = section.partition("`")[0].split()
    assert {f"--{key}": str(value) for key, value in settings.items()} == dict(zip(said[::2], said[1::2], strict=True))


@pytest.mark.parametrize("part", ["loop", "ladder", "language"])
def test_the_page_has_the_rows_of_the_gpu(part):
    found = json.loads((ROOT / "docs" / "gpu" / f"{part}.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = page.partition(f"--only {part} --minutes {found['settings']['minutes']}")[2]
    lines = section[section.index("\n|") + 1 :].partition("\n\n")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = found["parts"][part]["rows"]
    assert table[0] == list(rows[0])
    assert table[2:] == [[str(cell) for cell in row.values()] for row in rows]
    assert {each["name"] for each in found["gpus"]} == {"NVIDIA H200"}


def test_every_choice_that_a_batch_may_mix_has_its_cost():
    text = (ROOT / "docs" / "choices_cost.md").read_text(encoding="utf-8")
    assert text == mixed.page()
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in mixed.KEPT.glob("*/mixed.json")]
    found = {row["choice"] for each in documents for row in each["rows"]}
    left_out = {name for each in documents for name in each["data"]["left_out"]}
    every = mixed.choices(",".join(mixed.AXES))
    assert found | left_out == {f"{axis}={name}" for axis, name in every}
