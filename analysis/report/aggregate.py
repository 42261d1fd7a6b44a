"""One more Weights & Biases run per sweep: its tables and figures, beside the runs that they are made of."""

import io
import re
from collections.abc import Sequence
from typing import Any

from rlexp.analysis.data.load import SweepData, config_section
from rlexp.analysis.figures.inputs import RenderedFigure
from rlexp.analysis.figures.style import theme
from rlexp.analysis.report.tables import TextTable, interaction_table, long_table
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.secondary import interactions, pool

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


def mirrored(data: SweepData) -> bool:
    """Return whether the sweep's runs went to Weights & Biases, offline or online."""
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
    """Return the comparison of all strata and the pooled one below them, and the interactions of each stratum."""
    pooled = pool(comparisons)
    named = {"comparison": long_table([*comparisons, *([pooled] if pooled else [])])}
    for comparison in comparisons:
        frame = interactions(comparison)
        if frame is not None:
            ending = "_" + re.sub(r"[^\w.-]+", "_", comparison.stratum) if comparison.stratum else ""
            named[f"interactions{ending}"] = interaction_table(frame)
    return named


def _png(rendered: RenderedFigure) -> io.BytesIO:
    buffer = io.BytesIO()
    with theme():
        rendered.figure.savefig(buffer, format="png")
    buffer.seek(0)
    return buffer


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
