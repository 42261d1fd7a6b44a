"""Some of the scenes; what is wrong in one is seen."""

import pytest

from tests.faults import surroundings


@pytest.mark.rare
def test_runs_are_the_same_whatever_is_around_them(tmp_path):
    found = surroundings.look(["LANG=C", "no .hydra"], tmp_path)
    assert all(scene["wrong"] == [] for scene in found.values()) and len(found) == 2


def test_what_is_wrong_is_seen():
    good = {"exit_code": 0, "rows": {"a": [{"step": 0}]}, "said": "fine"}
    assert surroundings.problems(good, good["rows"]) == []
    bad = {"exit_code": 1, "rows": {}, "said": "x\nTraceback (most recent call last):"}
    assert len(surroundings.problems(bad, good["rows"])) == 3
