"""What nobody has written down of a function, found by trying: whether groups matter to it, and what is left out.

It is tried once, on made-up completions, when flat tensors first come without group ids or with groups of several
sizes. What cannot be tried is taken to matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlexp.functional.defaults import REQUIRED
from rlexp.functional.layouts import GROUPED, Groups, Layout, Rows, axes_of, flat

PROMPTS, GROUP, LONGEST, OTHERS = 4, 16, 3, 2
CLOSE = dict(rtol=1e-6, atol=1e-9)  # far above the rounding of float64, far below what another group changes


def compares_within_groups(formula: Any, values: Mapping[str, Any]) -> bool:
    """Whether it matters to a formula which completions answer the same prompt."""
    return differs(formula, values, "groups", Rows(), Groups(of_groups()))


def counts_what_is_left_out(formula: Any, values: Mapping[str, Any]) -> bool:
    """Whether completions that are outside ``mask`` and ``keep`` change results of the others."""
    return differs(formula, values, "left out", Groups(of_groups()), Groups(of_groups(), spare=1))


def of_groups() -> Tensor:
    """Return group ids of the completions that functions are tried on."""
    return torch.arange(PROMPTS).repeat(GROUP)


def differs(formula: Any, values: Mapping[str, Any], question: str, one: Layout, other: Layout) -> bool:
    """Whether results differ between two layouts, with the default hyperparameters where there are some."""
    if question not in formula.tried:
        own = formula.settings.values
        values = {
            hyperparameter: value if own[hyperparameter] is REQUIRED else own[hyperparameter]
            for hyperparameter, value in values.items()
        }
        values = {hyperparameter: OTHERS if value is None else value for hyperparameter, value in values.items()}
        try:
            tensors = {name: made_up(name, offer.kind) for name, offer in formula.offered.items()}
            tensors |= formula.memory(values)
            results = [formula.compute(tensors, values, layout).double() for layout in (one, other)]
            formula.tried[question] = not torch.allclose(*results, equal_nan=True, **CLOSE)
        except (RuntimeError, TypeError, ValueError):
            formula.tried[question] = True
    return formula.tried[question]


def made_up(name: str, kind: Any) -> Tensor:
    """Return numbers for a tensor: different ones for each completion, the same for whatever a prompt has once."""
    axes, random = axes_of(kind), torch.Generator().manual_seed(len(name))
    known = {"rows": PROMPTS * GROUP, "time": LONGEST, "places": LONGEST + 1}
    size = [known.get(axis, OTHERS) for axis in flat(axes)]
    uniform = torch.rand(size, generator=random, dtype=torch.float64)
    if kind.dtype.__name__ == "Bool":
        return uniform < 0.8
    if kind.dtype.__name__ == "Int":
        return torch.zeros(size, dtype=torch.long)
    if axes[:2] != GROUPED:
        return torch.full(size, 0.5, dtype=torch.float64)
    if "log_probs" in name:
        return -3 * uniform
    return {"correct": (uniform < 0.5).double(), "advantages": uniform - 0.5}.get(name, uniform)
