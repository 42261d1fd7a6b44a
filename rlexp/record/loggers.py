"""Where rows go beside metrics.jsonl: ``open_x(job, *, …)`` → ``.log(step, row)``, ``.finish(status, summary)``.

``job`` is a ``rlexp.sweep.job.Job``. Weights & Biases mirrors a run's own files, offline unless asked. Trackio is
a dashboard on this machine, without an account; `trackio show --project rlexp` opens it. Nothing reads these logs back,
and a run does not depend on them.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

from rlexp.record.disk import finite_or_null
from rlexp.record.provenance import code, history
from rlexp.runfolder.files import SAMPLES_FILE

LOG = logging.getLogger(__name__)
LONGEST_TAG = 64  # that W&B takes
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

_unreachable: list[Exception] = []
warn_once = cache(LOG.warning)


def run_id(job: Any) -> str:
    """Variant and seed in the characters that wandb allows, and a hash of the folder, which tells sweeps apart."""
    words = re.sub(r"[^\w.=-]+", "_", job.variant, flags=re.ASCII)[:60]
    return f"{words}-s{job.config.seed}-{hashlib.sha256(str(job.folder.resolve()).encode()).hexdigest()[:8]}"


def run_settings(job: Any) -> dict[str, Any]:
    """Return the whole config of a run, what it is called, and the code that trains it.

    Of a run that other code has begun, `code.earlier` lists what that was and from which step it trained.
    """
    *earlier, now = history(job.folder) or [code()]
    return {
        **job.config.model_dump(mode="json"),
        "variant": job.variant,
        "seed": job.config.seed,
        "sweep_name": job.folder.resolve().parent.name,
        "code": {**now, "earlier": earlier} if earlier else now,
    }


def own_tags(job: Any) -> list[str]:
    """Return the tags that a run has by itself: its task, its study and its preset."""
    config = job.config.model_dump(mode="json")
    names = {key: (config.get(key) or {}).get("name") for key in ("task", "study")}
    preset = re.search(r"(?:^|,)\+*preset=([^,]+)", job.variant)
    names["preset"] = preset[1] if preset and preset[1] != "none" else None
    return [f"{key}={name}"[:LONGEST_TAG] for key, name in names.items() if name]


def completions(job: Any) -> dict[str, list] | None:
    """Return the completions that a run has kept as text, as columns and data of a table; None if it has kept none."""
    path = job.folder / SAMPLES_FILE
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    if not samples:
        return None
    columns = list(samples[0])
    return {"columns": columns, "data": [[sample.get(column) for column in columns] for sample in samples]}


def plain_values(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if not isinstance(value, Mapping)}


@dataclass(frozen=True)
class Wandb:
    """One run of Weights & Biases, beside others in the same process."""

    run: Any
    job: Any = None

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Log a row; the step is passed on, as wandb's own count starts at 0 again in each offline run."""
        with _ignoring_lost_connection():  # without commit the row waits for the next one
            self.run.log({"step": step, **finite_or_null(row)}, step=step, commit=True)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Add the completions, and the numbers and words of the summary (wandb knows the last row); close the run."""
        with _ignoring_lost_connection():
            if self.job and (table := completions(self.job)):
                import wandb

                try:  # in a row of its own, as no step takes a second one
                    self.run.log({"completions": wandb.Table(**table)})
                except ConnectionError:
                    raise
                except Exception as error:  # wandb asks the server about tables, and raises what it answers
                    warn_once(f"wandb took no completions ({_first_line(error)}): samples.jsonl has them")
            self.run.summary.update({**plain_values(summary), "status": status})
            _finish(self.run, int(status != "completed"))


def open_wandb(
    job: Any,
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
        name=f"{job.variant}-s{job.config.seed}",
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
    with suppress(Exception):
        return wandb.init(mode=offline, **options)
    _leave()  # its process has died since the last run was opened, or cannot start
    try:
        return wandb.init(mode=offline, **options)
    except Exception as error:
        warn_once(f"wandb does not start ({_first_line(error)}): training goes on, metrics.jsonl has all rows")
        return wandb.init(mode="disabled", **options)


def _finish(run: Any, exit_code: int) -> None:
    """Close a run; once the server did not take one in time, the others are waited for beside each other, at the end.

    Each would wait a minute, one after another.
    """

    def finish_quietly() -> None:
        with suppress(Exception):
            run.finish(exit_code=exit_code)

    if _unreachable and not getattr(run, "offline", True):
        threading.Thread(target=finish_quietly).start()  # Python waits for it before its end
        return
    run.finish(exit_code=exit_code)
    if not _unreachable and getattr(run, "_finish_timed_out", False):
        _unreachable.append(TimeoutError())
        warn_once("wandb's server takes no more rows: the next runs log offline; `wandb sync` uploads later")


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


@dataclass(frozen=True)
class Trackio:
    """One run of Trackio, beside others in the same process."""

    run: Any
    job: Any

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        """Log a row; Trackio keeps the step by itself and draws nothing where a number is not finite."""
        self.run.log({key: value for key, value in finite_or_null(row).items() if value is not None}, step=step)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Add the completions and the numbers and words of the summary, and wait until all is in Trackio's file."""
        import trackio

        table = completions(self.job)
        named = {"completions": trackio.Table(**table)} if table else {}
        values = {f"summary/{key}": value for key, value in plain_values(summary).items() if value is not None}
        self.run.log({**named, **values, "summary/status": status}, step=summary.get("steps"))
        with redirect_stdout(io.StringIO()):  # it prints a line for each run
            self.run.finish()


def open_trackio(job: Any, *, project: str, group: str | None) -> Trackio:
    """Log to Trackio's file of the project, below TRACKIO_DIR."""
    import trackio
    from trackio import context_vars

    others = context_vars.current_run.get()  # a new run would end the one before it
    context_vars.current_run.set(None)
    try:
        with redirect_stdout(io.StringIO()):
            run = trackio.init(
                project=project,
                name=f"{job.folder.resolve().parent.name}/{job.variant}-s{job.config.seed}",
                group=group or job.variant,
                config=run_settings(job),
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
    finally:
        context_vars.current_run.set(others)
    return Trackio(run, job)


class NullLogger:
    """Logs nowhere."""

    def log(self, step: int, row: Mapping[str, int | float]) -> None:
        pass

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        pass


def open_none(job: Any) -> NullLogger:
    """Log nowhere: a run's own files are complete."""
    return NullLogger()


LOGGERS = {"wandb": open_wandb, "trackio": open_trackio, "none": open_none}


def problems(config: Any) -> Iterator[str]:
    """Say that the logger of a config is not installed, if so."""
    name = config.logger.name
    if name != "none" and find_spec(name) is None:
        yield f"logger={name}: needs the package {name}, which is not installed: pip install {name}"
