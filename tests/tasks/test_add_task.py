"""What docs/architecture.md says about adding a task, done in a copy of the project: a class, its entry, a YAML."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import SHORT, SMALL, rows

ROOT = Path(__file__).resolve().parents[2]
TASK = '''"""Answer with the prompt's only symbol, over and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from rlexp.core.types import NonNegative, PositiveInt
from rlexp.tasks.task import Scores


@dataclass(frozen=True, kw_only=True)
class Echo:
    """Component ``share``: share of the ``cap`` tokens that are the prompt's."""

    vocabulary: Annotated[int, Ge(2)]
    cap: PositiveInt
    weights: dict[str, NonNegative]
    metric: str
    floor: float

    pad, end = -1, -1
    prompt_length = draws = 1
    reward_range = (0.0, 1.0)

    def prompts(self, uniforms: Tensor, held_out: bool) -> Tensor:
        """``[R, P, 1] -> [R, P, 1]``."""
        return (uniforms * self.vocabulary).long()

    def oracle(self, prompts: Tensor) -> tuple[Tensor, Tensor]:
        """Answer right: tokens and mask ``[R, P, T]``."""
        answers = prompts.expand(*prompts.shape[:2], self.cap)
        return answers, torch.ones_like(answers, dtype=torch.bool)

    def render(self, tokens: Sequence[int]) -> str:
        """`[3, 3]` → `"3 3"`."""
        return " ".join(map(str, tokens))

    def score(self, prompts: Tensor, completions: Tensor, mask: Tensor, finished: Tensor) -> Scores:
        """Judge completions ``[R, P, G, T]``."""
        share = (completions == prompts.unsqueeze(2)).float().mean(-1)
        return Scores({"share": share}, share == 1)
'''
YAML = """# Answer with the prompt's only symbol.
name: echo
vocabulary: 5
cap: 3
weights: {share: 1.0}
metric: eval/reward
floor: 0.1
"""


@pytest.fixture
def copied(tmp_path):
    """Return what runs a module in a copy of the project to which the task was added."""
    for part in ("rlexp", "analysis", "hydra_plugins", "conf"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rlexp/tasks/echo.py").write_text(TASK, encoding="utf-8")
    (tmp_path / "conf/task/echo.yaml").write_text(YAML, encoding="utf-8")
    register = tmp_path / "rlexp/tasks/__init__.py"
    text = register.read_text(encoding="utf-8")
    text = text.replace("TASKS = {", 'from rlexp.tasks.echo import Echo\n\nTASKS = {\n    "echo": Echo,\n   ')
    register.write_text(text, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.rare
def test_a_class_an_entry_and_a_yaml_are_a_task(copied, tmp_path):
    """It learns in every model's loop, with a start, and has the same bits alone and in a batch."""
    common = ["task=echo", *SHORT, *SMALL, "steps=3", "start=sft", "start.accuracy=0.05"]
    sweep = copied("rlexp.train", "-m", "norm=local,global", "seed=0,1", *common, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0, sweep.stderr
    alone = copied("rlexp.train", "norm=global", "seed=1", *common, "hydra.run.dir=alone")
    assert alone.returncode == 0, alone.stderr
    (together,) = tmp_path.glob("sweep/norm=global,*seed=1")
    assert rows(tmp_path / "alone") == rows(together)
    assert json.loads((together / "samples.jsonl").read_text().splitlines()[0])["completion"].count(" ") == 2


@pytest.mark.rare
def test_its_hyperparameters_are_checked(copied):
    wrong = copied("rlexp.train", "task=echo", "task.vocabulary=1", *SHORT)
    assert wrong.returncode == 2 and wrong.stderr == "task.vocabulary=1: must be at least 2\n"
