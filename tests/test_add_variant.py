"""What README says about adding a variant, done in a copy of the project: a function, a YAML, and its reference."""

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
REFERENCE = """

def norm_signs(rewards, keep, *, scale):
    return scale * np.sign(norm_center(rewards, keep))


FUNCTIONS["signs"] = norm_signs
"""


@pytest.fixture
def copied(tmp_path):
    """Return what runs a module in a copy of the project, to which a variant was added."""
    for part in ("rlexp", "analysis", "hydra_plugins", "conf", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "rlexp/norm.py").open("a", encoding="utf-8") as file:
        file.write(FUNCTION)
    (tmp_path / "conf/norm/signs.yaml").write_text("# Only the side of the mean.\nname: signs\nscale: 0.5\n")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def test_a_function_and_a_yaml_are_a_variant(copied, tmp_path):
    page = copied("rlexp.catalogue").stdout
    assert "`norm=signs`: `scale` 0.5" in page and "only the side of the mean counts" in page
    sweep = copied("rlexp.train", "-m", "norm=local,signs", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0 and "signs" in sweep.stdout, sweep.stderr
    assert len(list(tmp_path.glob("sweep/norm=signs,*/summary.json"))) == 2


def test_a_variant_without_a_reference_fails_until_it_has_one(copied, tmp_path):
    """The tests of the axes find it by its YAML; none of them was told."""
    tests = ["pytest", "-q", "-p", "no:cacheprovider", "tests/test_axes_reference.py", "-k", "value_equals and signs"]
    without = copied(*tests)
    assert without.returncode == 1 and "1 failed" in without.stdout, without.stdout
    assert "norm=signs: write norm_signs in tests/reference.py from its source" in without.stdout
    with (tmp_path / "tests/reference_norm.py").open("a", encoding="utf-8") as file:
        file.write(REFERENCE)
    given = copied(*tests)
    assert given.returncode == 0 and "1 passed" in given.stdout, given.stdout
