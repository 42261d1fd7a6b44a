"""Notebooks run from top to bottom, and what is printed in them is what comes out."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.rare  # trains forty runs in a process of its own

ROOT = Path(__file__).parents[2]
NOTEBOOK, FIRST = ROOT / "examples/sweep.ipynb", ROOT / "examples/first_ablation.ipynb"
nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")


def kinds(cell):
    """What the outputs of a cell are, the lines of progress aside."""
    return [sorted(output.data) for output in cell.get("outputs", []) if output.output_type == "execute_result"]


def test_the_notebook_runs_and_shows_what_is_printed_in_it(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    printed, executed = (nbformat.read(NOTEBOOK, as_version=4) for _ in range(2))
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(executed, timeout=600, kernel_name="python3", resources=place).execute()
    assert [kinds(cell) for cell in executed.cells] == [kinds(cell) for cell in printed.cells]
    (found,) = (cell for cell in executed.cells if cell.source.startswith("report = compare"))
    rows = [line.split() for line in found.outputs[0].data["text/plain"].splitlines()[2:]]
    difference = {row[0]: float(row[3]) for row in rows}
    assert difference["none"] == 0 and all(0.4 < difference[norm] < 1 for norm in ("center", "local"))
    assert os.listdir(tmp_path / "runs") == ["notebook"]


def test_the_first_notebook_installs_a_wheel_and_runs(tmp_path, monkeypatch):
    """In an environment of its own, which finds the packages of this one and gets the wheel by the first cell."""
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    shutil.copy(FIRST, tmp_path)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    (site / "packages.pth").write_text("\n".join(each for each in sys.path if each.endswith("site-packages")))
    script = "from nbclient.cli import main; main()"
    run = [str(python), "-c", script, "--inplace", "--timeout=900", FIRST.name]
    monkeypatch.delenv("PYTHONPATH", raising=False)
    ran = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    executed, printed = nbformat.read(tmp_path / FIRST.name, as_version=4), nbformat.read(FIRST, as_version=4)
    assert [kinds(cell) for cell in executed.cells] == [kinds(cell) for cell in printed.cells]
    assert {each.name for each in (tmp_path / "runs").iterdir()} == {"first", "own"}


@pytest.mark.parametrize("notebook", [NOTEBOOK, FIRST])
def test_the_notebook_names_no_machine(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert not [word for word in ("/home", "/tmp", "/root", "/Users", "Traceback") if word in text]
