"""Records prove what can be proved without training; those of this project do, and the page shows them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from speedruns import TINY, drawn, invented, tiny  # noqa: F401 (a fixture)

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.speedrun.race import recipe_of
from rlexp.speedrun.recipe import WORLDS
from rlexp.speedrun.records import FOLDER, PAGE, find_record, records_of, rewrite_page, table, write

pytestmark = pytest.mark.slow  # much is composed

COMMITTED = [record for world in WORLDS.values() for record in records_of(world, FOLDER)]


@pytest.fixture(scope="module")
def pair():
    first = drawn(invented("lr=0.1"))
    return first, drawn(invented("lr=0.2", known=[first]), before=[300] * 10)


def test_what_is_written_is_read_again(tmp_path, pair):
    files = [write(record, tmp_path / "new") for record in pair]
    assert [file.name for file in files] == ["tiny-1.json", "tiny-2.json"]
    assert records_of(TINY, tmp_path / "new") == list(pair)
    assert records_of(TINY, tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"completions": [300] * 10}, "does not beat the one before"),
        ({"p": 0.5}, "has another p than its numbers give: p = 0.00195"),
        ({"before_completions": None}, "does not have the record before it on its seeds"),
        ({"rows": []}, "has not one number for each seed"),
        ({"seeds": list(range(10))}, "has other seeds than its submission gives"),
        ({"changes": {"lr": 0.3}}, "has other seeds than"),
        ({"after": "0" * 64}, "does not come after the record before it as that is now"),
        ({"world": "sort"}, "is the record sort-2"),
        ({"build": {"ATEN_CPU_CAPABILITY": "default"}}, "was trained with ATEN_CPU_CAPABILITY=default"),
        ({"build": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}}, "was trained with MKL_ENABLE_INSTRUCTIONS=AVX2"),
        ({"date": "2027-01-01"}, "second draw 1 has other seeds than its submission gives"),
        ({"draws": [{"by": "me"}]}, r"is no record: draws\[0\]"),
    ],
)
def test_a_record_that_was_changed_is_refused(tmp_path, pair, values, line):
    write(pair[0], tmp_path)
    file = write(pair[1], tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(RunFailed, match=f"tiny-2.json: {line}"):
        records_of(TINY, tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        {"draws": None},
        {"draws": [5]},
        {"draws": 5},
        {"completions": ["x"] * 10},
        {"completions": None},
        {"rows": 3},
        {"build": []},
        {"p": "0"},
        {"seeds": {}},
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_refused_in_a_line(tmp_path, pair, values):
    file = write(pair[0], tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(RunFailed, match=r"tiny-1.json: (is no record|has|does|second draw)"):
        records_of(TINY, tmp_path)


def test_a_name_is_text_in_the_table(pair):
    named = replace(pair[0], draws=[replace(pair[0].draws[0], by="a|b <script> \x1b[31m\n")])
    (row,) = (line for line in table(TINY, [named]) if line.startswith("| tiny-1"))
    assert row.endswith(r"| a&#124;b &lt;script&gt; \x1b[31m , 2026-01-31, c (v) |")


def test_a_record_before_another_cannot_be_changed(tmp_path, pair):
    write(drawn(replace(pair[0], date="2025-01-01", draws=[])), tmp_path)
    write(pair[1], tmp_path)
    with pytest.raises(RunFailed, match="tiny-2.json: does not come after the record before it"):
        records_of(TINY, tmp_path)
    write(replace(pair[0], draws=[]), tmp_path)
    with pytest.raises(RunFailed, match="tiny-2.json: does not come after the record before it"):
        records_of(TINY, tmp_path)
    (tmp_path / "tiny-1.json").unlink()
    with pytest.raises(RunFailed, match="tiny-2.json: comes after 0 records; tiny-1 is missing"):
        records_of(TINY, tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [("[", "not JSON"), ("[]", "of format 1"), ('{"format": 2}', "of format 1"), ('{"format": 1}', "is missing")],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, text, line):
    (tmp_path / "tiny-1.json").write_text(text)
    with pytest.raises(RunFailed, match=f"tiny-1.json: is no record.*{line}"):
        records_of(TINY, tmp_path)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tiny-3", "tiny-3: no such record; there are tiny-1, tiny-2"),
        ("sort-1", "sort-1: no such record; sort has none"),
        ("tiny", "tiny: is no name of a record, as sort-1"),
        ("best-1", "best: no such world"),
    ],
)
def test_a_record_that_does_not_exist_is_refused(tmp_path, tiny, pair, name, line):
    for record in pair:
        write(record, tmp_path)
    with pytest.raises(ConfigError, match=line):
        find_record(name, tmp_path)
    assert find_record("tiny-1", tmp_path) == (pair[0], None, [pair[1]])
    assert find_record("tiny-2", tmp_path) == (pair[1], pair[0], [])


def test_the_table_has_what_second_draws_found_and_tells_apart_what_none_confirms(pair):
    late = [100, 300, 200, None, 100, 100, 100, 100, 100, 2000]
    first, second = drawn(invented("lr=0.1"), late), pair[1]
    unlucky = drawn(invented("lr=0.3", known=pair), completions=[300] * 10)
    shown = [line for line in table(TINY, [first, second, unlucky, invented("lr=0.4", known=pair)]) if line]
    end = "2026-01-31 | somebody, 2026-01-31, c (v) |"
    none = "2026-01-31 | none: the numbers are those of the submission |"
    assert [line for line in shown if not line.startswith(("| record", "|---"))][2:] == [
        f"| tiny-1 | 100 (100 to never) | 9/10 |  |  |  | `lr=0.1` | {end}",
        f"| tiny-2 | 100 (100 to 100) | 10/10 | tiny-1 | 300 | 0.002 | `lr=0.2` | {end}",
        "Not confirmed, and so no records:",
        f"| tiny-3 | 300 (300 to 300) | 10/10 | tiny-2 | 204 | 0.002 | `lr=0.3` | {end}",
        f"| tiny-3 | 100 (100 to 100) | 10/10 | tiny-2 | 204 | 0.002 | `lr=0.4` | {none}",
    ]
    assert list(table(TINY, []))[-1] == "No record yet."


def test_the_page_has_the_records(tmp_path):
    again = Path(shutil.copy(PAGE, tmp_path))
    rewrite_page(again)
    assert again.read_bytes() == PAGE.read_bytes(), "make it anew: python -m rlexp.speedrun --table"


@pytest.mark.parametrize("record", COMMITTED, ids=lambda record: record.name)
def test_a_record_can_still_be_trained(record):
    """A default that has changed changes a world: its old value belongs into ``rlexp/speedrun/recipe.py``."""
    assert recipe_of(record).changes == record.changes


def test_some_record_has_beaten_another():
    assert [record for record in COMMITTED if record.comparison.beats and record.comparison.p is not None]
