"""What README says about adding a variant, done: a function and a YAML in a copy of the package, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import SHORT, SMALL

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = '''

def signs(rewards: PerCompletion, keep: CompletionMask, *, scale: Positive) -> PerCompletion:
    """A = scale · sign(r − mean_group): only the side of the mean counts.

    Source: a test.
    """
    return scale * centred(rewards, keep, GROUP).sign()


FUNCTIONS["signs"] = signs
'''


@pytest.fixture
def copied(tmp_path):
    """Return what runs a module of a copy of the project, to which a variant was added."""
    for part in ("rlexp", "analysis", "hydra_plugins", "conf"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "rlexp/norm.py").open("a", encoding="utf-8") as file:
        file.write(FUNCTION)
    (tmp_path / "conf/norm/signs.yaml").write_text("# Only the side of the mean.\nname: signs\nscale: 0.5\n")

    def run(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_function_and_a_yaml_are_a_variant(copied, tmp_path):
    page = copied("rlexp.catalogue")
    assert "`norm=signs`: `scale` 0.5" in page and "only the side of the mean counts" in page
    table = copied("rlexp.train", "-m", "norm=local,signs", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep")
    assert "signs" in table
    assert len(list(tmp_path.glob("sweep/norm=signs,*/summary.json"))) == 2
