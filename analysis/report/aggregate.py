"""One more Weights & Biases run per sweep: its tables and figures, beside the runs that they are made of."""

import io
import re
from collections.abc import Sequence
from typing import Any

from analysis.data.load import SweepData, config_section
from analysis.figures.inputs import RenderedFigure
from analysis.figures.style import theme
from analysis.report.grids import interaction_table, long_table
from analysis.report.tables import TextTable
from analysis.stats.comparison import Comparison
from analysis.stats.interactions import interactions
from analysis.stats.pooling import pool

QUIET = {
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


def mirrored(data: SweepData) -> bool:
    """Whether the sweep's runs went to Weights & Biases, offline or online."""
    logger = config_section(data.config, "logger")
    return logger.get("name") == "wandb" and logger.get("mode") in ("offline", "online")


def log_aggregate(data: SweepData, comparisons: Sequence[Comparison], figures: Sequence[RenderedFigure]) -> None:
    """Log the comparisons, the runs and every figure; online only if the runs were to be and a server answers."""
    import wandb
    from PIL import Image

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
    images = {figure.name: wandb.Image(Image.open(_png(figure)), caption=figure.caption) for figure in figures}
    run.log({
        **named,
        "runs": wandb.Table(columns=list(runs.columns), data=runs.to_numpy().tolist()),
        **{f"figures/{name}": image for name, image in images.items()},
    })  # fmt: skip
    run.finish()


def tables(comparisons: Sequence[Comparison]) -> dict[str, TextTable]:
    """The comparison of all strata, the pooled one below them, and the interactions of each stratum, by name."""
    pooled = pool(comparisons)
    named = {"comparison": long_table([*comparisons, *([pooled] if pooled else [])])}
    for comparison in comparisons:
        frame = interactions(comparison)
        if frame is not None:
            stratum = re.sub(r"[^\w.-]+", "_", comparison.stratum)
            named["_".join(filter(None, ["interactions", stratum]))] = interaction_table(frame)
    return named


def _png(rendered: RenderedFigure) -> io.BytesIO:
    buffer = io.BytesIO()
    with theme():
        rendered.figure.savefig(buffer, format="png")
    buffer.seek(0)
    return buffer


def _open(mode: str, **options: Any) -> Any:
    import wandb

    supported = {name: value for name, value in QUIET.items() if name in wandb.Settings.model_fields}
    options |= {"settings": wandb.Settings(**supported), "reinit": "create_new"}
    wandb.setup(settings=options["settings"])
    if mode == "online":
        try:
            return wandb.init(mode="online", **options)
        except wandb.errors.Error:
            pass  # the runs themselves said so already
    return wandb.init(mode="offline", **options)
