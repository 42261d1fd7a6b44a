"""A study trained and what it found as a small record: verdicts, levels, and a hash of every row of its runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmarks.parts.common import ROOT, machine
from rlexp.analysis.data.read import read_object, read_yaml, unclocked_rows
from rlexp.config.settings import Study
from rlexp.runfolder.variants import parse_override, split_overrides

OF_AN_ARM = ("variant", "n", "mean", "iqm", "iqm_low", "iqm_high", "collapsed", "failed")
OF_A_VERDICT = ("variant", "versus", "direction", "stratum", "metric", "at", "matched", "control", "claim", "n")
OF_A_VERDICT += ("estimate", "low", "high", "minimum_effect", "p_holm", "verdict", "reason")
LANGUAGE = "_llama"  # is in the names of studies of a language model, which need the extra trl


class StudyFailed(Exception):
    """A study that left nothing that could be compared, in one line."""


def lacks(study: str) -> str | None:
    """Say what has to be installed before a study can be trained, if anything."""
    return "the extra trl" if LANGUAGE in study and find_spec("trl") is None else None


def train(study: str, runs: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Train what is missing of a study in ``runs``/<study>, all of whose studies share their starts; return its record.

    Raises StudyFailed if nothing of it can be compared.
    """
    folder, begun = runs / study, (runs / study).exists()
    share_starts(folder, runs / "starts")
    started = time.perf_counter()
    arguments = [f"study={study}", f"hydra.sweep.dir={folder}", "logger=none", *overrides]
    subprocess.run([sys.executable, "-m", "rlexp.train", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return record(study, folder, None if begun else round(time.perf_counter() - started))


def share_starts(folder: Path, starts: Path) -> None:
    """Let a sweep keep its starts where the other sweeps look for theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    starts.mkdir(parents=True, exist_ok=True)
    if not (folder / "starts").exists():
        (folder / "starts").symlink_to(os.path.relpath(starts, folder), target_is_directory=True)


def record(study: str, folder: Path, seconds: int | None = None) -> dict[str, Any]:
    """Return what is kept of a study's runs; ``seconds`` is None where some of them were trained before."""
    command = [sys.executable, "-m", "rlexp.analysis.compare", str(folder), "--json"]
    compared = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if compared.returncode == 2 or not compared.stdout:
        raise StudyFailed(f"{study}: {compared.stderr.strip() or 'nothing could be compared'}")
    found = json.loads(compared.stdout)
    config = next((read_yaml(file) for file in sorted(folder.glob("*/config.yaml"))), {})  # of the first run
    return {
        "study": study,
        "command": f"rlexp study={study}",
        "metric": found["metric"],
        "differences_corrected": found["differences_corrected"],
        "runs": len(found["runs"]),
        "seeds": sorted({each["seed"] for each in found["runs"]}),
        "verdicts": [select(each, OF_A_VERDICT) for each in found["verdicts"]],
        "no_verdict": "" if found["verdicts"] else next(iter(found["notes"]), "nothing was expected of it"),
        "strata": {
            each["stratum"] or "": [select(arm, OF_AN_ARM) for arm in each["arms"]] for each in found["comparisons"]
        },
        "best_of": config.get("study", {}).get("best_of") or [],
        "in_one": in_one(config, [each["stratum"] or "" for each in found["comparisons"]]),
        "seconds": seconds,
        "commit": commit_of(folder),
        "study_hash": Study.model_validate(config["study"]).hash if config else None,
        "rows": rows_hash(folder),
        "machine": machine(),
    }


def select(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return these keys of a row where they have a value, numbers to six significant digits."""
    found = {key: row[key] for key in keys if row.get(key) is not None}
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in found.items()}


def rows_hash(folder: Path) -> str:
    """Return a hash of all rows of all runs but for the clock: equal where every number is the same, bit by bit."""
    digest = sha256()
    for file in sorted(folder.glob("*/metrics.jsonl")):
        digest.update(file.parent.name.encode())
        digest.update(json.dumps(unclocked_rows(file.parent), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def in_one(settings: Mapping[str, Any], strata: Sequence[str]) -> dict[str, str]:
    """Return what all runs share of what the study would compare apart: the start, of a study from one start."""
    varied = {parse_override(part)[0] for stratum in strata for part in split_overrides(stratum)}
    config = OmegaConf.create(settings)
    fixed = [axis for axis in OmegaConf.select(config, "study.within") or () if axis not in varied]
    values = {axis: OmegaConf.select(config, axis) for axis in fixed}
    return {axis: f"{value:g}" if isinstance(value, float) else str(value) for axis, value in values.items()}


def commit_of(folder: Path) -> str | None:
    """Return the revision that trained a study, as its first run has it."""
    for file in sorted(folder.glob("*/summary.json")):
        for stretch in read_object(file)[0].get("code") or []:
            return stretch.get("commit")
    return None
