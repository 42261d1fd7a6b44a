"""Every function of every axis in float32 against float64, where numbers are at their worst.

python -m tests.faults.numbers

A value that is finite in float64 must be finite in float32, and for ordinary numbers the same up to rounding; so must
a gradient that training takes (TRAINED). Gradients in what training holds constant are looked at too and documented.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor

from rlexp.axes import axis_of
from rlexp.core.registry import hyperparameters, required_inputs

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT / "axes")]

from axis_choices import AXES, CONF, Choice, choices, moments, numbers  # noqa: E402

from tests.faults.common import options, store  # noqa: E402

Inputs = dict[str, Tensor]
SHAPE = (2, 3, 4, 5)  # replicas, prompts, group, tokens
CLOSE = 2e-3  # of the largest number: a few dozen operations in float32, differences of near numbers among them
REWARDS = ("rewards", "outcomes", "token_rewards", "greedy_rewards", "components", "values", "verified", "proxies")
MASKS = ("mask", "keep", "scored", "finished")
TRAINED = {"clip": "log_probs", "kl": "log_probs", "agg": "losses", "mismatch": "losses"}  # what is differentiated
CONSTANT = "training holds it constant and takes no gradient in it"


def ordinary(shape: tuple[int, ...] = SHAPE) -> Inputs:
    """Numbers of order one, as float32 can hold them."""
    return {name: value.float() if value.is_floating_point() else value for name, value in numbers(*shape).items()}


def log_ratios(by: float) -> Inputs:
    """The policy ``by`` nats above who sampled, and so are the reference and the sampler's own numbers."""
    found = ordinary()
    low, high = found["log_probs"] - abs(by), found["log_probs"]
    new, old = (high, low) if by > 0 else (low, high)
    mixed = torch.where(torch.arange(SHAPE[-1]) % 2 == 0, old, new)
    return found | {"log_probs": new, "old_log_probs": old, "ref_log_probs": old, "sampler_log_probs": mixed}


def without(*names: str) -> Inputs:
    """Masks that leave nothing."""
    found = ordinary()
    return found | {name: torch.zeros_like(found[name]) for name in names}


def large(size: float, equal: bool = False) -> Inputs:
    """Rewards, and what is of their size, of both signs or all equal."""
    found = ordinary()
    signs = {name: torch.ones_like(found[name]) if equal else found[name].sign() for name in REWARDS}
    past = moments(size * torch.sign(torch.linspace(-1, 1, 9)).double().expand(SHAPE[0], 9)).float()
    return found | {name: size * value for name, value in signs.items()} | {"reward_moments": past}


def impossible(*names: str) -> Inputs:
    """Tokens of probability 0, every third."""
    found = ordinary()
    never = torch.arange(SHAPE[-1]) % 3 == 0
    return found | {name: found[name].masked_fill(never, -torch.inf) for name in names}


SCENES: dict[str, Callable[[], Inputs]] = {
    "ordinary": ordinary,
    "log-ratios +50": lambda: log_ratios(50.0),
    "log-ratios -50": lambda: log_ratios(-50.0),
    "log-ratios +100": lambda: log_ratios(100.0),
    "log-ratios -100": lambda: log_ratios(-100.0),
    "no token counts": lambda: without("mask"),
    "no completion counts": lambda: without("keep", "scored"),
    "nothing counts": lambda: without(*MASKS),
    "one token": lambda: ordinary((*SHAPE[:3], 1)),
    "group of one": lambda: ordinary((*SHAPE[:2], 1, SHAPE[3])),
    "one completion": lambda: ordinary((SHAPE[0], 1, 1, 1)),
    "rewards ±1e8": lambda: large(1e8),
    "rewards all 1e8": lambda: large(1e8, equal=True),
    "policy -inf": lambda: impossible("log_probs"),
    "reference -inf": lambda: impossible("ref_log_probs"),
    "policy and reference -inf": lambda: impossible("log_probs", "ref_log_probs"),
}


