"""Every function gives what the axis function gives, in value and gradient, in whatever shape tensors come."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pytest
import torch
from axis_choices import CLOSE, numbers
from torch import Tensor

import rlexp.functional as F
from rlexp.axes import axis_of, norm
from rlexp.axes.laws import laws_of
from rlexp.core.masked import per_token
from rlexp.core.registry import hyperparameters, required_inputs
from rlexp.functional.defaults import REQUIRED, settings_of
from rlexp.functional.layouts import axes_of
from rlexp.testing.choices import KNOWN_PROMPTS

P, G, T, R = 5, 6, 4, 2
SIZES = torch.tensor([6, 1, 3, 6, 2])  # of ragged groups
# Hyperparameters that a run takes from elsewhere, or on which the files of a function do not agree.
GIVEN = {
    "length": 7,
    "cap": 3,
    "prompts": 3,
    "initial": 0.1,
    "high": 0.3,
    "low": 0.2,
    "cache": 2,
    "scale": 0.5,
    "penalty": 0.2,
    "false_positives": 0.2,
    "false_negatives": 0.1,
    "most": 9,
}
# Groups of several sizes are refused.
ONE_SIZE = {"clip.gvpo", "clip.tpo", "clip.real", "norm.a2po", "shaping.length_by_pass_rate"}


class Case(NamedTuple):
    """A function of the library, the one of the axis behind it, and hyperparameters for both."""

    name: str
    flat: Callable
    function: Callable
    values: Mapping[str, object]
    needed: Mapping[str, object]


def cases() -> Iterator[Case]:
    for namespace in F.NAMESPACES:
        axis = "norm" if namespace == "value_target" else namespace
        functions = norm.TARGETS if namespace == "value_target" else axis_of(axis).functions
        for name in dir(getattr(F, namespace)):
            flat, settings = getattr(getattr(F, namespace), name), settings_of(axis, functions, name.rstrip("_"))
            parameters = inspect.signature(flat).parameters
            needed = {
                hyperparameter: GIVEN[hyperparameter]
                for hyperparameter in hyperparameters(settings.function)
                if parameters[hyperparameter].default is REQUIRED
            }
            values = {
                hyperparameter: parameters[hyperparameter].default
                for hyperparameter in hyperparameters(settings.function)
            } | needed
            yield Case(f"{namespace}.{name}", flat, settings.function, values, needed)


CASES = [*cases()]


def batch(*lead: int) -> dict[str, Tensor]:
    """Numbers for all axes, [*lead, P, G, T]; every completion of group 1 counts, none of group 4."""
    found = numbers(*lead, P, G, T) | {"entropy_coef": 0.01, "kl_factor": torch.full(lead, 1.5, dtype=torch.float64)}
    normal = torch.Generator().manual_seed(5)
    found["teacher_log_probs"] = -torch.rand(found["log_probs"].shape, generator=normal, dtype=torch.float64)
    for name in ("keep", "scored"):
        found[name][..., 1, :], found[name][..., 4, :] = True, False
    for name in ("token_penalties", "token_rewards"):
        found[name] = found[name].where(found["mask"], 0.0)  # as a step offers them
    found["lengths"] += 1e-3 * torch.arange(P * G).view(P, G)  # of equal ones the first is taken, and rows are shuffled
    found["entropy_steering"] = torch.ones(*lead, 2, dtype=torch.float64)
    known = torch.rand(*lead, KNOWN_PROMPTS, 2, generator=normal, dtype=torch.float64)
    found |= {"candidates": torch.ones_like(known[..., 0]), "answer_lengths": (4 * known[..., 0]).ceil()}
    found |= {"solved": known[..., :1].round(), "latest": known, "successes": 1 + 9 * known, "attempts": 1 + 9 * known}
    found["group"] = torch.full((*lead, P), G)
    return found


def asked(case: Case, offered: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: offered[name] for name in required_inputs(case.function)}


def value_and_gradient(function: Callable, tensors: Mapping[str, Tensor], values: Mapping, counts: Callable) -> list:
    """Return a result where it counts, and the gradient of a weighted sum of it in the first tensor of numbers."""
    name = next((n for n, t in tensors.items() if isinstance(t, Tensor) and t.is_floating_point()), None)
    leaf = tensors[name].clone().requires_grad_() if name else None
    result = function(**tensors, **values) if leaf is None else function(**{**tensors, name: leaf}, **values)
    if not isinstance(result, Tensor):
        return [result]
    result = counts(result)
    if not result.is_floating_point() or not result.requires_grad:
        return [result.detach()]
    (gradient,) = torch.autograd.grad((result * result.detach().sin()).sum(), leaf)
    return [result.detach(), gradient]


def where_it_counts(case: Case, offered: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Return what cuts a result of the axis function as the library does: by the mask, advantages by keep too."""
    asks = required_inputs(case.function)

    def cut(result: Tensor) -> Tensor:
        if "mask" in asks and result.shape == offered["mask"].shape:
            result = result.masked_fill(~offered["mask"], 0)
        if case.name.startswith("norm.") and "keep" in asks:
            result = result.masked_fill(~per_token(offered["keep"], result), 0)
        return result

    return cut


