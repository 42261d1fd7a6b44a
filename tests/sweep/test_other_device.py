"""Every choice trains on a device that is not the CPU: no tensor is forgotten there.

On one that computes as the CPU each run has the CPU's numbers. On a GPU it comes to its end.
"""

from __future__ import annotations

import pytest
from elsewhere import in_python, said
from small_runs import ABSENT, BESIDE, TAUGHT

from rlexp.config.choices import choices_of, groups

LEFT_OUT = {"study", "logger", "backend", "preset"}  # a preset is choices of the others
COMMON = ["start=sft start.accuracy=0.01 start.every=1", "model=llama_10k", "shaping=noise", "filter=top_entropy"]

pytestmark = pytest.mark.slow  # whole runs
LONG = ["task", "model", "start", "data", "reward"]  # few of their choices fit in one batch
OTHERS = [group for group in groups() if group not in {*LEFT_OUT, *LONG}]
every_group = pytest.mark.parametrize("chosen", [*([group] for group in LONG), OTHERS], ids=[*LONG, "others"])


def lines_of(chosen: list[str]) -> list[str]:
    """The overrides of a run of each choice."""
    choices = [f"{group}={choice}" for group in chosen for choice in choices_of(group)]
    return [" ".join([choice, *BESIDE.get(choice, [])]) for choice in choices if choice not in ABSENT | TAUGHT]


@pytest.mark.rare  # all choices
@in_python
def test_runs_on_another_device_have_the_numbers_of_the_cpu(tmp_path):
    assert said(tmp_path, "elsewhere", COMMON) == ""


@in_python
@pytest.mark.rare
@every_group
def test_every_choice_trains_on_another_device(tmp_path, chosen):
    assert said(tmp_path, "elsewhere", lines_of(chosen)) == ""


@pytest.mark.cuda
def test_runs_on_cuda_come_to_their_end(tmp_path):
    assert said(tmp_path, "cuda", COMMON) == ""


@pytest.mark.cuda
@pytest.mark.rare
@every_group
def test_every_choice_trains_on_cuda(tmp_path, chosen):
    assert said(tmp_path, "cuda", lines_of(chosen)) == ""
