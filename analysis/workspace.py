"""A Weights & Biases workspace as code: `rlexp dashboard runs/<sweep>` writes it, `--push` uploads it.

Needs the optional extra `dashboard` (wandb-workspaces). Writing needs neither an account nor a network.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.load import SweepData, config_section, load
from rlexp.analysis.data.read import inner, write_text

SECTIONS = {
    "Rewards": ("eval/", "reward/", "gold/", "judge/", "repetition/", "groups/"),
    "Pairs": ("pairs/",),
    "Values": ("value/",),
    "Data": ("data/",),
    "KL": ("kl/",),
    "Entropy": ("policy/", "entropy/"),
    "Lengths": ("length/",),
    "Clipping": ("clip/", "ratio/"),
    "Optimisation": ("optim/", "loss/", "advantage/", "imitation/"),
    "Filter": ("filter/",),
    "Mismatch": ("mismatch/",),
    "Progress": ("progress/",),
    "Time": ("time/",),
}
COMPLETIONS = "completions"  # the table that every run ends with, if it keeps any
GROUP, SWEEP = "variant", "sweep_name"  # keys of every run's config


def workspace(data: SweepData) -> Any:
    """Build a sweep's workspace: runs grouped by variant, a section per kind of metric, scores, a run comparer."""
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
    table, comparer = panels.WeavePanelSummaryTable(table_name=COMPLETIONS), panels.RunComparer(diff_only=True)
    sections.append(workspaces.Section(name="Completions", panels=[table], is_open=False))
    sections.append(workspaces.Section(name="What differs between runs", panels=[comparer], is_open=True))
    logger, sweep = config_section(data.config, "logger"), data.folder.resolve().name
    return workspaces.Workspace(
        entity=logger.get("entity") or "",
        project=logger.get("project") or "rlexp",
        name=sweep,
        sections=sections,
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Config(GROUP)], filters=expr.And(workspaces.Config(SWEEP) == sweep)
        ),
    )


def push(view: Any) -> str:
    """Save the workspace on the server, return its address; raise AnalysisError without a login."""
    import wandb

    if not wandb.login(prompt=False, verify=False):
        raise AnalysisError("nobody is logged in to Weights & Biases: wandb login")
    try:
        view.entity = view.entity or wandb.Api().default_entity
        view.save()
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise AnalysisError(f"the workspace could not be saved: {reason}") from error
    return view.url


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: written (and pushed), 2: not."""
    parser = CommandParser(prog="rlexp dashboard", description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>")
    parser.add_argument("--out", help="the file; <folder>/analysis/workspace.json unless named")
    parser.add_argument("--push", action="store_true", help="also save it on the server, after `wandb login`")
    options = parser.parse_args(arguments)
    path = Path(options.out) if options.out else inner(options.folder, "analysis") / "workspace.json"
    view = workspace(load(options.folder, columns=None))
    model = view._to_model()  # as the server stores it; private, so tested
    write_text(path, model.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")
    print(printable(str(path)))
    if options.push:
        print(push(view))
    return 0


if __name__ == "__main__":
    sys.exit(main())
