"""The launcher at work: plan all jobs, have them trained in batches, give each what Hydra's own would."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from hydra.core.utils import JobReturn
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from rlexp.core.exits import relative
from rlexp.launch.hydra_private import HydraJob, configure_logging, setup_globals, share_compositions
from rlexp.launch.index import Index
from rlexp.launch.logs import write_files
from rlexp.launch.plan import Plan, environment_of, plan_jobs, stages
from rlexp.launch.settings import LauncherSettings
from rlexp.launch.worker import job_context
from rlexp.record import lock
from rlexp.record.disk import unwritable
from rlexp.sweep.buckets import into_batches
from rlexp.sweep.interrupt import signals_as_ctrl_c
from rlexp.sweep.job import Batch, Job, Results
from rlexp.sweep.machine import allow_open_files

LOG = logging.getLogger(__name__)


class SweepLauncher:
    """What Hydra's plugin delegates to. A sweeper may ask for several batches of jobs, one after another."""

    def __init__(
        self, settings: LauncherSettings, hydra: HydraContext, task_function: TaskFunction, config: DictConfig
    ):
        self.settings, self.hydra, self.task_function, self.config = settings, hydra, task_function, config
        share_compositions(hydra)
        self.index = Index(Path(config.hydra.sweep.dir))

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Train jobs, the first of which has the number ``first``; one JobReturn each, in order."""
        setup_globals()
        self.configure_logs()
        with lock.locked(self.index.path.parent), signals_as_ctrl_c():
            return self.train(overrides, first)

    def train(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Do that as the only one who writes to the sweep's folder."""
        loader = self.hydra.config_loader
        plan = loader.plan and loader.plan.part(overrides, first)  # of a sweeper that the check does not know: none
        plan = plan or plan_jobs(loader, self.config, overrides, first)
        hydra_jobs = {
            job.number: HydraJob(plan.composed[job.number], self.hydra, self.task_function) for job in plan.jobs
        }
        trained = []
        for jobs in stages(plan.jobs, self.index.path.parent):
            trained += jobs
            self.train_jobs(jobs, plan, hydra_jobs)
        return [hydra_jobs[job.number].job_return for job in trained]

    def train_jobs(self, jobs: Sequence[Job], plan: Plan, hydra_jobs: dict[int, HydraJob]) -> None:
        """Train some of the jobs of a plan, in batches."""
        executor = import_module(f"rlexp.launch.executors.{self.settings.executor}")
        folder = self.index.path.parent
        allow_open_files()
        with executor.open_pool(folder.absolute(), jobs, **self.settings.options) as pool:
            batches = into_batches(jobs, self.settings.max_replicas, pool.workers)
            self.index.add(jobs)
            try:
                with closing(pool.run(self.start_batches(batches, plan, hydra_jobs))) as trained:
                    for batch, results in trained:
                        self.finish_batch(batch, results, hydra_jobs)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"hydra.sweep.dir={relative(folder)}") from None
            finally:
                self.index.close()
                self.configure_logs()

    def configure_logs(self) -> None:
        """Log as the sweep does, not as one of its jobs."""
        configure_logging(self.config.hydra.hydra_logging, self.config.hydra.verbose)

    def start_batches(
        self, batches: Sequence[Sequence[Job]], plan: Plan, hydra_jobs: dict[int, HydraJob]
    ) -> Iterator[Batch]:
        """When the turn of a batch has come, do for its jobs what Hydra does before it runs one."""
        for number, jobs in enumerate(batches, 1):
            self.configure_logs()
            if len(batches) > 1:
                LOG.info("batch %d of %d: %d runs", number, len(batches), len(jobs))
            title = "rlexp" if self.settings.executor == "local" else f"batch {number} of {len(batches)}"
            sweep = self.index.path.parent.absolute()
            environment = environment_of(plan.composed[jobs[0].number])
            batch = Batch(tuple(jobs), title, environment, sweep, lock.text(sweep))
            batch = self.with_files(batch, hydra_jobs)
            with job_context(batch):
                for job in batch.jobs:
                    hydra_jobs[job.number].on_start()
            if batch.jobs:
                yield batch

    def with_files(self, batch: Batch, hydra_jobs: dict[int, HydraJob]) -> Batch:
        """Make the folders of jobs and what Hydra writes there; return the batch without those that have no folder.

        The files of a run that has ended are of the command that trained it: they stay.
        """
        failed = {}
        for job in batch.jobs:
            files = hydra_jobs[job.number].files()
            try:
                job.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                failed[job.number] = unwritable(error, job.folder)
                continue
            if problem := write_files(files, over=job.ended is None):
                LOG.warning(problem)
        without = tuple(job for job in batch.jobs if job.number in failed)
        if without:
            self.finish_batch(replace(batch, jobs=without), list(failed.values()), hydra_jobs)
        return replace(batch, jobs=tuple(job for job in batch.jobs if job.number not in failed))

    def finish_batch(self, batch: Batch, results: Results, hydra_jobs: dict[int, HydraJob]) -> None:
        """Record what came out, and do for the jobs of a batch what Hydra does after it has run one."""
        with job_context(batch):
            for job, result in zip(batch.jobs, results, strict=True):
                self.index.record(job, result)
                hydra_jobs[job.number].on_end(result)
        self.index.write()
