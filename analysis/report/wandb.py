"""A sweep on Weights & Biases: a run with its tables and figures beside the runs, and a workspace as code."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData, config_section
from rlexp.analysis.report.files import stratum_ending
from rlexp.analysis.report.tables import TextTable, interaction_table, long_table
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.secondary import interactions, pool

if TYPE_CHECKING:
    from rlexp.analysis.figures.inputs import RenderedFigure

QUIET_SETTINGS = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "symlink": False,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_save_requirements": False,
    "init_timeout": 10.0,
    "finish_timeout": 60.0,
}
SECTIONS = {
    "Rewards": ("eval/", "reward/", "gold/", "judge/", "repetition/", "groups/"),
    "Pairs": ("pairs/",),
    "Values": ("value/",),
    "Data": ("data/",),
    "KL": ("kl/",),
    "Entropy": ("policy/", "entropy/"),
    "Lengths": ("length/",),
    "Clipping": ("clip/", "ratio/"),
    "Optimisation": ("optim/", "loss/", "advantage/"),
    "Filter": ("filter/",),
    "Mismatch": ("mismatch/",),
    "Progress": ("progress/",),
    "Time": ("time/",),
}
COMPLETIONS = "completions"  # the table that every run ends with, if it keeps any
GROUP, SWEEP = "variant", "sweep_name"  # keys of every run's config


def mirrored(data: SweepData) -> bool:
    """Return whether the sweep's runs went to Weights & Biases, offline or online."""
    logger = config_section(data.config, "logger")
    return logger.get("name") == "wandb" and logger.get("mode") in ("offline", "online")


def log_aggregate(data: SweepData, comparisons: Sequence[Comparison], figures: "Sequence[RenderedFigure]") -> None:
    """Log the comparisons, the runs and every figure; online only if the runs were to be and a server answers."""
    import wandb
    from PIL import Image

    from rlexp.analysis.figures.layout import theme

    logger, sweep = config_section(data.config, "logger"), data.folder.resolve().name
    run = _open(
        logger["mode"],
        project=logger.get("project"),
        entity=logger.get("entity"),
        dir=str(data.folder.resolve()),  # wandb has a process of its own, perhaps with another working directory
        name=f"{sweep}-comparison",
        group="comparison",
        job_type="aggregate",
        tags=[*(logger.get("tags") or []), "comparison"],
        config={"sweep_name": sweep, **{key: getattr(comparisons[0], key) for key in ("metric", "better", "baseline")}},
    )
    runs = data.runs.astype(object).where(data.runs.notna(), None)
    named = {name: wandb.Table(columns=table.headers, data=table.rows) for name, table in tables(comparisons).items()}
    images = {}
    for figure in figures:
        with theme():
            figure.figure.savefig(buffer := io.BytesIO(), format="png")
        buffer.seek(0)
        images[f"figures/{figure.name}"] = wandb.Image(Image.open(buffer), caption=figure.caption)
    run.log({
        **named,
        "runs": wandb.Table(columns=list(runs.columns), data=runs.to_numpy().tolist()),
        **images,
    })  # fmt: skip
    run.finish()


def tables(comparisons: Sequence[Comparison]) -> dict[str, TextTable]:
    """Return the comparison of all strata and the pooled one below them, and the interactions of each stratum."""
    pooled = pool(comparisons)
    named = {"comparison": long_table([*comparisons, *([pooled] if pooled else [])])}
    for comparison in comparisons:
        frame = interactions(comparison)
        if frame is not None:
            named[f"interactions{stratum_ending(comparison.stratum)}"] = interaction_table(frame)
    return named


def _open(mode: str, **options: Any) -> Any:
    import wandb

    supported = {name: value for name, value in QUIET_SETTINGS.items() if name in wandb.Settings.model_fields}
    options |= {"settings": wandb.Settings(**supported), "reinit": "create_new"}
    wandb.setup(settings=options["settings"])
    if mode == "online":
        try:
            return wandb.init(mode="online", **options)
        except wandb.errors.Error:
            pass  # the runs themselves said so already
    return wandb.init(mode="offline", **options)


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
    sweep = data.folder.resolve().name
    return workspaces.Workspace(
        entity=config_section(data.config, "logger").get("entity") or "",
        project=config_section(data.config, "logger").get("project") or "rlexp",
        name=sweep,
        sections=sections,
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Config(GROUP)], filters=expr.And(workspaces.Config(SWEEP) == sweep)
        ),
    )


def to_json(view: Any) -> str:
    """Return the workspace as the JSON that the server stores."""
    return view._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=1)  # private, so tested


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
