"""docs/prompts.md says what ``rlexp ask prompt_sampling`` printed, of the question that the project ships."""

import json
import re
from pathlib import Path

import pandas as pd

from rlexp.question.declare import declare
from rlexp.question.spec import read_question

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "prompts.md").read_text(encoding="utf-8")
PRINTED = " ".join((DOCS / "prompts" / "printed.txt").read_text(encoding="utf-8").split())


def test_the_answers_are_those_that_were_printed():
    said = re.findall(r"^\d\. (.*\n.*)\.$", PAGE, re.MULTILINE)
    assert len(said) == 2 and all(" ".join(each.split()) in PRINTED for each in said)


def test_the_table_has_the_conditions_that_were_judged():
    cells = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    effects = re.findall(r"([+−][\d.]+) points (\[[^]]*\]) at \.\d+(?! dropped)", PRINTED)
    printed = {" ".join(each) for each in effects}
    assert len(cells) == 3 and all(cell in printed for row in cells for cell in row[1:])


def test_the_question_is_the_one_that_is_shipped():
    asked = json.loads((DOCS / "prompts" / "question.json").read_text(encoding="utf-8"))["declared"]
    shipped = json.loads(json.dumps(declare(read_question("prompt_sampling")).declared))
    assert {key: asked[key] for key in ("question", "source", "assertions")} == {
        key: shipped[key] for key in ("question", "source", "assertions")
    }
    assert len(pd.read_parquet(DOCS / "prompts" / "runs.parquet")) >= 288
