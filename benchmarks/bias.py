"""How far is the gradient of old samples from that of the policy? Exactly: bias and spread of what the axes make of it.

A policy with a logit of its own for every prefix, 4 tokens of which one ends, at most 5 of them: all 364 completions
can be listed, so expectations are sums. One in ten completions is right. The policy is trained by REINFORCE on 128
completions a step (Adam), and what was sampled ``age`` steps ago gives the gradient of today. A method is an
``anchor``, a ``clip`` and a ``mismatch`` with the numbers of ``conf/``; tokens of a completion are added up
(``agg=dr_grpo``), the advantage is the reward less its mean under the sampler. ``in flight`` is a pipeline: the first
token is as old as it says, the last is new, those between lie between. At age 0 every method is the policy gradient,
to rounding.

Of the gradient g of a completion and the true one, g*: bias |E g − g*| / |g*|, spread √(tr Cov g / n) / |g*| of the
mean of n = 128, and error, the root of the sum of their squares. The expected squared distance from the true gradient
is its square. Writes the figure and the table of docs/bias.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import rlexp.functional as F
from benchmarks.parts.common import ROOT, between, machine, number, table

TOKENS, LONGEST, END = 4, 5, 3
COMPLETIONS, RIGHT = 128, 0.1
NUMBERS = ("bias", "spread", "error")
WARM_UP, AGES, SHOWN = 16, (0, 1, 2, 4, 8, 16), (1, 4, 8, 16)


class Method(NamedTuple):
    """What the gradient is made by."""

    clip: str
    anchor: str = "old"
    mismatch: str = "none"
    bounds: float | None = None  # of the clip, below and above

    def __str__(self) -> str:
        bounds = f" clip.low={self.bounds} clip.high={self.bounds}" if self.bounds else ""
        anchor = f" anchor={self.anchor}" if self.anchor != "old" else ""
        mismatch = f" mismatch={self.mismatch}" if self.mismatch != "none" else ""
        return f"clip={self.clip}{bounds}{anchor}{mismatch}"


OF_THE_SAMPLER = ("naive", "unclipped", "symmetric", "higher", "cispo", "sapo", "spo", "rollout_is", "minpro", "ctpo")
OF_THE_SAMPLER += ("cppo", "trm", "gmpo", "gspo", "gspo_token")
CORRECTIONS = ("none", "token_truncate", "token_mask", "geometric_mask", "sequence_truncate", "sequence_mask")
METHODS = [
    *map(Method, OF_THE_SAMPLER),
    *(Method(clip, bounds=0.2) for clip in ("ctpo", "gspo")),  # theirs are for thousands of tokens
    Method("symmetric", "loglinear"),
    *(Method("symmetric", "proximal", mismatch) for mismatch in CORRECTIONS),
]
DRAWN = {  # the labels of the figure; one method of each kind
    "no ratio": Method("naive"),
    "token": Method("unclipped"),
    "token, clipped": Method("symmetric"),
    "prefix (ctpo)": Method("ctpo"),
    "sequence, clipped (gspo at 0.2)": Method("gspo", bounds=0.2),
    "decoupled, token ≤ 2": Method("symmetric", "proximal", "token_truncate"),
    "decoupled, product ≤ 3": Method("symmetric", "proximal", "sequence_truncate"),
}


class Tree(NamedTuple):
    """All completions: their tokens, which of them there are, and the number of the prefix before each, ``[K, T]``."""

    tokens: Tensor
    mask: Tensor
    prefixes: Tensor

    @property
    def nodes(self) -> int:
        return int(self.prefixes.max()) + 1

    def log_probs(self, logits: Tensor) -> Tensor:
        """Return log π of the tokens, 0 where there are none."""
        return logits.log_softmax(-1)[self.prefixes, self.tokens].where(self.mask, 0.0)

    def gradient(self, logits: Tensor, slopes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ_k w_k g_k over completions and Σ_k w_k |g_k|², g_k = Σ_t slope_kt ∇ log π(token_kt).

        Completions have different prefixes before their tokens, so the squares add up.
        """
        policy = logits.softmax(-1)[self.prefixes]
        each = (torch.nn.functional.one_hot(self.tokens, TOKENS) - policy) * slopes.where(self.mask, 0.0).unsqueeze(-1)
        weighed = (each * weights[:, None, None]).flatten(0, 1)
        total = torch.zeros_like(logits).index_add(0, self.prefixes.flatten(), weighed)
        return total, (each.square().sum((-1, -2)) * weights).sum()


