"""A Weights & Biases workspace as code: `python -m analysis.workspace runs/<sweep>` writes it, `--push` uploads it.

Needs the optional extra `dashboard` (wandb-workspaces). Writing needs neither an account nor a network.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.load import Data, block, load
from analysis.read import AnalysisError

SECTIONS = {
    "Rewards": ("eval/", "reward/", "groups/"),
    "KL": ("kl/",),
    "Entropy": ("policy/",),
    "Lengths": ("length/",),
    "Clipping": ("clip/", "ratio/"),
    "Optimisation": ("optim/", "loss/", "advantage/"),
}
GROUP, SWEEP = "variant", "sweep_name"  # keys of every run's config


def workspace(data: Data) -> Any:
    """The workspace of a sweep: runs grouped by variant, a section per kind of metric, scores, a run comparer."""
    try:
        import wandb_workspaces.reports.v2 as panels
        import wandb_workspaces.workspaces as workspaces
        from wandb_workspaces import expr
    except ImportError as error:
        raise AnalysisError("wandb-workspaces is missing: pip install 'rlexp[dashboard]'") from error

    group = {"groupby": panels.Config(GROUP), "groupby_aggfunc": "mean", "groupby_rangefunc": "stderr"}
    score = panels.BarPlot(title="score", metrics=["score"], groupby=panels.Config(GROUP), groupby_aggfunc="mean")
    sections = [workspaces.Section(name="Scores", panels=[score], is_open=True)]
    for name, prefixes in SECTIONS.items():
        metrics = [metric for metric in data.metrics.columns if metric.startswith(prefixes)]
        lines = [panels.LinePlot(title=metric, x="step", y=[metric], **group) for metric in metrics]
        if lines:
            sections.append(workspaces.Section(name=name, panels=lines, is_open=name == "Rewards"))
    comparer = panels.RunComparer(diff_only=True)
    sections.append(workspaces.Section(name="What differs between runs", panels=[comparer], is_open=True))
    sweep = data.folder.resolve().name
    return workspaces.Workspace(
        entity=block(data.config, "logger").get("entity") or "",
        project=block(data.config, "logger").get("project") or "rlexp",
        name=sweep,
        sections=sections,
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Config(GROUP)], filters=expr.And(workspaces.Config(SWEEP) == sweep)
        ),
    )


def to_json(found: Any) -> str:
    """The workspace as the JSON that the server stores."""
    return found._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=1)  # private, so tested


def push(found: Any) -> str:
    """Save the workspace on the server, return its address; AnalysisError if nobody is logged in."""
    import wandb

    if not wandb.login(prompt=False, verify=False):
        raise AnalysisError("nobody is logged in to Weights & Biases: wandb login")
    try:
        found.entity = found.entity or wandb.Api().default_entity
        found.save()
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise AnalysisError(f"the workspace could not be saved: {reason}") from error
    return found.url


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: written (and pushed), 2: not."""
    parser = argparse.ArgumentParser(prog="python -m analysis.workspace", description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>")
    parser.add_argument("--out", help="the file; <folder>/analysis/workspace.json unless named")
    parser.add_argument("--push", action="store_true", help="also save it on the server, after `wandb login`")
    options = parser.parse_args(arguments)
    path = Path(options.out) if options.out else Path(options.folder) / "analysis" / "workspace.json"
    try:
        found = workspace(load(options.folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(found) + "\n", encoding="utf-8")
        print(path)
        if options.push:
            print(push(found))
    except (AnalysisError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
