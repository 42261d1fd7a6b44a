"""A tenth of a tenth of the damage campaign, and the proof that the campaign itself sees a lie."""

import random

import pytest

from rlexp.analysis.data import read
from rlexp.record import resume
from tests.faults import damage


@pytest.mark.rare
def test_no_damage_changes_a_number_in_silence():
    found = damage.campaign(number=6, seed=3)
    assert found["findings"] == [] and found["counts"]["same"] > 6


@pytest.mark.rare
def test_a_damaged_list_of_code_is_never_carried_on_in_silence():
    found = damage.campaign(number=8, seed=1, only="code.jsonl")
    assert found["findings"] == [] and found["counts"]["named"] > 1


@pytest.mark.rare
def test_a_lie_is_found(monkeypatch):
    """Without the checksums of rows, a lost line is compared, and gone on with."""
    monkeypatch.setattr(read, "run_damage", lambda *_: None)
    monkeypatch.setattr(resume, "matches", lambda *_, **__: True)
    monkeypatch.setattr(
        damage, "files_of", lambda folder: sorted(p.relative_to(folder) for p in folder.glob("*/m*.jsonl"))
    )
    monkeypatch.setattr(damage, "ANY", [damage.lose_line])
    found = damage.campaign(number=6, seed=0)
    assert any("silent" in text for finding in found["findings"] for text in finding.values())


def test_each_way_damages():
    content, chance = b'{"step": 0}\n{"step": 2}\n{"step": 4}\n', random.Random(0)
    for way in (*damage.ANY, *damage.OF_LINES):
        assert way(content, chance) != content
    assert damage.double_line(content, chance).count(b"\n") == 4 and damage.lose_line(content, chance).count(b"\n") == 2
