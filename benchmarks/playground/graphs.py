"""The functions of ``norm``, ``clip`` and ``agg``, and their gradients, as operations that a page can carry out.

PyTorch traces each function of ``rlexp.axes`` at the shape of the page's group and in float64. What a slider moves is a
tensor in the trace, hyperparameters included. What Python decides by, as ``over="max"``, has a graph for each value.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from operator import getitem
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import one_hot
from torch.overrides import TorchFunctionMode

from rlexp.axes import agg, clip, norm
from rlexp.core.masked import ALL, TIME, at_last_token, count, per_token
from rlexp.core.registry import call_with, hyperparameters, required_inputs

PROMPTS, GROUP, TIMES = 2, 4, 6
COMPLETION, TOKEN = (PROMPTS, GROUP), (PROMPTS, GROUP, TIMES)
AXES = {"norm": norm, "clip": clip, "agg": agg}
BOOLEAN = {"mask", "keep", "finished"}
SHAPES: dict[str, tuple[int, ...]] = {
    "mask": TOKEN,
    "keep": COMPLETION,
    "finished": COMPLETION,
    "rewards": COMPLETION,
    "second_rewards": COMPLETION,
    "correct": COMPLETION,
    "reference_rewards": COMPLETION,
    "greedy_rewards": (PROMPTS, 1),
    "values": (PROMPTS, GROUP, TIMES + 1),
    "old_log_probs": TOKEN,
    "log_probs": TOKEN,
    "ref_log_probs": TOKEN,
    "sampler_log_probs": TOKEN,
    "sum_pi_squared": TOKEN,
    "uniforms": TOKEN,
    "advantages": TOKEN,
    "losses": TOKEN,
    "upstream": TOKEN,
    "log_ratio_bound": (),
    "progress": (),
    "reward_moments": (5,),
    "reward_average": (),
    "prompt_values": (PROMPTS, 2),
}
"""What a graph may start from beside the hyperparameters: what has a control, and results of other graphs."""
CHOSEN: dict[str, Sequence[Any]] = {"k": range(1, GROUP + 1)}
"""Hyperparameters that Python counts with: their values on the page."""
PROMPT_NUMBERS = torch.arange(PROMPTS)
FILLED = {torch.ops.aten.zeros_like.default: 0.0, torch.ops.aten.ones_like.default: 1.0}
SAME_NUMBERS = {"alias", "clone", "detach", "lift_fresh_copy"}  # operations that change none
OVERLOADS = {"masked_fill_": "masked_fill", "logical_and": "bitwise_and"}  # one name for what is the same on the page

Graph = dict[str, Any]


def structural(function: Callable) -> dict[str, Sequence[Any]]:
    """Return the hyperparameters that are no tensor in a trace, with the values that the page offers."""
    kinds = {name: TypeAdapter(kind).json_schema() for name, kind in hyperparameters(function).items()}
    return {name: schema["enum"] for name, schema in kinds.items() if "enum" in schema} | {
        name: values for name, values in CHOSEN.items() if name in kinds
    }


def graphs(axis: str, function: Callable) -> Iterator[tuple[dict[str, Any], Graph]]:
    """Yield the graphs of a function, each with the hyperparameters that Python decided by."""
    fixed = structural(function)
    for values in product(*fixed.values()):
        chosen = dict(zip(fixed, values, strict=True))
        yield chosen, traced(axis, function, chosen)


class NotTraceable(Exception):
    """A function asks for what the page does not have, or decides by numbers what it computes."""


class Traceable(TorchFunctionMode):
    """Within, two functions of torch do what they do without reading a number of a tensor, which no trace can."""

    def __torch_function__(self, function: Callable, types: Any, arguments: tuple = (), options: Any = None) -> Any:
        if function is torch.full_like and isinstance(arguments[1], Tensor):  # a hyperparameter
            return arguments[1].expand(arguments[0].shape)
        if function is one_hot:
            return (arguments[0].unsqueeze(-1) == torch.arange(arguments[1])).long()
        return function(*arguments, **(options or {}))


def traced(axis: str, function: Callable, chosen: Mapping[str, Any]) -> Graph:
    """Return the graph of a function at the shape of the page.

    Args:
        axis: ``norm``, ``clip`` or ``agg``.
        function: One of its functions.
        chosen: The hyperparameters that are no tensors.

    Raises:
        NotTraceable: The page cannot have the function.

    Returns:
        ``inputs``, names of tensors and hyperparameters; ``steps``, operations in order; ``outputs``, places of
        results: advantages; losses and their gradient; the loss and its gradient.
    """
    fixed = {"prompts": PROMPTS} | dict(chosen)
    fixed = {name: value for name, value in fixed.items() if name in hyperparameters(function)}
    free = [name for name in hyperparameters(function) if name not in fixed]
    names = [*SHAPES, *free]

    def whole(*tensors: Tensor) -> list[Tensor]:
        given = dict(zip(names, tensors, strict=True))
        values = {name: given.pop(name) for name in free} | fixed

        with Traceable():
            return PARTS[axis](partial(function, **values), offered(given))

    examples = [example(name) for name in SHAPES] + [torch.tensor(0.5, dtype=torch.float64) for _ in free]
    strange = set(required_inputs(function)) - set(offered(dict(zip(names, examples, strict=True))))
    if strange:
        raise NotTraceable(f"it asks for {', '.join(sorted(strange))}, which this page does not have")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = make_fx(whole)(*examples)
    except RuntimeError as error:
        raise NotTraceable("numbers decide in Python what it computes") from error
    return listed(module, names)


def example(name: str) -> Tensor:
    """Return a tensor of a name's shape and type; its numbers change no graph."""
    numbers = torch.linspace(0.1, 0.9, math.prod(SHAPES[name]), dtype=torch.float64).reshape(SHAPES[name])
    return numbers > 0.3 if name in BOOLEAN else numbers


