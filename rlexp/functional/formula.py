"""A function of an axis as somebody else's trainer calls it: what is checked and filled in, computed, and cut."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce
from inspect import Parameter, Signature
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from rlexp.core.masked import per_token
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, hyperparameters, required_inputs
from rlexp.functional.defaults import REQUIRED, Settings, default_bound
from rlexp.functional.layouts import GROUPED, AsGiven, Axes, Groups, Layout, Rows, Sizes, axes_of, flat, written
from rlexp.functional.trial import compares_within_groups, counts_what_is_left_out

OPTIONAL = {  # tensors that may be left out, and what then stands for them; what is counted is after the mask
    "mask": "all tokens",
    "keep": "all completions",
    "scored": "all completions",
    "adjustments": "0",
    "token_penalties": "0",
    "log_ratio_bound": f"{default_bound():g}",
    "mean_tokens": "the number of tokens that count",
}
OF_TOKEN = (*GROUPED, "time")
KINDS = {"Float": "of floating point", "Int": "of integers", "Bool": "bool"}


class Formula:
    """A choice of an axis: its function, its tensors by name, its hyperparameters with their defaults.

    ``name`` is how a caller writes it, as ``norm.local``; ``offered`` says what each tensor is; ``remembers`` is
    what it needs of earlier steps.
    """

    def __init__(self, name: str, settings: Settings, offered: Mapping[str, Offer], remembers: Memory | None = None):
        self.name, self.settings, self.function, self.remembers = name, settings, settings.function, remembers
        self.offered = {tensor: offered[tensor] for tensor in required_inputs(self.function)}
        self.axes = {tensor: axes_of(offer.kind) for tensor, offer in self.offered.items()}
        self.result = get_type_hints(self.function).get("return")
        if self.result is None:
            raise TypeError(f"{name}: its function has no return type; rlexp/core/types.py has some, as PerCompletion")
        self.by_row = any(map(self.is_by_row, self.axes))
        self.tried: dict[str, bool] = {}  # see ``trial``

    def is_by_row(self, tensor: str) -> bool:
        """Whether each completion has its own entries of a tensor."""
        return (self.axes[tensor] or ())[:2] == GROUPED

    @cached_property
    def adapters(self) -> dict[str, TypeAdapter]:
        """What checks each hyperparameter."""
        return {hyperparameter: TypeAdapter(kind) for hyperparameter, kind in hyperparameters(self.function).items()}

    @cached_property
    def signature(self) -> Signature:
        """What a caller may give: tensors that are needed, those that are not, then by name hyperparameters."""
        either, named = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        kinds = {name: self.annotation(name) for name in self.axes}
        needed = [Parameter(name, either, annotation=kind) for name, kind in kinds.items() if name not in OPTIONAL]
        others = {name: kind | None for name, kind in kinds.items() if name in OPTIONAL}
        optional = [Parameter(name, either, default=None, annotation=kind) for name, kind in others.items()]
        values, types = self.settings.values, hyperparameters(self.function)
        own = [Parameter(name, named, default=values[name], annotation=plain(kind)) for name, kind in types.items()]
        groups = [Parameter("group_ids", named, default=None, annotation=Tensor | None)] if self.by_row else []
        return Signature([*needed, *optional, *own, *groups])

    def annotation(self, tensor: str) -> Any:
        """Return the type of a tensor as Python has it: where a run has one number, it may be a number."""
        if self.axes[tensor] is None:
            return self.offered[tensor].kind
        return Tensor if self.axes[tensor] else Tensor | float

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Check what is given, fill in what is not, compute, and return the result as the caller's tensors are."""
        given = self.bind(arguments, named)
        group_ids = given.pop("group_ids", None)
        values = {
            hyperparameter: self.checked(hyperparameter, given.pop(hyperparameter)) for hyperparameter in self.adapters
        }
        tensors = {name: self.as_tensor(name, value) for name, value in given.items() if value is not None}
        rows = [name for name in tensors if self.is_by_row(name)]
        if not self.by_row:
            return self.function(**tensors, **values)
        if not rows:
            raise TypeError(f"{self.name}: nothing is given that says how many completions there are")
        leader = next((name for name in rows if name != "advantages"), rows[0])
        is_flat = self.is_flat(leader, tensors[leader], group_ids)
        tensors = self.complete(tensors, leader, is_flat)
        layout = self.layout(tensors, values, group_ids) if is_flat else AsGiven()
        return self.compute(tensors, values, layout)

    def bind(self, arguments: tuple, named: Mapping[str, Any]) -> dict[str, Any]:
        """Give arguments their names; TypeError if one is missing or unknown."""
        try:
            bound = self.signature.bind_partial(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}; it takes {', '.join(self.signature.parameters)}") from None
        bound.apply_defaults()
        for name, parameter in self.signature.parameters.items():
            if parameter.default is REQUIRED and bound.arguments.get(name) is None:
                text = self.offered[name].text if name in self.offered else "it has no default"
                raise TypeError(f"{self.name}: {name} is missing: {text}")
        return bound.arguments

    def checked(self, hyperparameter: str, value: Any) -> Any:
        """Return a hyperparameter; ValueError or TypeError if its type does not have it."""
        try:
            return self.adapters[hyperparameter].validate_python(value, strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            wrong = TypeError if problem["type"].endswith("_type") else ValueError
            raise wrong(f"{self.name}: {hyperparameter}={value!r}: {problem['msg'].lower()}") from None

    def as_tensor(self, name: str, value: Any) -> Any:
        """Return a tensor, masks of integers as bool, or a number where one will do; TypeError for anything else."""
        axes = self.axes[name]
        if axes is None or (axes == () and isinstance(value, int | float)):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(f"{self.name}: {name} must be a tensor, and is of type {type(value).__name__}")
        wanted = self.offered[name].kind.dtype.__name__
        kind = "Float" if value.is_floating_point() else "Bool" if value.dtype == torch.bool else "Int"
        if (wanted, kind) == ("Bool", "Int"):
            return value.bool()
        if wanted != kind:
            raise TypeError(f"{self.name}: {name} must be {KINDS[wanted]}, and is {dtype_of(value)}")
        return value

    def is_flat(self, name: str, tensor: Tensor, group_ids: Any) -> bool:
        """Whether tensors are flat, by one of them; ValueError if it has no shape that goes."""
        axes = self.axes[name]
        if tensor.dim() == len(axes) - 1:
            return True
        if tensor.dim() >= len(axes) and group_ids is None:
            return False
        shapes = written(*flat(axes)) + (
            " beside group_ids" if group_ids is not None else f" or {written('...', *axes)}"
        )
        raise ValueError(f"{self.name}: {name} must be {shapes}, and is {list(tensor.shape)}")

    def complete(self, tensors: dict[str, Any], leader: str, is_flat: bool) -> dict[str, Any]:
        """Return all tensors in whole shapes; ValueError where they disagree, TypeError where one is missing."""
        axes = {name: flat(each) if is_flat else each for name, each in self.axes.items() if each is not None}
        sizes = Sizes(self.name, tuple(tensors[leader].shape[: tensors[leader].dim() - len(axes[leader])]))
        for name in sorted(tensors, key=lambda name: name == "advantages"):
            if isinstance(tensors[name], Tensor):
                tensors[name] = self.of_tokens(tensors[name], sizes) if name == "advantages" else tensors[name]
                sizes.read(name, tensors[name], axes[name])
        floats = [value for value in tensors.values() if isinstance(value, Tensor) and value.is_floating_point()]
        like = floats[0] if floats else torch.empty((), device=tensors[leader].device)
        for name in (name for name in OPTIONAL if name in axes and name not in tensors):
            tensors[name] = self.stand_in(name, sizes.of(axes[name]), like, tensors)
        return tensors | {name: of_each_run(tensors[name], each, sizes.lead, like) for name, each in axes.items()}

    def of_tokens(self, advantages: Tensor, sizes: Sizes) -> Tensor:
        """Return advantages of tokens, given those or one for each completion."""
        of_completions = sizes.of(("rows",)) or sizes.of(GROUPED)
        if "time" in sizes.known and list(advantages.shape) == of_completions:
            return advantages.unsqueeze(-1).expand(*of_completions, sizes.known["time"])
        return advantages

    def stand_in(self, name: str, size: list[int] | None, like: Tensor, found: Mapping[str, Tensor]) -> Any:
        """Return what ``OPTIONAL`` says of a tensor that is not given; TypeError if nothing says how large it is."""
        if name == "log_ratio_bound":
            return default_bound()
        if name == "mean_tokens" and "mask" in found:
            return found["mask"].sum(tuple(range(len(size), found["mask"].dim()))).to(like.dtype).clamp(min=1)
        if not size:
            raise TypeError(
                f"{self.name}: {name} is missing, and nothing else says its shape: {self.offered[name].text}"
            )
        if self.offered[name].kind.dtype.__name__ == "Bool":
            return like.new_ones(size, dtype=torch.bool)
        return like.new_zeros(size)

    def layout(self, tensors: Mapping[str, Any], values: Mapping[str, Any], group_ids: Any) -> Layout:
        """Return where rows belong; ValueError if that is not said, or if the formula cannot have it so."""
        leader = next(tensor for name, tensor in tensors.items() if self.is_by_row(name))
        if group_ids is not None:
            group_ids = self.read_group_ids(group_ids, len(leader), leader.device)
        if not compares_within_groups(self, values):
            return Rows()
        if group_ids is None:
            raise ValueError(
                f"{self.name}: compares within groups; give flat tensors with group_ids=[B], or [..., P, G]"
            )
        groups = Groups(group_ids)
        if groups.sizes.min() < groups.sizes.max() and counts_what_is_left_out(self, values):
            sizes = f"{groups.sizes.min()} to {groups.sizes.max()}"
            raise ValueError(f"{self.name}: groups must be of one size, and have {sizes} completions")
        return groups

    def read_group_ids(self, group_ids: Any, rows: int, device: torch.device) -> Tensor:
        """Return group ids as a tensor; TypeError or ValueError unless they are an integer for each row."""
        ids = torch.as_tensor(group_ids, device=device)
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise TypeError(f"{self.name}: group_ids must be of integers, and are {dtype_of(ids)}")
        if ids.shape != (rows,):
            raise ValueError(f"{self.name}: group_ids must be [{rows}], one for each row, and are {list(ids.shape)}")
        return ids

    def compute(self, tensors: Mapping[str, Any], values: Mapping[str, Any], layout: Layout) -> Any:
        """Compute, and set what does not count to 0."""
        stacked = {
            name: layout.stack(value, self.axes[name]) if self.axes[name] is not None else value
            for name, value in tensors.items()
        }
        if "mask" in stacked:
            of_tokens = [name for name in stacked if self.is_of_token(name)]
            stacked |= {name: stacked[name].where(stacked["mask"], 0.0) for name in of_tokens}
        result = self.function(**stacked, **values)
        for name in self.zero_outside:
            result = result.masked_fill(~per_token(stacked[name], result), 0)
        return layout.unstack(result, axes_of(self.result) or ())

    @property
    def zero_outside(self) -> list[str]:
        """Which masks results are cut by: of tokens by that of tokens, advantages by that of completions too."""
        axes = axes_of(self.result) or ()
        of_norm = self.name.startswith("norm.") and axes[:2] == GROUPED
        return ["mask"] * (axes == OF_TOKEN and "mask" in self.axes) + ["keep"] * (of_norm and "keep" in self.axes)

    def memory(self, values: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return what it remembers before the first step, by its name; nothing if it does not."""
        if self.remembers is None:
            return {}
        start = self.remembers.start(
            **{hyperparameter: values[hyperparameter] for hyperparameter in hyperparameters(self.remembers.start)}
        )
        return {self.remembers.name: torch.tensor(start, dtype=torch.float64)}

    def is_of_token(self, name: str) -> bool:
        """Whether each token has a number of its own."""
        return self.axes[name] == OF_TOKEN and self.offered[name].kind.dtype.__name__ == "Float"


def of_each_run(value: Any, axes: Axes, lead: tuple[int, ...], like: Tensor) -> Tensor:
    """Return a tensor with the leading axes of the others; a number, or a tensor without them, is the same for all."""
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=like.dtype, device=like.device)
    return value.expand([*lead, *value.shape]) if value.dim() == len(axes) else value


def plain(kind: Any) -> Any:
    """Return a type without its range."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    return reduce(or_, map(plain, get_args(kind))) if get_origin(kind) in (Union, UnionType) else kind


def dtype_of(tensor: Tensor) -> str:
    """Return `float32` for `torch.float32`."""
    return str(tensor.dtype).removeprefix("torch.")