def assert_same(found: list, expected: list, case: Case, what: str) -> None:
    assert len(found) == len(expected), f"{case.name} {what}: a gradient on one side only"
    for one, other, part in zip(found, expected, ("value", "gradient"), strict=False):
        one, other = (torch.as_tensor(each).double() for each in (one, other))
        assert one.shape == other.shape, f"{case.name} {what}: {part} of shape {list(one.shape)}"
        close = torch.allclose(one, other, equal_nan=True, **CLOSE)
        assert close, f"{case.name} {what}: {part} differs by {(one - other).abs().max():.2g}"


@pytest.mark.parametrize("lead", [(), (R,)])
def test_grouped(lead):
    offered = batch(*lead)
    for case in CASES:
        tensors = asked(case, offered)
        cut = where_it_counts(case, offered)
        expected = value_and_gradient(case.function, tensors, case.values, cut)
        assert_same(value_and_gradient(case.flat, tensors, case.needed, lambda x: x), expected, case, "grouped")


def ragged(sizes: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return a batch whose groups have these sizes, and prompt and place of its completions in another order."""
    offered = batch()
    there = torch.arange(G) < sizes.unsqueeze(-1)
    for name in ("keep", "scored", "mask"):
        offered[name] = offered[name] & per_token(there, offered[name])
    prompt, place = there.nonzero(as_tuple=True)
    order = torch.randperm(len(prompt), generator=torch.Generator().manual_seed(1))
    return offered, prompt[order], place[order]


def rows_of(tensor: Tensor, kind: object, prompt: Tensor, place: Tensor) -> Tensor:
    axes = axes_of(kind) or ()
    if axes[:2] == ("prompts", "group"):
        return tensor[prompt, place]
    return (tensor.squeeze(1) if axes == ("prompts", "1") else tensor)[prompt] if axes[:1] == ("prompts",) else tensor


def flat_inputs(case: Case, offered: Mapping[str, Tensor], prompt: Tensor, place: Tensor) -> dict[str, Tensor]:
    if "group_ids" not in inspect.signature(case.flat).parameters:  # nothing is of completions
        return asked(case, offered)
    kinds = inspect.get_annotations(case.function, eval_str=True)
    return {name: rows_of(value, kinds[name], prompt, place) for name, value in asked(case, offered).items()}


def expected_of_rows(case: Case, offered: Mapping[str, Tensor], prompt: Tensor, place: Tensor) -> list:
    """Return what the axis function says of groups that are filled up with completions that do not count.

    A mean over completions is over those that there are.
    """
    of_agg = case.name.startswith("agg.")
    cut = where_it_counts(case, offered)
    counted_all = not of_agg or "masked leaves" not in laws_of("agg", case.function)
    share = P * G / len(prompt) if case.name.startswith("agg.") and counted_all else 1
    by_row = axes_of(inspect.get_annotations(case.function, eval_str=True)["return"]) or ()

    def rows(result: Tensor) -> Tensor:
        return cut(result)[prompt, place] if by_row[:2] == ("prompts", "group") else result * share

    tensors = asked(case, offered)
    result = value_and_gradient(case.function, tensors, case.values, rows)
    first = next((n for n, t in tensors.items() if isinstance(t, Tensor) and t.is_floating_point()), "")
    kind = inspect.get_annotations(case.function, eval_str=True).get(first)
    return [*result[:1], *(rows_of(gradient, kind, prompt, place) for gradient in result[1:])]


@pytest.mark.parametrize("sizes", [SIZES, torch.full((P,), G)], ids=["ragged", "equal"])
def test_flat(sizes):
    offered, prompt, place = ragged(sizes)
    group_ids = torch.tensor([30, -4, 7, 100, 5])[prompt]
    for case in CASES:
        by_row = "group_ids" in inspect.signature(case.flat).parameters
        tensors, ids = flat_inputs(case, offered, prompt, place), {"group_ids": group_ids} if by_row else {}
        if case.name in ONE_SIZE and len(set(sizes.tolist())) > 1:
            with pytest.raises(ValueError, match="groups must be of one size, and have 1 to 6 completions"):
                case.flat(**tensors, **case.needed, **ids)
            continue
        expected = expected_of_rows(case, offered, prompt, place)
        found = value_and_gradient(case.flat, tensors, {**case.needed, **ids}, lambda x: x)
        assert_same(found, expected, case, "flat")


def test_flat_without_group_ids():
    """It is the same without, or is refused."""
    offered, prompt, place = ragged(torch.full((P,), G))
    refused = set()
    for case in CASES:
        tensors = flat_inputs(case, offered, prompt, place)
        try:
            found = value_and_gradient(case.flat, tensors, case.needed, lambda x: x)
        except ValueError as error:
            assert "compares within groups; give flat tensors with group_ids=[B]" in str(error), f"{case.name}: {error}"
            refused.add(case.name)
            continue
        assert_same(found, expected_of_rows(case, offered, prompt, place), case, "without groups")
    assert {"norm.local", "norm.pass_at_k", "clip.dpo", "clip.real", "agg.prompt", "filter.shortest"} <= refused
    nobody = ("kl.", "shaping.", "mismatch.", "teacher.", "value_target.", "kl_control.", "entropy_control.")
    assert [name for name in refused if name.startswith(nobody)] == ["shaping.length_by_pass_rate"]
    assert not refused & {
        "norm.global_",
        "norm.running",
        "norm.gae",
        "clip.higher",
        "clip.gspo",
        "clip.m2po",
        "agg.token",
    }


def test_dtype_and_what_does_not_count():
    """Results are of the tensors' type; NaN outside the mask reaches neither a result nor a gradient."""
    offered = {name: t.float() if isinstance(t, Tensor) and t.is_floating_point() else t for name, t in batch().items()}
    for case in CASES:
        tensors = asked(case, offered)
        clean = value_and_gradient(case.flat, tensors, case.needed, lambda x: x)
        floating = isinstance(clean[0], Tensor) and clean[0].is_floating_point()
        assert not floating or clean[0].dtype == torch.float32, case.name
        if "mask" in tensors:
            outside = {n for n, t in tensors.items() if t.shape == offered["mask"].shape and t.is_floating_point()}
            spoiled = {n: tensors[n].masked_fill(~offered["mask"], torch.nan) for n in outside}
            assert_same(
                value_and_gradient(case.flat, {**tensors, **spoiled}, case.needed, lambda x: x), clean, case, "with NaN"
            )


@pytest.mark.parametrize("lead", [(), (R,)])
def test_what_is_left_out_counts_everything(lead):
    """Without mask, keep, scored and the like it is as with those that are said to stand for them."""
    offered = batch(*lead) | {"log_ratio_bound": torch.full(lead, 20.0).double()}
    offered |= {name: torch.ones_like(offered[name]) for name in ("mask", "keep", "scored")}
    offered |= {name: torch.zeros_like(offered[name]) for name in ("adjustments", "token_penalties")}
    offered["mean_tokens"] = torch.full(lead, float(P * G * T)).double()
    unneeded = ("mask", "keep", "scored", "adjustments", "log_ratio_bound", "mean_tokens")
    for case in CASES:
        tensors = asked(case, offered)
        fewer = {name: value for name, value in tensors.items() if name not in unneeded}
        if fewer:
            expected = value_and_gradient(case.flat, tensors, case.needed, lambda x: x)
            assert_same(value_and_gradient(case.flat, fewer, case.needed, lambda x: x), expected, case, "left out")
