"""Accuracy of a majority vote among a run's own completions: prompts whose most common answer is correct."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from rlexp.analysis.data.kept.samples import Records
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.curves import Curves, curves_by_variant

VOTE_ACCURACY = "accuracy of the vote"


def vote_accuracy(answers: Sequence[str], correct: Sequence[bool], votes: int) -> float:
    """P(the most common of `votes` answers is correct), over all choices of them; ties are broken fairly."""
    shares = []
    for chosen in combinations(zip(answers, correct, strict=True), votes):
        counts = Counter(answer for answer, _ in chosen)
        most = max(counts.values())
        shares.append(np.mean([right for answer, right in chosen if counts[answer] == most]))
    return float(np.mean(shares))


def voting_curves(data: SweepData, comparison: Comparison, samples: Mapping[str, Records]) -> Curves:
    """Per variant, the accuracy by number of votes, of the completions that its runs kept at the end of training."""
    completed = data.runs[data.runs["status"] == "completed"]
    rows = [
        {"name": name, "variant": variant, "step": votes, VOTE_ACCURACY: value}
        for name, variant in zip(completed["name"], completed["variant"], strict=True)
        for votes, value in enumerate(_by_votes(samples.get(name, [])), 1)
    ]
    return curves_by_variant(pd.DataFrame(rows), comparison, VOTE_ACCURACY) if rows else {}


def _by_votes(rows: Records) -> list[float]:
    """Mean over the prompts of the last step, for 1, 2, … votes, as many as every prompt has completions."""
    last = [row for row in rows if row.get("step") == rows[-1].get("step")]
    prompts: dict[str, list[tuple[str, bool]]] = {}
    for row in last:
        prompts.setdefault(str(row.get("prompt")), []).append((str(row.get("completion")), bool(row.get("correct"))))
    fewest = min(map(len, prompts.values()), default=0)
    return [float(np.mean([vote_accuracy(*zip(*answers, strict=True), votes) for answers in prompts.values()]))
            for votes in range(1, fewest + 1)]  # fmt: skip
