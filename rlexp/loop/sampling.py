"""Sampling: which groups a step trains on, through each variant's ``prompts``, ``sampler`` and ``filter.refill``.

Those sampled first, and others in place of those that ``filter.refill`` drops. Source: dynamic sampling of DAPO (arXiv
2503.14476, §3.2, algorithm 1) with ``zero_variance``; verl ``filter_groups`` with its cap ``max_num_gen_batches``,
OpenRLHF ``--algo.dynamic_filtering_enable`` with ``difficulty``.

Each run keeps its own count: a round is sampled only for the runs that are short of groups and have rounds left, from
streams addressed by the round, so that a run takes the same groups whoever its neighbours are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.axes.sampler import truncated
from rlexp.core.blocks import gather_rows, map_tensors, map_variants
from rlexp.core.facts import Facts, facts_of
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose, normals
from rlexp.core.types import Counts, PerCompletion, PerToken, PromptMask, PromptNumbers, Prompts
from rlexp.loop import truncation
from rlexp.loop.population import has_population, sample_by_members
from rlexp.loop.rewards import Rewards, score
from rlexp.loop.rollout import Rollout, inverse_cdf, loss_mask, response_mask, sample
from rlexp.loop.rounded import RoundedPolicies
from rlexp.loop.state import TrainState, subset
from rlexp.loop.variant import Variant
from rlexp.models.policy import RolloutPolicy, gather_log_probs


class Groups(NamedTuple):
    """The groups of a step and what they took: rounds, tokens, groups that passed the refill, those that are used.

    ``policy`` is the policy that reads them, with what sampling them has computed if it records that. ``rewards`` are
    made once, in the round in which a group was sampled, or where old groups are used. ``sampled`` counts the groups
    of all rounds, ``completions`` their completions.
    Where the step trains on others than it samples (``loop.data``), ``stored`` is what the buffer keeps of those that
    it sampled, None for nothing, and ``ages`` is how many steps ago each token that it trains on was drawn;
    ``dropped`` counts groups that were thrown away for it, ``replayed`` stored ones that took the place of others.
    """

    rollout: Rollout
    rounds: Counts
    tokens: Counts
    passed: Counts
    used: Counts
    policy: RolloutPolicy | None
    rewards: Rewards
    sampled: Counts
    completions: Counts
    stored: NamedTuple | None = None
    ages: PerToken | None = None
    dropped: Counts | None = None
    replayed: Counts | None = None

    @property
    def judged(self) -> Counts:
        """How many completions were judged: those of all rounds, or old ones where they are used."""
        return self.completions if self.ages is None else count_completions(self)


class Round(NamedTuple):
    """The groups of one round, what they earn, and whether the ``refill`` of their variant keeps each."""

    rollout: Rollout
    rewards: Rewards
    keep: PromptMask


def sample_groups(state: TrainState, step: int) -> Groups:
    """Sample P groups a run, and P more for every run that is short of groups to keep and has rounds left.

    A run uses its first P groups that are kept. Where there are fewer after its last round, the first of those that
    are not kept fill the places: they are used as they are. verl stops with an error there, which would end the run
    of a policy that has learnt all prompts; to leave such groups out of the loss as well is ``filter.loss``.
    """
    prompts = draw_prompts(state, step, 0)
    policy = state.policy if has_population(state) else state.policy.recorded(prompts, state.group)
    groups = sample_round(state, policy, prompts, step, 0)
    most = state.per_run(lambda variant: variant.refill_rounds)
    rounds, tokens, passed = torch.ones_like(most), count_tokens(groups), groups.keep.sum(-1)
    completions = count_completions(groups)
    for number in range(1, max(variant.refill_rounds for variant, _ in state.blocks)):
        short = (~groups.keep.all(-1) & (number < most)).nonzero().squeeze(-1)
        if not len(short):
            break
        part = subset(state, short)
        more = sample_round(part, part.policy, draw_prompts(part, step, number), step, number)
        groups = merge_rounds(groups, short, more)
        rounds[short] += 1
        tokens[short] += count_tokens(more)
        completions[short] += count_completions(more)
        passed[short] += more.keep.sum(-1)
    if policy is not state.policy and (rounds > 1).any():
        policy = record_again(policy, state, (rounds > 1).nonzero().squeeze(-1), groups.rollout)
    counts = rounds * state.prompts, completions
    return Groups(groups.rollout, rounds, tokens, passed, groups.keep.sum(-1), policy, groups.rewards, *counts)


def policies_of_updates(state: TrainState, groups: Groups) -> Iterator[RolloutPolicy]:
    """Yield the policy for each update of a step: only the first finds what sampling its minibatch has computed."""
    yield groups.policy.slice_prompts(slice(state.prompts // state.minibatches))
    yield from repeat(state.policy)


def draw_prompts(state: TrainState, step: int, number: int) -> Prompts:
    """Return new prompts, or those of the set of each run that its ``prompts`` draws."""
    uniforms = state.uniforms(Purpose.PROMPTS, step, state.prompts, state.task.draws, round=number)
    known = prompt_set(state)
    if known is None:
        return state.task.prompts(uniforms, held_out=False)
    if all(facts_of(variant.prompts, Facts).is_noop for variant, _ in state.blocks):
        return gather_rows(known, (uniforms[..., 0] * known.shape[1]).long())
    offered = {"candidates": torch.ones(known.shape[:2], device=known.device)}
    offered["progress"] = torch.full_like(state.temperature, state.optimizer.progress)
    if any("answer_lengths" in required_inputs(variant.prompts) for variant, _ in state.blocks):
        offered["answer_lengths"] = state.task.oracle(known)[1].to(state.temperature.dtype).sum(-1)
    offered |= state.memory | {"first": first_of_equal(known)}
    return gather_rows(known, map_variants(places_of_prompts, state.blocks, uniforms[..., 0], offered))


def first_of_equal(prompts: Prompts) -> PromptNumbers:
    """Return for each prompt of a set the place of the first that is equal to it, ``[R N]``."""
    places = torch.arange(prompts.shape[1], device=prompts.device).expand(prompts.shape[:2])
    order = places
    for column in reversed(prompts.unbind(-1)):
        order = order.gather(-1, column.gather(-1, order).argsort(dim=-1, stable=True))
    changes = (gather_rows(prompts, order).diff(dim=1) != 0).any(-1)
    first = F.pad(places[:, 1:].where(changes, 0), (1, 0)).cummax(-1).values
    return torch.zeros_like(places).scatter(-1, order, order.gather(-1, first))


def places_of_prompts(variant: Variant, uniforms: Tensor, offered: Mapping[str, Tensor]) -> PromptNumbers:
    """Return which prompts of the set are drawn, ``[R P]``, by the weights of the variant's ``prompts``.

    Of equal prompts each has the weight of the first, which alone is remembered (``prompt_numbers``).
    """
    if facts_of(variant.prompts, Facts).is_noop:
        return (uniforms * offered["candidates"].shape[-1]).long()
    weights = call_with(variant.prompts, offered).gather(-1, offered["first"])
    return place_by_weight(weights.where((weights > 0).any(-1, keepdim=True), 1.0), uniforms)


def place_by_weight(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Draw places in proportion to weights, with replacement: ``[R N], [R n] -> [R n]``; N where all weights are 0."""
    ends = weights.cumsum(-1)
    total = ends[..., -1:]
    places = torch.minimum(uniforms * total, total.nextafter(torch.zeros_like(total)))  # rounding reaches no end
    return (ends.unsqueeze(-2) <= places.unsqueeze(-1)).sum(-1)


