"""docs/ask.md: the answer on it is that of the files beside it, which `rlexp ask dynamic_sampling` wrote."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "ask"
PAGE = (ROOT / "docs" / "ask.md").read_text(encoding="utf-8")
ANSWER = json.loads((STORED / "answer.json").read_text(encoding="utf-8"))


def test_what_is_quoted_was_printed():
    printed = (STORED / "printed.txt").read_text(encoding="utf-8").splitlines()
    (block,) = re.findall(r"```\n(What was asked.*?)```", PAGE, re.DOTALL)
    assert not [line for line in block.splitlines() if line not in printed]


@pytest.mark.parametrize("place", [0, 1])
def test_printed_effects_are_those_of_the_files(place):
    printed = (STORED / "printed.txt").read_text(encoding="utf-8")
    effects = pd.read_csv(STORED / "effects.csv").query("assertion == @place + 1")
    assert len(effects) == len(ANSWER["assertions"][place]["conditions"]) == 6
    for ratio in np.exp(effects["effect"]):
        assert f"×{ratio:.2f} [" in printed
    ends = [np.exp(ANSWER["assertions"][place][name]) for name in ("effect", "low", "high")]
    assert "×{:.2f} [{:.2f}, {:.2f}]".format(*ends) in printed


def test_effects_are_those_of_the_runs():
    """By hand: the log of the ratio of completions, paired by seed, at each arm's best rate.

    The luck of having chosen a rate is taken off an effect: here that is less than half of its standard error.
    """
    runs = pd.read_parquet(STORED / "runs.parquet")
    effects = pd.read_csv(STORED / "effects.csv").query("assertion == 2").set_index("condition")
    best = runs[runs["best"]].groupby("condition")
    assert len(best) == 6
    for condition, group in best:
        scores = np.log(group.pivot_table(index="seed", columns="arm", values="assertion_2"))
        found = (scores["filter=dynamic"] - scores["filter=none"]).mean()
        assert found == pytest.approx(effects["effect"][condition], abs=effects["error"][condition] / 2)


def test_the_question_is_the_one_that_is_in_conf():
    asked = json.loads((STORED / "question.json").read_text(encoding="utf-8"))["declared"]
    assert f"question: {asked['question']}" in (ROOT / "conf/study/questions/dynamic_sampling.yaml").read_text()
