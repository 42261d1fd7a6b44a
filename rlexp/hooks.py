"""What happens around Hydra's runs: every job is checked before anything is written; failures end in exit code 1.

An ordinary exception of a callback is only a warning to Hydra, so these raise SystemExit.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from rlexp.exits import BAD_INPUT, FAILED, leave, reason


class Hooks(Callback):
    """The callback that config.yaml names."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Check a single run."""
        or_exit(check_run, config)

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Check every job of a sweep."""
        or_exit(check_sweep, config)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Keep the traceback of a failed run in its log, where Hydra does not put it."""
        path = OmegaConf.select(config, "hydra.job_logging.handlers.file.filename")
        if job_return.status is JobStatus.FAILED and path:
            with open(path, "a", encoding="utf-8") as log:
                log.writelines(traceback.format_exception(job_return._return_value))

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Say what came out and where it is, or why there is nothing."""
        folder = shortest(config.hydra.runtime.output_dir)
        if job_return.status is JobStatus.FAILED:
            leave(f"run failed: {reason(job_return._return_value)} (see {folder})", FAILED, job_return._return_value)
        print(f"{config.score.metric} {job_return.return_value:.3f}")
        print(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Compare the variants, list the failed runs, say where the results are."""
        folder = Path(config.hydra.sweep.dir)
        compare(folder, config.get("baseline"))
        write_page(folder, config.get("baseline"))
        failed = [row for row in read_index(folder) if row["status"] != "completed"]
        print(shortest(folder), flush=True)
        if failed:
            leave("\n".join(f"{row['name']}: {row['status']}: {row['reason']}" for row in failed), FAILED)


def or_exit(check: Callable[[DictConfig], None], config: DictConfig) -> None:
    """Run a check of the input; leave with its line if it fails."""
    try:
        check(config)
    except Exception as error:
        from rlexp.explain import explain

        leave(explain(error, list(config.hydra.overrides.task)), BAD_INPUT, error)


def check_run(config: DictConfig) -> None:
    """ConfigError unless the run can start."""
    from rlexp.compose import plain
    from rlexp.config import read
    from rlexp.errors import ConfigError
    from rlexp.machine import device_problem
    from rlexp.plan import folder_problem, hydra_config
    from rlexp.resume import refusal

    checked = read(plain(config))
    with hydra_config(config):
        folder = Path(os.path.abspath(config.hydra.run.dir))
    if problem := device_problem(checked) or folder_problem(folder) or refusal(checked, folder):
        raise ConfigError([problem])
    note([checked])


def check_sweep(config: DictConfig) -> None:
    """ConfigError unless every job can start; what was composed is kept for the sweeper and the launcher."""
    from rlexp.errors import ConfigError
    from rlexp.executors import elsewhere
    from rlexp.machine import device_problem
    from rlexp.plan import Remembering, folder_problem, launcher_problem, plan

    hydra = GlobalHydra.instance().hydra
    hydra.config_loader = Remembering(hydra.config_loader)
    folder = config.hydra.sweep.dir  # fixes `${now:}` for all jobs, which copy what is resolved here
    if problem := folder_problem(Path(folder).absolute()) or launcher_problem(config):
        raise ConfigError([problem])
    planned = plan(hydra.config_loader, config, jobs_of(config))
    problems = {} if elsewhere(config.hydra.launcher) else {device_problem(job.config): None for job in planned}
    if problem := next(filter(None, problems), None):
        raise ConfigError([problem])
    note([job.config for job in planned])


def note(configs: Sequence[Any]) -> None:
    """Print each remark about checked configs once."""
    from rlexp.remarks import remarks

    for line in dict.fromkeys(line for config in configs for line in remarks(config)):
        print(f"note: {line}", file=sys.stderr)


def jobs_of(config: DictConfig) -> Sequence[Sequence[str]]:
    """Return the overrides of each job; none if the sweeper makes them up as it goes."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf

    settings = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    if settings.pop("_target_") != BasicSweeperConf._target_:
        return []
    sweeper = BasicSweeper(**settings)
    arguments = [*sweeper._parse_config(), *config.hydra.overrides.task]
    overrides = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(arguments)
    jobs = [job for batch in sweeper.split_arguments(overrides, sweeper.max_batch_size) for job in batch]
    if not jobs:
        empty = [each.input_line for each in overrides if each.is_sweep_override() and not [*each.sweep_iterator()]]
        raise ValueError(f"{' '.join(empty)}: a sweep over nothing")
    return jobs


def compare(folder: Path, baseline: str | None) -> None:
    """Print and write the comparison; results are on disk already, so a failure here is one line."""
    logging.getLogger().setLevel(logging.WARNING)  # the font library tells of every glyph
    try:
        from analysis.compare import report

        report(folder, baseline=baseline)
    except Exception as error:
        print(f"no comparison: {reason(error)} (python -m analysis.compare {shortest(folder)})", file=sys.stderr)


def write_page(folder: Path, baseline: str | None) -> None:
    """Write the sweep's page, say where it is, mirror it if the runs are mirrored. A failure here is one line too."""
    try:
        from analysis.aggregate import log_aggregate, mirrored
        from analysis.report import write_report

        page = write_report(folder, baseline=baseline)
        print(shortest(page.path.absolute()))
        if mirrored(page.answer.data):
            log_aggregate(page.answer.data, page.answer.comparisons, page.figures)
    except Exception as error:
        print(f"no report: {reason(error)} (python -m analysis.report {shortest(folder)})", file=sys.stderr)


def read_index(folder: Path) -> list[dict]:
    """Return the rows of jobs.jsonl; none if another launcher ran."""
    path = folder / "jobs.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def shortest(folder: str | Path) -> str:
    """Return a path relative to the current folder if it is below it."""
    folder = Path(folder)
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
