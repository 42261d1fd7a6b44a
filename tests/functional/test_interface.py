"""What a caller meets: names, defaults, docstrings, errors, and what an import brings with it."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys

import pytest
import torch
from axis_choices import CONF, numbers
from omegaconf import OmegaConf

import rlexp.functional as F
from rlexp.axes import axis_of, norm
from rlexp.config.choices import SETTINGS
from rlexp.core.registry import hyperparameters, required_inputs
from rlexp.core.types import PerCompletion, Positive
from rlexp.functional.defaults import REQUIRED
from rlexp.functional.formula import LOG_RATIO_BOUND

P, G, T = 5, 6, 4
OF_AXES = [name for name in F.NAMESPACES if name != "value_target"]

# keys of a file that its function does not take
BESIDE = {"name"}.union(*SETTINGS.values())


def functions():
    return {
        f"{space}.{name}": getattr(getattr(F, space), name) for space in F.NAMESPACES for name in dir(getattr(F, space))
    }


def test_every_choice_is_there():
    """Functions of the axis and files of conf/ that name one; a file of a filter has several nodes, without a name."""
    for axis in OF_AXES:
        names = {name.rstrip("_") for name in dir(getattr(F, axis))}
        files = {path.stem for path in (CONF / axis).glob("*.yaml") if "name" in OmegaConf.load(path)}
        assert names == {*axis_of(axis).functions} | files, axis


def test_defaults_are_those_of_the_files():
    for axis in OF_AXES:
        for path in (CONF / axis).glob("*.yaml"):
            node = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
            named = [(path.stem, node)] if "name" in node else [(part["name"], part) for part in node.values()]
            for name, values in named:
                parameters = inspect.signature(getattr(getattr(F, axis), name + "_" * (name == "global"))).parameters
                for hyperparameter, value in values.items():
                    if hyperparameter not in parameters:
                        assert hyperparameter in BESIDE, f"{axis}={name}: {hyperparameter} is no argument"
                    elif isinstance(value, str) and "$" in value:
                        assert parameters[hyperparameter].default in (REQUIRED, None), (
                            f"{axis}={name}: {hyperparameter}"
                        )
                    else:
                        found = parameters[hyperparameter].default
                        assert (found, type(found)) == (value, type(value)), f"{axis}={name}: {hyperparameter}={found}"
    assert LOG_RATIO_BOUND == OmegaConf.load(CONF / "config.yaml").log_ratio_bound


def test_functions_without_a_file():
    """Their hyperparameters have defaults where all files that name them agree, and are asked for where not."""
    assert inspect.signature(F.filter.shortest).parameters["number"].default == 4
    with pytest.raises(TypeError, match=r"clip.ppo: low is missing: it has no default"):
        F.clip.ppo(*torch.zeros(3, 2, 5))
    assert torch.equal(F.clip.ppo(*torch.ones(3, 2, 5), low=0.2, high=0.28), F.clip.higher(*torch.ones(3, 2, 5)))


def test_docstrings_are_complete():
    for name, function in functions().items():
        for part in (function, *(getattr(function, each, None) for each in ("start", "update"))):
            if part is None:
                continue
            text, parameters = part.__doc__, inspect.signature(part).parameters
            summary, *_, returns = text.split("\n\n")
            assert summary.strip() and returns.startswith("Returns:\n    "), part.__qualname__
            said = re.findall(r"^    (\w+): ", text.partition("Args:\n")[2].partition("\n\n")[0], re.MULTILINE)
            assert said == [*parameters], f"{part.__qualname__}: Args are {said}"
            assert max(map(len, text.splitlines())) <= 120, part.__qualname__
        assert function.__qualname__ == name and pickle.loads(pickle.dumps(function)) is function
    for words in (
        "arXiv 2402.03300",
        "keep: bool [..., P, G] or [B], all completions",
        "1e-06 if not given (verl, ROLL; ",
    ):
        assert words in F.norm.local.__doc__
    assert "Here with the settings of ``higher``: Clip-higher (DAPO)." in F.clip.higher.__doc__
    assert "loss" in F.clip.__doc__ and "``norm``" in F.value_target.__doc__


def test_tensors_keep_their_order_but_for_those_that_may_be_left_out():
    for name, function in functions().items():
        parameters = inspect.signature(function).parameters
        tensors = [each for each, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        asked = required_inputs(inspect.unwrap(function))
        needed = [each for each in asked if parameters[each].default is REQUIRED]
        assert tensors == [*needed, *(each for each in asked if each not in needed)], name


def test_what_is_remembered():
    """From its start over two steps, flat as in groups, as the memories of the axes have it."""
    for name, hyperparameter in (("running", {}), ("ema", {}), ("spo", {"prompts": 3}), ("dbb", {"prompts": 3})):
        function, memory = getattr(F.norm, name), norm.MEMORIES[name]
        kept = expected = function.start(**hyperparameter).double()
        for seed in (1, 2):
            offered = numbers(P, G, T, seed=seed) | {memory.name: kept}
            asked_for = {each: offered[each] for each in required_inputs(memory.update)}
            values = {
                each: inspect.signature(function.update).parameters[each].default
                for each in hyperparameters(memory.update)
            }
            expected = memory.update(**{**asked_for, memory.name: expected}, **values)
            kept = function.update(**asked_for)
            assert torch.equal(kept, expected), name


def test_a_loop_that_draws_prompts_by_what_is_remembered():
    """Start, weights, update: grouped as flat, with prompts that come twice."""
    rewards, numbers = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), torch.tensor([2, 0, 2])
    latest = F.prompts.difficulty_pools.start(size=4)
    assert F.prompts.difficulty_pools(latest).tolist() == [1.0] * 4
    grouped = F.prompts.difficulty_pools.update(latest, rewards, numbers)
    ids = numbers.new_tensor([7, 8, 9]).repeat_interleave(3)
    flat = F.prompts.difficulty_pools.update(latest, rewards.flatten(), numbers.repeat_interleave(3), group_ids=ids)
    assert torch.equal(grouped, flat) and grouped[2, 0].item() == pytest.approx(5 / 6)
    assert F.prompts.difficulty_pools(grouped, hard_weight=0.1).tolist() == pytest.approx([0.1, 1.0, 0.2, 1.0])
    attempts = F.allocation.vip.start(size=4)
    for _ in range(2):
        attempts = F.allocation.vip.update(attempts, rewards, numbers)
    assert F.allocation.vip(attempts, numbers, most=9, average=4).tolist() == [5, 3, 4]


def test_advantages_of_completions():
    offered, group_ids = numbers(P, G, T), torch.arange(P).repeat_interleave(G)
    policy = [offered[name] for name in ("log_probs", "old_log_probs")]
    advantages, mask = offered["advantages"][..., 0], offered["mask"]
    expected = F.clip.higher(*policy, advantages.unsqueeze(-1).expand(mask.shape), mask)
    assert torch.equal(F.clip.higher(*policy, advantages, mask), expected)
    rows = [tensor.flatten(0, 1) for tensor in (*policy, advantages, mask)]
    assert torch.equal(F.clip.higher(*rows), expected.flatten(0, 1))
    assert torch.equal(F.clip.higher(*rows, group_ids=group_ids.tolist()), expected.flatten(0, 1))
    assert torch.equal(F.clip.higher(*rows[:3], rows[3].long()), expected.flatten(0, 1))


ROWS, TOKENS = torch.zeros(8), torch.zeros(2, 3)
WRONG = {
    "norm.local: keep must be [4, 8], and is [4, 6]": lambda: F.norm.local(torch.zeros(4, 8), torch.ones(4, 6) > 0),
    "norm.local: rewards must be [B] or [..., P, G], and is []": lambda: F.norm.local(torch.zeros(())),
    "norm.local: rewards must be [B] beside group_ids, and is [2, 3]": lambda: F.norm.local(TOKENS, group_ids=[1] * 6),
    "norm.local: rewards must be of floating point, and is int64": lambda: F.norm.local(ROWS.long()),
    "norm.local: rewards must be a tensor, and is of type list": lambda: F.norm.local([0.0, 1.0]),
    "norm.local: eps=0: input should be greater than 0": lambda: F.norm.local(TOKENS, eps=0),
    "norm.local: eps='a': input should be a valid number": lambda: F.norm.local(TOKENS, eps="a"),
    "norm.local: ddof=True: input should be a valid integer": lambda: F.norm.local(TOKENS, ddof=True),
    "norm.local: got an unexpected keyword argument 'epsilon'; it takes rewards, keep, eps, ddof, group_ids": lambda: (
        F.norm.local(TOKENS, epsilon=1)
    ),
    "norm.local: compares within groups; give flat tensors with group_ids=[B], or [..., P, G]": lambda: F.norm.local(
        ROWS
    ),
    "norm.local: group_ids must be [8], one for each row, and are [2]": lambda: F.norm.local(ROWS, group_ids=[1, 2]),
    "norm.local: group_ids must be of integers, and are float32": lambda: F.norm.local(ROWS, group_ids=ROWS),
    "norm.gae: values must be [2, 4], and is [2, 3]": lambda: F.norm.gae(TOKENS, TOKENS, TOKENS[:, 0] > 0),
    "norm.remax: greedy_rewards is missing: the task's reward of the greedy completion; costs a completion a prompt": (
        lambda: F.norm.remax(ROWS)
    ),
    "norm.reinforce: mask is missing, and nothing else says its shape: tokens that count": lambda: F.norm.reinforce(
        ROWS
    ),
    "clip.higher: advantages must be [2, 3], and is [3]": lambda: F.clip.higher(TOKENS, TOKENS, torch.zeros(3)),
    "clip.higher: mask must be bool, and is float32": lambda: F.clip.higher(TOKENS, TOKENS, TOKENS, TOKENS),
    "clip.dpo: pairs='x': input should be 'all' or 'best_worst'": lambda: F.clip.dpo(ROWS, ROWS, ROWS, pairs="x"),
    "clip has no highr; there are a2po, ": lambda: F.clip.highr,
    "agg.dr_grpo: length is missing: it has no default": lambda: F.agg.dr_grpo(TOKENS),
}


def test_errors():
    for text, call in WRONG.items():
        with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
            call()
        assert str(caught.value).startswith(text) and "\n" not in str(caught.value), caught.value


def test_a_new_choice_is_there_by_itself(monkeypatch):
    def times(rewards: PerCompletion, *, factor: Positive = 2.0) -> PerCompletion:
        """Return factor · r. Source: none."""
        return factor * rewards

    monkeypatch.setitem(axis_of("norm").functions, "times", times)
    assert "times" in dir(F.norm) and torch.equal(F.norm.times(ROWS + 1), torch.full((8,), 2.0))
    assert torch.equal(F.norm.times(ROWS + 1, factor=3.0), torch.full((8,), 3.0))
    assert "    factor: float above 0, 2.0 if not given.\n" in F.norm.times.__doc__
    monkeypatch.delattr(F.norm, "times")
    monkeypatch.setitem(axis_of("norm").functions, "untyped", lambda rewards: rewards)
    with pytest.raises(TypeError, match="norm.untyped: its function has no return type"):
        F.norm.untyped(ROWS)


def test_files_of_other_folders_are_there_too(monkeypatch, tmp_path):
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm/exact.yaml").write_text("# Next to no eps.\nname: local\neps: 1e-12\nddof: 0\n")
    monkeypatch.setattr("rlexp.config.choices.FOLDERS", [tmp_path])
    assert "exact" in dir(F.norm) and "``exact``: Next to no eps." in F.norm.exact.__doc__
    assert torch.equal(F.norm.exact(TOKENS + 1), F.norm.local(TOKENS + 1, eps=1e-12, ddof=0))
    monkeypatch.delattr(F.norm, "exact")


def test_what_stands_beside_the_namespaces():
    assert F.gae is F.norm.gae and F.pass_at_k(2, hits=1, samples=4) == 0.5
    with pytest.raises(ValueError, match="pass_at_k: k=5 and hits=1 must be at most samples=4"):
        F.pass_at_k(5, hits=1, samples=4)
    assert {*F.__all__} == {*F.NAMESPACES, "gae", "pass_at_k"}


def test_import_is_light():
    heavy = "{'hydra', 'omegaconf', 'wandb', 'pandas', 'scipy', 'matplotlib'}"
    program = f"import sys, rlexp.functional as F; F.norm.local, F.clip.higher; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
