"""How many completions each prompt has: against all ways to divide them, exact variances, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import reference_allocation as reference
import torch
from axis_choices import bind, choices, same_bits
from interrupted import same_alone_together_and_resumed, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, compose

from rlexp.config.checks import remarks
from rlexp.core.errors import ConfigError
from rlexp.loop.data import gather_groups
from rlexp.loop.requested import tensors_of_rollout
from rlexp.loop.rollout import Rollout
from rlexp.loop.sampling import prompt_numbers
from rlexp.loop.step import compute_advantages, train_step
from rlexp.record.samples import samples
from rlexp.sweep.build import build

RULES = {"vip": (reference.variance_centered, 3), "vip_rloo": (reference.variance_left_out, 2)}
NORM_OF = {"vip": "center", "vip_rloo": "rloo"}
ROOM = ["task.prompt_set=5", "group_size.completions=6", "group_size.prompts=4"]
KNOBS = {"size": 5, "most": 6, "average": 4, "decay": 0.2}


def numbers_of(name, attempts, prompts, **knobs):
    return bind("allocation", name, **(KNOBS | {"fewest": RULES[name][1]} | knobs)).of(
        {"attempts": attempts, "prompt_numbers": prompts}
    )


@pytest.mark.parametrize("name", RULES)
def test_no_other_way_to_divide_them_has_less_variance(name):
    """Of prompts that come twice, too; float64, so that 1e-12 is rounding."""
    random = torch.Generator().manual_seed(0)
    variance, fewest = RULES[name]
    for most, average in [(9, 5), (6, 4), (6, 6), (7, fewest)] * 3:
        attempts = 1 + 20 * torch.rand(2, 5, 2, generator=random, dtype=torch.float64).square()
        prompts = torch.randint(5, (2, 4), generator=random)
        found = numbers_of(name, attempts, prompts, most=most, average=average)
        for run in range(2):
            alpha, beta = attempts[run, prompts[run]].unbind(-1)
            rates, numbers = (alpha / (alpha + beta)).tolist(), found[run].tolist()
            assert sum(numbers) == 4 * average and fewest <= min(numbers) and max(numbers) <= most
            wanted = reference.least(rates, variance, most, average, fewest)
            assert reference.variance(rates, numbers, variance) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_of_prompts_that_are_alike_all_have_as_many(name):
    for attempts in (torch.ones(1, 5, 2), torch.tensor([3.0, 0.0]).expand(1, 5, 2)):  # of certain ones too
        assert numbers_of(name, attempts, torch.tensor([[0, 1, 2, 2]])).tolist() == [[4] * 4]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_the_variance_is_that_of_the_norm(name, p):
    """Exactly, over all rewards of a group: Var(1/n Σ A_i z_i) of independent z of mean 0 is E Σ A_i² / n²."""
    for n in range(RULES[name][1], 7):
        rewards = torch.tensor([*product([0.0, 1.0], repeat=n)], dtype=torch.float64).unsqueeze(1)
        chances = (p * rewards + (1 - p) * (1 - rewards)).prod(-1).squeeze(-1)
        keep = torch.ones_like(rewards, dtype=torch.bool)
        advantages = bind("norm", NORM_OF[name]).of({"rewards": rewards, "keep": keep})
        found = (chances * advantages.square().sum((-1, -2))).sum() / n**2
        assert found.item() == pytest.approx(p * (1 - p) * RULES[name][0](n), rel=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_with_rloo_and_prompts_alike_in_the_loss_the_gradient_is_unbiased_for_any_number(p):
    """Exactly, of one-token answers that are right with chance p = σ(θ): E 1/n Σ A_i ∂ log π / ∂θ = p (1 − p)."""
    for n in range(2, 7):
        rewards = torch.tensor([*product([0.0, 1.0], repeat=n)], dtype=torch.float64).unsqueeze(1)
        chances = (p * rewards + (1 - p) * (1 - rewards)).prod(-1).squeeze(-1)
        keep = torch.ones_like(rewards, dtype=torch.bool)
        advantages = bind("norm", "rloo").of({"rewards": rewards, "keep": keep})
        losses = (advantages * (rewards - p)).unsqueeze(-1)
        gradients = bind("agg", "prompt").of({"losses": losses.unsqueeze(1), "mask": keep[:, None, ..., None]})
        assert (chances * gradients.flatten()).sum().item() == pytest.approx(p * (1 - p), rel=1e-12)


def state_of(*overrides, seeds=(0, 1)):
    return build([compose(*SHORT, *ROOM, *overrides, f"seed={seed}") for seed in seeds])


def uneven(state):
    """Let prompts be known to be of several difficulties."""
    state.memory["attempts"].copy_(torch.tensor([[9.0, 1.0], [5.0, 5.0], [1.0, 30.0], [2.0, 3.0], [40.0, 1.0]]))
    return state


def test_a_step_has_the_completions_that_it_says():
    state = uneven(state_of("allocation=vip"))
    groups = gather_groups(state, 1)
    prompts = prompt_numbers(state, groups.rollout.prompts)
    wanted = numbers_of("vip", state.memory["attempts"], prompts)
    there = groups.rollout.there
    assert torch.equal(there.sum(-1), wanted) and wanted.float().std() > 0
    assert torch.equal(there, torch.arange(6) < wanted.unsqueeze(-1))  # the first ones
    assert groups.completions.tolist() == [16, 16] and groups.sampled.tolist() == [4, 4]
    assert torch.equal(groups.tokens, groups.rollout.mask.sum((1, 2, 3)))
    for rewards in (groups.rewards.total, groups.rewards.gold, *groups.rewards.components.values()):
        assert rewards[~there].isnan().all()
    assert not groups.rewards.correct[~there].any() and not groups.rollout.old_log_probs[~there].any()
    row = train_step(state, 1, True)
    assert row["completions"].tolist() == [16, 16] and all(each.isfinite().all() for each in [row["advantage/std"]])
    assert row["length/mean"].tolist() == pytest.approx((groups.tokens / 16).tolist())
    written = [sample for run in samples(state, 1) for sample in run]
    assert written and all(sample["completion"] and math.isfinite(sample["reward"]) for sample in written)


def test_those_there_are_what_they_are_without_the_others():
    """The first completions of each group are those of ``allocation=uniform``, which has the same random numbers."""
    mine, other = uneven(state_of("allocation=vip")), state_of()
    mine, other = gather_groups(mine, 1), gather_groups(other, 1)
    there = mine.rollout.there
    assert torch.equal(mine.rollout.completions, other.rollout.completions)
    for name in ("old_log_probs", "mask", "finished"):
        assert same_bits(getattr(mine.rollout, name)[there], getattr(other.rollout, name)[there]), name
    assert same_bits(mine.rewards.total[there], other.rewards.total[there])


@pytest.mark.parametrize("choice", [*choices("norm"), *choices("shaping")], ids=str)
def test_statistics_are_those_of_the_completions_that_are_there(choice):
    """Advantages of groups of four in a room of six are those of groups of four, for every choice; 1e-5 is rounding."""
    beside = ["critic=value"] if "values" in choice.needs else []
    chosen = [f"{choice.axis}={choice.label}", "advantage_clip=null", *beside]
    state = state_of(*chosen, "allocation=vip", "start=sft", "start.accuracy=0.1", "task.alphabet=3", "task.longest=2")
    whole = gather_groups(state, 1)  # nobody knows anything: four of each
    assert whole.rollout.there.sum(-1).eq(4).all()
    tensors = tensors_of_rollout(state, 1, whole)
    if "reference_rewards" in tensors:  # the reference has as many completions as there is room for
        tensors["reference_rewards"] = tensors["reference_rewards"].mean(-1, keepdim=True).expand(-1, -1, 6)
    (variant, _), *_ = state.blocks

    def cut(tensor):
        return tensor[:, :, :4] if tensor.dim() > 2 and tensor.shape[2] == 6 else tensor

    found = compute_advantages(variant, whole.rollout, whole.rewards.total, tensors)
    rollout = Rollout(*map(cut, whole.rollout))
    less = {name: cut(tensor) for name, tensor in tensors.items()}
    wanted = compute_advantages(replace(variant), rollout, cut(whole.rewards.total), less)
    torch.testing.assert_close(cut(found.advantages), wanted.advantages, rtol=1e-5, atol=1e-5)
    assert not found.advantages[:, :, 4:].any() and not found.mask[:, :, 4:].any()


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen",
    [
        ["allocation=vip", "agg=prompt", "filter=dynamic", "filter.refill.rounds=3"],
        pytest.param(["allocation=vip_rloo", "data=replay", "data.capacity=3"], marks=pytest.mark.rare),
        pytest.param(["allocation=vip", "data=stale", "data.age=2"], marks=pytest.mark.rare),
    ],
    ids=" ".join,
)
def test_alone_together_and_resumed_are_the_same_bits(tmp_path, stop_at, chosen):  # noqa: F811
    beside = ["task.prompt_set=8", "allocation.average=3"]
    same_alone_together_and_resumed(tmp_path, stop_at, *beside, *chosen)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([], "allocation=vip: remembers how often prompts are solved"),
        (["task.prompt_set=8", "allocation.size=9"], "allocation.size=9: must be task.prompt_set=8"),
        (["task.prompt_set=8", "allocation.most=9"], "allocation.most=9: must be group_size.completions=8"),
        (["task.prompt_set=8", "allocation.average=9"], "allocation.average=9: must be at most group_size.completions"),
        (["task.prompt_set=8", "allocation.fewest=5"], "allocation.fewest=5: must be at most allocation.average=4"),
        (["task.prompt_set=8", "allocation.fewest=2"], "allocation.fewest=2: must be at least 3"),
        (["task.prompt_set=8", "data=pipeline"], "allocation=vip data=pipeline: needs steps that sample"),
        (["task.prompt_set=8", "data=offline"], "allocation=vip data=offline: needs steps that sample"),
    ],
)
def test_what_cannot_be_is_one_line(overrides, problem):
    with pytest.raises(ConfigError) as error:
        compose("allocation=vip", *overrides)
    assert error.value.problems[0].startswith(problem)


@pytest.mark.parametrize(
    ("overrides", "remark"),
    [
        (["allocation.average=8"], "allocation.average=8: every prompt has group_size.completions"),
        (["agg=dr_grpo"], "allocation=vip agg=dr_grpo: divides by all group_size.completions=8, of which"),
        (["agg=prompt"], None),
    ],
)
def test_what_is_seldom_meant_is_said(overrides, remark):
    said = [
        line for line in remarks(compose("allocation=vip", "task.prompt_set=8", *overrides)) if "allocation" in line
    ]
    assert [line[: len(remark or "")] for line in said] == ([remark] if remark else [])
