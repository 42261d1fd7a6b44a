"""The same run where something around it is missing or wrong: the same bits, exit code 0, and nothing to wade through.

python -m tests.faults.surroundings

Language, home, terminal, another user, a clock that goes backwards, `.hydra/` that cannot be written, locks that fail
and come back, and a server of Weights & Biases that is absent, slow, silent, or lost half-way (a stand-in on this
machine).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.common import ROOT, options, store
from tests.faults.parts.wandb_servers import Answer, lost, server, silent, slow

SWEEP = ["-m", "norm=local,global", "seed=0,1", "steps=6", "log_every=1", "eval.every=3", "eval.prompts=6"]
SWEEP += ["eval.samples=2", "eval.ks=[1,2]", "hydra.sweep.dir=sweep"]
MOST_SECONDS = 240
NOISE = re.compile(r"Traceback|Warning:|fontManager|Matplotlib|Exception ignored|Errno", re.IGNORECASE)
NOBODY = 65534
BACKWARDS = """
import time, itertools
_time, _count = time.time, itertools.count()
time.time = lambda: _time() - 3600.0 * next(_count)  # every look an hour earlier
"""

NO_LOCKS = """
import errno, fcntl, os
def flock(*_):
    raise OSError(errno.{error}, os.strerror(errno.{error}))
