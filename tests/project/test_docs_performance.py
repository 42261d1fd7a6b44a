"""The tables of docs/performance.md whose file is kept have the rows of that file, and all of them."""

import json
from pathlib import Path

import pytest

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
