"""One more Weights & Biases run per sweep: its tables and figures, beside the runs that they are made of."""

import io
import re
from collections.abc import Sequence
from typing import Any

from analysis.comparison import Comparison
from analysis.crossed import interactions
from analysis.figures import Drawn
from analysis.grids import interaction_grid, long_grid
from analysis.load import Data, block
from analysis.pooling import pool
from analysis.style import style
from analysis.tables import Grid

QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_save_requirements": False,
    "init_timeout": 10.0,
    "finish_timeout": 60.0,
}


def mirrored(data: Data) -> bool:
    """Whether the sweep's runs went to Weights & Biases, offline or online."""
    logger = block(data.config, "logger")
    return logger.get("name") == "wandb" and logger.get("mode") in ("offline", "online")


def log_aggregate(data: Data, comparisons: Sequence[Comparison], figures: Sequence[Drawn]) -> None:
    """Log the comparisons, the runs and every figure; online only if the runs were to be and a server answers."""
    import wandb
    from PIL import Image

    logger, sweep = block(data.config, "logger"), data.folder.resolve().name
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
    run.log({
        **{name: wandb.Table(columns=grid.headers, data=grid.rows) for name, grid in tables(comparisons).items()},
        "runs": wandb.Table(columns=list(runs.columns), data=runs.to_numpy().tolist()),
        **{f"figures/{drawn.name}": wandb.Image(Image.open(_png(drawn)), caption=drawn.caption) for drawn in figures},
    })  # fmt: skip
    run.finish()


def tables(comparisons: Sequence[Comparison]) -> dict[str, Grid]:
    """The comparison of all strata, the pooled one below them, and the interactions of each stratum, by name."""
    pooled = pool(comparisons)
    names = ["_".join(filter(None, ["interactions", re.sub(r"[^\w.-]+", "_", each.stratum)])) for each in comparisons]
    between = dict(zip(names, map(interactions, comparisons), strict=True))
    found = {name: interaction_grid(table) for name, table in between.items() if table is not None}
    return {"comparison": long_grid([*comparisons, *([pooled] if pooled else [])]), **found}


def _png(drawn: Drawn) -> io.BytesIO:
    buffer = io.BytesIO()
    with style():
        drawn.figure.savefig(buffer, format="png")
    buffer.seek(0)
    return buffer


def _open(mode: str, **options: Any) -> Any:
    import wandb

    known = {name: value for name, value in QUIET.items() if name in wandb.Settings.model_fields}
    options |= {"settings": wandb.Settings(**known), "reinit": "create_new"}
    wandb.setup(settings=options["settings"])
    if mode == "online":
        try:
            return wandb.init(mode="online", **options)
        except wandb.errors.Error:
            pass  # the runs themselves said so already
    return wandb.init(mode="offline", **options)
