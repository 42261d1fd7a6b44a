"""What the tests of the axes share: every choice in ``conf/<axis>/*.yaml``, discovered, and one composed objective.

A test that asks for ``norm_choice`` (``clip_choice``, …) runs once for each YAML of that axis, one that asks for
``any_choice`` once for each YAML of every axis. A new variant is therefore tested on the day its YAML is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from omegaconf import OmegaConf
from pydantic import TypeAdapter
from torch import Tensor

from rlexp import agg, clip, filter, kl, norm, shaping
from rlexp.choose import choose, knobs, schema

CONF = Path(__file__).parents[1] / "conf"
AXES = {module.__name__.rpartition(".")[2]: module.FUNCTIONS for module in (shaping, filter, norm, clip, agg, kl)}
CAP = 16  # what ${task.cap} stands for in these tests
BESIDE_KNOBS = {"kl": {"coef", "place"}}  # keys of a node that its function does not take

settings.register_profile("rlexp", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("rlexp")
torch.set_num_threads(1)


@dataclass(frozen=True)
class Choice:
    """One named setting of an axis: a function and its knobs."""

    axis: str
    label: str
    name: str
    knobs: Mapping[str, object]

    def __call__(self, *tensors: Tensor, **changed: object) -> Tensor:
        """Apply the bound function as training does: through its schema and ``choose``."""
        node = {"name": self.name, **self.knobs, **changed}
        bound = choose(AXES[self.axis], TypeAdapter(schema(AXES[self.axis])).validate_python(node))
        return bound(*tensors)

    def __str__(self) -> str:
        return f"{self.axis}={self.label}"


def settings_of(axis: str, path: Path) -> dict:
    """Read a YAML with its interpolations resolved against a task of ``CAP`` tokens."""
    tree = OmegaConf.create({"task": {"cap": CAP}, axis: OmegaConf.load(path)})
    return OmegaConf.to_container(tree, resolve=True)[axis]


def choice_of(axis: str, label: str, node: Mapping[str, object]) -> Choice:
    """Return the choice that a YAML makes."""
    taken = {key: value for key, value in node.items() if key != "name" and key not in BESIDE_KNOBS.get(axis, ())}
    return Choice(axis, label, node["name"], taken)


def choices(axis: str) -> list[Choice]:
    """All choices of an axis; a filter has two of them, one for the loss and one for the statistics."""
    found = []
    for path in sorted((CONF / axis).glob("*.yaml")):
        node = settings_of(axis, path)
        parts = {path.stem: node} if "name" in node else {f"{path.stem}.{key}": part for key, part in node.items()}
        found += [choice_of(axis, label, part) for label, part in parts.items()]
    return found


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``<axis>_choice`` or ``any_choice`` once for each."""
    for axis in AXES:
        if f"{axis}_choice" in metafunc.fixturenames:
            metafunc.parametrize(f"{axis}_choice", choices(axis), ids=str)
    if "any_choice" in metafunc.fixturenames:
        metafunc.parametrize("any_choice", [choice for axis in AXES for choice in choices(axis)], ids=str)


@pytest.fixture
def functions_without_yaml() -> dict[str, set[str]]:
    """Functions of each axis that no YAML names."""
    return {axis: set(AXES[axis]) - {choice.name for choice in choices(axis)} for axis in AXES}


@pytest.fixture
def bind() -> Callable[..., Choice]:
    """Choose a function with knobs of the test's own: ``bind("norm", "local", eps=1e-8, ddof=1)``."""
    functions = {axis: set(table) for axis, table in AXES.items()}

    def bound(axis: str, name: str, **values: object) -> Choice:
        assert name in functions[axis] and set(values) == set(knobs(AXES[axis][name]))
        return Choice(axis, name, name, values)

    return bound


@pytest.fixture
def objective() -> Callable[..., Tensor]:
    """Return one loss a replica from rewards and log-probs: the order that a training step has to keep.

    Padded positions take the old log-prob before anything is computed from them, so that whatever stands there
    reaches neither the loss nor its gradient.
    """

    def composed(choices: Mapping[str, Callable], coef: float, batch: Mapping[str, Tensor]) -> Tensor:
        mask, old_log_probs = batch["mask"], batch["old_log_probs"]
        log_probs = batch["log_probs"].where(mask, old_log_probs)
        advantages = choices["norm"](batch["rewards"], batch["keep"]).unsqueeze(-1).expand_as(log_probs)
        losses = choices["clip"](log_probs, old_log_probs, advantages, mask)
        penalties = choices["kl"](log_probs, batch["ref_log_probs"])
        return choices["agg"](losses + coef * penalties, mask)

    return composed
