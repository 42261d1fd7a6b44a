"""A new axis, in a copy of the project: a module, a row, a call, a folder of YAML. All else follows."""

import pytest
from project_copy import Copy
from small_runs import SHORT, SMALL

pytestmark = pytest.mark.slow
MODULE = '''"""What is done to advantages at last: ``finish(advantages) -> advantages``, ``[*R P G T]``.

A stands for the advantages.
"""

from rlexp.axes.offered import ADVANTAGES
from rlexp.core.types import PerToken, Positive


def none(advantages: PerToken) -> PerToken:
    """Leave A as it is."""
    return advantages


def scaled(advantages: PerToken, *, by: Positive) -> PerToken:
    """A · by."""
    return advantages * by


FUNCTIONS = {"none": none, "scaled": scaled}
INPUTS = ADVANTAGES
'''
OWN_ROW = '        Axis("finish", "the last word", "advantages", PER_TOKEN),\n'
ROW = '        Axis("norm", "rewards to advantages", "advantages", EITHER, facts=NormFacts),\n'
OWN_CALL = '    advantages = call_with(variant.finish, {"advantages": advantages})\n'
CALL = "    advantages = call_with(variant.teacher, offered"
LINE = "  - norm: local           # rewards to advantages\n"


@pytest.fixture
def copy(tmp_path) -> Copy:
    copy = Copy(tmp_path)
    copy.append("rlexp/axes/finish.py", MODULE)
    copy.replace("rlexp/axes/__init__.py", ROW, ROW + OWN_ROW)
    copy.replace("rlexp/loop/step.py", CALL, OWN_CALL + CALL)
    copy.replace("conf/config.yaml", LINE, f"{LINE}  - finish: none          # the last word\n")
    (copy.folder / "conf/finish").mkdir()
    copy.append("conf/finish/none.yaml", "name: none\n")
    copy.append("conf/finish/scaled.yaml", "# Larger steps.\nname: scaled\nby: 2.0\n")
    return copy


@pytest.mark.rare  # runs in processes of their own
def test_four_places_are_an_axis(copy, tmp_path):
    sweep = copy.run("rlexp.train", "-m", "finish=none,scaled", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0 and "scaled" in sweep.stdout, sweep.stderr
    plain, scaled = (next(tmp_path.glob(f"sweep/finish={each},*seed=0*")) for each in ("none", "scaled"))
    assert (plain / "metrics.jsonl").read_text() != (scaled / "metrics.jsonl").read_text()
    refused = copy.run("rlexp.train", "finish=scaled", "finish.by=-1")
    assert refused.returncode == 2 and "finish.by=-1: must be above 0" in refused.stderr
    assert "the last word" in copy.run("rlexp.train", "--help").stdout
    assert "A · by." in copy.run("rlexp", "explain", "finish").stdout
    assert "finish=scaled: has no counterpart" in copy.run("rlexp", "export", "finish=scaled", "to=trl").stdout
