"""docs/playground.html computes what the library computes, in the browser that shows it."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from functools import cache
from itertools import product
from keyword import iskeyword
from pathlib import Path

import pytest
import torch
from browser import browser  # noqa: F401 (a fixture)
from torch import Tensor

import rlexp.functional as F
from rlexp.config.choices import choices_of
from rlexp.core.masked import at_last_token
from rlexp.testing.batches import batch

ROOT = Path(__file__).parents[2]
CLOSE = dict(rtol=1e-9, atol=1e-11)
SEEDS = (3, 4, 5, 6)
P, G, T = 2, 4, 6
SHAPED_BY = {"norm": "rewards", "clip": "log_probs", "agg": "losses"}
pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The page as the command writes it, in a process whose functions take tensors for numbers."""
    path = tmp_path_factory.mktemp("playground") / "playground.html"
    command = [sys.executable, "-m", "benchmarks.playground", "--out", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: ")
    return path


def library(path: Path) -> dict:
    found = re.search(
        r'<script type="application/json" id="library">(.*?)</script>', path.read_text("utf-8"), re.DOTALL
    )
    return json.loads(found[1].replace("<\\/", "</"))


def everything(seed: int) -> dict[str, Tensor]:
    """Return what the page and the library may ask for: random, off-policy, ragged, some completions left out."""
    found = {name: each for name, each in batch(P, G, T, seed=seed).items() if name != "prompts"}
    random = torch.Generator().manual_seed(seed)
    if seed == SEEDS[0]:
        found["keep"][:] = True
    if seed == SEEDS[1]:  # equal rewards in a group, and rewards of 0 and 1
        found["rewards"] = (found["rewards"] > 0).double()
        found["rewards"][0] = 1.0
    mask, rewards = found["mask"], found["rewards"]
    found["second_rewards"] = found["components"][..., 1]
    found |= {"components": torch.stack([rewards, found["second_rewards"]], -1), "weights": torch.ones(2).double()}
    found |= {"outcomes": rewards, "adjustments": torch.zeros_like(rewards)}
    found |= {"token_penalties": torch.zeros(P, G, T).double(), "token_rewards": at_last_token(rewards, mask)}
    found |= {"lengths": mask.double().sum(-1), "mean_tokens": mask.double().sum()}
    found["upstream"] = torch.randn(P, G, T, generator=random, dtype=torch.float64).where(mask, 0.0)
    found["prompt_values"] = torch.rand(P, 2, generator=random, dtype=torch.float64)
    found["log_ratio_bound"] = torch.tensor(20.0 if seed % 2 else 0.5).double()
    return found


def moved(control: dict) -> float:
    """Return another value of a hyperparameter, on its slider."""
    if control.get("log"):
        return control["default"] * (3 if control["default"] < 1 else 1e-3)
    between = control["default"] + 0.37 * (control["max"] - control["default"])
    if between == control["default"]:
        between = (control["default"] + control["min"]) / 2
    return round(between) if control["step"] == 1 else between


def settings(choice: dict):
    """Yield the hyperparameters to try: the defaults, others, and every option."""
    controls = choice["controls"]
    options = [each for each in controls if "options" in each]
    numbers = [each for each in controls if "options" not in each]
    yield {each["name"]: each["default"] for each in controls}
    for picked in product(*(each["options"] for each in options)):
        yield {each["name"]: moved(each) for each in numbers} | {
            each["name"]: value for each, value in zip(options, picked, strict=True)
        }


def graph_of(axis: str, choice: dict, values: dict) -> str:
    return " ".join([f"{axis}.{choice['function']}", *(f"{name}={values[name]}" for name in choice["fixed"])])


@cache
def function_of(axis: str, name: str):
    return getattr(getattr(F, axis), name + "_" * iskeyword(name))


def expected(axis: str, name: str, offered: dict, values: dict) -> list[Tensor]:
    """Return what ``rlexp.functional`` says, and its gradient where the page has one."""
    function = function_of(axis, name)
    parameters = function.__signature__.parameters
    tensors = {each: offered[each] for each in parameters if each in offered and each not in values}
    values = {each: value for each, value in values.items() if each in parameters}
    if "prompts" in parameters:
        values["prompts"] = P
    if axis == "norm":
        found = function(**tensors, **values)
        found = (found if found.dim() == 3 else found.unsqueeze(-1)).expand(P, G, T)
        return [found.where(offered["keep"].unsqueeze(-1), 0.0)]
    leaf = tensors[SHAPED_BY[axis]].clone().requires_grad_()
    found = function(**{**tensors, SHAPED_BY[axis]: leaf}, **values)
    weighted = (found * offered["upstream"]).sum() if axis == "clip" else found
    return [found.detach(), *torch.autograd.grad(weighted, leaf)]


def as_json(value) -> dict | float:
    if not isinstance(value, Tensor):
        return value
    numbers = value.double().flatten().tolist()
    return {"shape": list(value.shape), "data": [each if math.isfinite(each) else str(each) for each in numbers]}


EVALUATE = """return arguments[0].map(([key, given]) => {
  try { return evaluate(LIBRARY.graphs[key], given).map(each => each.data.map(String)); }
  catch (error) { return String(error); }
})"""


def as_tensor(texts: list[str], shape) -> Tensor:
    return torch.tensor([float(each.replace("Infinity", "inf")) for each in texts], dtype=torch.float64).view(shape)


@pytest.mark.parametrize("axis", ["norm", "clip", "agg"])
def test_every_choice_computes_what_the_library_computes(browser, path, axis):  # noqa: F811
    data = library(path)
    choices = data["axes"][axis]
    assert {*choices, *(name.partition("=")[2] for name in data["left_out"] if name.startswith(axis))} == {
        *choices_of(axis)
    }
    cases = [(name, values, seed) for name, choice in choices.items() for seed in SEEDS for values in settings(choice)]
    batches = {seed: everything(seed) for seed in SEEDS}
    asked = []
    for name, values, seed in cases:
        key = graph_of(axis, choices[name], values)
        given = {each: as_json({**batches[seed], **values}[each]) for each in data["graphs"][key]["inputs"]}
        asked.append([key, given])
    browser.get(path.as_uri())
    found = browser.execute_script(EVALUATE, asked)
    wrong = []
    for (name, values, seed), results in zip(cases, found, strict=True):
        mask = batches[seed]["mask"]
        case = f"{axis}={name} {values} seed {seed}"
        if isinstance(results, str):
            wrong.append(f"{case}: {results}")
            continue
        wanted = expected(axis, name, batches[seed], values)
        for part, texts, tensor in zip(("value", "gradient"), results, wanted, strict=len(results) > 1):
            computed = as_tensor(texts, tensor.shape)
            if tensor.shape == mask.shape:
                computed, tensor = computed.where(mask, 0.0), tensor.where(mask, 0.0)
            if not torch.allclose(computed, tensor, equal_nan=True, **CLOSE):
                wrong.append(f"{case}: {part} differs by {(computed - tensor).abs().max():.2g}")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:40])
