"""A small sweep through the measurement of large ones."""

import json

import pytest

from tests.faults import size


@pytest.mark.rare
def test_ten_runs_are_resumed_and_compared(tmp_path):
    found, wrong = size.look(10, 80, "none", tmp_path)
    assert wrong == [] and found["statuses"] == {"completed": 10}
    assert 5 < found["files_a_run"] <= size.MOST_FILES and found["steps"].keys() >= {"train", "resume", "compare_many"}
    table = json.loads((tmp_path / "large" / "analysis" / "comparison.json").read_text())
    assert len(table["runs"]) == 80