def tree() -> Tree:
    """List the completions, shorter ones filled up with the end token."""
    known: dict[tuple[int, ...], int] = {}
    rows: list[tuple[int, ...]] = []

    def grow(begun: tuple[int, ...]) -> None:
        if begun[-1:] == (END,) or len(begun) == LONGEST:
            rows.append(begun)
            return
        known[begun] = len(known)
        for token in range(TOKENS):
            grow((*begun, token))

    grow(())
    tokens = torch.tensor([(*row, *[END] * (LONGEST - len(row))) for row in rows])
    mask = torch.tensor([[place < len(row) for place in range(LONGEST)] for row in rows])
    prefixes = torch.tensor([[known.get(row[:place], 0) for place in range(LONGEST)] for row in rows])
    return Tree(tokens, mask, prefixes)


def policies_of(world: Tree, rewards: Tensor, seed: int, rate: float) -> list[Tensor]:
    """Train; return the logits before each step and after the last."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(world.nodes, TOKENS, generator=random).double().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=rate)
    found = [logits.detach().clone()]
    for _ in range(WARM_UP + max(AGES)):
        chances = world.log_probs(logits.detach()).sum(-1).exp()
        drawn = torch.multinomial(chances, COMPLETIONS, replacement=True, generator=random)
        advantages = rewards[drawn] - rewards[drawn].mean()
        optimizer.zero_grad()
        (-advantages * world.log_probs(logits)[drawn].sum(-1)).mean().backward()
        optimizer.step()
        found.append(logits.detach().clone())
    return found


def ages_of(age: int, in_flight: bool) -> list[int]:
    """Return the age of each place of a completion."""
    return [round(age * (1 - place / (LONGEST - 1))) if in_flight else age for place in range(LONGEST)]


def measured(world: Tree, rewards: Tensor, policies: Sequence[Tensor], ages: Sequence[int]) -> dict[str, object]:
    """Return the drift in nats a token under ``drift``, and bias, spread and error of each method."""
    now, steps = policies[-1], len(policies) - 1
    places = torch.arange(LONGEST)
    sampler = torch.stack([world.log_probs(policies[steps - age]) for age in ages])[places, :, places].T
    current = world.log_probs(now)
    chances = sampler.sum(-1).exp()
    true, _ = world.gradient(now, torch.ones_like(current) * rewards[:, None], current.sum(-1).exp())
    advantages = (rewards - (chances * rewards).sum())[:, None].expand(current.shape)
    given = {"sampler_log_probs": sampler, "proximal_log_probs": current, "advantages": advantages}
    given |= {"ages": torch.tensor(ages).double().expand(current.shape), "mask": world.mask}
    given = {name: tensor.unsqueeze(0) for name, tensor in given.items()} | {"log_ratio_bound": 20.0}
    found = {}
    for method in METHODS:
        mean, square = world.gradient(now, -slopes_of(method, current.unsqueeze(0), given)[0], chances)
        length = true.norm()
        bias = ((mean - true).norm() / length).item()
        variance = (square - mean.square().sum()).clamp(min=0)
        spread = ((variance / COMPLETIONS).sqrt() / length).item()
        found[str(method)] = bias, spread, float(np.hypot(bias, spread))
    drift = (chances[:, None] * (sampler - current) * world.mask).sum() / (chances[:, None] * world.mask).sum()
    return {"drift": drift.item()} | found


def slopes_of(method: Method, log_probs: Tensor, given: Mapping[str, object]) -> Tensor:
    """Return the slope of each completion's loss, summed over its tokens, in the log-probabilities of its tokens."""
    log_probs = log_probs.clone().requires_grad_()
    offered = dict(given) | {"old_log_probs": given["sampler_log_probs"], "log_probs": log_probs}
    offered["old_log_probs"] = called(getattr(F.anchor, method.anchor), offered)
    bounds = {"low": method.bounds, "high": method.bounds} if method.bounds else {}
    offered["losses"] = called(getattr(F.clip, method.clip), offered | bounds)
    losses = called(getattr(F.mismatch, method.mismatch), offered)
    return torch.autograd.grad(losses.sum(), log_probs)[0]


def called(function: Callable[..., Tensor], offered: Mapping[str, object]) -> Tensor:
    """Call a function of ``rlexp.functional`` with what it takes of what is offered."""
    return function(**{name: offered[name] for name in signature(function).parameters if name in offered})


