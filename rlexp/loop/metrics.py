"""What is logged: diagnostics from tensors already at hand, each a number a replica ``[R]``.

``docs/metrics.md`` has every name with its formula. Means are over the entries that count; a mean over nothing is NaN
(the length of wrong completions when all are right), which the run's file holds as null. Runs that somebody else than
the task judges have their gold beside their rewards, and numbers that the others have not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from rlexp.axes.reward import moments
from rlexp.core.blocks import Masked, map_variants
from rlexp.core.exact import sum_keepdim
from rlexp.core.exits import RunFailed
from rlexp.core.masked import ALL, BATCH, TIME, count, is_constant, masked_extreme, masked_mean, masked_std, masked_sum
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose
from rlexp.core.types import (
    CompletionMask,
    Completions,
    PerCompletion,
    PerToken,
    PerVocabulary,
    Prompts,
    TokenMask,
)
from rlexp.loop import truncation
from rlexp.loop.rewards import Rewards, score_with
from rlexp.loop.rollout import Rollout, response_mask, sample
from rlexp.loop.sampling import Groups
from rlexp.loop.state import Experience, TrainState, take_replicas
from rlexp.loop.variant import Variant
from rlexp.models.policy import entropy, gather_log_probs

ROUNDING = 1e-6
QUARTERS = 4
EXTREMES = {"ratio/min": torch.amin, "ratio/max": torch.amax}  # of all updates of a step; of other metrics the mean
OF_SOME = ("distillation", "imitation", "positive_nll")  # terms of the loss that only some variants have
BOUNDED = "ratio/bounded"  # only in lines where it is not 0
POLICIES = ("log_probs", "old_log_probs", "sampler_log_probs", "ref_log_probs")

Row = dict[str, Tensor | Masked]


@torch.no_grad()
def metrics_of_rollout(
    state: TrainState, groups: Groups, reference: PerVocabulary | None, experience: Experience
) -> Row:
    """Return the tokens, completions and verdicts of a step and, with a ``reference``, the metrics of its rollout.

    They are those of the policy before it learns from it. ``reference`` are the log-probabilities of the whole
    vocabulary. Entropy, KL and advantages are of the tokens that the policy has written itself.
    """
    rollout, rewards, verdicts = groups.rollout, groups.rewards, groups.judged * state.verdicts
    row = {"tokens": groups.tokens, "completions": groups.completions, "verdicts": verdicts}
    if reference is None:
        return row
    policy = groups.policy.distributions(rollout.prompts, rollout.completions, state.temperature)
    policy = truncation.distributions(state.blocks, policy)
    own = rollout._replace(mask=response_mask(state.task, rollout.prompts, rollout.completions, rollout.mask))
    if groups.ages is not None:
        row |= age_metrics(groups, own.mask, gather_log_probs(policy, rollout.completions))
        row["data/age"] *= state.inner_steps * state.minibatches
    if state.temperature_final is not None:
        row["policy/temperature"] = Masked(state.temperature, state.temperature_final.isfinite())
    return (
        row
        | reward_metrics(rewards, experience.rewards)
        | group_metrics(rewards.total, state.bounds)
        | filter_metrics(groups, experience.mask)
        | advantage_metrics(experience.advantages, own.mask)
        | length_metrics(rollout.mask, rollout.finished, rewards.correct)
        | policy_metrics(policy, reference, own)
        | map_variants(penalty_metrics, state.blocks, state.memory)
        | judged_metrics(state, groups, reference)
    )


def penalty_metrics(variant: Variant, memory: Mapping[str, Tensor]) -> Row:
    """Weight of the KL penalty in this step, wherever it is placed."""
    return {"kl/coef": (variant.kl_in_loss + variant.kl_in_reward) * memory["kl_factor"]}


def metrics_of_update(
    blocks: Sequence[tuple[Variant, int]],
    losses: Row,
    log_probs: PerToken,
    part: Experience,
    tensors: Mapping[str, Tensor],
) -> Row:
    """Terms of the loss, ratios, clipping and mismatch of one update, then what only some variants have.

    That is NaN for the others, whose files do not have it (``of_others``).
    """
    names = sorted({name for variant, _ in blocks for name in variant.measures})

    def measured(variant: Variant, log_probs: PerToken, part: Experience, tensors: Mapping[str, Tensor]) -> Row:
        offered = {**part._asdict(), **tensors, **variant.bound(tensors["mean_tokens"]), "log_probs": log_probs}
        row = ratio_metrics(log_probs, part.old_log_probs, part.mask) | bounded_metrics(variant, offered)
        row |= clip_metrics(variant.clip, offered) | mismatch_metrics(variant.mismatch, offered)
        if twice := {*row, *terms}.intersection(names):
            raise RunFailed(f"metric={min(twice)}: there is one already; register it under another name")
        missing = torch.full_like(tensors["mean_tokens"], torch.nan)
        found = {name: call_with(measure, offered) for name, measure in variant.measures.items()}
        return row | {name: found.get(name, missing) for name in names}

    terms = {name: loss.detach() for name, loss in losses.items()}
    of_some = {f"{name}_loss": terms.pop(f"loss/{name}", None) for name in OF_SOME}
    tensors = {**tensors, **of_some}
    return terms | map_variants(measured, blocks, log_probs, part, tensors)


def of_others(blocks: Sequence[tuple[Variant, int]]) -> list[set[str]]:
    """Return for each replica the names of the metrics that only other variants of the batch have."""
    names = {name for variant, _ in blocks for name in variant.measures}
    return [names - variant.measures.keys() for variant, size in blocks for _ in range(size)]


def mean(values: Tensor, mask: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Mean over the entries that count, ``[R]``; NaN where none does."""
    values = values.to(torch.get_default_dtype())
    return (masked_sum(values, mask, dims) / count(mask, dims, values.dtype)).squeeze(dims)


