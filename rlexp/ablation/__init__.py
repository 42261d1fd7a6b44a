"""Which part of a recipe matters? From two configurations to arms that are trained, and one table."""

import time


def new_folder() -> str:
    """Return where an ablation goes whose folder is not named."""
    return time.strftime("runs/%Y-%m-%d_%H-%M-%S_ablation")
