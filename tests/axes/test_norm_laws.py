"""Laws of advantages: every ``norm`` obeys those of ``axes.laws`` that its facts state, and breaks the others."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE, advantages_of, advantages_of_rewards, file_of, norm_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from reward_batches import batches, fixed_batches

from rlexp.axes.laws import LAWS, laws_of
from rlexp.axes.offered import REWARDS
from rlexp.core.facts import facts_of

CONSTANTS = [0.7, 0.1, 5.1, 1.1]  # none of them is a binary fraction
FEW = settings(max_examples=15)  # for laws of nearly every norm: what breaks them shows in almost any batch
SHIFTS = st.lists(st.integers(-8, 8), min_size=3, max_size=3)


def close(actual, expected) -> bool:
    return torch.allclose(actual, expected, **CLOSE)


def in_another_unit(offered, scale):
    """What is remembered of rewards, the greedy reward and the critic's values, in the unit of the scaled rewards."""
    unit = {name: scale * offered[name] for name in ("greedy_rewards", "reward_average", "values")}
    number, mean, squares, smallest, largest = offered["reward_moments"].unbind(-1)
    unit["prompt_values"] = torch.stack(
        [scale * offered["prompt_values"][..., 0], offered["prompt_values"][..., 1]], -1
    )
    moments = number, scale * mean, scale**2 * squares, scale * smallest, scale * largest
    return unit | {"reward_moments": torch.stack(moments, -1)}


def of_scaled(norm, rewards, keep, scale):
    return advantages_of(norm, norm_inputs(scale * rewards, keep) | in_another_unit(norm_inputs(rewards, keep), scale))


def shift(norm, rewards, keep, numbers):
    """A number added to all."""
    return close(
        advantages_of_rewards(norm, rewards + numbers[0], keep), advantages_of_rewards(norm, rewards, keep)
    )  # fmt: skip


def group_shift(norm, rewards, keep, numbers):
    """A number added to each group."""
    shifted = rewards + torch.tensor(numbers[: len(rewards)], dtype=torch.float64).unsqueeze(-1)
    return close(advantages_of_rewards(norm, shifted, keep), advantages_of_rewards(norm, rewards, keep))


def scale(norm, rewards, keep, numbers):
    """Another unit: ``eps`` has that of a reward."""
    expected = advantages_of_rewards(norm, rewards, keep)
    units = [norm.changed(eps=by * norm.knobs["eps"]) if "eps" in norm.knobs else norm for by in (0.25, 3.0, 1000.0)]
    return all(
        close(of_scaled(one, rewards, keep, by), expected) for one, by in zip(units, (0.25, 3.0, 1000.0), strict=True)
    )


def linear(norm, rewards, keep, numbers):
    expected = advantages_of_rewards(norm, rewards, keep)
    return all(close(of_scaled(norm, rewards, keep, by), by * expected) for by in (-2.0, 0.25, 1000.0))


def zero_sum(norm, rewards, keep, numbers):
    advantages = advantages_of_rewards(norm, rewards, keep)
    sums = advantages.where(keep, 0.0).sum(-1) if advantages.dim() == keep.dim() else torch.ones(1)
    return close(sums, torch.zeros_like(sums))


def zero_batch_sum(norm, rewards, keep, numbers):
    advantages = advantages_of_rewards(norm, rewards, keep)
    return advantages.dim() == keep.dim() and abs(advantages.where(keep, 0.0).sum().item()) < CLOSE["atol"]


def zero_token_sum(norm, rewards, keep, numbers):
    advantages = advantages_of_rewards(norm, rewards, keep)
    counted = norm_inputs(rewards, keep)["mask"] & keep.unsqueeze(-1)
    return advantages.dim() > keep.dim() and abs(advantages.where(counted, 0.0).sum().item()) < CLOSE["atol"]


def kept(rewards):
    return torch.ones_like(rewards, dtype=torch.bool)


def equal(norm):
    """1B-2b: in float32 the mean of eight 0.7 is off by one unit in the last place and its deviation is not zero."""
    batches = [torch.full((3, size), constant) for constant in CONSTANTS for size in range(1, 33)]
    return all(advantages_of_rewards(norm, rewards, kept(rewards)).eq(0).all() for rewards in batches)


def equal_group(norm):
    """Not for those that end with a mean over the batch, but for rounding."""
    sizes = [(constant, size) for constant in CONSTANTS for size in range(2, 33)]
    batches = [torch.stack([torch.full((n,), constant), torch.arange(n, dtype=torch.float32)]) for constant, n in sizes]
    found = [advantages_of_rewards(norm, rewards, kept(rewards)) for rewards in batches]
    return all(advantages[0].eq(0).all() and advantages[1].ne(0).any() for advantages in found)


def faint(norm):
    """As rounding of a penalty leaves; not where the distance from another mean is divided by the group's deviation."""
    rewards = torch.stack([1e-9 * torch.arange(4.0), torch.tensor([0.0, 1.0, 0.0, 1.0])])
    return bool(advantages_of_rewards(norm, rewards, kept(rewards))[0].abs().max() < 0.01)


