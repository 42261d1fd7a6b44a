"""The configs are found from any folder, in a checkout and in a wheel, and the pins cover what is asked for."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
        "analysis/compare.py",
        "analysis/templates/report.html",
        "hydra_plugins/rlexp_launcher/fused.py",
    ):
        assert (installed / file).is_file()
    shipped = {path.relative_to(installed / "rlexp/conf") for path in (installed / "rlexp/conf").rglob("*.yaml")}
    assert shipped == {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")}
    assert not (installed / "tests").exists() and not (installed / "hydra_plugins/__init__.py").exists()
    entry_points = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "rlexp = rlexp.train:main" in entry_points


@pytest.mark.parametrize("place", ["wheel", "checkout"])
def test_the_configs_are_found_from_any_folder(installed, place):
    path, conf = (installed, installed / "rlexp/conf") if place == "wheel" else (ROOT, ROOT / "conf")
    script = "sys.argv = ['rlexp', '--cfg', 'hydra', '--package', 'hydra.launcher']\nimport rlexp.train\n"
    out = run_from_root(script + "print(rlexp.compose.CONF)\nrlexp.train.main()", path)
    assert out.splitlines()[0] == str(conf)
    assert "_target_: hydra_plugins.rlexp_launcher.fused.FusedLauncher" in out


def test_every_dependency_is_pinned():
    pins = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE))
    asked = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    assert {re.match(r"[\w-]+", requirement)[0] for requirement in asked} <= pins.keys()
    assert "+" not in "".join(pins.values())


def test_make_lists_its_targets():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("install", "ablation", "test", "lint"):
        assert f"make {target} " in text


def test_make_says_what_is_missing_without_the_right_python(tmp_path):
    command = ["make", "-C", str(ROOT), "install", f"VENV={tmp_path}/venv", "PYTHON=/bin/false"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0 and "Python 3.11 is needed" in result.stderr
