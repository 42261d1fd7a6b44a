"""What the tests of the axes share: the choices of ``conf/<axis>/*.yaml``, inputs for each axis."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import torch
from omegaconf import OmegaConf
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from rlexp.axes import agg, clip, filter, kl, mismatch, norm, reward, sampler, shaping
from rlexp.axes.reward.voting import NUMBERS
from rlexp.core.errors import problem_lines
from rlexp.core.masked import at_last_token
from rlexp.core.registry import bind_choice, knobs, requested_names, schema

CONF = Path(__file__).parents[3] / "conf"
MODULES = (reward, shaping, filter, norm, clip, agg, kl, sampler, mismatch)
MODULE_OF = {module.__name__.rpartition(".")[2]: module for module in MODULES}
AXES = {name: module.FUNCTIONS for name, module in MODULE_OF.items()}
CAP = 16  # what ${task.cap} stands for in these tests
KNOWN = 3  # and ${task.prompt_set}
# Keys of a node that its function does not take.
BESIDE_KNOBS = {"kl": {"coef", "place"}, "filter": {"rounds"}, "reward": {"model"}}

# Rounding of a few dozen float64 operations on numbers of order ten.
CLOSE = dict(rtol=1e-9, atol=1e-10)


def file_of(code: object) -> str:
    """Return the file of a function or module, as one calls it from the root of the project."""
    module = code if inspect.ismodule(code) else sys.modules[code.__module__]
    return Path(module.__file__).relative_to(CONF.parent).as_posix()


@cache
def schema_of(axis: str) -> TypeAdapter:
    """Return what checks the knobs of an axis; to make it takes longer than most tests."""
    return TypeAdapter(schema(AXES[axis]))


@dataclass(frozen=True)
class Choice:
    """One named setting of an axis: a function and its knobs."""

    axis: str
    label: str
    name: str
    knobs: Mapping[str, object]

    @cached_property
    def function(self) -> Callable[..., Tensor]:
        """Return the bound function, made as training makes it: through its schema and ``bind_choice``."""
        values = {"name": self.name, **self.knobs}
        try:
            return bind_choice(AXES[self.axis], schema_of(self.axis).validate_python(values))
        except ValidationError as error:
            problems = "; ".join(problem_lines(error, values)) if self.func else ""
            wanted = f"the keyword-only parameters of `{self.name}` in {file_of(self.func)}"
            raise AssertionError(f"{self.file}: its keys must be `name` and {wanted}: {problems}") from None

    def __call__(self, *tensors: Tensor, **named: Tensor) -> Tensor:
        """Call the function; a test that says nothing of the bound of log-ratios means the usual one."""
        if "log_ratio_bound" in self.needs and len(tensors) + len(named) < len(self.needs):
            place = self.needs.index("log_ratio_bound")
            bound = torch.full(tensors[0].shape[:-3], OmegaConf.load(CONF / "config.yaml").log_ratio_bound)
            tensors = (*tensors[:place], bound, *tensors[place:])
        return self.function(*tensors, **named)

    @property
    def func(self) -> Callable[..., Tensor]:
        """The function without its knobs, named as in ``functools.partial``, so that a training step takes a choice."""
        where = f"where the others are, {file_of(MODULE_OF[self.axis]).removesuffix('/__init__.py')}"
        assert self.name in AXES[self.axis], (
            f"{self.file} names `{self.name}`, which is no function of the axis: write it {where}, "
            f'and FUNCTIONS["{self.name}"] = {self.name} below it'
        )
        return AXES[self.axis][self.name]

    @property
    def file(self) -> str:
        """The YAML."""
        return f"conf/{self.axis}/{self.label.partition('.')[0]}.yaml"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the tensors that the function takes."""
        return requested_names(self)

    def changed(self, **knobs: object) -> Choice:
        """Return the same choice with other values of some knobs."""
        return replace(self, knobs={**self.knobs, **knobs})

    def __str__(self) -> str:
        return f"{self.axis}={self.label}"


def settings_of(axis: str, path: Path) -> dict:
    """Read a YAML with its interpolations resolved against a task of ``CAP`` tokens."""
    tree = OmegaConf.create({"task": {"cap": CAP, "prompt_set": KNOWN, "weights": {}}, axis: OmegaConf.load(path)})
    return OmegaConf.to_container(tree, resolve=True)[axis]


def choice_of(axis: str, label: str, node: Mapping[str, object]) -> Choice:
    """Return the choice that a YAML makes."""
    values = {key: value for key, value in node.items() if key != "name" and key not in BESIDE_KNOBS.get(axis, ())}
    return Choice(axis, label, node["name"], values)


@cache
def choices(axis: str) -> tuple[Choice, ...]:
    """All choices of an axis; a filter has three of them: for the refill, for the loss, for the statistics."""
    found = []
    for path in sorted((CONF / axis).glob("*.yaml")):
        node = settings_of(axis, path)
        parts = {path.stem: node} if "name" in node else {f"{path.stem}.{key}": part for key, part in node.items()}
        found += [choice_of(axis, label, part) for label, part in parts.items()]
    return tuple(found)


def bind(axis: str, name: str, **values: object) -> Choice:
    """Choose a function with knobs of the test's own: ``bind("norm", "local", eps=1e-8, ddof=1)``."""
    return Choice(axis, name, name, values)


