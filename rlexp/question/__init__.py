"""Questions: arms over a grid, seeds and conditions, written down before the first run, trained as one sweep."""

import time


def new_folder(what: str) -> str:
    """Return where a question goes whose folder is not named."""
    return time.strftime(f"runs/%Y-%m-%d_%H-%M-%S_{what}")