def prompt_set(state: TrainState) -> Prompts | None:
    """Return the prompts that each run is trained on again and again, ``[R, N, L]``; None where they are new ones."""
    size = getattr(state.task, "prompt_set", None)
    if size is None:
        return None
    return state.task.prompts(state.uniforms(Purpose.PROMPT_SET, 0, size, state.task.draws), held_out=False)


def prompt_numbers(state: TrainState, prompts: Prompts) -> PromptNumbers:
    """Return the place of each prompt in the set of its run, ``[R, P]``, the first of equal ones; 0 without a set."""
    known = prompt_set(state)
    if known is None:
        return torch.zeros_like(prompts[..., 0])
    return (prompts.unsqueeze(2) == known.unsqueeze(1)).all(-1).long().argmax(-1)


def sample_round(state: TrainState, policy: RolloutPolicy, prompts: Prompts, step: int, number: int) -> Round:
    """Sample P groups a run and look at their rewards before shaping: one that punishes length varies everywhere."""
    noise = state.uniforms(Purpose.SAMPLING, step, state.prompts, state.group, state.task.cap, round=number)
    rollout = allocated(state, sample_completions(state, policy, prompts, noise, step, number))
    rewards = score(state, rollout, step, round=number)
    if all(variant.refill_rounds == 1 for variant, _ in state.blocks):
        return Round(rollout, rewards, torch.ones_like(rollout.finished[..., 0]))
    seen = rollout._replace(mask=loss_mask(state.task, prompts, rollout.completions, rollout.mask))
    return Round(rollout, rewards, map_variants(refill_keeps, state.blocks, seen, rewards.total)["keep"])


