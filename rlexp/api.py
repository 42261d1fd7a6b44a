"""The command line's work from Python: train, sweep, read the results, load a policy.

    import rlexp
    found = rlexp.sweep(norm=["local", "global", mad], seeds=range(6))  # mad: a function of your own
    found = rlexp.sweep("norm=local,global", "clip.high=0.28")  # the same words as on the command line
    found.runs, found.metrics       # frames, one row a run and one row a logged step

Overrides are those of the command line, and so are the files that a run leaves behind. What is wrong is raised:
``ConfigError`` before anything is written, ``RunFailed`` for runs that did not complete. Only notes and progress are
printed, on stderr. No setting of the process stays changed, but that glibc's allocator keeps the memory that was used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.config.messages import EXPECTED, explain
from rlexp.config.plugins import register
from rlexp.core.errors import ConfigError, format_value
from rlexp.core.exits import RunFailed
from rlexp.launch.hooks import run_single, run_sweep
from rlexp.launch.launcher import unfinished
from rlexp.record.policies import TrainedPolicy, load_policy
from rlexp.runfolder.variants import key_of
from rlexp.train import hydra_main

if TYPE_CHECKING:
    from rlexp.analysis.compare import Report
    from rlexp.analysis.data.load import SweepData

__all__ = ["ConfigError", "RunFailed", "SweepFailed", "TrainedPolicy"]
__all__ += ["compare", "load", "load_policy", "sweep", "train"]


class SweepFailed(RunFailed):
    """A sweep with runs that did not complete; ``found`` has them and the others."""

    def __init__(self, message: str, found: SweepData):
        super().__init__(message)
        self.found = found


def sweep(
    *overrides: str, seeds: Iterable[int] | None = None, folder: str | Path | None = None, **values: object
) -> SweepData:
    """Train every combination of the overrides' values over paired seeds, as `rlexp -m` does, and read the results.

    Args:
        overrides: as on the command line, ``"norm=local,global"``.
        seeds: those of the configuration, ten of them, unless given.
        folder: runs/<time> unless given. A folder that holds some of the runs is continued: finished runs are not
            trained again.
        values: overrides as keywords, a list for what is compared: ``norm=["local", "global"]``,
            ``**{"clip.high": [0.2, 0.28]}``. A function is registered under its name and chosen.

    Returns:
        The runs, as ``load`` returns them.

    Raises:
        ConfigError: before anything is written, a line for each problem.
        SweepFailed: some runs did not complete; its ``found`` has all of them.
    """
    overrides = [*overrides, *as_overrides(values)]
    if seeds is not None:
        numbers = ",".join(str(int(seed)) for seed in seeds)
        if not numbers:
            raise ConfigError(["seeds: there are none"])
        if given := [override for override in overrides if key_of(override) == "seed"]:
            raise ConfigError([f"{given[0]} seeds=[{numbers}]: give the seeds once"])
        overrides.append(f"seed={numbers}")
    if folder is not None:
        overrides.append(f"hydra.sweep.dir={folder}")
    with mistakes_as_config_errors(overrides):
        place = run_sweep(overrides, hydra_main)
    found = load(place)
    if failed := unfinished(place):
        reasons = "; ".join(f"{row['name']}: {row['status']}: {row['reason']}" for row in failed)
        raise SweepFailed(f"{len(failed)} of {len(found.runs)} runs in {place} did not complete: {reasons}", found)
    return found


def train(*overrides: str, folder: str | Path | None = None, **values: object) -> Path:
    """Train one run, as `rlexp` does, and return its folder: for `load` and `load_policy`."""
    overrides = [*overrides, *as_overrides(values), *([] if folder is None else [f"hydra.run.dir={folder}"])]
    with mistakes_as_config_errors(overrides):
        return run_single(overrides, hydra_main)


def load(*folders: str | Path) -> SweepData:
    """Read the runs of sweeps, or single runs."""
    from rlexp.analysis import load as read

    return read(folders)


def compare(*folders: str | Path, baseline: str | None = None, **choices: object) -> Report:
    """Compare the variants of sweeps, as `rlexp compare` does, and write its tables and figures, but print nothing.

    ``.comparison.table`` has the numbers, ``.notes`` what one must know beside them, ``.files`` what was written.
    """
    from rich.console import Console

    from rlexp.analysis.compare import report

    return report(folders, baseline, Console(quiet=True), **choices)


def as_overrides(values: Mapping[str, object]) -> list[str]:
    """Return keywords as overrides: ``norm=["local", mad]`` → ``norm=local,mad``, and ``mad`` is registered."""
    overrides = []
    for key, value in values.items():
        listed = value if isinstance(value, list) else [value]
        for function in filter(callable, listed):
            register(key, function)
        texts = (each.__name__ if callable(each) else format_value(each) for each in listed)
        overrides.append(f"{key}={','.join(texts)}")
    return overrides


@contextmanager
def mistakes_as_config_errors(overrides: Sequence[str]) -> Iterator[None]:
    """Context in which whatever Hydra, YAML or the file system complains about is a ConfigError with our words."""
    try:
        yield
    except ConfigError:
        raise
    except EXPECTED as error:
        raise ConfigError(explain(error, overrides).splitlines()) from error
