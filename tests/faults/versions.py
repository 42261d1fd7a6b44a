"""The quick suite on every Python, and on the lowest and highest allowed version of what this project stands on.

python -m tests.faults.versions --pythons python3.11,python3.12,python3.13 --tests tests

Each has a virtual environment of its own below a temporary folder (or ``--under``), made with pip and a torch without
CUDA. The lowest versions are those of pyproject.toml, the highest what pip finds below its bounds today: all lowest
together, all highest together, and with ``--apart 1`` each package alone beside the pinned others, to find the culprit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from tests.faults.common import ROOT, options, store

TORCH = "https://download.pytorch.org/whl/cpu"
VARIED = ("hydra-core", "omegaconf", "torch", "pandas", "wandb", "pydantic")
# What an old release cannot do without, and what goes with another.
BESIDE = {"torch": ["numpy<2.4"], "pandas": ["numpy<2.3"]}
GOES_WITH = {
    "pydantic": {"pydantic-core"},
    "torch": {"triton", "numpy", "sympy"},
    "pandas": {"numpy"},
    "hydra-core": {"omegaconf", "antlr4-python3-runtime"},
    "omegaconf": {"antlr4-python3-runtime"},
}


class Place(NamedTuple):
    """An environment: its name, its Python, and what differs from constraints.txt."""

    name: str
    python: str
    wanted: tuple[str, ...] = ()


def bounds() -> dict[str, str]:
    """The requirement of each varied package, as `>=1.3.2,<1.5`."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pairs = [re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in lines]
    return {name: bound for name, bound in pairs if name in VARIED}


def places(pythons: list[str], apart: bool) -> Iterator[Place]:
    """The pinned versions on every Python, then on the first one all at their lowest, all at their highest."""
    yield from (Place(python, python) for python in pythons)
    lowest = {name: bound.split(",")[0].replace(">=", "==") for name, bound in bounds().items()}
    for end, wanted in (("lowest", lowest), ("highest", bounds())):
        each = {
            name: (f"{name}{bound}", *(BESIDE.get(name, ()) if end == "lowest" else ()))
            for name, bound in wanted.items()
        }
        yield Place(f"all {end}", pythons[0], tuple(chain(*each.values())))
        if apart:
            yield from (Place(f"{name} {end}", pythons[0], several) for name, several in each.items())


def constraints(place: Place, folder: Path) -> Path:
    """Write constraints.txt without what this place wants otherwise, and without what depends on that."""
    named = {re.match(r"[\w-]+", wanted)[0] for wanted in place.wanted}
    free = named.union(*(GOES_WITH.get(name, set()) for name in named))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line and re.match(r"[\w-]*", line)[0] not in free]
    path = folder / "constraints.txt"
    path.write_text("\n".join([*kept, *place.wanted]) + "\n", encoding="utf-8")
    return path


@cache
def torch_index() -> list[str]:
    """Where torch without CUDA comes from, if that answers: pip would wait for it for a quarter of an hour."""
    try:
        with urlopen(Request(f"{TORCH}/torch/", headers={"User-Agent": "pip"}), timeout=10):
            return ["--extra-index-url", TORCH]
    except OSError:
        print(f"{TORCH} does not answer: torch comes from pip's own index", file=sys.stderr)
        return []


def run(place: Place, folder: Path, tests: list[str]) -> dict[str, object]:
    """Make an environment, run the tests in it; how that ended, with the last line that was said."""
    started = time.perf_counter()
    folder.mkdir(parents=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *torch_index()]
    wanted = ["--constraint", str(constraints(place, folder)), *place.wanted, f"{ROOT}[test]"]
    steps = {
        "venv": ([place.python, "-m", "venv", str(folder / "venv")], folder),
        "install": ([*pip, *wanted], folder),
        "tests": ([str(python), "-m", "pytest", "-q", "-m", "not slow", "-n", "2", *tests], ROOT),
    }
    for name, (command, cwd) in steps.items():
        try:
            done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
        except OSError as error:
            return {"ended": name, "exit_code": 127, "said": str(error), "seconds": 0}
        if done.returncode:
            break
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    seconds = round(time.perf_counter() - started)
    return {"ended": name, "exit_code": done.returncode, "said": said[-1][:300] if said else "", "seconds": seconds}


def main() -> int:
    """Print a line for each environment; 1 if the tests of any fail or it cannot be made."""
    chosen = options(__doc__, pythons="python3.11,python3.12,python3.13", tests="tests", only="", under="", apart=0)
    under, found = Path(tempfile.mkdtemp(dir=chosen.under or None)), {}
    for number, place in enumerate(places(chosen.pythons.split(","), bool(chosen.apart))):
        if chosen.only not in place.name:
            continue
        result = found[place.name] = run(place, under / str(number), chosen.tests.split(","))
        shutil.rmtree(under / str(number), ignore_errors=True)  # a gigabyte each
        verdict = "ok" if result["exit_code"] == 0 else f"{result['ended']} failed"
        print(f"{place.name:22} {result['seconds']:6} s  {verdict}: {result['said']}", flush=True)
    shutil.rmtree(under, ignore_errors=True)
    wrong = sum(result["exit_code"] != 0 for result in found.values())
    print(f"{len(found)} environments, {wrong} findings")
    store("versions", {"environments": found, "findings": wrong}, chosen.results)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