class Function(NamedTuple):
    """A function of an axis that works on other tensors than the rest, bound: no gradient is taken."""

    axis: str
    name: str
    function: partial

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the tensors that the function takes."""
        return required_inputs(self.function)

    def __call__(self, *values: Tensor) -> Tensor:
        with torch.no_grad():
            return self.function(**dict(zip(self.needs, values, strict=True)))

    def __str__(self) -> str:
        return f"{self.axis}={self.name}"


def others() -> Iterator[Function]:
    """Every choice of the axes that ``axis_choices`` leaves out."""
    tree = {axis: sorted((CONF / axis).glob("*.yaml")) for axis in ("teacher", "kl_control", "optimizer", "reference")}
    for axis, paths in tree.items():
        for path in paths:
            settings = {"steps": 100, "lr": 1e-3, axis: OmegaConf.load(path)}
            node = OmegaConf.to_container(OmegaConf.create(settings), resolve=True)[axis]
            function = axis_of(axis).functions[node["name"]]
            yield Function(
                axis,
                path.stem,
                partial(
                    function, **{hyperparameter: node[hyperparameter] for hyperparameter in hyperparameters(function)}
                ),
            )


def of_others(found: Inputs) -> Inputs:
    """What those take, of the same size as what the scene has: gradients as advantages, weights as rewards."""
    flat = {name: found[name].flatten(1) for name in ("advantages", "rewards", "outcomes", "values")}
    factor = torch.ones(found["rewards"].shape[0])
    weights = {"reference": flat["rewards"], "policy": flat["outcomes"], "weights": flat["rewards"][:, :1]}
    kept = {"second": flat["values"][:, :1] ** 2, "velocity": flat["values"][:, :1], "first": flat["values"][:, :1]}
    kept |= {"noise": flat["outcomes"][:, :4, None], "fitness": flat["rewards"][:, :4]}
    counted = {"rates": factor * 1e-3, "updates": 7, "step": 1, "kl_factor": factor}
    return {"teacher_log_probs": found["ref_log_probs"], "gradient": flat["rewards"][:, :1]} | weights | kept | counted


def outcome(
    choice: Choice | Function, found: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[Tensor, dict[str, Tensor]]:
    """The value of a choice, and the gradient of its sum in every tensor that it takes."""
    taken = {name: found[name] for name in choice.needs}
    moving = [name for name, value in taken.items() if isinstance(value, Tensor) and value.is_floating_point()]
    taken |= {name: taken[name].to(dtype).clone() for name in moving}
    for name in moving if isinstance(choice, Choice) else ():
        taken[name].requires_grad_()
    value = choice(*taken.values())
    if not value.requires_grad:
        return value.detach(), {}
    finite = value.where(value.isfinite(), 0.0)  # what is infinite in both has no slope to compare
    slopes = torch.autograd.grad(finite.sum(), [taken[name] for name in moving], allow_unused=True)
    return value.detach(), {name: slope for name, slope in zip(moving, slopes, strict=True) if slope is not None}


def findings(choice: Choice | Function, scene: str, found: Inputs) -> Iterator[str]:
    """Say where float32 is not what float64 is."""
    try:
        value, slopes = outcome(choice, found, torch.float32)
        exact, exact_slopes = outcome(choice, found, torch.float64)
    except (RuntimeError, ValueError, IndexError) as error:
        yield f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return
    pairs = {"value": (value, exact)} | {f"gradient in {name}": (slopes[name], exact_slopes[name]) for name in slopes}
    for what, (here, there) in pairs.items():
        here, there = here.double(), there.double()
        lost = there.isfinite() & ~here.isfinite()
        if lost.any():
            first = f"the first is {there[lost][0]:.3g} in float64"
            yield f"{what}: {int(lost.sum())} of {lost.numel()} not finite, {first}"
        elif scene == "ordinary" and not torch.allclose(here, there, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            yield f"{what}: differs by {(here - there).abs().max():.3g}"


def reason_for(choice: Choice | Function, finding: str) -> str | None:
    """Why a finding harms nobody, if so."""
    constant = finding.startswith("gradient in ") and not finding.startswith(f"gradient in {TRAINED.get(choice.axis)}:")
    return CONSTANT if constant else None


def look() -> tuple[int, list[dict[str, str]], list[dict[str, str]]]:
    """How many pairs of a choice and a scene there are; what was found; what is documented."""
    checked, found, known = 0, [], []
    for scene, make in SCENES.items():
        inputs = make()
        for choice in [*(choice for axis in AXES for choice in choices(axis)), *others()]:
            checked += 1
            taken = inputs if isinstance(choice, Choice) else inputs | of_others(inputs)
            for text in findings(choice, scene, taken):
                reason = reason_for(choice, text)
                place = {"choice": str(choice), "scene": scene, "finding": text}
                (known if reason else found).append(place | ({"reason": reason} if reason else {}))
    return checked, found, known


def main() -> int:
    """Print what was found; 1 if anything was."""
    chosen = options(__doc__)
    started = time.perf_counter()
    torch.set_num_threads(1)
    checked, found, known = look()
    seconds = round(time.perf_counter() - started, 1)
    for place in found:
        print(f"{place['choice']} · {place['scene']} · {place['finding']}")
    print(f"{checked} choices in scenes, {len(found)} findings, {len(known)} documented, {seconds} s")
    store("numbers", {"checked": checked, "findings": found, "documented": known, "seconds": seconds}, chosen.results)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
