"""Between the shapes of a caller and ``[..., P, G, T]``, which the axes take."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Axes = tuple[str, ...]
GROUPED, OF_PROMPT = ("prompts", "group"), ("prompts", "1")
LETTERS = {"prompts": "P", "group": "G", "time": "T", "rows": "B", "places": "T+1", "vocabulary": "V", "known": "N"}


def axes_of(kind: Any) -> Axes | None:
    """Return the names of the axes of a type after those of runs; None for what is no tensor of a known shape."""
    if not hasattr(kind, "dim_str"):
        return None
    return tuple(axis for axis in kind.dim_str.split() if not axis.startswith("*"))


def flat(axes: Axes) -> Axes:
    """Return the axes of flat tensors: a row for each completion, also of what a prompt has once."""
    if axes[:1] != ("prompts",):
        return axes
    return ("rows", *axes[2 if axes[:2] in (GROUPED, OF_PROMPT) else 1 :])


def written(*axes: str | int) -> str:
    """`("prompts", "group", 5)` → `[P, G, 5]`."""
    return f"[{', '.join(LETTERS.get(axis, str(axis)) for axis in axes)}]"


class Sizes:
    """The sizes of axes, as the tensors of one call have them."""

    def __init__(self, formula: str, lead: tuple[int, ...]):
        self.formula, self.lead = formula, lead
        self.known = {"1": 1}

    def read(self, name: str, tensor: Tensor, axes: Axes) -> None:
        """Take the sizes of one more tensor; ValueError if it does not go with the others."""
        whole = axes[:1] in (("prompts",), ("rows",))
        lead, own = tensor.shape[: max(tensor.dim() - len(axes), 0)], tensor.shape[max(tensor.dim() - len(axes), 0) :]
        known = self.known | ({"places": self.known["time"] + 1} if "time" in self.known else {})
        sizes = dict(zip(axes, own, strict=False)) | known
        fits = len(own) == len(axes) and all(sizes[axis] == size for axis, size in zip(axes, own, strict=True))
        if not fits or tuple(lead) not in ({self.lead} if whole else {self.lead, ()}):
            expected = written(*self.lead, *(known.get(axis, axis) for axis in axes))
            raise ValueError(f"{self.formula}: {name} must be {expected}, and is {list(tensor.shape)}")
        self.known = sizes

    def of(self, axes: Axes) -> list[int] | None:
        """Return a whole shape, None if a size is not known."""
        sizes = [self.known.get(axis) for axis in axes]
        return None if None in sizes else [*self.lead, *sizes]


class Rows:
    """Flat tensors whose rows have nothing to do with each other, each a group: ``[B, T]`` as ``[B, 1, T]``."""

    def stack(self, tensor: Tensor, axes: Axes) -> Tensor:
        return tensor.unsqueeze(1) if axes[:2] in (GROUPED, OF_PROMPT) else tensor

    def unstack(self, tensor: Tensor, axes: Axes) -> Tensor:
        return tensor.squeeze(1) if axes[:2] == GROUPED else tensor


class Groups:
    """Flat tensors whose rows belong to groups: ``[B, T]`` as ``[P, G, T]``, short groups filled up with zeros.

    G is the size of the largest group, and ``spare`` more.
    """

    def __init__(self, group_ids: Tensor, spare: int = 0):
        _, self.prompt, sizes = group_ids.unique(return_inverse=True, return_counts=True)
        order, begins = self.prompt.argsort(stable=True), sizes.cumsum(0) - sizes
        self.place = torch.empty_like(self.prompt)
        self.place[order] = torch.arange(len(order), device=order.device) - begins[self.prompt[order]]
        self.first = order[begins]
        self.shape = len(sizes), int(sizes.max()) + spare
        self.sizes = sizes

    def stack(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Put rows in their places; of what a prompt has once, take that of its first row."""
        if axes[:2] == GROUPED:
            return tensor.new_zeros(*self.shape, *tensor.shape[1:]).index_put((self.prompt, self.place), tensor)
        if axes[:1] == ("prompts",):
            return tensor[self.first].unsqueeze(1) if axes[:2] == OF_PROMPT else tensor[self.first]
        return tensor

    def unstack(self, tensor: Tensor, axes: Axes) -> Tensor:
        """Return the rows in the order of the caller."""
        return tensor[self.prompt, self.place] if axes[:2] == GROUPED else tensor