def offered(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what axis functions ask for, of what the page has: no shaping, filter, mismatch or KL in the reward."""
    rewards, mask = given["rewards"], given["mask"]
    return {
        **given,
        "outcomes": rewards,
        "adjustments": torch.zeros_like(rewards),
        "token_penalties": torch.zeros_like(given["log_probs"]),
        "token_rewards": at_last_token(rewards, mask),
        "components": torch.stack([rewards, given["second_rewards"]], -1),
        "weights": torch.ones(2, dtype=rewards.dtype),
        "lengths": count(mask, TIME, rewards.dtype).squeeze(-1),
        "mean_tokens": count(mask, ALL, rewards.dtype).squeeze(ALL),
        "prompt_numbers": PROMPT_NUMBERS,
    }


def advantages(function: Callable, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the advantages ``[P G T]``, 0 for completions outside the statistics, as ``loop/step.py`` spreads them."""
    mask, keep = given["mask"], given["keep"]
    return [per_token(call_with(function, given), mask).where(keep.unsqueeze(-1), 0.0).expand(mask.shape)]


def token_losses(function: Callable, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the losses ``[P G T]``, and the gradient in ``log_probs`` of Σ upstream · losses."""
    log_probs = given["log_probs"].detach().requires_grad_()
    of_policy = log_probs.where(given["mask"], given["old_log_probs"])
    losses = call_with(function, {**given, "log_probs": of_policy})
    return [losses.detach(), *torch.autograd.grad(losses, log_probs, given["upstream"])]


def one_loss(function: Callable, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the loss ``[]``, and its gradient in the losses of tokens."""
    losses = given["losses"].detach().requires_grad_()
    loss = call_with(function, {**given, "losses": losses})
    return [loss.detach(), *torch.autograd.grad(loss, losses)]


PARTS = {"norm": advantages, "clip": token_losses, "agg": one_loss}


# ---- a trace as a list


def listed(module: fx.GraphModule, names: Sequence[str]) -> Graph:
    """Return a trace as a graph of the page: nothing that no result needs, nothing twice, constants computed."""
    steps: list[list[Any]] = []  # an operation and its arguments
    known: dict[str, int] = {}  # places of equal steps
    places: dict[fx.Node, Any] = {}  # of each node: its step, or the constant that it is

    def place(step: list[Any]) -> int:
        key = json.dumps(step)
        if key not in known:
            known[key] = len(steps)
            steps.append(step)
        return known[key]

    def written(argument: Any) -> Any:
        """Return the place of a tensor, or a list that holds what is none."""
        if not isinstance(argument, fx.Node):
            return [text_of(argument)]
        found = places[argument]
        return found if isinstance(found, int) else place(constant(found))

    inputs = iter(names)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        if node.op == "placeholder":
            places[node] = place(["input", [next(inputs)]])
        elif node.op == "get_attr":
            places[node] = getattr(module, node.target)
        elif node.op == "call_function":
            places[node] = (
                folded(node, places) if is_constant(node, places) else operation(node, places, written, place)
            )
    (results,) = next(node for node in module.graph.nodes if node.op == "output").args
    return compact(steps, [written(each) for each in results])


def is_constant(node: fx.Node, places: Mapping[fx.Node, Any]) -> bool:
    """Whether no input of the graph changes the numbers of a node."""
    return node.target in FILLED or all(not isinstance(places[each], int) for each in node.all_input_nodes)


def folded(node: fx.Node, places: Mapping[fx.Node, Any]) -> Any:
    """Return the constant that a node is."""
    if node.target in FILLED:
        return torch.full(node.meta["val"].shape, FILLED[node.target], dtype=torch.float64)
    arguments = fx.map_arg((node.args, node.kwargs), places.__getitem__)
    return node.target(*arguments[0], **arguments[1])


def operation(node: fx.Node, places: Mapping[fx.Node, Any], written: Callable, place: Callable) -> int:
    """Place the step of a node, under one name for all overloads of an operation."""
    if node.target is getitem:
        return place(["item", *map(written, node.args)])
    name = node.target.overloadpacket.__name__
    arguments = list(node.args)
    dtype = node.kwargs.get("dtype")
    known = {"dtype", "layout", "device", "pin_memory", "memory_format", "stable", "dim", "descending"}
    if set(node.kwargs) - known:
        raise ValueError(f"{node.target}: the page does not know {set(node.kwargs) - known}")
    if name.endswith("_") and len(arguments[0].users) > 1:
        raise ValueError(f"{node.target} changes a tensor that is used elsewhere: the page changes none")
    if name in SAME_NUMBERS:
        return written(node.args[0])
    if name == "_to_copy":  # on the page all numbers are of float64; only what rounds is a step
        kind = "bool" if dtype is torch.bool else "" if dtype.is_floating_point else "int"
        return place([f"to_{kind}", written(node.args[0])]) if kind else written(node.args[0])
    if name == "stack":
        dim = arguments[1] if len(arguments) > 1 else 0
        return place(["stack", [dim], *map(written, arguments[0])])
    if name == "sort":
        options = dict(zip(("dim", "descending"), arguments[1:], strict=False)) | node.kwargs
        return place(["sort", written(arguments[0]), [options.get("dim", -1)], [options.get("descending", False)]])
    return place([OVERLOADS.get(name, name), *map(written, arguments)])


def constant(tensor: Tensor) -> list[Any]:
    numbers = [text_of(number) for number in tensor.double().flatten().tolist()]
    return ["constant", [list(tensor.shape)], [numbers[:1] if len(set(numbers)) == 1 else numbers]]


def text_of(value: Any) -> Any:
    """Return a literal as JSON has it: infinity as text, whole numbers without a point."""
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, torch.dtype):  # on the page all numbers are of float64
        return None
    return int(value) if isinstance(value, bool) else value


def compact(steps: Sequence[list[Any]], outputs: Sequence[int]) -> Graph:
    """Return the graph of those steps that some output needs."""
    needed = set(outputs)
    for place in reversed(range(len(steps))):
        if place in needed:
            needed |= {each for each in steps[place][1:] if isinstance(each, int)}
    kept = sorted(needed)
    moved = {place: number for number, place in enumerate(kept)}
    rewritten = [[op, *(moved[a] if isinstance(a, int) else a for a in rest)] for op, *rest in (steps[p] for p in kept)]
    return {
        "inputs": [step[1][0] for step in rewritten if step[0] == "input"],
        "steps": rewritten,
        "outputs": [moved[place] for place in outputs],
    }
