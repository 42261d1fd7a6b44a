"""docs/prompts.md and docs/teachers.md say what ``rlexp ask`` printed, of questions that the project ships."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from rlexp.question.declare import declare
from rlexp.question.spec import read_question

DOCS = Path(__file__).parents[2] / "docs"
QUESTIONS = {"prompts": "prompt_sampling", "teachers": "self_distillation"}


@pytest.fixture(params=QUESTIONS)
def page(request):
    return request.param


def printed(page):
    return " ".join((DOCS / page / "printed.txt").read_text(encoding="utf-8").split())


def test_the_answers_are_those_that_were_printed(page):
    said = re.findall(r"^\d\. (.*\n.*)\.$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(said) == 2 and all(" ".join(each.split()) in printed(page) for each in said)


def test_the_table_has_the_conditions_that_were_judged(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| \.?\d", line)]
    effects = re.findall(r"([+−][\d.]+) points (\[[^]]*\]) at \.\d+(?! dropped)", printed(page))
    known = {" ".join(each) for each in effects}
    assert len(cells) >= 3 and all(cell in known for row in cells for cell in row[1:])


def test_numbers_beside_the_table_were_printed():
    for number in ("×0.73 [0.66, 0.81] at 19.5", "−5.4 points [−11.8, −1.2]", "×1.88 [1.57, 2.24]"):
        assert number in printed("teachers")


def test_what_each_arm_adds_to_its_start_is_in_the_curves():
    """Distillation 1 to 7 points, rewards 10 to 22, at the best rate of each arm and condition."""
    runs, curves = (pd.read_parquet(DOCS / "teachers" / f"{name}.parquet") for name in ("runs", "curves"))
    joined = runs[runs.best.astype(bool)].merge(curves, on=["folder", "seed"])
    means = joined.groupby(["arm", "condition", "step"])["eval/sampled_accuracy"].mean().unstack()
    gains = 100 * (means[60] - means[0])
    rewards = gains["distillation=none"]
    others = gains.drop("distillation=none")
    assert (round(rewards.min()), round(rewards.max()), round(others.min()), round(others.max())) == (10, 22, 1, 7)
    first = (means[20] - means[0]).drop("distillation=none")
    assert (first > 0.5 * others / 100).mean() > 0.5  # half of it in the first third of the steps


def test_the_question_is_the_one_that_is_shipped(page):
    asked = json.loads((DOCS / page / "question.json").read_text(encoding="utf-8"))["declared"]
    shipped = json.loads(json.dumps(declare(read_question(QUESTIONS[page])).declared))
    assert {key: asked[key] for key in ("question", "source", "assertions")} == {
        key: shipped[key] for key in ("question", "source", "assertions")
    }
    assert len(pd.read_parquet(DOCS / page / "runs.parquet")) >= 288
