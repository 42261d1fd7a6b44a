"""A function of an axis and its hyperparameters: bound, called and asked as a training step does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

import torch
from omegaconf import OmegaConf
from pydantic import ValidationError
from torch import Tensor

from rlexp.axes import axis_of
from rlexp.config.choices import CONF, SETTINGS, default_run, values_of
from rlexp.core.errors import problem_lines
from rlexp.core.facts import Facts, facts_of
from rlexp.core.registry import bind_hyperparameters, choice_type, hyperparameters, required_inputs

# The axes whose functions take tensors of a batch and can be checked as a whole; of the others only the signature is.
BATCH_AXES = ("reward", "shaping", "filter", "norm", "clip", "agg", "kl", "sampler", "mismatch", "anchor")
BATCH_AXES += ("teacher", "distillation", "imitation")
CAP, KNOWN_PROMPTS = 16, 3  # what ${task.cap} and ${task.prompt_set} of a YAML stand for in a check
# Keys of a node that its function does not take.
BESIDE_KNOBS = {place.partition(".")[0]: {*settings} for place, settings in SETTINGS.items()}


@dataclass(frozen=True)
class Choice:
    """One setting of an axis: a function and its hyperparameters. ``name`` is the function's, ``label`` the YAML's."""

    axis: str
    label: str
    name: str
    hyperparameters: Mapping[str, object]
    func: Callable[..., Tensor]

    @cached_property
    def function(self) -> Callable[..., Tensor]:
        """The bound function, made as training makes it; AssertionError where a hyperparameter is not allowed."""
        values = {"name": self.name, **self.hyperparameters}
        try:
            return bind_hyperparameters(self.func, choice_type(self.name, self.func, ()).model_validate(values))
        except ValidationError as error:
            problems = "; ".join(problem_lines(error, values))
            named = ", ".join(hyperparameters(self.func)) or "none"
            takes = f"`{self.func.__name__}` in {file_of(self.func)} takes {named}"
            raise AssertionError(f"{self}: its hyperparameters are wrong ({takes}): {problems}") from None

    def __call__(self, *tensors: Tensor, **named: Tensor) -> Tensor:
        """Call the function; a call that leaves ``log_ratio_bound`` out means that of ``config.yaml``."""
        if "log_ratio_bound" in self.needs and len(tensors) + len(named) < len(self.needs):
            place, usual = self.needs.index("log_ratio_bound"), float(default_run()["log_ratio_bound"])
            tensors = (*tensors[:place], torch.full(tensors[0].shape[:-3], usual), *tensors[place:])
        return self.function(*tensors, **named)

    def of(self, offered: Mapping[str, Tensor]) -> Tensor:
        """Call the function with what it asks for."""
        return self.function(*(offered[name] for name in self.needs))

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the tensors that the function takes."""
        return required_inputs(self.func)

    @property
    def facts(self) -> Facts:
        """What is declared beside the function."""
        return facts_of(self.func, axis_of(self.axis).facts)

    def changed(self, **values: object) -> Choice:
        """Return the same choice with other values of some hyperparameters."""
        return replace(self, hyperparameters={**self.hyperparameters, **values})

    def __str__(self) -> str:
        return f"{self.axis}={self.label}"


def file_of(code: Callable | ModuleType) -> str:
    """Return the file of a function or module, as one calls it from the root of the project if it is in there."""
    file = Path(inspect.getsourcefile(inspect.unwrap(code)) or "?")
    return file.relative_to(CONF.parent).as_posix() if file.is_relative_to(CONF.parent) else str(file)


def resolved(axis: str, node: Mapping[str, object]) -> dict:
    """Return a node of an axis with its interpolations, against a task of ``CAP`` tokens."""
    task = {"cap": CAP, "prompt_set": KNOWN_PROMPTS, "weights": {}}
    return OmegaConf.to_container(OmegaConf.create({"task": task, axis: node}), resolve=True)[axis]


def choice_of(axis: str, label: str, node: Mapping[str, object]) -> Choice:
    """Return the choice that a node of a config makes."""
    values = {key: value for key, value in node.items() if key != "name" and key not in BESIDE_KNOBS.get(axis, ())}
    name, functions = node["name"], axis_of(axis).functions
    assert name in functions, (
        f"conf/{axis}/{label.partition('.')[0]}.yaml names `{name}`, which is no function of the axis: write it where "
        f"the others are, {file_of(axis_of(axis).module).removesuffix('/__init__.py')}, "
        f'and FUNCTIONS["{name}"] = {name} below it'
    )
    return Choice(axis, label, name, values, functions[name])


def bind(axis: str, function: str | Callable, **values: object) -> Choice:
    """Choose a function, or one of ours by its name, with hyperparameters: ``bind("norm", "local", eps=1e-8, ddof=1)``.

    Those that are not given are the defaults of the signature.
    """
    if isinstance(function, str):
        return Choice(axis, function, function, values, axis_of(axis).functions[function])
    name = function.__name__
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
    return Choice(axis, name, name, defaults | values, function)


@cache
def shipped(axis: str) -> tuple[Choice, ...]:
    """Return the choices of ``conf/<axis>/*.yaml``; a filter has one for refill, loss and statistics each."""
    found = []
    for label in sorted(path.stem for path in (CONF / axis).glob("*.yaml")):
        node = resolved(axis, values_of(axis, label))
        parts = {label: node} if "name" in node else {f"{label}.{key}": part for key, part in node.items()}
        found += [choice_of(axis, label, part) for label, part in parts.items()]
    return tuple(found)


@cache
def memory_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shape of every memory of the axes for one run, as it starts."""
    found = {}
    for axis in BATCH_AXES:
        memories = axis_of(axis).memories
        for choice in shipped(axis) if memories else ():
            if each := memories.get(choice.name):
                start = each.start(**{name: choice.hyperparameters[name] for name in hyperparameters(each.start)})
                found[each.name] = tuple(torch.tensor(start).shape)
    return found
