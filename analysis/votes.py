"""What a vote among a run's own completions is worth: share of prompts whose most common answer is correct."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.comparison import Comparison
from analysis.curves import Curves, curves_of
from analysis.forest import span, unless_few
from analysis.load import Data
from analysis.samples import Rows

ACCURACY = "accuracy of the vote"


def accuracy(answers: Sequence[str], correct: Sequence[bool], votes: int) -> float:
    """P(the most common of `votes` answers is correct), over all choices of them; ties are broken fairly."""
    return float(np.mean([_outcome([(answers[i], correct[i]) for i in some])
                          for some in combinations(range(len(answers)), votes)]))  # fmt: skip


def _outcome(ballots: Sequence[tuple[str, bool]]) -> float:
    counts = Counter(answer for answer, _ in ballots)
    most = max(counts.values())
    return float(np.mean([right for answer, right in ballots if counts[answer] == most]))


def voting_curves(data: Data, comparison: Comparison, samples: Mapping[str, Rows]) -> Curves:
    """Per variant, the accuracy by number of votes, of the completions that its runs kept at the end of training."""
    completed = data.runs[data.runs["status"] == "completed"]
    rows = [
        {"name": name, "variant": variant, "step": votes, ACCURACY: value}
        for name, variant in zip(completed["name"], completed["variant"], strict=True)
        for votes, value in enumerate(_by_votes(samples.get(name, [])), 1)
    ]
    return curves_of(pd.DataFrame(rows), comparison, ACCURACY) if rows else {}


def _by_votes(rows: Rows) -> list[float]:
    """Mean over the prompts of the last moment, for 1, 2, … votes, as many as every prompt has completions."""
    last = [row for row in rows if row.get("step") == rows[-1].get("step")]
    prompts: dict[str, list[tuple[str, bool]]] = {}
    for row in last:
        prompts.setdefault(str(row.get("prompt")), []).append((str(row.get("completion")), bool(row.get("correct"))))
    most = min(map(len, prompts.values()), default=0)
    return [float(np.mean([accuracy(*zip(*each, strict=True), votes) for each in prompts.values()]))
            for votes in range(1, most + 1)]  # fmt: skip


def votes_caption(comparison: Comparison, found: Curves) -> str:
    """What the lines of the figure mean."""
    counts = comparison.table.loc[list(found), "n"]
    return (
        "Accuracy of the most common answer among that many of a prompt's completions, as runs kept them after the "
        "last step (training prompts; all choices of the completions, ties broken fairly): interquartile mean over "
        f"seeds, {span(counts)} per variant; band: 95 % bootstrap interval.{unless_few(counts)}"
    )
