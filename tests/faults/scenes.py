"""Folders that runs leave: of a finished sweep, of one that was stopped, of one that was killed; and what they hold."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.analysis.data.kept import advantages, read_samples
from rlexp.analysis.data.load import load
from rlexp.analysis.stats.answer import Question, answer
from rlexp.api import sweep
from rlexp.config.schema import load as load_config
from rlexp.core.exits import RunFailed
from rlexp.record.resume import inspect, refusal
from rlexp.sweep import engine, training
from rlexp.sweep.job import Job

SMALL = ["steps=8", "log_every=2", "checkpoint_every=3", "eval.every=4", "eval.prompts=6", "eval.samples=2"]
SMALL += ["eval.ks=[1,2]", "logger=none", "group_size.completions=4", "group_size.prompts=4", "model=gru"]
SMALL += [
    "model.hidden=6",
    "task.longest=4",
    "hydra.launcher.workers=1",
    "threads=1",
    "start=sft",
    "start.accuracy=0.01",
]
SWEPT = ["norm=local,running", "seed=0,1"]
STOPPED_AT = 8  # after checkpoints at steps 3 and 6
NOT_DAMAGED = ("analysis", "train.log", ".lock")


class Scene(NamedTuple):
    """A folder, and the runs in it."""

    name: str
    folder: Path
    jobs: list[dict[str, Any]]


class Outcome(NamedTuple):
    """What a reader finds: numbers, and every line that was said on the way."""

    numbers: dict[str, Any]
    said: list[str]


def make_scenes(folder: Path) -> list[Scene]:
    """Train the sweeps; the first is the finished one."""
    finished, stopped, killed = (folder / name for name in ("finished", "stopped", "killed"))
    sweep(*SMALL, *SWEPT, folder=finished)
    with stopping_at(STOPPED_AT):
        try:
            sweep(*SMALL, *SWEPT, folder=stopped)
        except KeyboardInterrupt:
            pass
    shutil.copytree(stopped, killed)
    for summary in killed.glob("*/summary.json"):
        summary.unlink()
    jobs = [json.loads(line) for line in (finished / "jobs.jsonl").read_text().splitlines()]
    return [Scene(place.name, place, jobs) for place in (finished, stopped, killed)]


@contextmanager
def stopping_at(step: int) -> Iterator[None]:
    """Context in which a run is interrupted at the start of a step."""
    real = training.train_step

    def stopping(state, now, measure):
        if now == step:
            raise KeyboardInterrupt
        return real(state, now, measure)

    training.train_step = stopping
    try:
        yield
    finally:
        training.train_step = real


def files_of(folder: Path) -> list[Path]:
    """The files that can be damaged, relative to the folder."""
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if not {*path.parts} & {*NOT_DAMAGED}]


class Lines(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def resumed(scene: Scene, folder: Path, configs: dict[str, Any]) -> Outcome:
    """Start the sweep of a copied scene again, as the command would; return the rows and scores of all runs."""
    lines, root = Lines(), logging.getLogger()
    root.addHandler(lines)
    try:
        jobs = [
            Job(configs[row["name"]], folder / row["name"], row["name"], row["variant"], starts=folder / "starts")
            for row in scene.jobs
        ]
        for job in jobs:
            job.folder.mkdir(exist_ok=True)
        statuses = [inspect(job.folder, job.config.model_dump(mode="json")) for job in jobs]
        refused = [refusal(job.folder, job.config.resume, status) for job, status in zip(jobs, statuses, strict=True)]
        results = [RunFailed(refused[0])] if refused[0] else engine.train_jobs(jobs, "again", quiet)
        said = [*lines.texts, *filter(None, refused), *(str(each) for each in results if isinstance(each, Exception))]
        errors = [each for each in results if isinstance(each, Exception) and not isinstance(each, RunFailed)]
        if errors:
            raise errors[0]
        names = [job.name for job in jobs]
        numbers = {
            "scores": dict(zip(names, [each if isinstance(each, float) else None for each in results], strict=False))
        }
        numbers |= {"code": {name: code(folder / name) for name in names}}
        return Outcome(numbers | {"rows": {name: rows(folder / name) for name in names}}, said)
    finally:
        root.removeHandler(lines)


@contextmanager
def quiet(*_: Any, **__: Any) -> Iterator[Any]:
    """Show no progress."""
    yield Silent()


class Silent:
    """A progress that nobody sees."""

    def update(self, *_: Any) -> None:
        """Show nothing."""


def rows(folder: Path) -> list[dict[str, Any]] | None:
    """The metrics of a run, times aside; None if they cannot be read."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [{key: value for key, value in json.loads(line).items() if key[:5] != "time/"} for line in lines]
    except (OSError, ValueError):
        return None


def code(folder: Path) -> list[Any] | None:
    """Which code trained a run, and from which step, by its summary; None if that cannot be read."""
    try:
        listed = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["code"]
        return [[entry["step"], entry["files"]] for entry in listed]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def compared(folder: Path) -> Outcome:
    """Compare the runs of a folder as `rlexp compare` does; return its table, the rows of ended runs, what it lists."""
    data = load(folder)
    found = answer(data, Question())
    table = found.comparisons[0].table.drop(columns=["wall_time_s"], errors="ignore")
    times = [column for column in data.metrics if column.startswith("time/")]
    ended = data.runs.loc[data.runs["status"] == "completed", "name"]
    shown = data.metrics[data.metrics["name"].isin(ended)].drop(columns=times).dropna(axis=1, how="all")
    numbers = {"table": json.loads(table.to_json()), "metrics": shown.to_csv(index=False)}
    numbers["advantages"] = {name: values.tolist() for name, values in advantages(data, read_samples(data)).items()}
    return Outcome(numbers, [*(f"{run}: {reason}" for run, reason in data.problems), *found.notes])


def configs_of(scene: Scene) -> dict[str, Any]:
    """The config of each run, by its name."""
    return {row["name"]: load_config(scene.folder / row["name"] / "config.yaml") for row in scene.jobs}
