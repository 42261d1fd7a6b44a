"""A checkpoint holds everything that a run's next steps depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from small_runs import compose
from toy_state import make_state, variant

from rlexp.axes import norm
from rlexp.core import memory
from rlexp.core.registry import bind_choice
from rlexp.loop.step import train_step
from rlexp.record import checkpoint
from rlexp.record.disk import serialize

SEEDS = [0, 1, 2]
RUNNING = compose("norm=running").norm


def runs(seeds=SEEDS):
    """Three runs that are drawn to their reference; the last remembers the rewards of earlier steps."""
    plain = variant(Recipe(kl_in_loss=0.3))
    memories = memory.bind_memories(norm.MEMORIES, RUNNING)
    running = replace(plain, norm=bind_choice(norm.FUNCTIONS, RUNNING), memories=plain.memories | memories)
    blocks = [(plain, sum(seed < 2 for seed in seeds)), (running, sum(seed == 2 for seed in seeds))]
    return make_state([block for block in blocks if block[1]], seeds, dtype=torch.float32)


def trained(state, steps):
    rows = [train_step(state, at, True) for at in steps]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def saved(state, folder, after):
    for replica in range(len(state.seeds)):
        place = folder / str(state.seeds[replica])
        place.mkdir(parents=True)
        checkpoint.replace_latest(
            place, serialize(checkpoint.content(state, replica, after, {"tokens": 0, "completions": 0}))
        )


def elsewhere(state):
    """Put the state into a state of another run, reference included."""
    adam = state.optimizer
    tensors = [*state.policy.parameters(), *state.reference.parameters(), *adam.kept[0].values()]
    with torch.no_grad():
        for number, tensor in enumerate([*tensors, *state.memory.values()]):
            tensor.add_(0.1 * (-1) ** number)
    return state


@pytest.mark.parametrize("chosen", [SEEDS, [0], [2], [0, 2]], ids=str)
def test_a_state_of_any_numbers_becomes_the_one_that_was_saved(tmp_path, chosen):
    """All three are saved; those of the ``chosen`` seeds go on, beside other neighbours than before."""
    whole = runs()
    trained(whole, [1, 2])
    saved(whole, tmp_path, after=2)
    expected = trained(whole, [3, 4])
    other = elsewhere(runs(chosen))
    problems = checkpoint.restore(other, [checkpoint.load(tmp_path / str(seed)) for seed in chosen])
    assert problems == [""] * len(chosen)
    for name, values in trained(other, [3, 4]).items():
        same(values, expected[name][:, chosen])


def test_a_run_saved_alone_goes_on_beside_one_that_remembers(tmp_path):
    alone, remembers = runs([0]), runs([2])
    for each in (alone, remembers):
        trained(each, [1, 2])
        saved(each, tmp_path, after=2)
    assert "reward_moments" not in checkpoint.load(tmp_path / "0")["memory"]
    together = runs([0, 2])
    checkpoint.restore(together, [checkpoint.load(tmp_path / name) for name in ("0", "2")])
    expected = [trained(each, [3, 4]) for each in (alone, remembers)]
    for name, values in trained(together, [3, 4]).items():
        same(values, torch.cat([row[name] for row in expected], 1))


def test_what_is_remembered_matters():
    """Otherwise the tests above would prove nothing about it, nor about the reference."""
    expected, forgetful = runs([2]), runs([2])
    trained(expected, [1]), trained(forgetful, [1])
    assert not torch.equal(forgetful.memory["reward_moments"], runs([2]).memory["reward_moments"])
    forgetful.memory.update(runs([2]).memory)
    assert not torch.equal(trained(expected, [2])["loss/policy"], trained(forgetful, [2])["loss/policy"])
    assert not torch.equal(expected.policy.head.weight, expected.reference.head.weight)


def test_a_checkpoint_of_other_names_or_shapes_is_refused_with_the_difference(tmp_path):
    saved(runs([0]), tmp_path, after=2)
    written = checkpoint.load(tmp_path / "0")
    parameters = written["networks"]["policy"]["parameters"]
    changed = {
        "checkpoint: policy lacks the parameters head.bias and has parameters that are not here: head.offset": (
            {"head.offset": parameters["head.bias"]} | {k: v for k, v in parameters.items() if k != "head.bias"}
        ),
        "checkpoint: policy: head.bias is [1, 7] there and [1, 6] here": parameters | {"head.bias": torch.zeros(1, 7)},
    }
    for text, other in changed.items():
        networks = written["networks"] | {"policy": written["networks"]["policy"] | {"parameters": other}}
        assert checkpoint.restore(runs([0]), [written | {"networks": networks}]) == [text]
    (lacking,) = checkpoint.restore(runs([0]), [{key: value for key, value in written.items() if key != "networks"}])
    assert lacking == "checkpoint lacks the networks policy, reference"


def test_what_would_be_broadcast_or_cast_is_refused_and_harms_no_neighbour(tmp_path):
    whole = runs()
    trained(whole, [1, 2])
    saved(whole, tmp_path, after=2)
    states = [checkpoint.load(tmp_path / str(seed)) for seed in SEEDS]
    moments = states[2]["memory"]["reward_moments"]
    for other, text in ((moments[:1], "is [1] there and"), (moments.double(), "is torch.float64 there and")):
        state, remembered = runs(), states[2]["memory"] | {"reward_moments": other}
        problems = checkpoint.restore(state, [*states[:2], states[2] | {"memory": remembered}])
        assert problems[:2] == ["", ""] and problems[2].startswith(f"checkpoint: memory: reward_moments {text}")
        for ours, theirs in zip(state.policy.parameters(), whole.policy.parameters(), strict=True):
            same(ours[:2], theirs[:2])
