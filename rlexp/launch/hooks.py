"""What happens around Hydra's runs: every job is checked before anything is written; failures end in exit code 1.

An ordinary exception of a callback is only a warning to Hydra, so these raise SystemExit. Below, the same from a Python
that goes on afterwards: no sys.argv, no exit, no callbacks that print, no logging set up; what Hydra keeps globally is
as it was before.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, RunMode, TaskFunction
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf

from rlexp.config import parse, trust
from rlexp.config.choices import CONF
from rlexp.config.messages import explain
from rlexp.core.exits import BAD_INPUT, FAILED, describe_error, exit_with, printable, relative, safe_stdio, shortened
from rlexp.core.hydra_compat import VERSION_BASE
from rlexp.launch.checks import check_run, check_sweep
from rlexp.launch.halving import is_halving
from rlexp.launch.hydra_private import Callbacks, Hydra, JobRuntime, error_of, restore_overrides, typed_overrides
from rlexp.launch.launcher import unfinished
from rlexp.launch.rungs import print_rungs
from rlexp.record.lock import released_at_the_end

if TYPE_CHECKING:
    from rlexp.analysis.report.page import ReportPage


QUIET = ("~hydra.callbacks.rlexp", "hydra/hydra_logging=none", "hydra/job_logging=none")


class Hooks(Callback):
    """The callback that config.yaml names.

    Hydra 1.4 calls what ends a job, a run or a sweep also when a check or Ctrl-C ends all: it then does nothing.
    """

    def __init__(self):
        self.handled = sys.exception()  # by whoever calls this program as a function

    @property
    def ended_early(self) -> bool:
        """Whether an exception is on its way to the end of the program."""
        return sys.exception() is not self.handled

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Check a single run."""
        restore_overrides(config)
        check_or_exit(check_run, config)

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Check every job of a sweep."""
        restore_overrides(config)
        check_or_exit(check_sweep, config)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Write the traceback of a failed run to its log, where Hydra 1.4 has not put it."""
        if self.ended_early or getattr(job_return, "_remote_traceback", None) is not None:
            return
        path = OmegaConf.select(config, "hydra.job_logging.handlers.file.filename")
        if (error := error_of(job_return)) and path:
            with suppress(OSError), open(path, "a", encoding="utf-8") as log:
                log.writelines(traceback.format_exception(error))

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Say what came out and where it is, or why there is nothing."""
        if self.ended_early:
            return
        folder = relative(config.hydra.runtime.output_dir)
        if error := error_of(job_return):
            exit_with(f"run failed: {describe_error(error)} (see {folder})", FAILED, error)
        print(f"{config.score.metric} {job_return.return_value:.3f}")
        print(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Name the study's document and the page, compare the variants, list failed runs, say where the results are."""
        if self.ended_early:
            return
        folder = Path(config.hydra.sweep.dir)
        if document := (config.get("study") or {}).get("worked"):
            print(f"the numbers of the document: rlexp worked {document}")
        if is_halving(config):
            print_rungs(folder)
        problems: list[str] = []
        page = write_page(folder, config.get("baseline"), problems)
        compare(folder, config.get("baseline"), page, problems)
        failed = unfinished(folder)
        print(relative(folder), flush=True)
        if failed:
            exit_with("\n".join(f"{row['name']}: {row['status']}: {row['reason']}" for row in failed), FAILED)
        if problems:
            raise SystemExit(FAILED)


def check_or_exit(check: Callable[[DictConfig], None], config: DictConfig) -> None:
    """Run a check of the input; end the process with its line if it fails."""
    try:
        check(config)
    except Exception as error:
        exit_with(explain(error, typed_overrides(config)), BAD_INPUT, error)


