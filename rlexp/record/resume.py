"""What a folder is for the run that would be written there: the one place that decides it, from each file read once.

``inspect`` is asked when a run is planned and again under the lock of its folder; ``last_good_state`` then says what
the run goes on from. Configs are plain values here (``Config.model_dump(mode="json")``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlexp.core.exits import RunFailed
from rlexp.record.checkpoint import LATEST, PREVIOUS
from rlexp.record.disk import matches, read_state
from rlexp.record.provenance import foreign, with_effect
from rlexp.runfolder import files
from rlexp.runfolder.rows import logged_steps, step_in
from rlexp.runfolder.variants import flatten

FAILED = ("failed", "diverged")
LEFT_BY_RUNS = (files.METRICS_FILE, files.SUMMARY_FILE, LATEST, PREVIOUS)
Saved = dict[str, Any]


@dataclass(frozen=True)
class RunStatus:
    """What a folder is for a run.

    new         no run has left anything to go on from
    finished    the run was completed and its files are what it wrote: ``result`` is its score
    failed      it failed or diverged and is not asked for again, or its files cannot be read: ``result`` says why
    resumable   it goes on, or begins again where no state is good; one that ``diverged`` begins again
    foreign     of another run, of another version, or nothing says which run it is: ``result`` says why

    ``damaged`` are files that are not what the run wrote. ``identified`` says that the config or the summary is this
    run's; else its states must be.
    """

    kind: Literal["new", "finished", "failed", "resumable", "foreign"]
    result: float | RunFailed | None = None
    damaged: tuple[files.Damaged, ...] = ()
    identified: bool = True
    diverged: bool = False


def inspect(folder: Path, config: Mapping[str, Any]) -> RunStatus:
    """Say what a folder is for the run of a config.

    States are read only where the config is gone: before a sweep begins it must be known whose the folder is.
    """
    saved = read(files.read_yaml, folder / files.CONFIG_FILE)
    summary = read(files.read_json, folder / files.SUMMARY_FILE)
    if other := other_run(folder, config, saved, summary):
        return RunStatus("foreign", other)
    damaged = tuple(each for each in (summary, saved) if isinstance(each, files.Damaged))
    for unreadable in (saved, summary):
        if isinstance(unreadable, RunFailed) and not isinstance(unreadable, files.Damaged):
            return RunStatus("foreign" if saved is None else "failed", unreadable)
    identified = isinstance(saved, dict) or (isinstance(summary, dict) and "identity" in summary)
    if not any(os.path.lexists(folder / name) for name in LEFT_BY_RUNS):
        return RunStatus("new", None, damaged, identified)
    resumable = RunStatus("resumable", None, damaged, identified)
    if saved is None:
        try:
            last_good_state(folder, config, resumable)
        except RunFailed as error:
            return RunStatus("foreign", error)
    if not isinstance(summary, dict):
        return resumable
    status, damage = summary.get("status"), None
    if not isinstance(status, str) or (status == "completed" and "score" not in summary):
        damage = files.Damaged(folder / files.SUMMARY_FILE)
    elif status == "completed" and not damaged:
        try:
            known = saved if isinstance(saved, dict) else {}
            damage = changed_file(folder, known, summary, summary.get("steps", 0), whole=True)
        except RunFailed as error:
            return RunStatus("failed", error)
        if damage is None and summary["score"] is not None:
            return RunStatus("finished", summary["score"])
    elif status in FAILED and config["resume"] != "failed":
        return RunStatus("failed", RunFailed(f"{summary.get('reason')} (resume=failed trains it again)"))
    damaged = (damage, *damaged) if damage else damaged  # what was completed and is damaged is trained on
    return RunStatus("resumable", None, damaged, identified, diverged=status == "diverged")


def refusal(folder: Path, resume: str, status: RunStatus) -> str | None:
    """Say why a run must not be written to a folder, if so. With ``resume=never`` that is asked before it begins."""
    if resume == "never" and status.kind != "new":
        return f"{folder} holds a run already; choose another hydra.sweep.dir (hydra.run.dir for a single run)"
    return str(status.result) if status.kind == "foreign" else None


def read(reader: Callable[[Path], Saved | None], path: Path) -> Saved | None | RunFailed:
    """Return what a file holds, None if there is none, or why that cannot be known."""
    try:
        return reader(path)
    except RunFailed as error:
        return error


def other_run(folder: Path, config: Mapping[str, Any], saved: object, summary: object) -> RunFailed | None:
    """Say that the config of a folder, or without one its summary, is of another run or of another version."""
    if isinstance(saved, files.OtherFormat):
        return saved
    if not isinstance(saved, dict):
        whose = summary.get("identity") if isinstance(summary, dict) else None
        why = f"{folder} holds a run with another config: choose another folder"
        return RunFailed(why) if foreign(whose, config) else None
    here, there = (dict(flatten(with_effect(tree))) for tree in (config, saved))
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            why = f"{key}: {there.get(key)} there, {here.get(key)} here"
            return RunFailed(f"{folder} holds a run with another config ({why}); choose another folder or that config")
    return None


def last_good_state(
    folder: Path, config: Mapping[str, Any], status: RunStatus
) -> tuple[Saved | None, Path | None, list[str]]:
    """Return the latest state that is whole and whose rows are there, its file, and a line for each damaged file.

    RunFailed if the folder cannot be read, or is of another run: nothing of it is touched then.
    """
    damaged, identified = [*status.damaged], status.identified
    for path in (folder / LATEST, folder / PREVIOUS):
        try:
            state = read_state(path)
        except files.Damaged as error:
            damaged.append(error)
            continue
        if state is None:
            continue
        if other := foreign(state.get("identity"), config):
            raise RunFailed(f"{path} {other}")
        identified = identified or "identity" in state
        if not identified:
            break
        if problem := changed_file(folder, config, state, state["step"]):
            damaged.append(problem)
            continue
        return state, path, notes(damaged, f"the run goes on after step {state['step']}")
    if not identified and status.kind != "new":
        lost = f"holds a run whose {files.CONFIG_FILE} is gone or damaged, and nothing else says which run it is"
        raise RunFailed(f"{folder} {lost}: move it away, or choose another folder")
    return None, None, notes(damaged, "the run begins again")


def notes(damaged: Sequence[files.Damaged], then: str) -> list[str]:
    """Say once of each file what is wrong with it, and what follows."""
    return [f"{damage}: {then}" for damage in {each.path: each for each in damaged}.values()]


def changed_file(
    folder: Path, config: Mapping[str, Any], known: Saved, step: int, whole: bool = False
) -> files.Damaged | None:
    """Return which file does not begin as a state after ``step``, or is not ``whole`` what a summary, says of it.

    Unreadable where that cannot be known.
    """
    if "files" not in known:
        return rows_problem(folder, config, step)
    if not isinstance(known["files"], Mapping):
        return files.Damaged(folder / files.SUMMARY_FILE)
    what = "is damaged: it is not what the run wrote" if whole else f"lacks rows, or has others, up to step {step}"
    for name, extent in known["files"].items():
        if not matches(folder / name, extent, whole):
            return files.Damaged(folder / name, what)
    return None


def rows_problem(folder: Path, config: Mapping[str, Any], until: int) -> files.Damaged | None:
    """Return what is wrong with the rows of a run up to a step, by its config: damage, gaps, doubles, disorder."""
    lines = (files.content(folder / files.METRICS_FILE) or b"").splitlines(keepends=True)
    steps = [step_in(line) for line in lines]
    there = [step for step in steps if step is not None and step <= until]
    damaged = None in steps[: len(there)]
    try:
        complete = there == logged_steps(config, until)
    except (KeyError, TypeError, ZeroDivisionError):
        complete = bool(there)
    if damaged or not complete:
        return files.Damaged(folder / files.METRICS_FILE, f"lacks rows, or has too many, up to step {until}")
    try:
        for line in (files.content(folder / files.SAMPLES_FILE) or b"").splitlines():
            json.loads(line)["step"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return files.Damaged(folder / files.SAMPLES_FILE)
    return None
