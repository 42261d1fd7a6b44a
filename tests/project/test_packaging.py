"""The configs are found from any folder, in a checkout and in a wheel, and the pins cover what is asked for."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # the wheel is built

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build a wheel and unpack it, which is what installing it does."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run_from_root(script: str, path: Path) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{script}"]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout


def test_the_wheel_holds_code_configs_and_plugin(installed):
    for file in (
        "rlexp/train.py",
        "rlexp/export/trl.yaml",
        "rlexp/analysis/compare.py",
        "rlexp/analysis/report/templates/report.html",
        "rlexp/analysis/report/templates/recompute_ablation.ipynb",
        "rlexp/analysis/report/templates/recompute_question.ipynb",
        "rlexp/analysis/report/templates/recompute_sweeps.ipynb",
        "rlexp/analysis/report/comparison.schema.json",
        "rlexp/analysis/report/better.schema.json",
        "rlexp/analysis/report/ledger.schema.json",
        "rlexp/analysis/report/noise.schema.json",
        "hydra_plugins/rlexp_launcher/fused.py",
        "rlexp/tour/rl_chapter.py",
    ):
        assert (installed / file).is_file()
    shipped = {path.relative_to(installed / "rlexp/conf") for path in (installed / "rlexp/conf").rglob("*.yaml")}
    assert shipped == {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")}
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"rlexp", "hydra_plugins"}
    assert not (installed / "hydra_plugins/__init__.py").exists() and not (installed / "rlexp/analysis.py").exists()
    entry_points = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "rlexp = rlexp.__main__:main" in entry_points


def test_the_numbers_of_the_documents_are_in_the_wheel(installed):
    script = "sys.argv = ['rlexp', 'worked', 'rl_chapter']\nfrom rlexp.__main__ import main\nmain()"
    assert "GAE with gamma 0.99 and lambda 0.95" in run_from_root(script, installed)


@pytest.mark.parametrize("place", ["wheel", "checkout"])
def test_the_configs_are_found_from_any_folder(installed, place):
    path, conf = (installed, installed / "rlexp/conf") if place == "wheel" else (ROOT, ROOT / "conf")
    script = "sys.argv = ['rlexp', '--cfg', 'hydra', '--package', 'hydra.launcher']\nimport rlexp.train\n"
    script += "from rlexp.config.compose import CONF, composed\n"
    script += "print(CONF, composed('study=c05_dynamic_sgd').study.name)\n"
    out = run_from_root(script + "rlexp.train.main()", path)
    assert out.splitlines()[0] == f"{conf} c05_dynamic_sgd"
    assert "_target_: hydra_plugins.rlexp_launcher.fused.FusedLauncher" in out


@pytest.mark.parametrize("kind", ["wheel", "checkout"])
def test_the_analysis_is_a_package_of_rlexp(installed, kind):
    place = installed if kind == "wheel" else ROOT  # an editable install leads to the checkout
    only = f"import site; place = sys.path.pop(0); sys.path.remove({str(ROOT)!r}); site.addsitedir(place)"
    script = "import rlexp.analysis.compare; print(rlexp.analysis.compare.__file__, rlexp.analysis.load.__module__)"
    out = run_from_root(f"{only}\n{script}", place)
    folder = installed / "rlexp/analysis" if kind == "wheel" else ROOT / "analysis"
    assert out.split() == [str(folder / "compare.py"), "rlexp.analysis.data.load"]


def test_every_dependency_is_pinned():
    pins = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE))
    asked = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    assert {re.match(r"[\w-]+", requirement)[0] for requirement in asked} <= pins.keys()
    assert "+" not in "".join(pins.values())


def test_make_lists_its_targets():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("install", "ablation", "test", "lint"):
        assert f"make {target} " in text


@pytest.fixture
def pythons(tmp_path):
    """Return a function that makes programs with the names of Pythons, and uv; it returns their folder."""

    def make(**minor_versions):
        folder = tmp_path / "bin"
        folder.mkdir()
        for tool in ("touch", "mkdir", "sh"):
            (folder / tool).symlink_to(shutil.which(tool))
        for name, minor in minor_versions.items():
            ends = f"[ {minor} -ge 11 ]; exit" if minor else "exit 127"  # as the shim of a version that is not chosen
            makes = f'for venv; do :; done; mkdir -p "$venv"; echo {name} > "$venv/by"'
            script = f'#!/bin/sh\ncase "$1" in -c) {ends};; *) {makes};; esac\n'
            (folder / name.replace("_", ".")).write_text(script)
            (folder / name.replace("_", ".")).chmod(0o755)
        return folder

    return make


def venv_made_by(path, venv, *arguments):
    """Run make with this PATH; return what it says, and which Python made the virtual environment."""
    target = f"{venv}/.made{''.join(arguments).removeprefix('PYTHON=')}"
    command = [shutil.which("make"), "-C", str(ROOT), target, f"VENV={venv}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(path)})
    return result.stderr, (venv / "by").read_text().strip() if result.returncode == 0 else None


def test_make_takes_the_newest_python_that_runs(pythons, tmp_path):
    path, venv = pythons(python3_13=None, python3_12=12, python3_11=11), tmp_path / "venv"
    assert venv_made_by(path, venv)[1] == "python3_12"
    assert venv_made_by(path, venv, "PYTHON=python3.11")[1] == "python3_11"
    assert venv_made_by(path, venv)[1] == "python3_11"  # which is kept


def test_make_says_what_is_missing_without_a_new_enough_python(pythons, tmp_path):
    path = pythons(python3_12=None, python3=10)
    said, made = venv_made_by(path, tmp_path / "venv")
    assert made is None and said.startswith("Python 3.11 or newer is needed, not what is here; ")
    said, made = venv_made_by(path, tmp_path / "venv", "PYTHON=python3")
    assert made is None and said.startswith("Python 3.11 or newer is needed, not python3; ")


def test_make_leaves_it_to_uv_to_fetch_a_python(pythons, tmp_path):
    said, made = venv_made_by(pythons(python3=10, uv=0), tmp_path / "venv")
    assert made == "uv" and "--python 3.13" in said
