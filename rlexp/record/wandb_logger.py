"""Weights & Biases: a mirror of a run's own files, offline unless asked."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from rlexp.record.logged import (
    LoggedJob,
    Table,
    completions,
    display_name,
    finite,
    own_tags,
    plain_values,
    run_id,
    run_settings,
    warn_once,
)

SECONDS_TO_CONNECT = 10.0

# Quiet, nothing collected that the run's own files do not have, and rows in the file within a second: by default
# wandb 0.31 writes each 32 KiB or 15 s, and a killed process leaves an empty file.
SETTINGS = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "symlink": False,  # of its logs, three a run
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_save_requirements": False,  # reading them takes two thirds of the time to open a run
    "x_transaction_log_flush_interval": 1.0,
    "init_timeout": SECONDS_TO_CONNECT,
    "finish_timeout": 60.0,
}


@dataclass(frozen=True)
class Wandb:
    """One run of Weights & Biases, beside others in the same process."""

    run: Any
    job: LoggedJob | None = None

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Log a row; the step is passed on, as wandb's own count starts at 0 again in each offline run."""
        with _ignoring_lost_connection():  # without commit the row waits for the next one
            self.run.log({"step": step, **finite(row)}, step=step, commit=True)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Add the completions, and the numbers and words of the summary (wandb knows the last row); close the run."""
        with _ignoring_lost_connection():
            if self.job and (table := completions(self.job)):
                self._log_completions(table)
            self.run.summary.update({**plain_values(summary), "status": status})
            _finish(self.run, int(status != "completed"))

    def _log_completions(self, table: Table) -> None:
        """Log a table in a row of its own, as no step takes a second one."""
        import wandb

        try:
            self.run.log({"completions": wandb.Table(columns=table.columns, data=table.rows)})
        except ConnectionError:
            raise
        except Exception as error:  # wandb asks the server about tables, and raises what its answer is taken for
            warn_once(f"wandb took no completions ({_first_line(error)}): samples.jsonl has them")


def open_wandb(
    job: LoggedJob,
    *,
    mode: Literal["offline", "online", "disabled"],
    project: str,
    entity: str | None,
    group: str | None,
    tags: list[str],
) -> Wandb:
    """Log to Weights & Biases; without a key or a server, ``online`` turns into ``offline`` for the whole process."""
    run = _open(
        mode,
        project=project,
        entity=entity,
        tags=[*dict.fromkeys([*tags, *own_tags(job)])],
        dir=str(job.folder),
        id=run_id(job),
        name=display_name(job),
        group=group or job.variant,
        job_type="train",
        config=run_settings(job),
    )
    with _ignoring_lost_connection():
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
    return Wandb(run, job)


def _open(mode: str, **options: Any) -> Any:
    """Open a wandb run; a connection that fails is tried once per process, as the try takes ten seconds."""
    import wandb  # half a second that only its users should wait

    settings = {name: value for name, value in SETTINGS.items() if name in wandb.Settings.model_fields}
    options |= {"settings": wandb.Settings(**settings), "reinit": "create_new"}
    wandb.setup(settings=options["settings"])  # silent before the first run, or wandb asks for a missing key
    if mode == "online" and not _unreachable:
        try:
            return wandb.init(mode="online", **options)
        except wandb.errors.Error as error:
            _unreachable.append(error)
            warn_once(f"wandb is not reachable ({_first_line(error)}): logging offline; `wandb sync` uploads later")
            options["id"] += "-offline"  # the id itself stays taken by the run that did not connect
    offline = "offline" if mode == "online" else mode
    try:
        return wandb.init(mode=offline, **options)
    except Exception:  # its process has died since the last run was opened, or cannot start
        _leave()
    try:
        return wandb.init(mode=offline, **options)
    except Exception as error:
        warn_once(f"wandb does not start ({_first_line(error)}): training goes on, metrics.jsonl has all rows")
        return wandb.init(mode="disabled", **options)


def _finish(run: Any, exit_code: int) -> None:
    """Close a run; once the server did not take one in time, the others are waited for beside each other, at the end.

    Each would wait a minute, one after another.
    """
    if not _unreachable:
        run.finish(exit_code=exit_code)
        if getattr(run, "_finish_timed_out", False):
            _unreachable.append(TimeoutError())
            warn_once("wandb's server takes no more rows: the next runs log offline; `wandb sync` uploads later")
    elif getattr(run, "offline", True):
        run.finish(exit_code=exit_code)
    else:
        threading.Thread(target=_finish_quietly, args=(run, exit_code)).start()  # Python waits for it before its end


def _finish_quietly(run: Any, exit_code: int) -> None:
    with suppress(Exception):
        run.finish(exit_code=exit_code)


_unreachable: list[Exception] = []


@contextmanager
def _ignoring_lost_connection() -> Iterator[None]:
    """Train on without wandb when its process has died (as when memory runs out): the run's own files are complete.

    Whatever it raises then: a mirror never stops a run.
    """
    try:
        yield
    except Exception as error:
        atexit.register(_leave)  # before wandb's own, which would show a traceback
        warn_once(f"wandb has stopped ({_first_line(error)}): training goes on, metrics.jsonl has all rows")


def _leave() -> None:
    """End what is left of wandb in this process, so that it starts anew when it is asked for again."""
    import wandb

    with suppress(Exception, SystemExit):
        wandb.teardown()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
