"""docs/symptoms.md: its numbers are those of the file, they show what the words say, and its commands are allowed."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.symptoms import CASES, PAGE, STORED, broken, ends, page
from rlexp.config.checks import contradictions
from rlexp.config.compose import compose

FOUND = json.loads(STORED.read_text(encoding="utf-8"))


def test_the_page_is_written_from_what_is_stored():
    assert PAGE.read_text(encoding="utf-8") == page(FOUND), "python -m benchmarks.symptoms --page"


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_show_what_the_words_say(name):
    assert not [*broken(name, FOUND[name])]
    metric, end, _, _ = CASES[name]["holds"][0]
    wrong = {**FOUND[name], metric: {**FOUND[name][metric], end: float("nan")}}
    assert len([*broken(name, wrong)]) == 1


@pytest.mark.parametrize("name", CASES)
def test_commands_and_advice_name_what_there_is(name):
    config = compose(*CASES[name]["overrides"].split())
    assert not [*contradictions(config)]
    for advice in re.findall(r"`((?:norm|agg|clip|data|anchor|mismatch|sampler|filter)=\w+)`", CASES[name]["text"]):
        compose(advice)


def test_the_ends_of_a_curve():
    assert ends([3.0, 1.0, 2.0]) == {"first": 3.0, "last": 2.0, "smallest": 1.0, "largest": 3.0}
