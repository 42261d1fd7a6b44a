"""docs/asked.md is what ``python -m benchmarks.asked`` writes of the kept answers to questions that are shipped."""

import re

import pandas as pd
import pytest

from benchmarks.asked import ASKED, PAGE, page, stored
from benchmarks.cards.asked import Asked
from benchmarks.cards.declared import declared_now
from benchmarks.stored.folders import carded

NAMES = sorted(place.name for place in ASKED.iterdir() if place.is_dir())


def test_the_page_is_written_from_what_is_kept():
    assert {*NAMES} - {*carded(ASKED.parent)} <= {*stored()} <= {*NAMES}
    assert PAGE.read_text(encoding="utf-8") == page(stored())


@pytest.mark.parametrize("name", NAMES)
def test_the_question_is_the_one_that_is_shipped(name):
    one = Asked(name, ASKED / name)
    asked, shipped = one.declared, declared_now(one)
    same = ("question", "source", "assertions", "seeds", "checks", "secondary")
    assert {key: asked[key] for key in same} == {key: shipped[key] for key in same}
    names = [each["name"] for each in asked["conditions"]]
    assert names == [each["name"] for each in shipped["conditions"]]
    runs = pd.read_parquet(ASKED / name / "runs.parquet")
    count = len(asked["seeds"]) * len(asked.get("starts") or [0])
    counts = runs.groupby("condition").seed.nunique()
    effects = pd.read_csv(ASKED / name / "effects.csv")
    empty = set(effects["condition"]) - set(counts.index)  # no run has the question's number
    assert {*counts.index} | empty == {*names} and effects[effects["condition"].isin(empty)]["n"].eq(0).all()
    assert counts.between(count, asked["most_seeds"] or count).all()


@pytest.mark.parametrize("name", sorted(stored()))
def test_numbers_of_a_remark_were_printed(name):
    found = stored()[name]
    quoted = re.findall(
        r"[+−]\d[\d.]*(?:\s\w+)? \[[^\]]*\]|×\d[\d.]* \[[^\]]*\]", " ".join(found["remark"]["text"].split())
    )
    said = re.sub(r" points", "", found["said"])
    assert not [each for each in quoted if each.replace(" points", "") not in said]