def main() -> None:
    """Measure, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=50, help="rewards, starts and trainings")
    parser.add_argument("--rate", type=float, default=0.03, help="of Adam, on logits")
    parser.add_argument("--docs", metavar="FOLDER", type=Path, default=ROOT / "docs", help="where the page is")
    chosen = parser.parse_args()
    world, found = tree(), {}
    for seed in range(chosen.worlds):
        random = torch.Generator().manual_seed(10_000 + seed)
        rewards = (torch.rand(len(world.tokens), generator=random) < RIGHT).double()
        policies = policies_of(world, rewards, seed, chosen.rate)
        for in_flight in (False, True):
            for age in AGES:
                row = measured(world, rewards, policies, ages_of(age, in_flight))
                found.setdefault(("in flight" if in_flight else "whole", age), []).append(row)
    results = chosen.docs / "bias"
    results.mkdir(exist_ok=True)
    columns = {
        f"{how}, age {age}": {name: np.round([row[name] for row in rows], 5).T.tolist() for name in rows[0]}
        for (how, age), rows in found.items()
    }
    settings = {"worlds": chosen.worlds, "rate": chosen.rate, "columns of methods": list(NUMBERS)}
    document = {"settings": settings, "machine": machine(), "found": columns}
    (results / "bias.json").write_text(json.dumps(document, ensure_ascii=False) + "\n", "utf-8")
    draw(found, results / "bias.svg")
    page = chosen.docs / "bias.md"
    text = between(page.read_text("utf-8"), "python -m benchmarks.bias", "\n\n".join(tables(found)))
    page.write_text(text, "utf-8")


def quartiles(rows: Sequence[Mapping], method: Method, key: str) -> np.ndarray:
    """Return median and quartiles over worlds."""
    return np.quantile([row[str(method)][NUMBERS.index(key)] for row in rows], [0.5, 0.25, 0.75])


def tables(found: Mapping[tuple[str, int], Sequence[Mapping]]) -> list[str]:
    """Return the tables of the page: bias, spread and error by age."""
    written = []
    for how in ("whole", "in flight"):
        drifts = [number(float(np.median([row["drift"] for row in found[how, age]])), 4) for age in SHOWN]
        head = "Whole completions of one age" if how == "whole" else "In flight"
        said = ", ".join(f"{drift} at age {age}" for drift, age in zip(drifts, SHOWN, strict=True))
        rows = []
        for method in METHODS:
            row = {"method": f"`{method}`"}
            for age in SHOWN:
                values = [quartiles(found[how, age], method, key)[0] for key in NUMBERS]
                row[f"age {age}"] = " / ".join(f"{value:.2f}" for value in values)
            rows.append(row)
        written.append(f"{head}: bias / spread / error, medians; drift in nats a token {said}.\n\n{table(rows)}")
    return written


def draw(found: Mapping[tuple[str, int], Sequence[Mapping]], path: Path) -> None:
    """Draw bias, spread and error over the age, with the drift below it."""
    import matplotlib.pyplot as plt

    from rlexp.analysis.figures import layout

    titles = ("Bias", f"Spread of {COMPLETIONS} completions", "Error: both")
    drifts = [1000 * np.median([row["drift"] for row in found["whole", age]]) for age in AGES]
    with layout.theme():
        figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.4))
        for axes, key, title in zip(panels, NUMBERS, titles, strict=True):
            for (label, method), color in zip(DRAWN.items(), layout.COLORS, strict=False):
                middle, low, high = np.array([quartiles(found["whole", age], method, key) for age in AGES]).T
                axes.plot(middle, color=color, label=label, marker="o", markersize=3)
                axes.fill_between(range(len(AGES)), low, high, color=color, alpha=layout.BAND / 2, linewidth=0)
            axes.set_title(title)
            axes.set_ylim(bottom=0)
            axes.set_xticks(range(len(AGES)), [f"{age}\n{drift:.1f}" for age, drift in zip(AGES, drifts, strict=True)])
            axes.set_xlabel("age in steps, drift in 1/1000 nats a token")
        panels[0].set_ylabel("share of the true gradient's length")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.06)}
        figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=4, **place)
        figure.savefig(path, bbox_inches="tight")
        plt.close(figure)


if __name__ == "__main__":
    main()