def allocated(state: TrainState, rollout: Rollout) -> Rollout:
    """Return a rollout whose groups have as many completions as ``allocation`` gives them; the others have no token."""
    if not state.allocates:
        return rollout
    offered = {"prompt_numbers": prompt_numbers(state, rollout.prompts)}
    offered["group"] = torch.full_like(offered["prompt_numbers"], state.group)

    def numbers(variant: Variant, offered: Mapping[str, Tensor]) -> Tensor:
        return call_with(variant.allocation, offered)

    number = map_variants(numbers, state.blocks, state.memory | offered)
    there = torch.arange(state.group, device=number.device) < number.unsqueeze(-1)
    tokens = there.unsqueeze(-1)
    return rollout._replace(
        mask=rollout.mask & tokens,
        finished=rollout.finished | ~there,
        old_log_probs=rollout.old_log_probs.where(tokens, 0.0),
        sampler_log_probs=rollout.sampler_log_probs.where(tokens, 0.0),
    )


def refill_keeps(variant: Variant, rollout: Rollout, rewards: PerCompletion) -> dict[str, PromptMask]:
    """Return which groups the variant's ``refill`` keeps; it is a filter of whole groups."""
    scored = ~rewards.isnan()
    offered = rollout._asdict() | {"rewards": rewards.where(scored, 0.0), "scored": scored}
    return {"keep": call_with(variant.filter_refill, offered)[..., 0]}


def merge_rounds(groups: Round, short: Tensor, more: Round) -> Round:
    """Put groups of ``more`` in the place of those that were not kept, for the runs with the indices ``short``.

    Kept ones first, each kind in the order in which it was sampled; runs that are not short stay bit by bit.
    """
    prompts = groups.keep.shape[1]
    order = torch.cat([~groups.keep[short], ~more.keep], 1).byte().argsort(dim=1, stable=True)[:, :prompts]

    def merged(mine: Tensor, others: Tensor) -> Tensor:
        return mine.index_copy(0, short, gather_rows(torch.cat([mine[short], others], 1), order))

    return map_tensors(merged, groups, more)


def record_again(policy: RolloutPolicy, state: TrainState, replicas: Tensor, rollout: Rollout) -> RolloutPolicy:
    """Decode the completions of runs whose groups come from several rounds once more, and record that instead."""
    part, tokens = subset(state, replicas), iter(rollout.completions[replicas].unbind(-1))
    prompts, noise = rollout.prompts[replicas], rollout.old_log_probs[replicas]
    theirs = part.policy.recorded(prompts, state.group)
    sample(theirs, part.task, prompts, noise, part.temperature, lambda *_: next(tokens))
    return policy.replace_replicas(replicas, theirs, rollout.prompts)


