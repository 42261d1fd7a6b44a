"""Trackio: a dashboard on this machine, without an account; `trackio show --project rlexp` opens it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from rlexp.record.logged import LoggedJob, completions, display_name, finite, plain_values, run_settings, sweep_name


@dataclass(frozen=True)
class Trackio:
    """One run of Trackio, beside others in the same process."""

    run: Any
    job: LoggedJob

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Log a row; Trackio keeps the step by itself and draws nothing where a number is not finite."""
        self.run.log({key: value for key, value in finite(row).items() if value is not None}, step=step)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Add the completions and the numbers and words of the summary, and wait until all is in Trackio's file."""
        import trackio

        table = completions(self.job)
        named = {"completions": trackio.Table(columns=table.columns, data=table.rows)} if table else {}
        values = {f"summary/{key}": value for key, value in plain_values(summary).items() if value is not None}
        self.run.log({**named, **values, "summary/status": status}, step=summary.get("steps"))
        with redirect_stdout(io.StringIO()):  # it prints a line for each run
            self.run.finish()


def open_trackio(job: LoggedJob, *, project: str, group: str | None) -> Trackio:
    """Log to Trackio's file of the project, below TRACKIO_DIR."""
    import trackio
    from trackio import context_vars

    others = context_vars.current_run.get()  # a new run would end the one before it
    context_vars.current_run.set(None)
    try:
        with redirect_stdout(io.StringIO()):
            run = trackio.init(
                project=project,
                name=f"{sweep_name(job)}/{display_name(job)}",
                group=group or job.variant,
                config=run_settings(job),
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
    finally:
        context_vars.current_run.set(others)
    return Trackio(run, job)
