"""examples/plugin as its README says: built as a wheel, installed beside rlexp's in a new environment, and used."""

import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from small_runs import SHORT, SMALL

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return what runs `python -m …` in a new environment with both wheels, in a folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    for source in (ROOT, PLUGIN):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv"), "platbase": str(folder / "venv")}))
    for wheel in (folder / "wheels").glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)  # which is what installing it does
    others = [place for place in sys.path if place.endswith("site-packages")]  # torch and the rest, nothing editable
    (site / "others.pth").write_text("\n".join(others) + "\n")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([python, "-m", *arguments], cwd=folder, capture_output=True, text=True)

    run.folder = folder
    return run


@pytest.mark.rare  # a guide
def test_the_choices_of_an_installed_plugin_are_explained_and_checked(installed):
    said = installed("rlexp", "explain", "norm=mad", "norm")
    assert said.returncode == 0 and "norm.eps=1e-06" in said.stdout and "mad_shrunk" in said.stdout, said.stderr
    checked = installed("rlexp", "check", "rlexp_mad")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    own = installed("pytest", "-q", "-p", "no:cacheprovider", str(PLUGIN / "tests"))
    assert own.returncode == 0, own.stdout


def sweep(installed, name: str, *options: str) -> None:
    """Train a sweep with the plugin's choices; assert that it is compared, and that provenance names the plugin."""
    arguments = ["-m", "norm=local,mad,mad_shrunk", "seed=0,1", *SHORT, *SMALL, f"hydra.sweep.dir={name}", *options]
    done = installed("rlexp", *arguments)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^mad_shrunk ", done.stdout, re.MULTILINE)
    (run,) = (installed.folder / name).glob("*norm=mad,*seed=1*")
    (line,) = json.loads((run / "code.jsonl").read_text().splitlines()[0])["plugins"]
    assert re.fullmatch(r"norm=mad: rlexp-mad 0\.1\.0, files [0-9a-f]{16}", line)


@pytest.mark.rare  # a guide; functions of a notebook are swept in two processes, too
def test_they_are_swept_in_two_processes(installed):
    sweep(installed, "processes", "hydra.launcher.workers=2")


@pytest.mark.ray
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
def test_they_are_swept_by_ray(installed):
    sweep(installed, "ray", "hydra/launcher=ray", "hydra.launcher.workers=2")
