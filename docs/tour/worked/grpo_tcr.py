"""The GRPO-TCR notebook: verdicts to advantages, and what a long answer costs."""

from __future__ import annotations

import torch
from table import NO_BOUND, Table, advantages, cell, numbers

from rlexp.axes import agg, clip, kl, shaping
from rlexp.axes.reward import probability_right

VERDICTS, LENGTHS = [1, -1, 1, 0, 1, -1, 0, 1], [500, 800, 900, 1100, 600, 750, 950, 400]
BOUNDS = {"cap": 1000, "cache": 200, "factor": 1.0}


def votes() -> Table:
    """How often the vote of a judge is right that is right in 70 % (S1.9), by the number of votes."""
    rows = []
    for number in (1, 3, 5, 7, 9, 11, 15, 21):
        fair, strict = probability_right(0.7, number), probability_right(0.7, number, tie=0.0)
        rows.append((str(number), fair, strict, probability_right(0.7, number, values=2)))
    return Table(
        "A judge that is right in 70 % of its votes",
        ("votes", "three answers, fair ties", "three answers, a tie is wrong", "two answers"),
        rows,
        "The notebook asks how often five votes of a judge with three answers are right, and says only: significantly "
        f"more than 70 %. With two answers it is {100 * probability_right(0.7, 5, values=2):.1f} %. The first vote "
        "decides ties, which is fair on average, and makes a bad response of the notebook's demonstration good.",
    )


def group_advantages() -> Table:
    """Advantages of four verdicts (S1.12), by both deviations."""
    verdicts = [[1, -1, 1, 0]]
    by_less, by_n = (advantages(verdicts, "local", eps=1e-8, ddof=ddof)[0].tolist() for ddof in (1, 0))
    return Table(
        "A group of four verdicts",
        ("verdict", "A, deviation by n - 1", "A, deviation by n"),
        [*zip(map(str, verdicts[0]), by_less, by_n, strict=True)],
        "The notebook's code divides by n - 1; the advantages that it hard-codes later, 0.9 and -1.5, are those by n.",
    )


def length_penalties() -> Table:
    """What overlong shaping adds (S1.14), linear and squared (S1.24)."""
    lengths = [500, 700, 800, 850, 900, 950, 1000, 1100]
    rewards, tokens = numbers([[0.0] * len(lengths)]), numbers([lengths])
    names = ("overlong", "overlong_quadratic")
    added = [shaping.FUNCTIONS[name](rewards, tokens, **BOUNDS)[0].tolist() for name in names]
    return Table(
        "What a length costs, at most 1,000 tokens, the last 200 of them soft",
        ("tokens", *names),
        [*zip((f"{length:,}" for length in lengths), *added, strict=True)],
        "Squared, the penalty is milder at first and the same at the cap: the first tokens too many hardly count.",
    )


def rewards_of_a_batch() -> Table:
    """Penalties, rewards and advantages of eight completions (S1.17)."""
    verdicts, tokens = numbers([VERDICTS]), numbers([LENGTHS])
    rewards = shaping.FUNCTIONS["overlong"](verdicts, tokens, **BOUNDS)
    found = advantages(rewards.tolist(), "local", eps=1e-8, ddof=1)[0].tolist()
    penalties = (rewards - verdicts)[0]
    columns = penalties.tolist(), rewards[0].tolist(), found
    return Table(
        "Eight completions of a group",
        ("tokens", "verdict", "penalty", "reward", "advantage"),
        [*zip((f"{length:,}" for length in LENGTHS), map(str, VERDICTS), *columns, strict=True)],
        f"The mean penalty is {cell(penalties.mean().item(), 5)}.",
    )


def objective() -> Table:
    """The objective of the notebook's first task (S1.16), on its numbers, which seed 42 draws."""
    random = torch.Generator().manual_seed(42)
    new, reference = (torch.randn(1, 4, 10, generator=random) * 0.1 - 2 for _ in range(2))
    rows = []
    for name, gains in (("0.9, -1.5, 0.9, -0.3", [0.9, -1.5, 0.9, -0.3]), ("by n - 1", None)):
        found = torch.tensor(gains) if gains else advantages([[1, -1, 1, 0]], "local", eps=1e-8, ddof=1)[0].float()
        spread, mask = found.view(1, 4, 1).expand_as(new), torch.ones_like(new, dtype=torch.bool)
        losses = clip.FUNCTIONS["ppo"](new, reference, spread, mask, NO_BOUND, low=0.2, high=0.28)
        rows.append((name, -agg.bnpo(losses + 0.01 * kl.k1(new, reference), mask).item()))
    return Table(
        "The objective of four completions of ten tokens, clip 0.2 and 0.28, KL weighed by 0.01",
        ("advantages", "objective"),
        [(name, f"{value:.6f}") for name, value in rows],
        "The ratio is to the reference there, which is the same only as long as that has sampled.",
    )


EXAMPLES = (votes, group_advantages, length_penalties, objective, rewards_of_a_batch)
