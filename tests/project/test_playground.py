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
from browser import browser, look  # noqa: F401 (a fixture)
from torch import Tensor

import rlexp.functional as F
from benchmarks.playground.graphs import NotTraceable, traced
from rlexp.config.choices import choices_of
from rlexp.core.masked import at_last_token
from rlexp.testing.batches import batch

ROOT = Path(__file__).parents[2]
CLOSE = dict(rtol=1e-9, atol=1e-11)
SEEDS = (3, 4, 5, 6)
P, G, T = 2, 4, 6
SHAPED_BY = {"norm": "rewards", "clip": "log_probs", "agg": "losses"}
COMMITTED = ROOT / "docs" / "playground.html"
pytestmark = pytest.mark.slow


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


@pytest.mark.browser
@pytest.mark.parametrize("axis", ["norm", "clip", "agg"])
def test_every_choice_computes_what_the_library_computes(browser, path, axis):
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


CHAIN = """return arguments[0].map(names => {
  const given = inputs(), text = each => each.data.map(String), found = computed(names, given);
  return { given: Object.fromEntries(Object.entries(given).map(([name, each]) => [name, asTensor(each)])),
    loss: String(found.loss), gradient: text(found.gradient), advantages: text(found.advantages) };
})"""


def loss_and_gradient(picked: dict[str, str], controls: dict, given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return what the library makes of the page's numbers: norm, policy loss and aggregation in turn."""

    def call(axis: str, offered: dict) -> Tensor:
        values = {each["name"]: each["default"] for each in controls[axis][picked[axis]]["controls"]}
        function = function_of(axis, picked[axis])
        parameters = function.__signature__.parameters
        values |= {"prompts": P} if "prompts" in parameters else {}
        return function(
            **{name: offered[name] for name in parameters if name in offered and name not in values}, **values
        )

    offered = everything(SEEDS[0]) | given
    mask, rewards = offered["mask"], offered["rewards"]
    offered |= {"outcomes": rewards, "token_rewards": at_last_token(rewards, mask), "lengths": mask.double().sum(-1)}
    offered |= {"components": torch.stack([rewards, offered["second_rewards"]], -1), "mean_tokens": mask.double().sum()}
    advantages = call("norm", offered)
    advantages = (advantages if advantages.dim() == 3 else advantages.unsqueeze(-1)).expand(P, G, T)
    offered["advantages"] = advantages.where(offered["keep"].unsqueeze(-1), 0.0)
    leaf = offered["log_probs"].clone().requires_grad_()
    loss = call("agg", {**offered, "losses": call("clip", {**offered, "log_probs": leaf})})
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


SETTINGS = (
    "#shift.0.1=0.6&keep.1.2=0&reward.0.2=0.3&length.1.0=1&old.0.0.1=-3&ratio.0.0.1=1.2&ref.1.1=-0.4&sampler.0.0=0.2"
)


@pytest.mark.browser
@pytest.mark.parametrize("address", ["", SETTINGS], ids=["as it opens", "by its address"])
def test_the_chain_is_that_of_the_library(browser, path, address):
    """Rewards to loss and gradient, of the numbers that the page shows: each choice once, with the other two."""
    controls = library(path)["axes"]
    most = {axis: list(found) for axis, found in controls.items()}
    cases = [{axis: each[i % len(each)] for axis, each in most.items()} for i in range(max(map(len, most.values())))]
    browser.get("about:blank")
    browser.get(path.as_uri() + address)
    wrong = []
    for picked, found in zip(cases, browser.execute_script(CHAIN, cases), strict=True):
        given = {
            name: torch.tensor(each["data"], dtype=torch.float64).view(each["shape"])
            for name, each in found["given"].items()
        }
        given |= {name: given[name].bool() for name in ("mask", "keep", "finished")}
        loss, gradient = loss_and_gradient(picked, controls, given)
        computed = as_tensor([found["loss"]], ()), as_tensor(found["gradient"], (P, G, T))
        if not all(torch.allclose(*pair, **CLOSE) for pair in zip(computed, (loss, gradient), strict=True)):
            wrong.append(f"{picked}: loss {computed[0]:.6g} instead of {loss:.6g}")
    assert not wrong, "\n".join(wrong)


SHOWN = """return Object.fromEntries(
  [...document.querySelectorAll('#loss, .cell')].map(each => [each.id, each.textContent]))"""


def shown(browser) -> dict[str, str]:
    return browser.execute_script(SHOWN)


@pytest.mark.browser
def test_a_slider_moved_by_keyboard_changes_the_numbers_and_the_address(browser, path):
    from selenium.webdriver.common.keys import Keys

    look(browser, path, 1280)
    before = shown(browser)
    browser.find_element("css selector", "[data-key='reward.0.1']").send_keys(Keys.ARROW_RIGHT * 3)
    after = shown(browser)
    assert after["loss"] != before["loss"] and after["cell-0-0-0"] != before["cell-0-0-0"]
    assert after["cell-1-0-0"] == before["cell-1-0-0"]  # norm=local: another group
    address = browser.current_url
    assert address.endswith("#reward.0.1=0.3")
    browser.get("about:blank")
    browser.get(address)
    assert shown(browser) == after

    browser.find_element("css selector", "[data-key='length.0.0']").send_keys(Keys.HOME)
    assert browser.find_element("id", "cell-0-0-0").is_enabled()
    masked = browser.find_element("id", "cell-0-0-1")
    assert not masked.is_enabled() and masked.text == "–" and "beyond the end" in masked.get_attribute("aria-label")
    browser.find_element("id", "choose-clip").send_keys("gspo_token")
    assert "clip=gspo_token" in browser.current_url
    browser.find_element("id", "reset").click()
    assert shown(browser) == before and "#" not in browser.current_url


@pytest.mark.browser
def test_an_address_that_cannot_be_is_not_taken(browser, path):
    look(browser, path, 1280)
    before = shown(browser)
    wrong = "norm=nonsense&clip=toString&reward.0.0=99&length.0.0=&token=9.9.9&clip.low=x&show=toString&foo=1"
    browser.get("about:blank")
    browser.get(f"{path.as_uri()}#{wrong}")
    assert shown(browser) == before and "#" not in browser.current_url


# a phone shows what is too wide smaller, so its own width says nothing: these get the width that is meant
OVER = """return [...document.querySelectorAll('body *')].filter(each => !each.closest('.scroll *')
  && each.getBoundingClientRect().right > arguments[0] + 1).map(each => each.tagName + ' ' + each.className)"""
CUT = """return [...document.querySelectorAll('.cell')].filter(each => each.scrollWidth > each.clientWidth).length"""
UNNAMED = """return [...document.querySelectorAll('input, select')].filter(each => !each.labels.length).length"""
EACH = """const [axis, width] = arguments;
  return Object.keys(LIBRARY.axes[axis]).filter(name => { choose(axis, name);
    return document.documentElement.scrollWidth > width || document.querySelectorAll('.cell').length !== 48; })"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_the_window_without_an_error(browser, path, width, scheme):
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    look(browser, path, width, scheme)
    for axis in ("norm", "clip", "agg"):
        assert browser.execute_script(EACH, axis, width) == []
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert browser.execute_script(OVER, width) == []
    assert browser.execute_script(CUT) == 0
    assert browser.execute_script(UNNAMED) == 0
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    assert browser.get_log("browser") == []
    messages = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    sent = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert {url for url in sent if not url.startswith(("data:", "about:", "chrome"))} == {path.as_uri()}


@pytest.mark.browser
def test_what_is_left_out_is_named_with_the_reason(browser, path, tmp_path):
    other = tmp_path / "playground.html"
    text = path.read_text("utf-8")
    assert text.count('"left_out":{}') == 1
    other.write_text(text.replace('"left_out":{}', '"left_out":{"norm=peek":"numbers decide"}'), encoding="utf-8")
    for page, there in ((path, False), (other, True)):
        browser.get(page.as_uri())
        found = browser.find_element("id", "left-out")
        assert found.is_displayed() == there and ("norm=peek (numbers decide)" in found.text) == there


def test_a_function_that_decides_by_numbers_or_asks_for_more_is_left_out():
    def peek(rewards):
        return rewards if rewards.sum() > 0 else -rewards

    def asking(rewards, entropies):
        return rewards + entropies.mean(-1)

    with pytest.raises(NotTraceable, match="numbers decide in Python"):
        traced("norm", peek, {})
    with pytest.raises(NotTraceable, match="asks for entropies, which this page does not have"):
        traced("norm", asking, {})


@pytest.mark.rare  # all formulas are traced
def test_the_committed_page_is_what_the_command_writes(path):
    """With the PyTorch that it names: another one may trace the same formulas to other operations."""
    made, there = path.read_text("utf-8"), COMMITTED.read_text("utf-8")
    versions = [library(each)["torch"] for each in (path, COMMITTED)]
    if versions[0] != versions[1]:
        made, there = (re.sub(r'"graphs":\{.*\},"left_out"', "", each) for each in (made, there))
        made, there = (each.replace(version, "") for each, version in zip((made, there), versions, strict=True))
    if made != there:
        pytest.fail("docs/playground.html is old; make it anew: python -m benchmarks.playground")
    assert len(there) < 400_000
