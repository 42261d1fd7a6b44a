"""W&B projects online, `wandb://entity/project`, by W&B's public API and the key that `wandb login` has stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, flat_config
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.readers.tables import STATES
from rlexp.analysis.data.runs import Problem

MOST_RUNS = 1_000


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of a project, or of a group of its runs: `wandb://entity/project/group`.

    Raises:
        AnalysisError: The path names no project, W&B does not answer, or the project has no run.
    """
    entity, project, group = (*root.parts[1:], "", "", "")[:3]
    if not entity or not project or len(root.parts) > 4:
        raise AnalysisError(f"'{root}' names no project; write wandb://entity/project or wandb://entity/project/group")
    try:
        found = list(_online(f"{entity}/{project}", {"group": group} if group else {}))
    except AnalysisError:
        raise
    except Exception as error:  # of the network, of rights, of a name that is not there
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise AnalysisError(f"wandb://{entity}/{project} cannot be read: {text}") from None
    problems = [Problem(run.name, "has no history") for run in found if not len(run.rows)]
    runs = [run for run in found if len(run.rows)]
    if not runs:
        raise AnalysisError(f"wandb://{entity}/{project} has no run{f' of group {group}' * bool(group)}")
    return Logs("W&B project", runs, problems)


def _online(project: str, filters: Mapping[str, Any]) -> Iterator[LoggedRun]:
    import wandb

    for place, run in enumerate(wandb.Api().runs(project, filters=dict(filters), order="+created_at")):
        if place == MOST_RUNS:
            raise AnalysisError(
                f"{project} has more than {MOST_RUNS:,} runs; name a group, as wandb://{project}/<group>"
            )
        rows = number_table(run.scan_history())
        if "_step" in rows:
            rows[STEP] = rows["_step"]
        rows = rows.drop(columns=[name for name in rows if name.startswith("_")])
        config = {key: value for key, value in run.config.items() if not str(key).startswith("_")}
        config |= {key: getattr(run, key, None) for key in ("group", "job_type") if getattr(run, key, None)}
        status = STATES.get(run.state, "failed")
        reason = None if status == "completed" else f"its state is {run.state}"
        yield LoggedRun(printable(run.name), rows, flat_config(config), str(run.url), status, reason)
