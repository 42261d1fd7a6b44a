"""``rlexp.testing`` holds every task of ours to what a task is, and names what a wrong one breaks."""

from dataclasses import dataclass

import pytest
import torch
from task_choices import CHOICES, every_task

import rlexp.testing
from rlexp.core.types import PositiveInt
from rlexp.tasks import Scores
from rlexp.testing import examine_task


@every_task
def test_every_task_keeps_what_is_promised(name, task):
    assert [str(result) for result in examine_task(name, task) if result.problem] == []


@dataclass(frozen=True, kw_only=True)
class Echo:
    """Answer with the prompt's only symbol."""

    vocabulary: PositiveInt = 5
    cap: PositiveInt = 3

    pad = end = -1
    prompt_length = draws = 1
    reward_range = (0.0, 1.0)
    metric, floor = "eval/reward", 0.1

    @property
    def weights(self):
        return {"share": 1.0}

    def prompts(self, uniforms, held_out):
        return (uniforms * self.vocabulary).long().clamp(max=self.vocabulary - 1)

    def oracle(self, prompts):
        answers = prompts.expand(*prompts.shape[:2], self.cap)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens):
        return " ".join(map(str, tokens))

    def score(self, prompts, completions, mask, finished):
        share = (completions == prompts.unsqueeze(2)).float().mean(-1)
        return Scores({"share": share}, share == 1)


def test_a_small_task_of_ones_own_passes():
    assert rlexp.testing.check("task", Echo) == []
    assert rlexp.testing.check("task", Echo, vocabulary=9, cap=1) == []


def beside_others(self, prompts, completions, mask, finished):
    """Score each completion as its group."""
    found = Echo.score(self, prompts, completions, mask, finished)
    return found._replace(components={"share": found.components["share"].mean(-1, True).expand(found.correct.shape)})


WRONG = {
    "protocol": {"weights": {"share": 0.0}},
    "prompts": {"prompts": lambda self, uniforms, held_out: (uniforms * self.vocabulary).round().long()},
    "scores": {"score": beside_others},
    "behind the end": {"end": 1},  # it looks at all tokens
    "reward range": {"reward_range": (0.0, 0.5)},
    "oracle": {"oracle": lambda self, prompts: tuple(each.roll(1, 1) for each in Echo.oracle(self, prompts))},
    "environment": {"environment": lambda self, prompts, completions: completions},  # it repeats what is there
    "corpus": {"corpus": lambda self, prompts, _: (Echo.oracle(self, prompts)[0] + 5, Echo.oracle(self, prompts)[1])},
    "render": {"render": lambda self, tokens: "\n".join(map(str, tokens))},
}


@pytest.mark.parametrize("broken", WRONG)
def test_a_wrong_task_is_refused_for_what_it_breaks(broken):
    wrong = dataclass(frozen=True, kw_only=True)(type("Wrong", (Echo,), WRONG[broken]))
    with pytest.raises(AssertionError, match=f"task=Wrong: {broken}: "):
        rlexp.testing.check("task", wrong)


def test_each_property_has_a_wrong_task():
    assert {*rlexp.testing.tasks.PROPERTIES} == {*WRONG} and CHOICES
