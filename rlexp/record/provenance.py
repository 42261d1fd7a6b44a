"""What trains a run, and whose a file is: version and hash of the code, commit and what differs from it, the config.

    {"version": "0.1.0", "files": "8b1f0c2d9e4a7f36", "commit": "…", "dirty": true, "diff": "…",
     "torch": "2.13.0", "cpu": "…", "vectors": "AVX2", "MKL_CBWR": "AUTO,STRICT", "ATEN_CPU_CAPABILITY": null,
     "MKL_ENABLE_INSTRUCTIONS": null}

A run with choices that were registered from outside has ``plugins`` beside these, a line for each: the choice, the
installed package with its version, or the file, the commit of its checkout, and a hash of its Python files.

``files`` says whether two runs had the same code, wherever it was installed: it is a hash of all Python files of the
package. ``commit``, ``dirty`` and ``diff`` are null where the package is no part of a git checkout. YAML files count as
changes of a checkout but not in ``files``: a run's own config is complete.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import unified_diff
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import rlexp
from rlexp import __version__
from rlexp.core.exits import RunFailed
from rlexp.core.registry import Registration, registered
from rlexp.runfolder.files import CODE_FILE, FORMAT, SUMMARY_FILE, Damaged, digest, read_json, read_lines
from rlexp.runfolder.variants import WITHOUT_EFFECT, flatten

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ("rlexp", "hydra_plugins/rlexp_launcher", "conf")  # below ROOT; an installed one has conf in rlexp
BITS_DEPEND_ON = ("files", "torch", "cpu", "vectors", "MKL_CBWR", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")
# and what they are unless someone sets them
SETTINGS = {"MKL_CBWR": rlexp.MKL_MODE, "ATEN_CPU_CAPABILITY": None, "MKL_ENABLE_INSTRUCTIONS": None}
LONGEST_DIFF = 20_000  # characters
SECONDS_FOR_GIT = 10.0
OF_ANOTHER_REPOSITORY = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"}

Code = dict[str, Any]
# What configs mean that were saved before there were these keys. A run without a bound has others only beyond it.
MEANT = {"backend": {"name": "replicas"}, "log_ratio_bound": 20.0}
MEANT |= {"anchor": {"name": "old"}, "prompts": {"name": "uniform"}, "allocation": {"name": "uniform"}}
MEANT |= {"distillation": {"name": "none", "weight": 0.0}, "whiten_advantages": False}
MEANT |= {"imitation": {"name": "none", "mu_peak": 0.0, "mu_valley": 0.0, "mu_warmup": 0.0, "mu_decay": 0.0}}
MEANT |= {"positive_nll_coef": 0.0, "advantage_entropy_weight": 0.0, "temperature_final": None}
# Keys that nodes have had since: null says what their absence did. Of all choices, or of some.
SINCE = {"start.seed": None, "teacher.network": None, "teacher.hint": None}
SINCE |= {"sampler.products": None, "sampler.head": None}
SINCE |= {"sampler.top_k": None, "sampler.top_p": None, "sampler.training": None}
SINCE |= {"start.hinted": ("pretrained_mixture",), "task.hint": ("addition", "countdown", "two_habits")}
SINCE |= {"critic.critic_warmup": ("value",)}


@cache
def code() -> Code:
    """Return what is known of the code of this process, as it was when this was first asked."""
    vectors = torch.backends.cpu.get_cpu_capability()
    machine = {"torch": str(torch.__version__), "cpu": cpu(), "vectors": vectors}
    machine |= {key: os.environ.get(key) for key in SETTINGS}
    return {"version": __version__, "files": files_hash(ROOT), **checkout(ROOT), **machine}


def code_of(config: Mapping[str, Any]) -> Code:
    """Return what is known of the code that trains a config: this package's, and that of the plugins it chooses."""
    plugins = [origin(each) for each in registered() if is_used(each, config)]
    return {**code(), **({"plugins": plugins} if plugins else {})}


def is_used(registration: Registration, config: Mapping[str, Any]) -> bool:
    """Whether a config chooses what was registered; metrics are of every run, figures of none."""
    if registration.group in ("metric", "figure"):
        return registration.group == "metric"
    node: Any = config
    for key in registration.group.split("."):
        node = node[key]
    return node["name"] == registration.name


def origin(registration: Registration) -> str:
    """Return where a registered function is from: `norm=mad: rlexp-mad 0.1.0, commit 1b2c…, files 8b1f…`."""
    source = f"source {sha256(registration.source.encode()).hexdigest()[:16]}"
    return f"{registration.choice}: {origin_of_module(registration.function.__module__) or source}"


@cache
def origin_of_module(module: str) -> str:
    """Return package and version (or file), commit and hash of a module's files; empty for a script or a notebook."""
    top = module.partition(".")[0]
    files = (getattr(sys.modules.get(each), "__file__", None) for each in (top, module))
    file = next(filter(None, files), None)
    if top == "__main__" or file is None:
        return ""
    path = Path(file)
    packages = metadata.packages_distributions().get(top, [])
    name = f"{packages[0]} {metadata.version(packages[0])}" if packages else str(path)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    content = b"".join(each.read_bytes() for each in files)
    tracked = git(path.parent, "ls-files", "--error-unmatch", path.name) is not None
    commit = [f"commit {git(path.parent, 'rev-parse', 'HEAD').strip()}"] if tracked else []
    return ", ".join([name, *commit, f"files {sha256(content).hexdigest()[:16]}"])


def cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def setting_notes() -> list[str]:
    """Say which settings of this process give runs other bits than they have without them."""
    return [
        f"{key}={os.environ[key]} is set: the bits of a run are others than without it"
        for key, usual in SETTINGS.items()
        if os.environ.get(key) not in (None, usual)
    ]


def files_hash(root: Path) -> str:
    """Return a hash of the names and contents of the package's Python files."""
    total = sha256()
    for part in PACKAGE:
        for file in sorted((root / part).rglob("*.py")):
            total.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def checkout(root: Path) -> Code:
    """Return the commit, whether the package differs from it, and how; None for each if git does not track it."""
    tracked = git(root, "ls-files", "--error-unmatch", "rlexp/__init__.py") is not None
    commit = git(root, "rev-parse", "HEAD") if tracked else None
    if commit is None:
        return {"commit": None, "dirty": None, "diff": None}
    diff = git(root, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--", *PACKAGE) or ""
    listed = git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *PACKAGE) or ""
    for name in filter(None, listed.split("\0")):  # files that git does not know yet
        try:
            lines = (root / name).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        except OSError:
            lines = []
        diff += "".join(unified_diff([], lines, "/dev/null", f"b/{name}")) or f"+++ b/{name}\n"
    if len(diff) > LONGEST_DIFF:
        diff = f"{diff[:LONGEST_DIFF]}\n[{len(diff) - LONGEST_DIFF} more characters left out]\n"
    return {"commit": commit.strip(), "dirty": bool(diff), "diff": diff}


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails, is missing or takes too long. Writes nothing, the index included."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_REPOSITORY}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            check=True,
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
            timeout=SECONDS_FOR_GIT,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace")


def trained_by(folder: Path, step: int, now: Code) -> tuple[list[Code], list[str]]:
    """Return which code trained the run in a folder, each from which step, if ``now`` goes on with it after ``step``.

    That of a step whose rows are trained anew is forgotten; code that was there already is not listed twice. Where the
    file that says so is damaged, what the summary says counts. Beside it stands what the user should know of this.
    """
    known, damage = [], "" if (folder / CODE_FILE).exists() else "is gone"
    try:
        known = history(folder)
    except Damaged:
        damage = "is damaged"
    if damage:
        with suppress(RunFailed):
            known = (read_json(folder / SUMMARY_FILE) or {}).get("code") or []
        known = known if is_history(known) else []
    notes = []
    if damage and step >= 0:
        then = "summary.json has it too" if known else f"what trained the run up to step {step} is not known any more"
        notes.append(f"{CODE_FILE} {damage}: {then}")
    earlier = [entry for entry in known if entry["step"] < step]
    differing = changes(earlier[-1], now) if earlier else []
    if differing:
        other = f"on other code or another machine ({'; '.join(differing)}): its bits may be those of neither"
        notes.append(f"goes on after step {step} {other}")
    return earlier if earlier and not differing else [*earlier, {"step": max(step, 0), **now}], notes


def changes(before: Code, now: Code) -> list[str]:
    """Name what the bits of a run depend on and was otherwise; what was not written down then was the same."""
    pairs = {key: (before.get(key, now.get(key)), now.get(key)) for key in (*BITS_DEPEND_ON, "plugins")}
    return [f"{key} {there} before and {here} now" for key, (there, here) in pairs.items() if there != here]


def history(folder: Path) -> list[Code]:
    """Read which code has trained the run in a folder; nothing where none has. Damaged, Unreadable."""
    entries = read_lines(folder / CODE_FILE) or []
    if not is_history(entries):
        raise Damaged(folder / CODE_FILE)
    return entries


def is_history(entries: Sequence[Code]) -> bool:
    """Whether each entry names its files and its step, and the steps are in order."""
    named = all(isinstance(each, dict) and isinstance(each.get("files"), str) for each in entries)
    steps = [each.get("step") for each in entries] if named else [None]
    return all(type(step) is int for step in steps) and steps == sorted({*steps})


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says of the run that it is of; ``config`` is of plain values."""
    whose = {"format": FORMAT, "config": config_hash(config), "seed": config.get("seed")}
    return whose | {"version": __version__, "files": code()["files"]}


def config_hash(config: Mapping[str, Any]) -> str:
    """Return a hash of the part of a config that results depend on; a key that is null counts as one that is absent."""
    known = {key: value for key, value in flatten(with_effect(config)) if value is not None}
    return digest(json.dumps(known, sort_keys=True).encode())


def with_effect(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a config that results depend on; what one ``MEANT`` by saying nothing is left out."""
    known = {key: value for key, value in config.items() if key not in WITHOUT_EFFECT | {"study", "format"}}
    nulls = {key for key, meant in MEANT.items() if meant is not None and known.get(key, meant) is None}
    known |= dict.fromkeys(nulls, "none")  # null counts as absent
    return {key: value for key, value in known.items() if key not in MEANT or value != MEANT[key]}


def foreign(theirs: Mapping[str, Any] | None, config: Mapping[str, Any]) -> str | None:
    """Say that a file is of another run than that of a config, if so. None, too, for one that does not say."""
    if not theirs:
        return None
    if theirs.get("format") != FORMAT:
        release = f"rlexp {theirs.get('version')} wrote it, and reads it"
        return f"has format {theirs.get('format')!r}, which rlexp {__version__} does not know: {release}"
    if theirs.get("config") != config_hash(config):
        return f"is of a run with another config (its seed is {theirs.get('seed')}): move it away"
    return None