def compare(folder: Path, baseline: str | None, page: ReportPage | None, problems: list[str]) -> None:
    """Print and write the comparison; results are on disk already, so a failure here is one line.

    page: the sweep's, if it could be written: it has the answer and the notes. problems: gets that line.
    """
    logging.getLogger().setLevel(logging.WARNING)  # the font library logs every glyph
    try:
        from rlexp.analysis.compare import report

        report(folder, baseline=baseline, page=page)
    except Exception as error:
        complain(problems, f"no comparison: {describe_error(error)} (rlexp compare {relative(folder)})")


def write_page(folder: Path, baseline: str | None, problems: list[str]) -> ReportPage | None:
    """Write the sweep's page, say where it is, mirror it if the runs are mirrored. A failure here is one line too."""
    try:
        from rlexp.analysis.report.page import write_report
        from rlexp.analysis.report.wandb import log_aggregate, mirrored

        page = write_report(folder, baseline=baseline)
        print(f"page: {relative(page.path.absolute())}", flush=True)
    except Exception as error:
        complain(problems, f"no report: {describe_error(error)} (rlexp report {relative(folder)})")
        return None
    try:
        if mirrored(page.answer.data):
            log_aggregate(page.answer, page.figures)
    except Exception as error:  # its process has died: the tables are on disk
        print(f"no comparison on Weights & Biases: {describe_error(error)}; the page has all of it", file=sys.stderr)
    return page


def complain(problems: list[str], line: str) -> None:
    """Say what went wrong after all runs, and remember that."""
    print(printable(shortened(line, sys.argv[1:])), file=sys.stderr)
    problems.append(line)


def run_sweep(overrides: Sequence[str], task_function: TaskFunction) -> Path:
    """Train what `rlexp -m <overrides>` trains; return the sweep's folder. Whatever is wrong is raised."""
    with own_hydra() as hydra:
        config = compose_master(hydra, overrides, RunMode.MULTIRUN)
        check_sweep(config)
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        sweeper = Plugins.instance().instantiate_sweeper(
            config=config, hydra_context=context, task_function=task_function
        )
        sweeper.sweep(arguments=typed_overrides(config))
        return Path(config.hydra.sweep.dir)


def run_single(overrides: Sequence[str], task_function: TaskFunction) -> Path:
    """Train what `rlexp <overrides>` trains; return the run's folder. Whatever is wrong is raised."""
    with own_hydra() as hydra:
        config = compose_master(hydra, overrides, RunMode.RUN)
        check_run(config)
        folder = Path(config.hydra.run.dir)
        again = [*overrides, f"hydra.run.dir={folder}"]  # its name holds the time
        again += [] if config.hydra.output_subdir else ["hydra.output_subdir=null"]
        hydra.run("config", task_function, for_hydra(again, RunMode.RUN), with_log_configuration=False)
        return folder


def compose_master(hydra: Hydra, overrides: Sequence[str], mode: RunMode) -> DictConfig:
    """Return what Hydra composes of overrides that it reads as those of the command line."""
    config = hydra.compose_config("config", for_hydra(overrides, mode), run_mode=mode, with_log_configuration=False)
    config.hydra.mode = mode
    restore_overrides(config)
    return config


def for_hydra(overrides: Sequence[str], mode: RunMode) -> list[str]:
    """Return overrides as Hydra reads them; ConfigError for mistakes, and for untrusted code."""
    option = ["-m"] if mode is RunMode.MULTIRUN else []
    overrides, trusted = trust.split_option(overrides)
    parse.check([*option, *overrides])
    if not trusted:
        trust.check_folders(overrides)
    return [*parse.for_hydra([*option, *overrides])[len(option) :], *QUIET]


@contextmanager
def own_hydra() -> Iterator[Hydra]:
    """Context with a Hydra of its own; the one of a program around it, and the settings of torch, are put back."""
    outer, node = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    base, name = VersionBase.instance().version_base, JobRuntime.instance().get("name")
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), **VERSION_BASE), released_at_the_end(), safe_stdio():
            yield GlobalHydra.instance().hydra
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = outer, node
        VersionBase.instance().version_base = base
        JobRuntime.instance().set("name", name)
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