def count_tokens(groups: Round) -> Counts:
    return groups.rollout.mask.flatten(1).sum(-1)


def count_completions(groups: Round | Groups) -> Counts:
    return groups.rollout.there.flatten(1).sum(-1)


def sample_completions(
    state: TrainState, policy: RolloutPolicy, prompts: Prompts, uniforms: Tensor, step: int, round: int
) -> Rollout:
    """Complete the prompts, each variant through its own sampler if any is not the policy itself.

    Random numbers ``errors`` are drawn only for the runs whose sampler asks for them.
    """
    if has_population(state):
        return sample_by_members(state, prompts, uniforms)
    inputs = policy, state.task, prompts, uniforms, state.temperature
    if all(variant.samples_exactly for variant, _ in state.blocks):
        return state.sample(*inputs)
    shape = (*uniforms.shape[1:], state.task.vocabulary)

    def draw_errors(variant: Variant, seeds: Tensor) -> Tensor:
        if "errors" not in required_inputs(variant.sampler):
            return torch.zeros(len(seeds), *shape)
        return normals(seeds.tolist(), Purpose.SAMPLER, step, shape, round=round)

    def distort_variant(variant: Variant, log_probs: Tensor, errors: Tensor) -> Tensor:
        distorted = call_with(variant.sampler, {"log_probs": log_probs, "errors": errors})
        return truncated(distorted, variant.top_k, variant.top_p)

    def distort(log_probs: Tensor, t: int) -> Tensor:
        given = rounded.log_probs(log_probs), errors[..., t, :].to(log_probs)
        return map_variants(distort_variant, state.blocks, *given)

    errors = map_variants(draw_errors, state.blocks, torch.tensor(state.seeds))
    rounded = RoundedPolicies(state, *inputs)
    trained = partial(truncation.distributions, state.blocks) if truncation.trains_any(state.blocks) else None
    return sample_distorted(distort, *inputs, trained=trained, drawn=rounded.read)


@torch.no_grad()
def sample_distorted(
    distort: Callable[[Tensor, int], Tensor],
    *inputs: object,
    trained: Callable[[Tensor], Tensor] | None = None,
    drawn: Callable[[Tensor], None] = lambda tokens: None,
) -> Rollout:
    """Sample from ``distort(log_probs, t)`` instead of the policy; ``inputs`` are those of ``sample``.

    The rollout's ``old_log_probs`` are the trainer's, of the policy that ``trained`` makes of the whole one, if there
    is such a function, but for tokens that it cannot draw. Its ``sampler_log_probs`` are those that the tokens were
    drawn from; of what the environment has written, which nobody has drawn, they are the trainer's too. ``drawn`` is
    told the tokens of each place.
    """
    drawn_from, old = [], []

    def pick(log_probs: Tensor, uniforms: Tensor) -> Tensor:
        distorted = distort(log_probs, len(drawn_from))
        tokens = inverse_cdf(distorted, uniforms)
        drawn_from.append(gather_log_probs(distorted, tokens))
        if trained is not None:
            old.append(gather_log_probs(trained(log_probs), tokens))
        drawn(tokens)
        return tokens

    rollout = sample(*inputs, pick)
    own = response_mask(inputs[1], rollout.prompts, rollout.completions, rollout.mask)

    def padded(log_probs: list[Tensor]) -> Tensor:
        return F.pad(torch.stack(log_probs, -1), (0, rollout.mask.shape[-1] - len(log_probs)))

    if trained is not None:
        of_trained = padded(old)
        rollout = rollout._replace(
            old_log_probs=of_trained.where(own & truncation.inside(of_trained), rollout.old_log_probs)
        )
    return rollout._replace(sampler_log_probs=padded(drawn_from).where(own, rollout.old_log_probs))
