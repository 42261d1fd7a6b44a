"""The fused launcher at work: plan all jobs, train them bucket by bucket, give each what Hydra's own launcher would."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, _save_config, configure_log, env_override, setup_globals
from omegaconf import OmegaConf, open_dict, read_write

from hydra_plugins.rlexp_launcher._index import Index
from hydra_plugins.rlexp_launcher._logs import logs_of
from rlexp import engine
from rlexp.hooks import shortest
from rlexp.plan import Planned, hydra_config, plan

if TYPE_CHECKING:
    from hydra_plugins.rlexp_launcher.fused import FusedLauncher

LOG = logging.getLogger(__name__)


class FailedJob(JobReturn):
    """A failed job, worth nan: reading the value of Hydra's own raises and would end the sweep before later batches."""

    @property
    def return_value(self) -> float:
        """Not a number; the exception is in ``_return_value``."""
        return float("nan")


def launch(launcher: FusedLauncher, batch: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """Train a batch of jobs; one JobReturn each, in order."""
    setup_globals()
    configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    planned = plan(launcher.hydra_context.config_loader, launcher.config, batch, first)
    index = Index(Path(launcher.config.hydra.sweep.dir), launcher.rows)
    index.open(planned)
    buckets = into_buckets(planned, launcher.max_replicas)
    returns: dict[int, JobReturn] = {}
    try:
        for number, bucket in enumerate(buckets, 1):
            LOG.info("batch %d of %d: %d runs", number, len(buckets), len(bucket))
            returns |= run_bucket(launcher, bucket, index)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"hydra.sweep.dir={shortest(index.path.parent)}") from None
    finally:
        index.close()
        configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    return [returns[job.number] for job in planned]


def into_buckets(planned: Sequence[Planned], most: int | None) -> list[list[Planned]]:
    """Group the jobs that can be trained as one batch, at most ``most`` in each."""
    groups: dict[str, list[Planned]] = {}
    for job in planned:
        groups.setdefault(engine.bucket_key(job.config), []).append(job)
    size = most or len(planned)
    return [group[first : first + size] for group in groups.values() for first in range(0, len(group), size)]


def run_bucket(launcher: FusedLauncher, bucket: Sequence[Planned], index: Index) -> dict[int, JobReturn]:
    """Do for the jobs of a bucket what Hydra's ``run_job`` does for one."""
    callbacks = launcher.hydra_context.callbacks
    returns = [prepare(job) for job in bucket]
    with logs_of(bucket), env_override(bucket[0].settings.hydra.job.env_set):
        for job in bucket:
            with hydra_config(job.settings):
                callbacks.on_job_start(config=job.settings, task_function=launcher.task_function)
        results = train(bucket)
        for job, ret, result in zip(bucket, returns, results, strict=True):
            failed = isinstance(result, Exception)
            ret.status, ret._return_value = JobStatus.FAILED if failed else JobStatus.COMPLETED, result
            index.record(job, result)
            with hydra_config(job.settings):
                callbacks.on_job_end(config=job.settings, job_return=ret)
    index.write()
    return {job.number: finished(ret) for job, ret in zip(bucket, returns, strict=True)}


def finished(ret: JobReturn) -> JobReturn:
    """Return what the sweeper gets to see of a job."""
    return ret if ret.status is JobStatus.COMPLETED else FailedJob(**vars(ret))


def prepare(job: Planned) -> JobReturn:
    """Write what Hydra writes into a job's folder; return what Hydra would know of the job before it starts."""
    settings = job.settings
    with read_write(settings.hydra.runtime), open_dict(settings.hydra.runtime):
        settings.hydra.runtime.output_dir = str(job.folder)
    with hydra_config(settings):
        hydra_settings = copy.deepcopy(HydraConfig.instance().cfg)
    task_settings = OmegaConf.masked_copy(settings, [key for key in settings if key != "hydra"])
    if settings.hydra.output_subdir is not None:
        folder = job.folder / settings.hydra.output_subdir
        _save_config(task_settings, "config.yaml", folder)
        _save_config(hydra_settings, "hydra.yaml", folder)
        _save_config(settings.hydra.overrides.task, "overrides.yaml", folder)
    job.folder.mkdir(parents=True, exist_ok=True)
    return JobReturn(
        overrides=list(job.overrides),
        cfg=task_settings,
        hydra_cfg=hydra_settings,
        working_dir=os.getcwd(),
        task_name=JobRuntime.instance().get("name"),
    )


def train(bucket: Sequence[Planned]) -> list[float | Exception]:
    """Train a bucket; what stops the whole of it is the result of each of its jobs."""
    jobs = [engine.Job(job.config, job.folder, job.name, job.variant) for job in bucket]
    try:
        results = list(engine.train_jobs(jobs))
        if len(results) != len(jobs):
            raise RuntimeError(f"{len(results)} results for {len(jobs)} jobs")
    except Exception as error:
        return [error] * len(jobs)
    return results
