"""A user's own package or module called analysis stands in nobody's way, and ours not in its."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlexp.launch import own_analysis as room
from rlexp.launch.own_analysis import own_analysis

ROOT = Path(__file__).parents[2]


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A module `analysis` in front of the path, in a process that has imported none so far."""
    (tmp_path / "analysis.py").write_text("whose = 'theirs'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(room, "_ours", {})
    before = room.take_modules()
    yield
    room.take_modules()
    sys.modules.update(before)


def test_inside_it_is_ours_and_outside_theirs(theirs):
    for _ in range(2):
        with own_analysis():
            import analysis
            from analysis.data.errors import AnalysisError

            with own_analysis():
                from analysis.data.variants import resolve_variant
            with pytest.raises(AnalysisError):
                resolve_variant("x", {"y": "y"})
            assert Path(analysis.__file__).parent == ROOT / "analysis"
        import analysis

        assert analysis.whose == "theirs" and "analysis.data" not in sys.modules


def test_what_they_have_imported_before_stays(theirs):
    import analysis as before

    sub = sys.modules["analysis.sub"] = ModuleType("analysis.sub")
    with pytest.raises(KeyError), own_analysis():
        assert "analysis.sub" not in sys.modules
        raise KeyError
    assert sys.modules["analysis"] is before and sys.modules["analysis.sub"] is sub


def test_where_the_name_is_ours_nothing_is_moved():
    import analysis

    with own_analysis():
        assert sys.modules["analysis"] is analysis
    assert sys.modules["analysis"] is analysis


@pytest.mark.slow
def test_a_sweep_ends_with_its_table_and_page_all_the_same(tmp_path):
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/__init__.py").write_text("raise SystemExit('not for you')\n")
    program = f"import sys; sys.path[:0] = ['', {str(ROOT)!r}]; from rlexp import train; train.main()"
    arguments = ["-m", "norm=none,local", "seed=0,1", "steps=2", "eval.every=1", "eval.prompts=4", "logger=none"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "hydra.sweep.dir=out"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, "no comparison" in done.stderr) == (0, False), done.stderr
    assert "p (Holm)" in done.stdout and (tmp_path / "out/analysis/report.html").exists()