@cache
def memory_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shape of every memory of these axes for one run, as it starts."""
    remembering = [
        (choice, memory)
        for module in MODULES
        for choice in choices(module.__name__.rpartition(".")[2])
        if (memory := getattr(module, "MEMORIES", {}).get(choice.name))
    ]
    starts = {m.name: m.start(**{knob: one.knobs[knob] for knob in knobs(m.start)}) for one, m in remembering}
    return {name: tuple(torch.tensor(start).shape) for name, start in starts.items()}


def numbers(*shape: int, dtype=torch.float64, seed: int = 3) -> dict[str, torch.Tensor]:
    """Inputs of all axes: ``shape`` is that of the tokens; log-ratios of both signs, ragged masks, some left out."""
    random = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(size, generator=random, dtype=torch.float64).to(dtype)

    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=random)
    log_probs = -normal(*shape).abs()
    old_log_probs = (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01)
    found = {
        "rewards": normal(*shape[:-1]),
        "keep": normal(*shape[:-1]) < 1,
        "lengths": 4.0 * lengths.to(dtype),
        "finished": normal(*shape[:-1]) < 0,
        "mask": torch.arange(shape[-1]) < lengths.unsqueeze(-1),
        "log_probs": log_probs,
        "old_log_probs": old_log_probs,
        "ref_log_probs": log_probs + 0.4 * normal(*shape),
        "advantages": normal(*shape),
        "reward_moments": moments(normal(*shape[:-3], 9)),
        "reward_average": normal(*shape[:-3]),
        "outcomes": normal(*shape[:-1]),
        "adjustments": normal(*shape[:-1]),
        "token_penalties": 0.1 * normal(*shape),
        "token_rewards": normal(*shape),
        "values": normal(*shape[:-1], shape[-1] + 1),
        "greedy_rewards": normal(*shape[:-2], 1),
        "correct": (normal(*shape[:-1]) > 0).to(dtype),
        "components": normal(*shape[:-1], 2),
        "weights": normal(*shape[:-3], 2).abs(),
        "sum_pi_squared": old_log_probs.exp() ** 2 + 0.1 * normal(*shape) ** 2,
        "losses": normal(*shape),
        "mean_tokens": 3.0 + normal(*shape[:-3]).abs(),
        "log_ratio_bound": torch.full(shape[:-3], 20.0, dtype=dtype),
        "progress": normal(*shape[:-3]).abs().clamp(max=1),
        "uniforms": torch.rand(shape, generator=random),
        "sampler_log_probs": (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01),
        "errors": normal(*shape),
        "scored": normal(*shape[:-1]) < 1,
        "drawn": normal(*shape[:-1]).frac().abs(),
        "hashed": normal(*shape[:-1]).frac().abs(),
        "entropies": normal(*shape).abs(),
        "verified": normal(*shape[:-1]),
        "quality": normal(*shape[:-1]).round().clamp(-1, 1),
        "vote_draws": torch.rand((*shape[:-1], NUMBERS), generator=random, dtype=torch.float64).to(dtype),
        "vote_hashes": torch.rand((*shape[:-1], NUMBERS), generator=random, dtype=torch.float64).to(dtype),
        "proxies": normal(*shape[:-1], 4),
        "prompt_numbers": torch.arange(shape[-3]).expand(shape[:-2]) % KNOWN,
    }
    others = {name: size for name, size in memory_shapes().items() if name not in found}
    return found | {name: 1 + normal(*shape[:-3], *size).abs() for name, size in others.items()}


same_numbers = cache(numbers)  # for those who change nothing in place


def moments(past: torch.Tensor) -> torch.Tensor:
    """What ``norm=running`` remembers of rewards ``[... N]``: number, mean, Σ (r − mean)², smallest, largest."""
    number = torch.full_like(past[..., 0], past.shape[-1])
    squares = past.var(-1, correction=0) * number
    return torch.stack([number, past.mean(-1), squares, past.amin(-1), past.amax(-1)], -1)


def norm_inputs(rewards: torch.Tensor, keep: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a ``norm`` is offered for these rewards ``[... P G]`` without a penalty; the rest is made up."""
    offered = same_numbers(*rewards.shape, 5, dtype=rewards.dtype)
    whole = {"rewards": rewards, "outcomes": rewards, "keep": keep, "correct": (rewards > 0).to(rewards.dtype)}
    zeros = {name: torch.zeros_like(offered[name]) for name in ("token_penalties", "adjustments")}
    zeros["token_rewards"] = at_last_token(rewards, offered["mask"])
    parts = {"components": rewards.unsqueeze(-1), "weights": torch.ones_like(offered["weights"][..., :1])}
    return offered | whole | zeros | parts | {"lengths": offered["mask"].to(rewards.dtype).sum(-1)}


def advantages_of_rewards(choice, rewards: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Advantages by a ``norm`` of these rewards ``[... P G]``; 0 for tokens that do not count."""
    return advantages_of(choice, norm_inputs(rewards, keep))


def advantages_of(choice, offered: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Advantages by a ``norm`` of what it is offered."""
    advantages = choice(*(offered[key] for key in choice.needs))
    return advantages.where(offered["mask"], 0.0) if advantages.dim() == offered["mask"].dim() else advantages


def inputs(choice, *shape: int, **options) -> list[torch.Tensor]:
    """Return the numbers that a choice takes, in its order."""
    offered = numbers(*shape, **options)
    return [offered[key] for key in choice.needs]


def slopes(choice, first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the sum of the output in the first input; zero where there is no path."""
    first = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(choice(first, *rest).sum() + (0 * first).nansum(), first)
    return gradient


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)
