"""The launcher: the list of a sweep's jobs, and their training, in stages; each gets what Hydra's own would give."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from rlexp.core.exits import describe_error, relative
from rlexp.launch.checks import LauncherSettings, Plan, plan_jobs
from rlexp.launch.hydra_private import (
    begin_job,
    cache_compositions,
    configure_logging,
    end_job,
    hydra_config,
    setup_globals,
)
from rlexp.launch.stages import stages
from rlexp.launch.worker import job_context, write_files
from rlexp.record import disk, lock
from rlexp.runfolder.files import ELIMINATED, INDEX_FILE, SUMMARY_FILE, line_with_checksum
from rlexp.sweep.build import into_batches
from rlexp.sweep.interrupt import signals_as_ctrl_c
from rlexp.sweep.job import Batch, Job, Results
from rlexp.sweep.machine import allow_open_files

LOG = logging.getLogger(__name__)

_of_this_process: dict[Path, Index] = {}  # by the sweep's folder; a file may be another process's


class Index:
    """jobs.jsonl: the jobs of a sweep in their order, and what became of them."""

    def __init__(self, folder: Path):
        self.path = folder / INDEX_FILE
        self.rows: list[dict[str, Any]] = []
        _of_this_process[folder.resolve()] = self

    def text(self, **changes: Any) -> str:
        return "".join(line_with_checksum(row | changes, len(self.rows)) for row in self.rows)

    def add(self, jobs: Sequence[Job], status: str = "running", reason: str | None = None) -> None:
        """List jobs that are about to start, or that have another status."""
        for job in jobs:
            row = {"job": job.number, "name": job.name, "overrides": list(job.overrides), "variant": job.variant}
            row |= {"seed": job.config.seed, "status": status, "reason": reason, "score": None}
            self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        disk.replace(self.path, self.text())

    def record(self, job: Job, result: float | Exception) -> None:
        """Enter what became of a job; its own summary knows whether it failed or diverged."""
        row = next(row for row in self.rows if row["job"] == job.number)
        if not isinstance(result, Exception):
            row |= {"status": "completed", "score": result}
            return
        row |= {"status": "failed", "reason": describe_error(result)}
        with suppress(OSError, ValueError):
            summary = json.loads((job.folder / SUMMARY_FILE).read_text(encoding="utf-8"))
            if summary.get("status") in ("failed", "diverged"):
                row |= {key: summary[key] for key in ("status", "reason") if summary.get(key)}

    def close(self) -> None:
        """Whatever still runs now was interrupted."""
        for row in self.rows:
            if row["status"] == "running":
                row["status"] = "interrupted"
        self.write()

    def write(self) -> None:
        """Replace the file at once, so that a reader never sees half of it.

        On a full disk write in the room it has; where that is too little, what became of the jobs alone.
        """
        try:
            disk.replace(self.path, self.text())
        except OSError as error:
            for shortened in ({}, {"overrides": [], "reason": None, "score": None}):
                with suppress(OSError), open(self.path, "r+b") as file:
                    file.write(self.text(**shortened).encode())
                    file.truncate()
                    if not shortened:
                        return
                    break
            LOG.warning("%s lacks what became of the jobs: %s", self.path, error.strerror or error)


def unfinished(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the jobs that this process has launched and that did not complete; none of other launchers."""
    index = _of_this_process.pop(folder.resolve(), None)
    return [row for row in index.rows if row["status"] not in ("completed", ELIMINATED)] if index else []


class SweepLauncher:
    """What Hydra's plugin delegates to. A sweeper may ask for several batches of jobs, one after another."""

    def __init__(
        self, settings: LauncherSettings, hydra: HydraContext, task_function: TaskFunction, config: DictConfig
    ):
        self.settings, self.hydra, self.task_function, self.config = settings, hydra, task_function, config
        cache_compositions(hydra)
        self.folder = Path(config.hydra.sweep.dir)
        self.index = Index(self.folder)
        self.returns: dict[int, JobReturn] = {}  # by the job's number

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Train jobs, the first of which has the number ``first``; one JobReturn each, in order."""
        setup_globals()
        self.configure_logs()
        with lock.locked(self.folder), signals_as_ctrl_c():
            loader = self.hydra.config_loader
            plan = loader.plan and loader.plan.part(overrides, first)  # of a sweeper that the check does not know: none
            plan = plan or plan_jobs(loader, self.config, overrides, first)
            trained = []
            for jobs in stages(plan.jobs, self.folder, partial(self.index.add, status=ELIMINATED)):
                trained += jobs
                self.train_jobs(jobs, plan)
            return [self.returns[job.number] for job in trained]

    def train_jobs(self, jobs: Sequence[Job], plan: Plan) -> None:
        """Train some of the jobs of a plan, in batches."""
        executor = import_module(f"rlexp.launch.executors.{self.settings.executor}")
        allow_open_files()
        with executor.open_pool(self.folder.absolute(), jobs, **self.settings.options) as pool:
            batches = into_batches(jobs, self.settings.max_replicas, pool.workers)
            self.index.add(jobs)
            try:
                with closing(pool.run(self.start_batches(batches, plan))) as trained:
                    for batch, results in trained:
                        self.finish_batch(batch, results, plan)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"hydra.sweep.dir={relative(self.folder)}") from None
            finally:
                self.index.close()
                self.configure_logs()

    def configure_logs(self) -> None:
        """Log as the sweep does, not as one of its jobs."""
        configure_logging(self.config.hydra.hydra_logging, self.config.hydra.verbose)

    def start_batches(self, batches: Sequence[Sequence[Job]], plan: Plan) -> Iterator[Batch]:
        """When the turn of a batch has come, do for its jobs what Hydra does before it runs one.

        A job whose folder cannot be made has failed. The files of a run that has ended are of the command that trained
        it: they stay.
        """
        for number, jobs in enumerate(batches, 1):
            self.configure_logs()
            if len(batches) > 1:
                LOG.info("batch %d of %d: %d runs", number, len(batches), len(jobs))
            title = "rlexp" if self.settings.executor == "local" else f"batch {number} of {len(batches)}"
            sweep, settings = self.folder.absolute(), plan.composed[jobs[0].number]
            with hydra_config(settings):
                environment = OmegaConf.to_container(settings.hydra.job.env_set, resolve=True)
            made, failed = [], []
            for job in jobs:
                self.returns[job.number], files = begin_job(plan.composed[job.number])
                try:
                    job.folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    failed.append((job, disk.unwritable(error, job.folder)))
                    continue
                made.append(job)
                if problem := write_files(files, over=job.ended is None):
                    LOG.warning(problem)
            batch = Batch(tuple(made), title, environment, sweep, lock.text(sweep))
            if failed:
                without, errors = zip(*failed, strict=True)
                self.finish_batch(replace(batch, jobs=without), [*errors], plan)
            with job_context(batch):
                for settings in (plan.composed[job.number] for job in made):
                    with hydra_config(settings):
                        self.hydra.callbacks.on_job_start(config=settings, task_function=self.task_function)
            if made:
                yield batch

    def finish_batch(self, batch: Batch, results: Results, plan: Plan) -> None:
        """Record what came out, and do for the jobs of a batch what Hydra does after it has run one."""
        with job_context(batch):
            for job, result in zip(batch.jobs, results, strict=True):
                self.index.record(job, result)
                settings, pending = plan.composed[job.number], self.returns[job.number]
                self.returns[job.number] = end_job(settings, pending, result, self.hydra.callbacks)
        self.index.write()
