"""A user's own package or module called analysis stands in nobody's way, and ours not in its."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_in(folder, program, *arguments):
    """Run a program where the current folder comes first on the path, as with ``python -m``."""
    program = f"import sys; sys.path[:0] = ['', {str(ROOT)!r}]; {program}"
    return subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_a_sweep_ends_with_its_table_and_page_all_the_same(tmp_path):
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/__init__.py").write_text("raise SystemExit('not for you')\n")
    arguments = ["-m", "norm=none,local", "seed=0,1", "steps=2", "eval.every=1", "eval.prompts=4", "logger=none"]
    done = run_in(tmp_path, "from rlexp import train; train.main()", *arguments, "hydra.sweep.dir=out")
    assert (done.returncode, "no comparison" in done.stderr) == (0, False), done.stderr
    assert "p (Holm)" in done.stdout and (tmp_path / "out/analysis/report.html").exists()


@pytest.mark.slow
def test_theirs_is_what_they_import_before_and_after_they_used_ours(tmp_path):
    (tmp_path / "analysis.py").write_text("whose = 'theirs'\n")
    program = "import analysis as first, rlexp.analysis.compare; import analysis; print(first.whose, analysis.whose)"
    names = "print(rlexp.analysis.load.__module__, *(name for name in sys.modules if name.startswith('analysis')))"
    done = run_in(tmp_path, f"{program}; {names}")
    assert done.stdout.split() == ["theirs", "theirs", "rlexp.analysis.data.load", "analysis"], done.stderr
