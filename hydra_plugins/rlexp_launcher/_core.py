"""The fused launcher at work: plan all jobs, have them trained in batches, give each what Hydra's own would."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, _save_config, configure_log, setup_globals
from omegaconf import OmegaConf, open_dict, read_write

from hydra_plugins.rlexp_launcher._cut import into_buckets
from hydra_plugins.rlexp_launcher._index import Index
from hydra_plugins.rlexp_launcher._part import Part
from rlexp.hooks import shortest
from rlexp.interrupt import terminated_as_by_ctrl_c
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


@dataclass(frozen=True)
class Bucket:
    """Jobs that train together: as planned, what Hydra gets to know of them, and what a worker gets to know."""

    jobs: Sequence[Planned]
    returns: Sequence[JobReturn]
    part: Part


Results = list[float | Exception]


def launch(launcher: FusedLauncher, batch: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """Train a batch of jobs; one JobReturn each, in order."""
    setup_globals()
    configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    planned = plan(launcher.hydra_context.config_loader, launcher.config, batch, first)
    index = Index(Path(launcher.config.hydra.sweep.dir), launcher.rows)
    executor = import_module(f"hydra_plugins.rlexp_launcher._{launcher.executor}")
    returns: dict[int, JobReturn] = {}
    with executor.open_pool(index.path.parent.absolute(), **launcher.knobs) as pool, terminated_as_by_ctrl_c():
        parts = into_buckets(planned, launcher.max_replicas, pool.workers)
        index.open(planned)
        try:
            for bucket, results in pool.run(begun(launcher, parts)):
                returns |= conclude(launcher, bucket, results, index)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"hydra.sweep.dir={shortest(index.path.parent)}") from None
        finally:
            index.close()
            configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    return [returns[job.number] for job in planned]


def begun(launcher: FusedLauncher, parts: Sequence[Sequence[Planned]]) -> Iterator[Bucket]:
    """Do for the jobs of each part, when its turn has come, what Hydra's ``run_job`` does before it runs one."""
    for number, jobs in enumerate(parts, 1):
        LOG.info("batch %d of %d: %d runs", number, len(parts), len(jobs))
        returns = [prepare(job) for job in jobs]
        title = "rlexp" if launcher.executor == "inline" else f"batch {number} of {len(parts)}"
        bucket = Bucket(jobs, returns, Part.of(jobs, title))
        with bucket.part.surroundings():
            for job in jobs:
                with hydra_config(job.settings):
                    launcher.hydra_context.callbacks.on_job_start(
                        config=job.settings, task_function=launcher.task_function
                    )
        yield bucket


def conclude(launcher: FusedLauncher, bucket: Bucket, results: Results, index: Index) -> dict[int, JobReturn]:
    """Do for the jobs of a bucket what Hydra's ``run_job`` does after it has run one."""
    with bucket.part.surroundings():
        for job, ret, result in zip(bucket.jobs, bucket.returns, results, strict=True):
            failed = isinstance(result, Exception)
            ret.status, ret._return_value = JobStatus.FAILED if failed else JobStatus.COMPLETED, result
            index.record(job, result)
            with hydra_config(job.settings):
                launcher.hydra_context.callbacks.on_job_end(config=job.settings, job_return=ret)
    index.write()
    return {job.number: finished(ret) for job, ret in zip(bucket.jobs, bucket.returns, strict=True)}


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
