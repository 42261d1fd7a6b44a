"""How much an arm hangs on its tuned key: best value, plateau, ends of the grid, and the score of k random trials."""

import numpy as np
import pandas as pd

from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.rates import best_value, edge, plateau, tuning_curve


def tuning_table(ablation: Ablation) -> pd.DataFrame:
    """Return a row an arm: what tuning it takes, and what it gives; scores in the metric's units.

    Scores are means on the ablation's scale, taken back to the units. Columns: ``score, score_low, score_high`` at the
    best value, less the luck of its choice; ``plateau_low, plateau_high``, between which the mean is within the
    smallest effect of the best; ``octaves`` of it (log2 of their ratio) with ``octaves_low, octaves_high``;
    ``plateau_open``, the ends of the grid that it reaches (``low``, ``high``, ``both`` or empty); ``edge``, the end
    that the best value is at; ``best_of_1``, ``best_of_2``, …: the score to expect from so many values of the grid,
    drawn at random. The last of these is ``score``.

    Raises:
        AnalysisError: no key was tuned, so the grids have one value.
    """
    sign = direction_sign(ablation.metric.better)
    rows = {}
    for arm, grid in ablation.grids.items():
        best, flat, trials = best_value(grid), plateau(grid, ablation.smallest), tuning_curve(grid)
        numbers = ablation.scale.inverse(sign * np.array([best.value, best.low, best.high, *trials.expected]))
        score, *ends = numbers[:3].tolist()
        rows[ablation.label(arm)] = {
            "value": best.rate,
            "edge": edge(grid, ablation.smallest).side,
            **dict(zip(("score", "score_low", "score_high"), (score, *ends[::sign]), strict=True)),
            "plateau_low": flat.low,
            "plateau_high": flat.high,
            "octaves": flat.octaves,
            "octaves_low": flat.octaves_low,
            "octaves_high": flat.octaves_high,
            "plateau_open": {(1, 1): "both", (1, 0): "low", (0, 1): "high"}.get((flat.open_low, flat.open_high), ""),
            **{f"best_of_{k}": number for k, number in enumerate(numbers[3:].tolist(), 1)},
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")
