"""What the tests of the axes share: the choices of ``conf/<axis>/*.yaml``, inputs for each axis, one objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import torch
from omegaconf import OmegaConf
from pydantic import TypeAdapter
from torch import Tensor

from rlexp import agg, clip, filter, kl, mismatch, norm, sampler, shaping
from rlexp.choose import choose, needs, schema
from rlexp.fleet import Variant
from rlexp.judge import experience
from rlexp.learn import objective as step_objective
from rlexp.reference import frozen
from rlexp.rollout import Rollout
from rlexp.teacher import none as no_teacher

CONF = Path(__file__).parents[1] / "conf"
MODULES = (shaping, filter, norm, clip, agg, kl, sampler, mismatch)
AXES = {module.__name__.rpartition(".")[2]: module.FUNCTIONS for module in MODULES}
CAP = 16  # what ${task.cap} stands for in these tests
BESIDE_KNOBS = {"kl": {"coef", "place"}, "filter": {"rounds"}}  # keys of a node that its function does not take

# Rounding of a few dozen float64 operations on numbers of order ten.
CLOSE = dict(rtol=1e-9, atol=1e-10)


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
        """Return the bound function, made as training makes it: through its schema and ``choose``."""
        return choose(AXES[self.axis], schema_of(self.axis).validate_python({"name": self.name, **self.knobs}))

    def __call__(self, *tensors: Tensor, **named: Tensor) -> Tensor:
        return self.function(*tensors, **named)

    @property
    def func(self) -> Callable[..., Tensor]:
        """The function without its knobs, named as in ``functools.partial``, so that a training step takes a choice."""
        return AXES[self.axis][self.name]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the tensors that the function takes."""
        return needs(self)

    def changed(self, **knobs: object) -> Choice:
        """Return the same choice with other values of some knobs."""
        return replace(self, knobs={**self.knobs, **knobs})

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


def numbers(*shape: int, dtype=torch.float64, seed: int = 3) -> dict[str, torch.Tensor]:
    """Inputs of all axes: ``shape`` is that of the tokens; log-ratios of both signs, ragged masks, some left out."""
    random = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(size, generator=random, dtype=torch.float64).to(dtype)

    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=random)
    log_probs = -normal(*shape).abs()
    old_log_probs = (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01)
    return {
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
        "greedy_rewards": normal(*shape[:-2], 1),
        "correct": (normal(*shape[:-1]) > 0).to(dtype),
        "components": normal(*shape[:-1], 2),
        "weights": normal(*shape[:-3], 2).abs(),
        "sum_pi_squared": old_log_probs.exp() ** 2 + 0.1 * normal(*shape) ** 2,
        "losses": normal(*shape),
        "mean_tokens": 3.0 + normal(*shape[:-3]).abs(),
        "progress": normal(*shape[:-3]).abs().clamp(max=1),
        "uniforms": torch.rand(shape, generator=random),
        "sampler_log_probs": (log_probs + 0.4 * normal(*shape)).clamp(max=-0.01),
        "errors": normal(*shape),
        "scored": normal(*shape[:-1]) < 1,
        "drawn": normal(*shape[:-1]).frac().abs(),
        "hashed": normal(*shape[:-1]).frac().abs(),
        "entropies": normal(*shape).abs(),
    }


def moments(past: torch.Tensor) -> torch.Tensor:
    """What ``norm=running`` remembers of rewards ``[... N]``: number, mean, Σ (r − mean)², smallest, largest."""
    number = torch.full_like(past[..., 0], past.shape[-1])
    squares = past.var(-1, correction=0) * number
    return torch.stack([number, past.mean(-1), squares, past.amin(-1), past.amax(-1)], -1)


def story(rewards: torch.Tensor, keep: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a ``norm`` is offered for these rewards ``[... P G]`` without a penalty; the rest is made up."""
    every = numbers(*rewards.shape, 5, dtype=rewards.dtype)
    whole = {"rewards": rewards, "outcomes": rewards, "keep": keep, "correct": (rewards > 0).to(rewards.dtype)}
    nothing = {name: torch.zeros_like(every[name]) for name in ("token_penalties", "adjustments")}
    parts = {"components": rewards.unsqueeze(-1), "weights": torch.ones_like(every["weights"][..., :1])}
    return every | whole | nothing | parts | {"lengths": every["mask"].to(rewards.dtype).sum(-1)}


def judged(choice, rewards: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Advantages by a ``norm`` of these rewards ``[... P G]``; 0 for tokens that do not count."""
    return told(choice, story(rewards, keep))


def told(choice, every: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Advantages by a ``norm`` of a story."""
    advantages = choice(*(every[key] for key in choice.needs))
    return advantages.where(every["mask"], 0.0) if advantages.dim() == every["mask"].dim() else advantages


def inputs(choice, *shape: int, **options) -> list[torch.Tensor]:
    every = numbers(*shape, **options)
    return [every[key] for key in choice.needs]


def slopes(choice, first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the sum of the output in the first input; zero where there is no path."""
    first = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(choice(first, *rest).sum() + (0 * first).nansum(), first)
    return gradient


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def objective(chosen: Mapping[str, Callable], coef: float, batch: Mapping[str, Tensor]) -> Tensor:
    """Rewards and log-probs to one loss a replica by the code of a training step, the penalty in the loss."""
    variant = Variant(
        shaping=bind("shaping", "none"),
        filter_loss=bind("filter", "none"),
        filter_statistics=lambda *_: batch["keep"],
        refill=bind("filter", "none"),
        rounds=1,
        norm=chosen["norm"],
        clip=chosen["clip"],
        agg=chosen["agg"],
        kl=chosen["kl"],
        follow=frozen,
        teacher=no_teacher,
        memories={},
        sampler=bind("sampler", "exact"),
        mismatch=chosen.get("mismatch", bind("mismatch", "none")),
        inexact=False,
        kl_in_loss=coef,
        kl_in_reward=0.0,
        entropy_bonus=0.0,
    )
    nothing = torch.zeros_like(batch["mask"], dtype=torch.long)
    log_probs = batch["old_log_probs"], batch["sampler_log_probs"]
    rollout = Rollout(nothing[..., 0, :], nothing, log_probs[0], batch["mask"], batch["finished"], log_probs[1])
    part = experience(variant, rollout, batch["rewards"], batch["ref_log_probs"], batch)
    factor = torch.ones(batch["mask"].shape[:-3], dtype=batch["log_probs"].dtype)
    known = {name: batch[name] for name in ("mean_tokens", "progress", "uniforms")} | {"kl_factor": factor}
    return sum(step_objective(variant, batch["log_probs"], torch.zeros_like(batch["log_probs"]), part, known).values())
