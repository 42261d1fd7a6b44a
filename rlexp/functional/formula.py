"""A function of an axis as somebody else's trainer calls it: what is checked and filled in, computed, and cut."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from inspect import Parameter, Signature
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from rlexp.config.choices import default_run
from rlexp.core.masked import per_token
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, hyperparameters, required_inputs
from rlexp.functional.defaults import REQUIRED, Settings
from rlexp.functional.layouts import GROUPED, Groups, Rows, Sizes, axes_of, flat, written

LOG_RATIO_BOUND = float(default_run()["log_ratio_bound"])
OPTIONAL = {  # tensors that may be left out, and what then stands for them; what is counted is after the mask
    "mask": "all tokens",
    "keep": "all completions",
    "scored": "all completions",
    "adjustments": "0",
    "token_penalties": "0",
    "log_ratio_bound": f"{LOG_RATIO_BOUND:g}",
    "mean_tokens": "the number of tokens that count",
}
OF_TOKEN = (*GROUPED, "time")
KINDS = {"Float": "of floating point", "Int": "of integers", "Bool": "bool"}
# What a formula is tried on: see ``Formula.differs``.
PROMPTS, GROUP, LONGEST, OTHERS = 4, 16, 3, 2
CLOSE = dict(rtol=1e-6, atol=1e-9)  # far above the rounding of float64, far below what another group changes


class Formula:
    """A choice of an axis: its function, its tensors by name, its hyperparameters with their defaults.

    ``name`` is how a caller writes it, as ``norm.local``; ``offered`` says what each tensor is; ``remembers`` is
    what it needs of earlier steps.
    """

    def __init__(self, name: str, settings: Settings, offered: Mapping[str, Offer], remembers: Memory | None = None):
        self.name, self.settings, self.function, self.remembers = name, settings, settings.function, remembers
        self.offered = {tensor: offered[tensor] for tensor in required_inputs(self.function)}
        self.axes = {tensor: axes_of(offer.kind) for tensor, offer in self.offered.items()}
        self.kinds = hyperparameters(self.function)
        self.adapters = {hyperparameter: TypeAdapter(kind) for hyperparameter, kind in self.kinds.items()}
        self.result = get_type_hints(self.function).get("return")
        if self.result is None:
            raise TypeError(f"{name}: its function has no return type; rlexp/core/types.py has some, as PerCompletion")
        self.by_row = [tensor for tensor, axes in self.axes.items() if (axes or ())[:2] == GROUPED]
        # Which masks results are cut by: of tokens by that of tokens, advantages by that of completions too.
        axes = axes_of(self.result) or ()
        of_norm = name.startswith("norm.") and axes[:2] == GROUPED
        self.zero_outside = ["mask"] * (axes == OF_TOKEN and "mask" in self.axes)
        self.zero_outside += ["keep"] * (of_norm and "keep" in self.axes)
        self.tried: dict[str, bool] = {}
        self.signature = self.make_signature()

    def make_signature(self) -> Signature:
        """Return what a caller may give: tensors that are needed, those that are not, then by name hyperparameters."""
        needed, optional = [], []
        for name, axes in self.axes.items():
            # where a run has one number, it may be a number
            kind = self.offered[name].kind if axes is None else Tensor if axes else Tensor | float
            if name in OPTIONAL:
                optional.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind | None))
            else:
                needed.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind))
        named = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=self.settings.values[name], annotation=plain(kind))
            for name, kind in self.kinds.items()
        ]
        if self.by_row:
            named.append(Parameter("group_ids", Parameter.KEYWORD_ONLY, default=None, annotation=Tensor | None))
        return Signature([*needed, *optional, *named])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Check what is given, fill in what is not, compute, and return the result as the caller's tensors are."""
        try:
            bound = self.signature.bind_partial(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}; it takes {', '.join(self.signature.parameters)}") from None
        bound.apply_defaults()
        given = bound.arguments
        for name, parameter in self.signature.parameters.items():
            if parameter.default is REQUIRED and given.get(name) is None:
                text = self.offered[name].text if name in self.offered else "it has no default"
                raise TypeError(f"{self.name}: {name} is missing: {text}")
        group_ids = given.pop("group_ids", None)
        values = {name: self.checked(name, given.pop(name)) for name in self.adapters}
        tensors = {name: self.as_tensor(name, value) for name, value in given.items() if value is not None}
        if not self.by_row:
            return self.function(**tensors, **values)

        rows = [name for name in tensors if name in self.by_row]
        if not rows:
            raise TypeError(f"{self.name}: nothing is given that says how many completions there are")
        leader = next((name for name in rows if name != "advantages"), rows[0])
        tensor, axes = tensors[leader], self.axes[leader]
        is_flat = tensor.dim() == len(axes) - 1
        if not is_flat and (tensor.dim() < len(axes) or group_ids is not None):
            other = " beside group_ids" if group_ids is not None else f" or {written('...', *axes)}"
            shapes = written(*flat(axes)) + other
            raise ValueError(f"{self.name}: {leader} must be {shapes}, and is {list(tensor.shape)}")
        tensors = self.complete(tensors, leader, is_flat)
        return self.compute(tensors, values, self.layout(tensors, values, group_ids) if is_flat else None)

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
            dtype = str(value.dtype).removeprefix("torch.")
            raise TypeError(f"{self.name}: {name} must be {KINDS[wanted]}, and is {dtype}")
        return value

    def complete(self, tensors: dict[str, Any], leader: str, is_flat: bool) -> dict[str, Any]:
        """Return all tensors in whole shapes; ValueError where they disagree, TypeError where one is missing."""
        axes = {name: flat(each) if is_flat else each for name, each in self.axes.items() if each is not None}
        sizes = Sizes(self.name, tuple(tensors[leader].shape[: tensors[leader].dim() - len(axes[leader])]))
        for name in sorted(tensors, key=lambda name: name == "advantages"):
            if name == "advantages" and "time" in sizes.known:
                of_completions = sizes.of(("rows",)) or sizes.of(GROUPED)
                if list(tensors[name].shape) == of_completions:  # one for each completion
                    tensors[name] = tensors[name].unsqueeze(-1).expand(*of_completions, sizes.known["time"])
            if isinstance(tensors[name], Tensor):
                sizes.read(name, tensors[name], axes[name])
        floats = [value for value in tensors.values() if isinstance(value, Tensor) and value.is_floating_point()]
        like = floats[0] if floats else torch.empty((), device=tensors[leader].device)
        for name in (name for name in OPTIONAL if name in axes and name not in tensors):
            tensors[name] = self.stand_in(name, sizes.of(axes[name]), like, tensors)
        for name, each in axes.items():  # a number, or a tensor without leading axes, is the same for all runs
            value = tensors[name]
            if not isinstance(value, Tensor):
                value = torch.tensor(value, dtype=like.dtype, device=like.device)
            tensors[name] = value.expand([*sizes.lead, *value.shape]) if value.dim() == len(each) else value
        return tensors

    def stand_in(self, name: str, size: list[int] | None, like: Tensor, found: Mapping[str, Tensor]) -> Any:
        """Return what ``OPTIONAL`` says of a tensor that is not given; TypeError if nothing says how large it is."""
        if name == "log_ratio_bound":
            return LOG_RATIO_BOUND
        if name == "mean_tokens" and "mask" in found:
            return found["mask"].sum(tuple(range(len(size), found["mask"].dim()))).to(like.dtype).clamp(min=1)
        if not size:
            missing = f"{name} is missing, and nothing else says its shape"
            raise TypeError(f"{self.name}: {missing}: {self.offered[name].text}")
        if self.offered[name].kind.dtype.__name__ == "Bool":
            return like.new_ones(size, dtype=torch.bool)
        return like.new_zeros(size)

    def layout(self, tensors: Mapping[str, Any], values: Mapping[str, Any], group_ids: Any) -> Rows | Groups:
        """Return where rows belong; ValueError if that is not said, or if the formula cannot have it so."""
        if group_ids is not None:
            leader = next(tensor for name, tensor in tensors.items() if name in self.by_row)
            ids = torch.as_tensor(group_ids, device=leader.device)
            if ids.is_floating_point() or ids.dtype == torch.bool:
                dtype = str(ids.dtype).removeprefix("torch.")
                raise TypeError(f"{self.name}: group_ids must be of integers, and are {dtype}")
            if ids.shape != (len(leader),):
                wanted = f"[{len(leader)}], one for each row"
                raise ValueError(f"{self.name}: group_ids must be {wanted}, and are {list(ids.shape)}")
        if not self.differs("groups", values):
            return Rows()
        if group_ids is None:
            raise ValueError(
                f"{self.name}: compares within groups; give flat tensors with group_ids=[B], or [..., P, G]"
            )
        groups = Groups(ids)
        least, most = groups.sizes.min(), groups.sizes.max()
        if least < most and self.differs("left out", values):
            raise ValueError(f"{self.name}: groups must be of one size, and have {least} to {most} completions")
        return groups

    def differs(self, question: str, values: Mapping[str, Any]) -> bool:
        """Whether results differ between two layouts, which nobody has written down: found by trying, once.

        Whether groups matter is asked when flat tensors first come, whether completions outside ``mask`` and ``keep``
        change results of the others when groups first have several sizes. It is tried on made-up completions, with the
        default hyperparameters where there are some. What cannot be tried is taken to matter.
        """
        if question in self.tried:
            return self.tried[question]
        ids, own = torch.arange(PROMPTS).repeat(GROUP), self.settings.values
        layouts = (Rows(), Groups(ids)) if question == "groups" else (Groups(ids), Groups(ids, spare=1))
        values = {name: value if own[name] is REQUIRED else own[name] for name, value in values.items()}
        try:
            values = {name: self.checked(name, OTHERS) if value is None else value for name, value in values.items()}
            tensors = {name: made_up(name, offer.kind) for name, offer in self.offered.items()}
            if self.remembers is not None:
                start = self.remembers.start
                remembered = start(**{name: values[name] for name in hyperparameters(start)})
                tensors[self.remembers.name] = torch.tensor(remembered, dtype=torch.float64)
            results = [self.compute(tensors, values, layout).double() for layout in layouts]
            self.tried[question] = not torch.allclose(*results, equal_nan=True, **CLOSE)
        except (RuntimeError, TypeError, ValueError):
            self.tried[question] = True
        return self.tried[question]

    def compute(self, tensors: Mapping[str, Any], values: Mapping[str, Any], layout: Rows | Groups | None) -> Any:
        """Compute, and set what does not count to 0; without a layout tensors are ``[..., P, G, T]`` already."""
        known = {name: axes for name, axes in self.axes.items() if axes is not None}
        if layout:
            tensors = {**tensors, **{name: layout.stack(tensors[name], axes) for name, axes in known.items()}}
        if "mask" in tensors:
            of_tokens = [name for name, axes in known.items() if axes == OF_TOKEN]
            of_tokens = [name for name in of_tokens if self.offered[name].kind.dtype.__name__ == "Float"]
            tensors = {**tensors, **{name: tensors[name].where(tensors["mask"], 0.0) for name in of_tokens}}
        result = self.function(**tensors, **values)
        for name in self.zero_outside:
            result = result.masked_fill(~per_token(tensors[name], result), 0)
        return layout.unstack(result, axes_of(self.result) or ()) if layout else result


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


def plain(kind: Any) -> Any:
    """Return a type without its range."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    return reduce(or_, map(plain, get_args(kind))) if get_origin(kind) in (Union, UnionType) else kind
