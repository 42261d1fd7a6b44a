"""A sweep on Weights & Biases: a run with its tables and figures beside the runs."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.load import SweepData, config_section
from rlexp.analysis.report.tables import TextTable, long_table, secondary_tables, stratum_ending
from rlexp.analysis.stats.answer import Answer

if TYPE_CHECKING:
    from rlexp.analysis.figures.inputs import RenderedFigure

QUIET_SETTINGS = {"silent": True, "console": "off", "symlink": False, "init_timeout": 10.0, "finish_timeout": 60.0}
QUIET_SETTINGS |= {"disable_git": True, "disable_code": True, "disable_job_creation": True}
QUIET_SETTINGS |= {"x_disable_stats": True, "x_disable_meta": True, "x_save_requirements": False}


def mirrored(data: SweepData) -> bool:
    """Return whether the sweep's runs went to Weights & Biases, offline or online."""
    logger = config_section(data.config, "logger")
    return logger.get("name") == "wandb" and logger.get("mode") in ("offline", "online")


def log_aggregate(result: Answer, figures: "Sequence[RenderedFigure]") -> None:
    """Log the comparisons, the runs and every figure; online only if the runs were to be and a server answers."""
    import wandb
    from PIL import Image

    from rlexp.analysis.figures.layout import theme

    data, first = result.data, result.comparisons[0]
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
        config={"sweep_name": sweep, **{key: getattr(first, key) for key in ("metric", "better", "baseline")}},
    )
    runs = data.runs.astype(object).where(data.runs.notna(), None)
    named = {name: wandb.Table(columns=table.headers, data=table.rows) for name, table in tables(result).items()}
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


def tables(result: Answer) -> dict[str, TextTable]:
    """Return the comparison of all strata and the pooled one below them, and the secondary tables of each stratum."""
    named = {"comparison": long_table(result.tables)}
    for kind, found in secondary_tables(result).items():
        named |= {f"{kind}{stratum_ending(stratum)}": table for stratum, table in found.items()}
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