def summary(name: str, values: Tensor, mask: Tensor) -> Row:
    """Mean and standard deviation (n − 1) over completions."""
    deviation = masked_std(values.where(mask, 0.0), mask, BATCH, 1).squeeze(BATCH)
    return {f"{name}/mean": mean(values, mask, BATCH), f"{name}/std": deviation}


def reward_metrics(rewards: Rewards, shaped: Tensor) -> Row:
    """Rewards in total (before shaping), after shaping, and by component; NaN entries do not count."""
    row = summary("reward", rewards.total, ~rewards.total.isnan())
    row["reward/shaped"] = mean(shaped, ~shaped.isnan(), BATCH)
    for name, values in rewards.components.items():
        row |= summary(f"reward/{name}", values, ~values.isnan())
    return row


def age_metrics(groups: Groups, mask: TokenMask, log_probs: PerToken) -> Row:
    """How old the tokens are and how far the policy, with ``log_probs`` of them, is from the one that drew them.

    Mean age over completions of their tokens' mean, and the largest; KL(μ‖π) in nats a token by w − 1 − log w, where
    w = π / μ; effective sample sizes as shares, mean(w)² / mean(w²), of tokens and, by products of w, of completions.
    """
    log_weights = (log_probs - groups.rollout.sampler_log_probs).where(mask, 0.0)
    written = mask.any(-1)
    row = {
        "data/age": mean(masked_mean(groups.ages, mask, TIME).squeeze(TIME), written, BATCH),
        "data/age_max": masked_extreme(groups.ages, mask, ALL, 1).squeeze(ALL),
        "data/drift": mean(log_weights.exp() - 1 - log_weights, mask & truncation.inside(log_weights), ALL),
        "data/ess_tokens": effective_share(log_weights, mask, ALL),
        "data/ess_completions": effective_share(masked_sum(log_weights, mask, TIME).squeeze(TIME), written, BATCH),
    }
    if groups.dropped is not None:
        row["data/dropped"] = groups.dropped.to(log_probs.dtype)
    if groups.replayed is not None:
        row["data/replayed"] = groups.replayed.to(log_probs.dtype)
    return row


