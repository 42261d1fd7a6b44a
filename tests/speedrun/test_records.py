"""Records prove what can be proved without training; those of this project do, and the page shows them."""

import json

import pytest
from speedruns import TINY, changed, invented, tiny  # noqa: F401 (a fixture)

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.speedrun import page
from rlexp.speedrun.records import FOLDER, find_record, records_of, write
from rlexp.speedrun.verify import recipe_of
from rlexp.speedrun.worlds import WORLDS

COMMITTED = [record for world in WORLDS.values() for record in records_of(world, FOLDER)]


@pytest.fixture(scope="module")
def pair():
    first = invented("lr=0.1")
    return first, invented("lr=0.2", after=first)


def test_what_is_written_is_read_again(tmp_path, pair):
    files = [write(record, tmp_path / "new") for record in pair]
    assert [file.name for file in files] == ["tiny-1.json", "tiny-2.json"]
    assert records_of(TINY, tmp_path / "new") == list(pair)
    assert records_of(TINY, tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"completions": [300] * 10}, r"does not beat the one before: its numbers give p = 0.00195"),
        ({"p": 0.5}, "does not beat"),
        ({"before_completions": None}, "does not have the record before it on its seeds"),
        ({"rows": []}, "has not one number for each seed"),
        ({"seeds": list(range(10))}, "has other seeds than its recipe and the record before it give"),
        ({"changes": {"lr": 0.3}}, "has other seeds than"),
        ({"after": "0" * 64}, "does not come after the record before it as that is now"),
        ({"world": "sort"}, "is the record sort-2"),
    ],
)
def test_a_record_that_was_changed_is_refused(tmp_path, pair, values, line):
    write(pair[0], tmp_path)
    file = write(pair[1], tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(RunFailed, match=f"tiny-2.json: {line}"):
        records_of(TINY, tmp_path)


def test_a_record_before_another_cannot_be_changed(tmp_path, pair):
    write(changed(pair[0], date="2025-01-01"), tmp_path)
    write(pair[1], tmp_path)
    with pytest.raises(RunFailed, match="tiny-2.json: does not come after the record before it"):
        records_of(TINY, tmp_path)
    (tmp_path / "tiny-1.json").unlink()
    with pytest.raises(RunFailed, match="tiny-2.json: comes after 0 records; tiny-1 is missing"):
        records_of(TINY, tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [("[", "not JSON"), ("[]", "of format 1"), ('{"format": 2}', "of format 1"), ('{"format": 1}', "after is missing")],
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
    found, earlier = find_record(str(tmp_path / "tiny-2.json"), FOLDER)
    assert (found, earlier) == (pair[1], [pair[0]]) and find_record("tiny-1.json", tmp_path) == (pair[0], [])


def test_the_table_has_a_row_for_each_record(pair):
    first = changed(pair[0], completions=[100, 300, 200, None, 100, 100, 100, 100, 100, 2000])
    rows = [line for line in page.table(TINY, [first, pair[1]]) if line.startswith("| tiny")]
    assert rows == [
        "| tiny-1 | 100 (100 to never) | 9/10 |  |  | `lr=0.1` | 2026-01-31 |",
        "| tiny-2 | 100 (100 to 100) | 10/10 | 204 | 0.002 | `lr=0.2` | 2026-01-31 |",
    ]
    assert list(page.table(TINY, []))[-1] == "No record yet."


def test_the_page_has_the_records():
    assert page.filled() in page.PAGE.read_text(encoding="utf-8"), "make it anew: python -m rlexp.speedrun --table"


@pytest.mark.parametrize("record", COMMITTED, ids=lambda record: record.name)
def test_a_record_can_still_be_trained(record):
    """A default that has changed changes a world: its old value belongs into ``rlexp/speedrun/worlds.py``."""
    recipe, problem = recipe_of(record)
    assert problem is None and recipe.changes == record.changes


def test_some_record_has_beaten_another():
    assert [record for record in COMMITTED if record.p is not None and record.p < 0.01]
