"""How many weights the model of a sweep has, as its runs say."""

from pathlib import Path

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_object
from rlexp.runfolder.files import SUMMARY_FILE

WEIGHTS = "weights"
"""Key of a run's summary."""


def model_weights(data: SweepData) -> float | None:
    """Return the number of weights that the first run has that says it; None if none does."""
    for folder in data.runs["folder"]:
        found = read_object(Path(folder) / SUMMARY_FILE)[0].get(WEIGHTS)
        if isinstance(found, int | float) and not isinstance(found, bool) and found > 0:
            return float(found)
    return None
