"""Writes the small logs beside it, each by its own tool: python tests/data/logs/make.py."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
ARMS, SEEDS, STEPS = {"grpo": 0.5, "dapo": 0.6}, (0, 1), 5


def value(arm: str, seed: int, step: int) -> float:
    return ARMS[arm] + 0.01 * step + 0.001 * seed


def trackio_project() -> None:
    os.environ["TRACKIO_DIR"] = str(HERE / "trackio")
    import trackio

    for arm in ARMS:
        for seed in SEEDS:
            trackio.init(project="logs", name=f"{arm}-{seed}", config={"method": arm, "seed": seed}, embed=False)
            for step in range(STEPS):
                trackio.log({"eval/reward": value(arm, seed, step)})
            trackio.finish()
    with closing(sqlite3.connect(HERE / "trackio/logs.db")) as database:
        for command in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):  # small
            database.execute(command)


def tensorboard_folders() -> None:
    from torch.utils.tensorboard import SummaryWriter

    for arm in ARMS:
        for seed in SEEDS:
            writer = SummaryWriter(str(HERE / f"tensorboard/{arm}/seed_{seed}"))
            for step in range(STEPS):
                writer.add_scalar("eval/reward", value(arm, seed, step), step)
            writer.add_text("note", "is no number")
            writer.close()


if __name__ == "__main__":
    for make in (trackio_project, tensorboard_folders):
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make()