OF_A_BATCH = {
    "shift": shift,
    "group shift": group_shift,
    "scale": scale,
    "linear": linear,
    "zero sum": zero_sum,
    "zero batch sum": zero_batch_sum,
    "zero token sum": zero_token_sum,
}
OF_EQUAL_REWARDS = {"equal": equal, "equal group": equal_group, "faint": faint}


def stated(norm, law) -> bool:
    """Whether a norm is to obey a law; skip those that the law does not concern."""
    if not REWARDS & {*norm.needs} or (law == "faint" and "eps" not in norm.knobs):
        pytest.skip("says nothing about this norm")
    return law in laws_of("norm", norm)


def explain(norm, law, holds) -> str:
    """Say what to write where if a norm and its facts do not agree about a law."""
    verb, where = (
        ("obeys", "add it to `laws`") if holds else ("does not obey", "take it out of `laws` or into `breaks`")
    )
    place = f"@facts beside `{norm.func.__name__}` in {file_of(norm.func)}"
    return f'{norm} {verb} "{law}" ({LAWS["norm"][law]}): {where} of {place}'


@pytest.mark.parametrize("law", OF_A_BATCH)
def test_a_norm_obeys_the_laws_that_its_facts_state(norm_choice, law):
    @given(batch=batches(), numbers=SHIFTS)
    @FEW
    def obeys(batch, numbers):
        assert OF_A_BATCH[law](norm_choice, *batch, numbers), explain(norm_choice, law, False)

    if stated(norm_choice, law):
        obeys()


@pytest.mark.parametrize("law", OF_A_BATCH)
def test_a_norm_states_all_laws_that_it_obeys(norm_choice, law):
    if not stated(norm_choice, law):
        holds = all(OF_A_BATCH[law](norm_choice, *batch, (3, -2)) for batch in fixed_batches(20))
        assert not holds, explain(norm_choice, law, True)


@pytest.mark.parametrize("law", OF_EQUAL_REWARDS)
def test_what_equal_rewards_give_is_as_the_facts_state(norm_choice, law):
    holds = OF_EQUAL_REWARDS[law](norm_choice)
    assert holds == stated(norm_choice, law), explain(norm_choice, law, holds)


def test_every_law_is_tested_and_every_stated_law_exists(norm_choice):
    assert {*OF_A_BATCH, *OF_EQUAL_REWARDS} == {*LAWS["norm"]}
    facts = facts_of(norm_choice)
    unknown = {*facts.laws, *facts.breaks} - {*LAWS["norm"]}
    place = f"@facts beside `{norm_choice.func.__name__}` in {file_of(norm_choice.func)}"
    assert not unknown, f"{norm_choice}: {unknown} in {place}: laws and breaks are {', '.join(LAWS['norm'])}"


def permuted(norm, batch, axis, order):
    """Return the advantages of a batch whose prompts (axis 0) or completions (axis 1) come in another order."""
    size = batch[0].shape[axis]
    moved = {
        name: values.index_select(axis, order) if values.dim() >= 2 and values.shape[axis] == size else values
        for name, values in norm_inputs(*batch).items()
        if name not in ("prompt_numbers", "prompt_values")
    }
    offered = norm_inputs(*batch)
    numbers, values = offered["prompt_numbers"], offered["prompt_values"]
    moved |= {"prompt_numbers": numbers[order] if axis == 0 else numbers, "prompt_values": values}
    return advantages_of(norm, moved)


@pytest.mark.parametrize("axis", [0, 1], ids=["prompts", "group"])
@given(batch=batches(), data=st.data())
@FEW
def test_a_permutation_permutes_the_advantages(norm_choice, axis, batch, data):
    order = torch.tensor(data.draw(st.permutations(range(batch[0].shape[axis]))))
    expected = advantages_of_rewards(norm_choice, *batch).index_select(axis, order)
    torch.testing.assert_close(permuted(norm_choice, batch, axis, order), expected, **CLOSE)


@pytest.mark.parametrize("shape", [(3, 1), (1, 1)], ids=["in its group", "in its batch"])
def test_a_completion_alone_has_no_advantage_where_the_norm_compares(norm_choice, shape):
    """The fact by which a config is refused, from the functions themselves."""
    silent = True
    for rewards in (torch.arange(1.0, 4.0)[: shape[0]].view(shape), -torch.ones(shape)):
        offered = norm_inputs(rewards, kept(rewards)) | {"mask": torch.ones(*shape, 5, dtype=torch.bool)}
        silent &= bool(advantages_of(norm_choice, offered).eq(0).all())
    compares = facts_of(norm_choice).compares
    scope, text = ("group", 'compares="group"') if shape[0] > 1 else ("batch", 'compares="group" or "batch"')
    expected = compares == "group" if scope == "group" else compares != ""
    assert silent == expected, (
        f"{norm_choice}: a completion alone in its {scope} has {'no' if silent else 'an'} advantage: @facts beside "
        f"`{norm_choice.func.__name__}` in {file_of(norm_choice.func)} must{'' if silent else ' not'} have {text}"
    )
