"""CS336 lecture 17: rewards of a sorting task, four rules of advantages, a baseline, the frozen policy."""

from __future__ import annotations

import torch
from table import NO_BOUND, Table, advantages, numbers

from rlexp.axes import clip
from rlexp.tasks.sort import in_order, included, right_places

PROMPT, ANSWERS = [3, 1, 0, 2], [[0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2]]
REWARDS = [3, 3, 3, 4, 3]  # of the lecture's walk-through


def sorting_rewards() -> Table:
    """Both rewards of three answers to one prompt (S2.6, S2.7)."""
    prompt, rows = torch.tensor(PROMPT), []
    for answer in ANSWERS:
        given = torch.tensor(answer)
        distance = right_places(given, prompt.sort().values).item()
        rows.append((str(answer), float(distance), float(included(prompt, given) + in_order(given))))
    return Table(
        f"Answers to the prompt {PROMPT}",
        ("answer", "distance", "inclusion and ordering"),
        rows,
        "Three of the seven points are for order alone: an answer [0, 0, 0] to [3, 2, 4] keeps 2 of 5 for ever.",
    )


def deltas() -> Table:
    """The lecture's four rules of advantages (S2.10)."""
    rules = {"none": {}, "center": {}, "local": {"eps": 1e-5, "ddof": 1}, "max": {}}
    found = [advantages([REWARDS], norm, **hyperparameters)[0].tolist() for norm, hyperparameters in rules.items()]
    return Table(
        "Five answers with rewards 3, 3, 3, 4, 3",
        ("reward", *(f"norm={norm}" for norm in rules)),
        [*zip(map(str, REWARDS), *found, strict=True)],
        "The lecture calls them rewards, centered_rewards, normalized_rewards and max_rewards.",
    )


def baseline() -> Table:
    """Two states with rewards 11 / 9 and 0 / 2, baselines 10 and 1 (S2.3): spread with and without them."""
    rewards = numbers([[11, 9], [0, 2]])
    reduced = rewards - numbers([[10], [1]])
    rows = [(name, x.std().item(), x.var().item()) for name, x in (("rewards", rewards), ("minus baseline", reduced))]
    return Table(
        "A baseline for each of two states",
        ("", "standard deviation", "variance"),
        rows,
        'The lecture prints "variance reduced from 5.323 to 1.155": these are standard deviations.',
    )


def values() -> Table:
    """V, Q and A of two states with two equally likely actions each (S2.5)."""
    q = numbers([[11, 9], [0, 2]])
    v, a = q.mean(-1), advantages(q.tolist(), "center")
    rows = [(f"s{s + 1}", f"a{i + 1}", v[s].item(), q[s, i].item(), a[s, i].item()) for s in range(2) for i in range(2)]
    return Table(
        "Two states with two equally likely actions",
        ("state", "action", "V(s)", "Q(s, a)", "A = Q - V"),
        rows,
        "V is the mean of Q over actions; norm=center estimates it from a group. The good action of the second state "
        "earns less than the bad one of the first, and its advantage is as large as that of the other good one.",
    )


def frozen_policy() -> Table:
    """Slope of the ratio at p = sigmoid(2), with the old policy frozen and not (S2.11)."""
    rows = []
    for name, frozen in (("frozen, as the sampler's", True), ("differentiated too", False)):
        weight = numbers([[[2.0]]]).requires_grad_()
        log_probs = torch.nn.functional.logsigmoid(weight)
        old = log_probs.detach() if frozen else log_probs
        mask = torch.ones(1, 1, 1, dtype=torch.bool)
        loss = clip.FUNCTIONS["unclipped"](log_probs, old, torch.ones_like(log_probs).detach(), mask, NO_BOUND)
        (slope,) = torch.autograd.grad(-loss.sum(), weight)
        rows.append((name, slope.item()))
    return Table(
        "Slope of the ratio where both policies are equal",
        ("old log-probabilities", "slope"),
        rows,
        "The lecture's published loss divides log-probabilities instead, which has the wrong sign; here it is a ratio "
        "of probabilities.",
    )


EXAMPLES = (sorting_rewards, deltas, values, baseline, frozen_policy)