def effective_share(log_weights: Tensor, mask: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Effective sample size over the number of samples, ``[R]``: mean(w)² / mean(w²) (Kish, 1965)."""
    largest = masked_extreme(log_weights, mask, dims, 1)  # which scales all weights alike
    weights = (log_weights - largest).exp()
    share = mean(weights, mask, dims).square() / mean(weights.square(), mask, dims)
    return share.clamp(max=1.0)  # where all weights are equal, rounding could say more


def group_metrics(rewards: Tensor, bounds: Tensor) -> Row:
    """Share of groups whose rewards are all equal, split by whether they are the worst, best or between: ``[2, R]``."""
    scored = ~rewards.isnan()
    constant = is_constant(rewards, scored, (-1,)).squeeze(-1)
    level = mean(rewards, scored, (-1,))
    worst, best = ((level - bound.unsqueeze(-1)).abs() < ROUNDING for bound in bounds)

    def of_groups(which: Tensor) -> Tensor:
        return which.to(rewards.dtype).mean(-1)

    return {
        "groups/zero_variance": of_groups(constant),
        "groups/all_worst": of_groups(constant & worst),
        "groups/all_best": of_groups(constant & best),
        "groups/zero_other": of_groups(constant & ~worst & ~best),
    }


def filter_metrics(groups: Groups, mask: Tensor) -> Row:
    """Rounds of sampling, groups sampled, kept by ``refill`` and used; share of the batch's tokens in the loss."""
    counts = {"rounds": groups.rounds, "sampled": groups.sampled, "passed": groups.passed, "used": groups.used}
    row = {f"filter/{name}": number.to(torch.get_default_dtype()) for name, number in counts.items()}
    return row | {"filter/tokens": mean(mask, groups.rollout.mask, ALL)}


def advantage_metrics(advantages: Tensor, mask: Tensor) -> Row:
    """Mean, deviation and extremes over all completions of a completion's mean advantage a token, ``[R P G T]``.

    The tokens of a completion have one advantage, unless the norm gives each its own.
    """
    advantages, there = mean(advantages, mask, (-1,)), mask.any(-1)
    row = summary("advantage", advantages, there)
    row["advantage/min"] = masked_extreme(advantages, there, BATCH, -1).squeeze(BATCH)
    row["advantage/max"] = masked_extreme(advantages, there, BATCH, 1).squeeze(BATCH)
    return row


def length_metrics(mask: Tensor, finished: Tensor, correct: Tensor) -> Row:
    """Mean tokens (the end token counts) of all completions, ended, right and wrong ones; share that was cut off."""
    lengths, there = mask.sum(-1), mask.any(-1)
    groups = {"mean": there, "finished": finished & there, "correct": correct & there, "wrong": ~correct & there}
    row = {f"length/{name}": mean(lengths, which, BATCH) for name, which in groups.items()}
    return row | {"length/truncated": mean(~finished, there, BATCH)}


def policy_metrics(distributions: Tensor, references: Tensor, rollout: Rollout) -> Row:
    """Entropy and KL(π‖π_ref) in nats a token, of the policy that sampled, over the states that it visited.

    ``distributions`` and ``references`` are the log-probabilities of the whole vocabulary ``[R, P, G, T, V]``: the
    exact KL sums over them, k1 and k3 (Schulman, 2020) estimate it from the sampled tokens.
    """
    tokens = rollout.completions.unsqueeze(-1)
    difference = (distributions - references).gather(-1, tokens).squeeze(-1)
    values = {
        "policy/entropy": entropy(distributions),
        "kl/ref_k1": difference,
        "kl/ref_k3": (-difference).exp() - 1 + difference,
        "kl/ref_exact": (distributions.exp() * (distributions - references)).sum(-1),
    }
    masks = dict.fromkeys(("kl/ref_k1", "kl/ref_k3"), rollout.mask & truncation.inside(difference))
    return {name: mean(value, masks.get(name, rollout.mask), ALL) for name, value in values.items()}


def ratio_metrics(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor) -> Row:
    """Importance ratio ρ over tokens, and KL(π_old‖π) estimated by ρ − 1 − log ρ."""
    log_ratio = (log_probs - old_log_probs).where(mask, 0.0)
    ratio = log_ratio.exp()
    return {
        "ratio/mean": mean(ratio, mask, ALL),
        "ratio/min": masked_extreme(ratio, mask, ALL, -1).squeeze(ALL),
        "ratio/max": masked_extreme(ratio, mask, ALL, 1).squeeze(ALL),
        "kl/old": mean(ratio - 1 - log_ratio, mask, ALL),
    }


def bounded_metrics(variant: Variant, offered: Mapping[str, Tensor]) -> Row:
    """Share of tokens with a log-ratio beyond the bound, of those between policies that a bounded choice asks for."""
    mask, limit = offered["mask"], offered["log_ratio_bound"][..., None, None, None]
    beyond = torch.zeros_like(mask)
    for choice in (variant.clip, variant.mismatch, *([variant.kl] if variant.penalized else [])):
        asked = required_inputs(choice)
        first, *others = [offered[name] for name in POLICIES if name in asked] if "log_ratio_bound" in asked else [None]
        for other in others:
            beyond |= (first - other).abs() > limit
    return {BOUNDED: mean(beyond, mask, ALL)}


def clip_metrics(clip: Callable, offered: Mapping[str, Tensor]) -> Row:
    """Share of tokens with an advantage whose policy gradient is exactly zero, at ratios below and above 1.

    Taken from the gradient of the loss itself, so that it holds for every variant without code of its own. The ratio is
    the token's, or that of the completion (the geometric mean) where it has one advantage and no token has a gradient.
    """
    old_log_probs, advantages, mask = offered["old_log_probs"], offered["advantages"], offered["mask"]
    with torch.enable_grad():
        log_probs = offered["log_probs"].detach().where(mask, old_log_probs).requires_grad_()
        losses = call_with(clip, {**offered, "log_probs": log_probs}).where(mask, 0.0)
        gradient = torch.autograd.grad(losses.sum(), log_probs)[0]
    stopped = (gradient == 0) & (advantages != 0)
    whole = (stopped | ~mask).all(-1, keepdim=True) & is_constant(advantages, mask, (-1,))
    log_ratio = log_probs.detach() - old_log_probs
    below = masked_mean(log_ratio, mask, (-1,)).where(whole, log_ratio) < 0
    return {"clip/low": mean(stopped & below, mask, ALL), "clip/high": mean(stopped & ~below, mask, ALL)}


def mismatch_metrics(mismatch: Callable, offered: Mapping[str, Tensor]) -> Row:
    """KL(π_sampler‖π_old) estimated by κ − 1 − log κ; mean weight that corrects for it, share of tokens of weight 0."""
    mask, old_log_probs = offered["mask"], offered["old_log_probs"]
    log_ratio = (old_log_probs - offered["sampler_log_probs"]).where(mask, 0.0)
    weights = call_with(mismatch, {**offered, "losses": torch.ones_like(old_log_probs)})
    return {
        "mismatch/kl": mean(log_ratio.exp() - 1 - log_ratio, mask, ALL),
        "mismatch/weight": mean(weights, mask, ALL),
        "mismatch/dropped": mean(weights == 0, mask, ALL),
    }


def over_updates(rows: Sequence[Row]) -> Row:
    """Join the rows of a step's updates: extremes of extremes, means of the rest; nothing where there are none."""
    stacked = {name: torch.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return {name: EXTREMES.get(name, torch.mean)(values, 0) for name, values in stacked.items()}


def written(row: Mapping[str, float | None]) -> dict[str, float]:
    """Return the numbers of a run that its line has: not those of other runs, nor a share of bounded tokens of 0."""
    return {name: value for name, value in row.items() if value is not None and (name != BOUNDED or value > 0)}


@torch.no_grad()
def judged_metrics(state: TrainState, groups: Groups, reference: PerVocabulary) -> Row:
    """Return what is logged of a rollout beside the rest; nothing if the task judges all runs.

    ``kl/quarter_…`` is ``kl/ref_k3`` over the tokens of each quarter of the places that a completion can have, NaN
    where none is. Source: the divergence of aligned models is that of their first tokens (arXiv 2406.05946, §2.2).
    ``judge/disagreement`` is the mean over completions of the deviation (n − 1) over the reward models.
    """
    if not state.judged_at_all:
        return {}
    rewards, rollout = groups.rewards, groups.rollout
    row = summary("gold", rewards.gold, ~rewards.gold.isnan())
    row["gold/agreement"] = agreement(rewards.total, rewards.gold)
    own = response_mask(state.task, rollout.prompts, rollout.completions, rollout.mask)
    difference = rollout.old_log_probs - gather_log_probs(reference, rollout.completions)
    estimates = (-difference).exp() - 1 + difference
    places = torch.arange(estimates.shape[-1], device=estimates.device) * QUARTERS // estimates.shape[-1]
    for number in range(QUARTERS):
        row[f"kl/quarter_{number + 1}"] = mean(estimates, own & (places == number), ALL)
    bigrams, there = repeated_bigrams(rollout.completions, rollout.mask)
    row["repetition/bigrams"] = mean(bigrams, there, BATCH)
    if len(state.judges) > 1:
        said = [judge(rollout.prompts, rollout.completions, rollout.mask) for judge in state.judges]
        deviations = moments(torch.stack(said, -1))[1]
        row["judge/disagreement"] = mean(deviations, rollout.there, BATCH)
    return of_judged(state, row)


def repeated_bigrams(completions: Completions, mask: TokenMask) -> tuple[PerCompletion, CompletionMask]:
    """1 − different / all pairs of neighbouring tokens of a completion, ``[R P G]``, and which completions have any.

    Source: seq-rep-n of unlikelihood training (arXiv 1908.04319, §6), with n = 2.
    """
    left, right, there = completions[..., :-1], completions[..., 1:], mask[..., 1:]
    same = (left.unsqueeze(-1) == left.unsqueeze(-2)) & (right.unsqueeze(-1) == right.unsqueeze(-2))
    before = torch.ones(left.shape[-1], left.shape[-1], dtype=torch.bool, device=mask.device).tril(-1)
    repeated = (same & before & there.unsqueeze(-1)).any(-1).sum(-1)  # what counts stands before what does not
    number = there.sum(-1)
    return repeated / number.clamp(min=1), number > 0


@torch.no_grad()
def win_rate(state: TrainState, questions: Prompts, gold: PerCompletion) -> Tensor:
    """Share of pairs of a sample of the policy and one of the reference, of the same prompt, that the first one wins.

    By gold ``[R P G]``, ties half; the samples of the reference are always those of the same random numbers. For runs
    that are judged; NaN for the others. Source: win rates against the start policy, as of InstructGPT (arXiv
    2203.02155).
    """
    judged = state.judged.nonzero().squeeze(-1)
    noise = state.uniforms(Purpose.EVALUATION_REFERENCE, 0, *gold.shape[1:], state.task.cap)
    reference = take_replicas(state.reference, judged)
    samples = sample(reference, state.task, questions[judged], noise[judged], state.temperature[judged])
    theirs = score_with(state.task, samples).total
    gap = gold[judged].unsqueeze(-1) - theirs.unsqueeze(-2)
    wins = (gap > 0).to(gold.dtype) + 0.5 * (gap == 0)
    return torch.full_like(gold[:, 0, 0], torch.nan).index_copy(0, judged, mean(wins, ~gap.isnan(), ALL))


def of_judged(state: TrainState, row: Row) -> Row:
    """Return numbers that only runs have that somebody else than the task judges."""
    return {name: Masked(values, state.judged) for name, values in row.items()}


def agreement(rewards: Tensor, gold: Tensor) -> Tensor:
    """Share of the pairs of a group with different gold that the rewards order so, ``[R P G] -> [R]``.

    Equal rewards count half; NaN where no pair differs. Source: the accuracy of a reward model on pairs.
    """
    of_gold, of_rewards = (each.unsqueeze(-1) - each.unsqueeze(-2) for each in (gold, rewards))
    differs = of_gold > 0  # each pair once, none with a NaN
    right = (of_rewards > 0).to(rewards.dtype) + 0.5 * (of_rewards == 0)
    number = sum_keepdim(differs.to(rewards.dtype), ALL)
    return (sum_keepdim(right.where(differs, 0.0), ALL) / number).squeeze(ALL)
