"""What a folder says about the run that would be written there: new, finished, failed, or to be continued.

Configs are plain values here (``Config.model_dump(mode="json")``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.core.exits import RunFailed
from rlexp.record.checkpoint import LATEST, PREVIOUS
from rlexp.record.disk.durable import Damaged
from rlexp.record.disk.identity import foreign, leaves, with_effect
from rlexp.record.disk.rows import holds
from rlexp.record.disk.schedule import rows_problem
from rlexp.record.disk.seals import OtherFormat, read_json, read_state, read_yaml
from rlexp.record.files import CONFIG_FILE, METRICS_FILE, SUMMARY_FILE

FAILED = ("failed", "diverged")
LEFT_BY_RUNS = (METRICS_FILE, SUMMARY_FILE, LATEST, PREVIOUS)
Saved = dict[str, Any]


def holds_run(folder: Path) -> bool:
    """Whether a run has left something in the folder."""
    return any(os.path.lexists(folder / name) for name in LEFT_BY_RUNS)


def refusal(config: Mapping[str, Any], folder: Path) -> str | None:
    """Say why the run must not be written to ``folder``, which holds another one or one that is not to be resumed.

    A config that is damaged, or that cannot be read, is the affair of its run alone (``last_good_state``).
    """
    if not holds_run(folder):
        return None
    if config["resume"] == "never":
        return f"{folder} holds a run already; choose another hydra.sweep.dir (hydra.run.dir for a single run)"
    try:
        other = next(differences(config, folder), None)
        if not (folder / CONFIG_FILE).exists():
            last_good_state(config, folder)
    except Damaged:
        return None
    except OtherFormat as error:
        return str(error)
    except RunFailed as error:
        return None if (folder / CONFIG_FILE).exists() else str(error)
    return other and f"{folder} holds a run with another config ({other}); choose another folder or that config"


def differences(config: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Name what differs between a config and that of the run in the folder, as far as results depend on it.

    None of it if it left no config. RunFailed for one that is damaged, of a later format, or that cannot be read.
    """
    saved = read_yaml(folder / CONFIG_FILE)
    if saved is None:
        return
    here, there = (dict(leaves(with_effect(tree))) for tree in (config, saved))
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            yield f"{key}: {there.get(key)} there, {here.get(key)} here"


def outcome(folder: Path, resume: str) -> float | Exception | None:
    """Return the score or the failure of a run that has ended; None if it is to be trained, or trained on.

    One that says that it is completed, and whose files are not what it wrote, is trained on (``complaint`` says why).
    """
    try:
        summary = read_json(folder / SUMMARY_FILE) or {}
        if summary.get("status") == "completed" and complaint(folder) is None:
            return summary["score"]
    except Damaged:
        return None
    except RunFailed as error:
        return error
    if summary.get("status") in FAILED and resume != "failed":
        return RunFailed(f"{summary.get('reason')} (resume=failed trains it again)")
    return None


def complaint(folder: Path) -> Damaged | None:
    """Return which file of a run that has ended is not what the run wrote, if one is not; Unreadable, OtherFormat."""
    try:
        summary = read_json(folder / SUMMARY_FILE)
        if summary is None:
            return None
        if not isinstance(summary.get("status"), str) or ("score" not in summary and summary["status"] == "completed"):
            return Damaged(folder / SUMMARY_FILE)
        if summary["status"] != "completed":
            return None
        config = read_yaml(folder / CONFIG_FILE)
    except Damaged as error:
        return error
    if "files" not in summary:
        return rows_problem(folder, config or {}, summary.get("steps", 0))
    if not isinstance(summary["files"], Mapping):
        return Damaged(folder / SUMMARY_FILE)
    changed = [name for name, extent in summary["files"].items() if not holds(folder / name, extent, whole=True)]
    return Damaged(folder / changed[0], "is damaged: it is not what the run wrote") if changed else None


def restarts(folder: Path) -> bool:
    """Whether the run in the folder diverged and therefore begins again, from nothing."""
    try:
        return (read_json(folder / SUMMARY_FILE) or {}).get("status") == "diverged"
    except Damaged:
        return False


def last_good_state(config: Mapping[str, Any], folder: Path) -> tuple[Saved | None, list[str]]:
    """Return the latest state that is whole and whose rows are there; and a line for each file that is not.

    RunFailed if the folder cannot be read, or is of another run: nothing of it is touched then.
    """
    damages = [complaint(folder)]
    known = same_run(config, folder, damages)
    for path in (folder / LATEST, folder / PREVIOUS):
        try:
            saved = read_state(path)
        except Damaged as error:
            damages.append(error)
            continue
        if saved is None:
            continue
        if other := foreign(saved.get("identity"), config):
            raise RunFailed(f"{path} {other}")
        known = known or "identity" in saved
        if not known:
            break
        if problem := unlike_saved(folder, config, saved):
            damages.append(problem)
            continue
        return saved, lines(damages, f"the run goes on after step {saved['step']}")
    if not known and holds_run(folder):
        lost = f"holds a run whose {CONFIG_FILE} is gone or damaged, and nothing else says which run it is"
        raise RunFailed(f"{folder} {lost}: move it away, or choose another folder")
    return None, lines(damages, "the run begins again")


def lines(damages: Sequence[Damaged | None], then: str) -> list[str]:
    """Say once of each file what is wrong with it, and what follows."""
    return [f"{damage}: {then}" for damage in {each.path: each for each in damages if each}.values()]


def same_run(config: Mapping[str, Any], folder: Path, damages: list[Damaged | None]) -> bool:
    """Whether the folder is known to be this run's; adds what is damaged. RunFailed if it is another's."""
    known = False
    try:
        other = next(differences(config, folder), None)
        known = (folder / CONFIG_FILE).exists()
    except Damaged as error:
        other = None
        damages.append(error)
    try:
        whose = (read_json(folder / SUMMARY_FILE) or {}).get("identity")
    except Damaged:
        whose = None
    if other or (not known and foreign(whose, config)):
        raise RunFailed(
            f"{folder} holds a run with another config{f' ({other})' if other else ''}: choose another folder"
        )
    return known or whose is not None


def unlike_saved(folder: Path, config: Mapping[str, Any], saved: Mapping[str, Any]) -> Damaged | None:
    """Return which file of rows does not begin as it did when a state was saved."""
    if "files" not in saved:
        return rows_problem(folder, config, saved["step"])
    for name, extent in saved["files"].items():
        if not holds(folder / name, extent):
            return Damaged(folder / name, f"lacks rows, or has others, up to step {saved['step']}")
    return None


def promote(folder: Path, step: int) -> None:
    """Make the state after ``step`` steps the latest: one that cannot be used must not become the previous one."""
    try:
        latest = read_state(folder / LATEST)
    except Damaged:
        latest = None
    if step >= 0 and (latest or {}).get("step") != step and (folder / PREVIOUS).exists():
        os.replace(folder / PREVIOUS, folder / LATEST)
