"""The pages about extending: the program of each is saved as own.py, and its command trains."""

import re
import subprocess
import sys

import pytest
from small_runs import SHORT, SMALL

from benchmarks.parts.common import ROOT, environment_here

pytestmark = pytest.mark.slow
PAGES = {"extend": "norm=local,mad", "extend_loss": "clip=symmetric,bounded"}
PAGES |= {"extend_task": "task=echo norm=local,global", "extend_model": "model=gru,flat_gru"}


@pytest.mark.parametrize("name", ["extend", *(pytest.param(name, marks=pytest.mark.rare) for name in [*PAGES][1:])])
def test_the_program_of_a_page_trains_by_the_command_that_it_names(tmp_path, name):
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    typed = re.search(r"`python own\.py -m ([^`]+)`", page)[1]
    assert typed.startswith(PAGES[name])
    (tmp_path / "own.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    command = [sys.executable, "own.py", "-m", *typed.split(), "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=runs/own"]
    done = subprocess.run(command, cwd=tmp_path, env=environment_here(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = typed.split(" inner")[0].split("=")[-1].split(",")[-1]
    assert re.search(rf"^{last} +2 ", done.stdout, re.MULTILINE), done.stdout