fcntl.flock = flock
"""
LOCK_ERRORS = ("EBADF", "EINVAL", "EIO", "EACCES", "ESTALE")


def environment(**changes: str | None) -> dict[str, str]:
    """The variables of a process; None takes one away."""
    found = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "offline"}
    found = {key: value for key, value in found.items() if key not in ("WANDB_SERVICE", "WANDB_API_KEY")}
    kept = found | {key: value for key, value in changes.items() if value is not None}
    return {key: value for key, value in kept.items() if key not in [k for k, v in changes.items() if v is None]}


def sweep(folder: Path, variables: dict[str, str], *overrides: str, **process: Any) -> dict[str, Any]:
    """Train the sweep in a folder: its exit code, seconds, what it said, and the rows of its runs without times."""
    folder.mkdir(parents=True, exist_ok=True)
    command, started = [sys.executable, "-m", "rlexp.train", *SWEEP, *overrides], time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, timeout=MOST_SECONDS, stdin=subprocess.DEVNULL,
            **process,
        )  # fmt: skip
        code, said = done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, said = -1, f"no end after {MOST_SECONDS} s"
    seconds = round(time.perf_counter() - started, 1)
    return {"exit_code": code, "seconds": seconds, "said": said, "rows": rows(folder / "sweep")}


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each run, without what no two runs share."""
    found = {}
    for path in sorted(folder.glob("*/metrics.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found[path.parent.name] = [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]
    return found


def language(folder: Path) -> dict[str, Any]:
    """LANG=C, and Python told not to help itself to UTF-8."""
    plain = environment(LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING=None)
    return sweep(folder, plain, "logger=none")


def no_home(folder: Path) -> dict[str, Any]:
    """No HOME, and no TERM."""
    return sweep(folder, environment(HOME=None, TERM=None, XDG_CACHE_HOME=None, XDG_CONFIG_HOME=None))


def no_such_home(folder: Path) -> dict[str, Any]:
    """A HOME that cannot be made."""
    return sweep(
        folder, environment(HOME="/proc/nowhere", XDG_CACHE_HOME=None, XDG_CONFIG_HOME=None, MPLCONFIGDIR=None)
    )


def no_terminal(folder: Path) -> dict[str, Any]:
    """TERM=dumb, narrow, no colours."""
    return sweep(folder, environment(TERM="dumb", COLUMNS="20", NO_COLOR="1"), "logger=none")


def another_user(folder: Path) -> dict[str, Any]:
    """A user who owns the folder and nothing else, without a home (only root can try that)."""
    folder.mkdir(parents=True)
    for path in (folder.parent, folder):
        path.chmod(0o755)
    shutil.chown(folder, NOBODY, NOBODY)
    variables = environment(HOME="/nonexistent", XDG_CACHE_HOME=None, XDG_CONFIG_HOME=None)
    return sweep(folder, variables | {"PYTHONDONTWRITEBYTECODE": "1"}, "logger=none", user=NOBODY, group=NOBODY)


def clock(folder: Path) -> dict[str, Any]:
    """Every look at the clock an hour earlier than the one before: by libfaketime's place in Python, its own clock."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(BACKWARDS)
    return sweep(folder, environment() | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}, "logger=none")


def without_hydra_files(folder: Path) -> dict[str, Any]:
    """A loop of links, a folder, a file where `.hydra/` of a run is to be, or a file in it."""
    runs = sweep(folder, environment(), "logger=none")["rows"]  # for the names of their folders
    shutil.rmtree(folder / "sweep")
    places = [folder / "sweep" / run / ".hydra" for run in runs]
    for place in places:
        place.parent.mkdir(parents=True)
    places[0].symlink_to(".hydra")
    places[1].touch()
    (places[2] / "config.yaml").mkdir(parents=True)
    places[3].mkdir()
    (places[3] / "hydra.yaml").symlink_to("hydra.yaml")
    found = sweep(folder, environment(), "logger=none")
    named = [place for place in places[:3] if str(place) not in found["said"]]
    return found | ({"exit_code": f"0, and no line names {named[0]}"} if named else {})


def locks(folder: Path) -> dict[str, Any]:
    """Every answer of a file system that fails at locks: refused in a line that names the lock; trained afterwards."""
    folder.mkdir(parents=True)
    for error in LOCK_ERRORS:
        (folder / "sitecustomize.py").write_text(NO_LOCKS.format(error=error))
        refused = sweep(folder, environment() | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}, "logger=none")
        lines = [line for line in refused["said"].splitlines() if "sweep/.lock cannot be locked (" in line]
        if refused["exit_code"] != 2 or len(lines) != 1 or NOISE.search(lines[0]):
            return refused | {"exit_code": f"{refused['exit_code']} with {error}"}
    return sweep(folder, environment(), "logger=none")


def online(folder: Path, answer: Answer | None) -> dict[str, Any]:
    """The sweep, mirrored online to such a server."""
    with server(answer) as url:
        variables = environment(WANDB_BASE_URL=url, WANDB_API_KEY="a" * 40, HOME=str(folder), WANDB_MODE=None)
        return sweep(folder, variables, "logger.mode=online")


SCENES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "LANG=C": language,
    "no HOME, no TERM": no_home,
    "unwritable HOME": no_such_home,
    "TERM=dumb": no_terminal,
    "another user": another_user,
    "clock backwards": clock,
    "no .hydra": without_hydra_files,
    "locks that fail": locks,
    "W&B absent": lambda folder: online(folder, None),
    "W&B slow": lambda folder: online(folder, slow),
    "W&B silent": lambda folder: online(folder, silent),
    "W&B lost half-way": lambda folder: online(folder, lost()),
}


def problems(found: dict[str, Any], expected: dict[str, list]) -> list[str]:
    """What is not as without the scene."""
    wrong = [f"exit code {found['exit_code']}"] if found["exit_code"] != 0 else []
    wrong += ["other rows"] if found["rows"] != expected else []
    noise = [line for line in found["said"].splitlines() if NOISE.search(line)]
    return wrong + ([f"says: {noise[0][:200]}"] if noise else [])


def others_can_run() -> bool:
    """Whether this process may become another user, and that one may run this Python with what it imports."""
    if os.geteuid() != 0:
        return False
    try:
        command = [sys.executable, "-c", "import hydra, torch"]
        return subprocess.run(command, user=NOBODY, group=NOBODY, capture_output=True, cwd="/").returncode == 0
    except OSError:
        return False


def look(names: list[str], place: Path) -> dict[str, dict[str, Any]]:
    """Each scene by its name: seconds, exit code, and what is wrong."""
    place.chmod(0o755)
    expected = sweep(place / "plain", environment(), "logger=none")["rows"]
    found = {}
    for number, name in enumerate(names):
        if name == "another user" and not others_can_run():
            print(f"{name:20} left out: only root can try that, where others may read this Python")
            continue
        result = SCENES[name](place / str(number))
        wrong = problems(result, expected)
        found[name] = {"seconds": result["seconds"], "exit_code": result["exit_code"], "wrong": wrong}
        print(f"{name:20} {result['seconds']:6.1f} s  {'; '.join(wrong) or 'ok'}", flush=True)
        if wrong:
            print("    " + "\n    ".join(result["said"].splitlines()[-8:]))
    return found


def main() -> int:
    """Print what was found; 1 if anything was."""
    chosen = options(__doc__, only="")
    started, place = time.perf_counter(), Path(tempfile.mkdtemp())
    try:
        found = look(chosen.only.split(",") if chosen.only else list(SCENES), place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    wrong = sum(bool(scene["wrong"]) for scene in found.values())
    print(f"{len(found)} scenes, {wrong} findings, {time.perf_counter() - started:.0f} s")
    store("surroundings", {"scenes": found, "findings": wrong}, chosen.results)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
