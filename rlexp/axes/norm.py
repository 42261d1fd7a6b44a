"""Rewards to advantages: ``norm(rewards, keep, …, *, …)``, ``[*R P G]``, or ``[*R P G T]`` where tokens differ.

``keep`` says which completions enter the statistics; what a function returns for the others is not used
(``loop.step.compute_advantages`` gives them advantage 0). ``rewards`` are those after shaping and KL in the reward. A
norm that needs the parts asks for ``outcomes`` and ``token_penalties`` instead, never beside: rewards = outcomes − Σ_t
token_penalties.

Shared rule of all that center: a group (for ``global`` and ``center_batch``: a batch) of equal rewards, a group of one
included, gives exactly zero. ``ddof`` is the divisor correction of the deviation: 1 as in ``torch.std``, TRL, verl,
OpenRLHF; 0 as in open-instruct. ``eps`` is added to the deviation.

Equal is equal to the last bit. A tolerance would need a scale, which the rewards of a group do not have (slime and ROLL
take 1e-6 whatever they are); differences far below ``eps`` vanish, as in TRL, verl and OpenRLHF. With KL in the reward
the rewards of a group are hardly ever equal: where the outcomes are, the deviation of the group is that of the
penalties.

Those that ask for ``correct``, 1 where the task's verifier says so, else 0, do not see rewards, and so neither shaping
nor KL in the reward. ``asymre`` moves its baseline away from the mean, and equal rewards away from zero with it.
``rwr`` and ``best_of_n`` are weights from 0 up of what is imitated, not centered: they are meant for ``clip=naive``,
whose loss is then a weighted cross-entropy on completions of the policy's own, or of whoever wrote them (``data``). To
imitate all that is correct is ``norm=psr``.

**Norms of tokens** give every token an advantage of its own, from the reward that is still to come. Those without a
critic take the reward in its two parts: ``outcomes`` ``[*R P G]``, given at the last token, and ``token_penalties``
``[*R P G T]``, KL in the reward where it is due (0 without it). Advantages outside ``mask`` are not used. What a task
pays for single tokens reaches the norms with a critic; in the others the outcome is due as a whole. Time is counted in
tokens of ``mask``: where others stand between them, as an environment's do, no reward is discounted by these, and what
follows a token is the next one that counts. Source: verl ``compute_gae_advantage_return``, which skips values and
errors of such tokens; its ``reinforce_plus_plus`` forgets there what is still to come.

**With a critic** the baseline is learned: what ``critic=value`` expects before each token, and after the last. With the
policy that samples, γ and the reward r_t of each token, CS336 lecture 17 and Sutton and Barto (2018, ch. 3)
define V(s_t) = E[Σ_{k ≥ t} γ^(k − t) r_k | s_t], s_t the prompt and the tokens before t, Q(s_t, a_t) the same with
token t given, and A = Q − V. ``values`` are the critic's V; these functions estimate Q by what was sampled.
``token_rewards`` are the rewards where they are due. A completion that has ended has nothing to come. One that was cut
off at the cap is worth ``bootstrap`` times the value after its last token: 0 takes the cap for an end, as verl,
OpenRLHF and TRL do and as is right where the verifier does so; 1 takes it for a limit of time that the task does not
have (Pardo et al., arXiv 1712.00378). No reward ever follows that last place, so that the critic learns of it only from
places before it. ``TARGETS`` has for each norm what its critic is trained to: A + V before whitening, held fixed.

**With a memory** the statistics are those of the whole run: ``MEMORIES`` says how what is remembered goes on.
"""

from __future__ import annotations

from math import inf

from pydantic import FiniteFloat
from torch import Tensor, arange, eye, full_like, ones_like, stack
from torch.nn.functional import pad

from rlexp.axes.offered import KEEP, KNOWN, SAMPLED, SHAPED, VALUES
from rlexp.core.exact import sum_keepdim
from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    ALL,
    BATCH,
    GROUP,
    TIME,
    at_last_token,
    centered,
    count,
    is_constant,
    last_token,
    masked_extreme,
    masked_mean,
    masked_std,
    masked_sum,
    sums_by_prompt,
)
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Discount,
    FiniteNonNegative,
    Level,
    PerCompletion,
    PerComponent,
    PerKnownPrompt,
    PerPlaceOfCompletion,
    PerPrompt,
    PerReplica,
    PerToken,
    Positive,
    PositiveInt,
    PromptNumbers,
    Remembered,
    Size,
    TokenMask,
    Weights,
)

SAME_STEP = (-2,)
SMALLEST_ENERGY = 1e-12


@NormFacts(laws=("linear",))
def none(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r: plain REINFORCE without a baseline (Williams, 1992)."""
    return rewards


@NormFacts(compares="group", laws=("linear", "zero sum"))
def center(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_group.

    Source: Dr. GRPO (arXiv 2503.20783). TRL ``scale_rewards="none"``, verl ``norm_adv_by_std_in_grpo=False``,
    open-instruct ``centered``. Peers disagree on a group of one: verl returns r, the others 0 or refuse; here 0.
    """
    return centered(rewards, keep, GROUP)


@NormFacts(compares="batch", laws=("linear", "zero batch sum"))
def center_batch(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean_batch: one baseline for all prompts of the step.

    Source: ROLL ``norm_mean_type=batch, norm_std_type=None``.
    """
    return centered(rewards, keep, BATCH)


@NormFacts(compares="group", laws=("scale", "zero sum"))
def local(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_group + eps).

    Source: GRPO (arXiv 2402.03300, §4.1.2). TRL ``scale_rewards="group"`` (eps 1e-4), verl ``grpo`` (1e-6),
    OpenRLHF ``group_norm`` (1e-9); all ddof 1, open-instruct ``standard`` ddof 0 (1e-8).
    """
    return centered(rewards, keep, GROUP) / (masked_std(rewards, keep, GROUP, ddof) + eps)


@NormFacts(compares="batch", laws=("scale", "zero batch sum"))
def global_(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_batch + eps), statistics over all completions of the run's step.

    Source: REINFORCE with whitened returns; ROLL ``norm_mean_type=batch, norm_std_type=batch``.
    """
    return centered(rewards, keep, BATCH) / (masked_std(rewards, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("group shift",))
def hybrid(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the raw rewards of the batch.

    Source: Lite PPO (arXiv 2508.08221). TRL ``scale_rewards="batch"`` and ROLL mean=group, std=batch use raw
    rewards as here; REINFORCE++-baseline (arXiv 2501.03262) takes the deviation of the centered ones.
    """
    return centered(rewards, keep, GROUP) / (masked_std(rewards, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero sum"))
def hybrid_centered(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_group) / (std_batch + eps), the deviation over the centered rewards of the batch.

    Source: ROLL ``group_reward_norm(div_std_global=True)``; REINFORCE++-baseline (arXiv 2501.03262) without weights by
    length. The difficulty of the prompts does not enter the scale, as it does in ``hybrid``. Up to eps it is also
    TRL's ``RLOOTrainer(normalize_advantages=True)``.
    """
    deviations = centered(rewards, keep, GROUP)
    return deviations / (masked_std(deviations, keep, BATCH, ddof) + eps)


@NormFacts(compares="group", laws=("scale",), breaks=("group shift", "faint"))
def batch_mean_group_std(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − mean_batch) / (std_group + eps).

    Source: ROLL ``norm_mean_type=batch, norm_std_type=group``, whose shapes do not fit in the version read. Without the
    rule on equal rewards such a group would have advantages of order 1 / eps, and so it has if its rewards differ by as
    little: with KL in the reward, of order 1 / ``kl.coef``.
    """
    advantages = centered(rewards, keep, BATCH) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(compares="group", laws=("linear", "zero sum"))
def rloo(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r − mean of the other completions of the group = n/(n − 1) · (r − mean_group).

    Source: RLOO (arXiv 2402.14740). TRL ``RLOOTrainer``, verl ``rloo``, OpenRLHF ``rloo``.
    """
    kept = count(keep, GROUP, rewards.dtype)
    return centered(rewards, keep, GROUP) * kept / (kept - 1).clamp(min=1)


@NormFacts(compares="group")
def rloo_zscore(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive) -> PerCompletion:
    """A = (r − mean of the others) / (std of the others + eps), ddof 1; where the others are all equal, r − their mean.

    So the only right answer of a group has A = 1 and the only wrong one −1, whatever n: less than with ``local``, where
    they have nearly √(n − 1). Source: NeMo-RL 7ea279a, the default of its GRPO (``GRPOAdvantageEstimator`` with
    ``use_leave_one_out_baseline`` and ``normalize_rewards``), eps 1e-6.
    """
    others = keep.unsqueeze(-2) & ~eye(keep.shape[-1], dtype=keep.dtype, device=keep.device)
    theirs, advantages = rewards.unsqueeze(-2).expand(others.shape), rloo(rewards, keep)
    scaled = advantages / (masked_std(theirs, others, GROUP, 1).squeeze(-1) + eps)
    return advantages.where(is_constant(theirs, others, GROUP).squeeze(-1), scaled)


@NormFacts(compares="group", laws=("linear",))
def opo(rewards: PerCompletion, keep: CompletionMask, lengths: PerCompletion) -> PerCompletion:
    """A = r − Σ length · r / Σ length over the group: the baseline of least variance if every token adds the same.

    Source: OPO (arXiv 2505.23585); verl ``opo``.
    """
    return minus_weighted_mean(rewards, lengths, keep)


@NormFacts(compares="group", laws=("linear",))
def optimal(
    rewards: PerCompletion, keep: CompletionMask, mask: TokenMask, old_log_probs: PerToken, sum_pi_squared: PerToken
) -> PerCompletion:
    """A = r − Σ W r / Σ W over the group, W = Σ_t (1 − 2π_t + Σ_v π_t(v)²): ``opo`` with gradients for lengths.

    W is the squared norm of the gradient of a completion's log π in the logits. Source: the optimal constant baseline
    E[‖∇ log π‖² r] / E[‖∇ log π‖²] (Weaver and Tao, 2001); ``optimal_token`` has one for each step. CS336 lecture 17
    (2025) has ∇π for ∇ log π, which is not optimal.
    """
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).sum(-1)
    return minus_weighted_mean(rewards, energy, keep)


def minus_weighted_mean(rewards: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
    """r − Σ weight · r / Σ weight over the group, exactly zero where all are equal."""
    baseline = masked_sum(weights * rewards, keep, GROUP) / masked_sum(weights, keep, GROUP)
    return (rewards - baseline).masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(laws=("linear",))
def remax(rewards: PerCompletion, greedy_rewards: PerPrompt) -> PerCompletion:
    """A = r − reward of the policy's greedy completion of the same prompt, ``[*R P 1]``.

    Source: ReMax (arXiv 2310.10505); verl ``remax``. The greedy reward is the task's, before shaping and KL: whatever
    depends on the prompt alone leaves the expected gradient as it is. verl's includes what its reward function shapes.
    KL in the reward is taken off the whole completion here; in verl a token bears that of itself and of what follows.
    It costs a completion a prompt, which ``progress/tokens`` does not count.
    """
    return rewards - greedy_rewards


def a2po(rewards: PerCompletion, reference_rewards: PerCompletion, *, beta: Positive) -> PerCompletion:
    """A = r − V*, V* = beta · log(mean_j exp(r_j / beta)) over completions of the same prompt by the reference.

    V* is what the best policy expects of a prompt less beta · KL to the reference, up to the error of a mean of few:
    exp(V* / beta) has none on average. Beta to 0 makes it the largest of these rewards, without end their mean. Source:
    A*-PO (arXiv 2505.20686, stage 1), with 0.5 and 8 completions; its code, ZhaolinGao/A-PO c8823a3
    (``rl_dataset.py``), and TRL's ``A2POTrainer``. There V* of a prompt is estimated once, before training; here anew
    in each step that has the prompt, of as many completions as the group has, which ``progress/tokens`` does not count.
    Their rewards are those of who judges the run, before shaping and KL. TRL also drops prompts whose completions by
    the reference are all wrong.
    """
    powers = reference_rewards / beta
    largest = powers.amax(-1, keepdim=True)
    mean = sum_keepdim((powers - largest).exp(), GROUP) / powers.shape[-1]
    return rewards - beta * (largest + mean.log())


@NormFacts(compares="group", laws=("scale",))
def quantile(rewards: PerCompletion, keep: CompletionMask, *, level: Level, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − Q) / (std_group + eps), Q the smallest reward that a share ``level`` of the group does not exceed.

    Source: quantile advantage estimation (arXiv 2509.22611), level 0.4. For 0/1 rewards with success rate p it only
    reinforces what is right where p ≤ 1 − level, and only punishes what is wrong elsewhere: most advantages are 0.
    ``level`` 0.5 is the median. The deviation stays the standard one: the median absolute deviation is 0 as soon as
    more than half of a group agrees, which 0/1 rewards nearly always do.
    """
    others = rewards.unsqueeze(-2)
    not_above = ((others <= rewards.unsqueeze(-1)) & keep.unsqueeze(-2)).sum(-1)
    enough = not_above.double() >= level * keep.sum(-1, keepdim=True).double()
    threshold = masked_extreme(rewards, keep & enough, GROUP, -1)
    advantages = (rewards - threshold) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(compares="group", laws=("linear", "zero sum"))
def gpg(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = α · (r − mean_group), α = completions / completions of groups whose rewards differ.

    Source: GPG (arXiv 2504.02546), where groups without a gradient are taken out of the denominator. verl ``gpg``
    divides by the number of completions with a reward other than 0 instead, which is another number.
    """
    varied = keep & ~is_constant(rewards, keep, GROUP)
    alpha = count(keep, BATCH, rewards.dtype) / count(varied, BATCH, rewards.dtype).clamp(min=1)
    return alpha * centered(rewards, keep, GROUP)


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("shift", "group shift"))
def maxrl(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = (r − mean_group) / mean_group, 0 where the mean is not positive; for rewards ≥ 0.

    Source: MaxRL (arXiv 2602.02710), whose expected update on 0/1 rewards tends to that of log p, a weight of 1/p;
    prime-rl ``max_rl``.
    """
    mean = masked_mean(rewards, keep, GROUP)
    return (centered(rewards, keep, GROUP) / mean).where(mean > 0, 0.0)


@NormFacts(laws=("group shift",))
def asymre(rewards: PerCompletion, keep: CompletionMask, *, shift: FiniteFloat) -> PerCompletion:
    """A = r − (mean_group + shift): with a shift below 0 what is good counts for more than what is bad.

    On old data a baseline is no longer free: with one below the mean reward of the policy that sampled the policy
    improves, with one above it can collapse. Equal rewards have the advantage −shift. Source: AsymRE (arXiv
    2506.20520), A = r − V with a V a little below the mean; no code of it was found.
    """
    return centered(rewards, keep, GROUP) - shift


@NormFacts(compares="batch")
def shrinkage(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive) -> PerCompletion:
    """A = r − (1 − λ) · mean of the others in the group − λ · mean of the other groups' means.

    λ = v / (v + s + eps), both of the other groups alone: v the mean over them of var / n, the error of a group's mean
    of n completions (divisor n − 1), s the variance of their means (divisor: how many they are). So the less a group's
    own mean is worth, the more the others count, and no completion has a part in its own baseline. Source: shrinkage
    baselines (arXiv 2511.03710), from the authors' own code, JSPO-Official ``jspo`` (November 2025), eps 1e-6; its
    ``jspo_plus_plus`` takes λ from all groups and smooths it over steps. There all groups have n completions. Here,
    where some do not count, a group without any is none, one of a single completion has no v and, for itself, λ = 1.
    A batch of one group is that of ``rloo``.
    """
    number, means = count(keep, GROUP, rewards.dtype), masked_mean(rewards, keep, GROUP)
    deviations = centered(rewards, keep, GROUP)
    more = (number - 1).clamp(min=1)
    errors = masked_sum(deviations.square(), keep, GROUP) / (more * number.clamp(min=1))
    apart = ~eye(rewards.shape[-2], dtype=keep.dtype, device=rewards.device)
    others, measured = apart & (number > 0).mT, apart & (number > 1).mT
    across = masked_mean(means.mT, others, GROUP)
    within, between = masked_mean(errors.mT, measured, GROUP), masked_mean((means.mT - across).square(), others, GROUP)
    share = (within / (within + between + eps)).masked_fill(number < 2, 1.0).where(others.any(-1, keepdim=True), 0.0)
    return (1 - share) * deviations * number / more + share * (rewards - across)


@NormFacts(compares="group", laws=("zero sum",), breaks=("equal group",))
def gdpo(
    components: PerComponent,
    weights: Weights,
    adjustments: PerCompletion,
    keep: CompletionMask,
    *,
    eps: Positive,
    ddof: Ddof,
) -> PerCompletion:
    """Sum weight · z-score of each reward component in its group, then a z-score of the sum over the batch.

    ``components`` that do not apply are NaN and left out. ``adjustments``, what shaping and KL in the reward have
    changed, is one more component of weight 1. Source: GDPO (arXiv 2601.05242); TRL ``normalize_then_sum``; verl
    ``gdpo`` ends with a whitening over tokens.
    """
    total = local(adjustments, keep, eps=eps, ddof=ddof)
    for values, weight in zip(components.unbind(-1), weights.unbind(-1), strict=True):
        applies = keep & ~values.isnan()
        scores = local(values.where(applies, 0.0), applies, eps=eps, ddof=ddof)
        total = total + weight[..., None, None] * scores.where(applies, 0.0)
    return global_(total, keep, eps=eps, ddof=ddof)


def max_(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r where r is the group's largest reward, else 0; not centered.

    Source: CS336 lecture 17, ``compute_deltas(mode="max_rewards")``.
    """
    return rewards.where(rewards == masked_extreme(rewards, keep, GROUP, 1), 0.0)


@NormFacts(compares="group", laws=("scale",))
def grpo_passk(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r_best − r_second) / (std_group + eps) for the one best completion, 0 for all others and on a tie.

    It is the leave-one-out advantage of the largest reward of the group. Source: arXiv 2503.19595; verl ``grpo_passk``
    (eps 1e-6, ddof 1), which refuses a group of one; here it has 0.
    """
    top = masked_extreme(rewards, keep, GROUP, 1)
    best = (rewards == top) & keep
    second = masked_extreme(rewards, keep & ~best, GROUP, 1)
    alone = best & (best.sum(-1, keepdim=True) == 1) & second.isfinite()
    return ((top - second) / (masked_std(rewards, keep, GROUP, ddof) + eps)).where(alone, 0.0)


@NormFacts(compares="group")
def pass_at_k(correct: PerCompletion, keep: CompletionMask, *, k: PositiveInt) -> PerCompletion:
    """Mean of (pass − p) / √(p (1 − p)) over all sets of k completions of the group that hold this one.

    pass is 1 if one of the set is correct, p its mean over all sets of k. In closed form p = 1 − C(w, k) / C(n, k) with
    w of n wrong, A = (1 − p) / σ where right and (1 − p − C(w − 1, k − 1) / C(n − 1, k − 1)) / σ where wrong.
    Source: pass@k training with analytical derivation (arXiv 2508.10751). 0 where p is 0 or 1, and in a group of fewer
    than k.
    """
    right = correct > 0
    total = count(keep, GROUP, correct.dtype)
    wrong = count(keep & ~right, GROUP, correct.dtype)
    fail = binomial_ratio(wrong, total, k)
    all_wrong = binomial_ratio(wrong - 1, total - 1, k - 1)
    deviation = (fail * (1 - fail)).sqrt()
    advantages = fail.where(right, fail - all_wrong) / deviation
    return advantages.where((deviation > 0) & (total >= k), 0.0)


def binomial_ratio(part: Tensor, whole: Tensor, k: int) -> Tensor:
    """C(part, k) / C(whole, k), 0 where part < k."""
    ratio = ones_like(whole)
    for i in range(k):
        ratio = ratio * (part - i).clamp(min=0) / (whole - i).clamp(min=1)
    return ratio


def w_reinforce(correct: PerCompletion, *, positive: FiniteNonNegative, negative: FiniteNonNegative) -> PerCompletion:
    """A = positive where the completion is correct, else −negative.

    Source: arXiv 2506.01347: learning from what is right only (PSR: 1, 0), from what is wrong only (NSR: 0, 1), and
    weighted REINFORCE (0.1, 1).
    """
    return full_like(correct, positive).where(correct > 0, -negative)


@NormFacts(laws=("group shift", "scale"))
def rwr(
    rewards: PerCompletion, keep: CompletionMask, *, beta: Positive, share: Level, eps: Positive, ddof: Ddof
) -> PerCompletion:
    """A = exp(z / beta) / Σ exp(z / beta) over the ``share`` of the group with the largest rewards, else 0.

    z is ``local``, so that beta has no unit. The share is max(1, ⌊share · n⌋) of n completions, and whatever has the
    same reward as the last of them. Source: reward-weighted regression (Peters and Schaal, 2007, with raw rewards).
    ``RewardWeightedRegression`` of a textbook chapter (S4 in docs/coverage.md) can take a share of 0 of n, an error.
    """
    scores = local(rewards, keep, eps=eps, ddof=ddof)
    most = (share * count(keep, GROUP, rewards.dtype) + 1e-6).floor().clamp(min=1).long()  # .1 · 30 is below 3
    last = rewards.where(keep, -inf).sort(-1, descending=True).values.gather(-1, most - 1)
    chosen = keep & (rewards >= last)
    powers = ((scores - masked_extreme(scores, keep, GROUP, 1)) / beta).where(chosen, -inf).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1)  # the largest is 1, unless there is none


@NormFacts(laws=("group shift", "scale"))
def best_of_n(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = 1 for the group's largest reward, else 0; n of them that are equal have 1/n each.

    That is what one of them, drawn at random, has on average. Source: fine-tuning on the best of n samples (Stiennon
    et al., arXiv 2009.01325, has best of n; RAFT, arXiv 2304.06767, trains on it).
    """
    best = (keep & (rewards == masked_extreme(rewards, keep, GROUP, 1))).to(rewards.dtype)
    return best / best.sum(-1, keepdim=True).clamp(min=1)


@NormFacts(laws=("linear",))
def reinforce(outcomes: PerCompletion, token_penalties: PerToken, mask: TokenMask, *, gamma: Discount) -> PerToken:
    """A_t = G_t = Σ_{k ≥ t} gamma^(k − t) · r_k, r_k the token rewards.

    Source: REINFORCE (Williams, 1992) with reward to go; ROLL ``reinforce``. OpenRLHF's ``reinforce`` whitens it, which
    is ``reinforce_pp``. With gamma = 1 and no penalty it is ``norm=none``.
    """
    return returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, gamma)


@NormFacts(compares="tokens", laws=("scale", "zero token sum"))
def reinforce_pp(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    gamma: Discount,
    eps: Positive,
    ddof: Ddof,
) -> PerToken:
    """A_t = (G_t − mean) / (std + eps) with G_t as in ``reinforce``, statistics over all tokens of the batch.

    Source: REINFORCE++ (arXiv 2501.03262). verl ``reinforce_plus_plus`` (ddof 1) divides by √(var + 1e-8), OpenRLHF
    ``reinforce`` (ddof 0) by √max(var, 1e-8); slime whitens only on demand. Long completions weigh more in the
    statistics.
    """
    counted = mask & keep.unsqueeze(-1)
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, gamma)
    return centered(returns, counted, ALL) / (masked_std(returns, counted, ALL, ddof) + eps)


@NormFacts(compares="group", laws=("scale", "zero token sum"), breaks=("equal group",))
def reinforce_pp_baseline(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    gamma: Discount,
    eps: Positive,
    ddof: Ddof,
) -> PerToken:
    """``reinforce_pp`` of outcomes minus their group mean; the penalty enters after the mean, as reward to go.

    Source: REINFORCE++-baseline (arXiv 2501.03262); the order of OpenRLHF ``reinforce_baseline``, where gamma is always
    1. verl takes the penalty into the group mean, and each token bears that of its whole completion; slime subtracts
    each token's own without summing what follows. Without a penalty and with gamma = 1 they agree.
    """
    return reinforce_pp(centered(outcomes, keep, GROUP), token_penalties, mask, keep, gamma=gamma, eps=eps, ddof=ddof)


@NormFacts(compares="group", laws=("linear",))
def optimal_token(
    outcomes: PerCompletion,
    token_penalties: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    old_log_probs: PerToken,
    sum_pi_squared: PerToken,
) -> PerToken:
    """A_t = G_t − B_t with B_t = Σ_g G_t W_t / Σ_g W_t over the group's completions that reach step t.

    W_t = Σ_{j ≤ t} (1 − 2π_j + Σ_v π_j(v)²) is the squared norm of the gradient in the logits up to t: B_t is the
    baseline of least variance if nothing else differs. Source: verl ``optimal_token_baseline``, which adds 1e-8 to
    Σ_g W_t and can leave out the baseline where only one completion is left (``handle_zero_tail``); here such tokens
    have A = 0.
    """
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), mask, 1.0)
    counted = mask & keep.unsqueeze(-1)
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).cumsum(-1)
    baseline = masked_sum(energy * returns, counted, SAME_STEP) / masked_sum(energy, counted, SAME_STEP)
    return (returns - baseline).masked_fill(is_constant(returns, counted, SAME_STEP), 0.0)


def token_rewards(outcomes: Tensor, token_penalties: Tensor, mask: Tensor) -> Tensor:
    """Outcome at the last token that counts, minus the penalty at each: ``[*R P G T]``."""
    return at_last_token(outcomes, mask) - token_penalties


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float | Tensor) -> Tensor:
    """Σ_{k ≥ t} gamma^n · r_k along time, n the tokens from t to before k that count; gamma may differ by completion.

    A tensor of them is ``[*R P G 1]``.
    """
    total, sums = 0.0, []
    factors = (gamma * ones_like(rewards)).where(mask, 1.0)
    for reward, factor in zip(reversed(rewards.unbind(-1)), reversed(factors.unbind(-1)), strict=True):
        total = reward + factor * total
        sums.append(total)
    return stack(sums[::-1], -1)


def gradient_energy(old_log_probs: Tensor, sum_pi_squared: Tensor, mask: Tensor) -> Tensor:
    """‖∂ log π / ∂ logits‖² = 1 − 2π + Σ_v π(v)² of each token, at temperature 1; 0 outside the mask.

    At least ``SMALLEST_ENERGY``, as far below what float32 resolves: where the policy is certain, rounding would decide
    about the weights and even their sign; so all weigh the same.
    """
    return (1 - 2 * old_log_probs.exp() + sum_pi_squared).clamp(min=SMALLEST_ENERGY).where(mask, 0.0)


@NormFacts(laws=("linear",))
def gae(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    *,
    gamma: Discount,
    lam: Discount,
    bootstrap: Discount,
) -> PerToken:
    """A_t = Σ_{k ≥ t} (gamma · lam)^(k − t) · δ_k with δ_k = r_k + gamma · V_{k + 1} − V_k.

    Source: generalized advantage estimation (arXiv 1506.02438, eq. 16). With lam = 1 it is the return minus V_t, with
    lam = 0 the error of one step. What verl, OpenRLHF, TRL's PPO and ROLL use is whitened: ``gae_whitened``.
    """
    return returns_to_go(td_errors(token_rewards, values, mask, finished, gamma, bootstrap), mask, gamma * lam)


def td_errors(
    token_rewards: Tensor, values: Tensor, mask: Tensor, finished: Tensor, gamma: float, bootstrap: float
) -> Tensor:
    """Return δ_t = r_t + gamma · V_{t + 1} − V_t, ``[*R P G T]``, V_{t + 1} that before the next token that counts."""
    last, following = last_token(mask), values.gather(-1, next_places(mask))
    following = (bootstrap * following.where(~finished.unsqueeze(-1), 0.0)).where(last, following)
    return (token_rewards + gamma * following - values[..., :-1]).where(mask, 0.0)


def next_places(mask: Tensor) -> Tensor:
    """Return the place of the next token that counts, behind each token; the next place of all where none does."""
    places, end = arange(mask.shape[-1], device=mask.device), mask.shape[-1]
    counted = pad(places.where(mask, end)[..., 1:], (0, 1), value=end)
    following = counted.flip(-1).cummin(-1).values.flip(-1)
    return following.where(following < end, places + 1)


@NormFacts(laws=("scale", "zero token sum"))
def gae_whitened(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    keep: CompletionMask,
    *,
    gamma: Discount,
    lam: Discount,
    bootstrap: Discount,
    eps: Positive,
    ddof: Ddof,
) -> PerToken:
    """(A_t − mean) / (std + eps) with A_t as in ``gae``, statistics over all tokens of the batch.

    Source: "The 37 implementation details of PPO" (2022), detail 7, by minibatch there; verl ``gae`` (ddof 1) and
    OpenRLHF ``gae`` (ddof 0) whiten the batch as here and divide by √(var + 1e-8) and √max(var, 1e-8), TRL ``whiten``
    by √(var + 1e-8) (ddof 1).
    """
    counted = mask & keep.unsqueeze(-1)
    advantages = gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap)
    return centered(advantages, counted, ALL) / (masked_std(advantages, counted, ALL, ddof) + eps)


@NormFacts(laws=("linear",))
def gae_decoupled(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    *,
    gamma: Discount,
    lam: Discount,
    lam_value: Discount,
    bootstrap: Discount,
) -> PerToken:
    """``gae``, whose critic is trained to the λ-return of another λ, ``lam_value``: with 1 to the return itself.

    So a reward reaches the values of the first tokens undiminished, however long the completion is. Source:
    decoupled GAE (VC-PPO, arXiv 2503.01491: ``lam`` 0.95, ``lam_value`` 1); NeMo-RL ``gae_lambda_policy`` and
    ``gae_lambda_value`` (7ea279a, ``advantage_estimator.py``). To whiten it: ``whiten_advantages``.
    """
    return gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap)


@NormFacts(laws=("linear",))
def gae_length_adaptive(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    *,
    gamma: Discount,
    alpha: Positive,
    lam_value: Discount,
    bootstrap: Discount,
) -> PerToken:
    """``gae_decoupled`` with λ = 1 − 1 / max(alpha · l, 1), l the tokens of the completion: long ones look further.

    The weights λ^k of the errors to come add up to about alpha · l. Completions of at most 1 / alpha tokens have λ = 0,
    the error of one step. λ depends on the tokens still to come: unlike ``gae`` it is not unbiased where the values are
    exact. Source: length-adaptive GAE (VAPO, arXiv 2504.05118: alpha 0.05, ``lam_value`` 1);
    NeMo-RL ``length_adaptive_alpha`` (7ea279a, ``advantage_estimator.py``), which has the bound at λ = 0, of which the
    paper says nothing.
    """
    lengths = count(mask, TIME, values.dtype)
    lam = 1 - 1 / (alpha * lengths).clamp(min=1)
    return returns_to_go(td_errors(token_rewards, values, mask, finished, gamma, bootstrap), mask, gamma * lam)


@NormFacts(laws=("linear",))
def value_baseline(
    token_rewards: PerToken, values: PerPlaceOfCompletion, mask: TokenMask, *, gamma: Discount
) -> PerToken:
    """A_t = G_t − V_t, G_t = Σ_{k ≥ t} gamma^(k − t) · r_k the reward to go.

    Source: REINFORCE with a learned baseline (Williams, 1992; Sutton and Barto, 2018, §13.4). It is ``gae`` with lam =
    1 where every completion has ended. A moving average as baseline is ``ema``.
    """
    return rewards_to_go(token_rewards, mask, gamma=gamma) - values[..., :-1]


def gae_returns(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    *,
    gamma: Discount,
    lam: Discount,
    bootstrap: Discount,
) -> PerToken:
    """Return A_t + V_t with A_t as in ``gae``: the λ-return.

    Source: the λ-return (Sutton and Barto, 2018, §12.1); verl ``compute_gae_advantage_return``.
    """
    return gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap) + values[..., :-1]


def decoupled_returns(
    token_rewards: PerToken,
    values: PerPlaceOfCompletion,
    mask: TokenMask,
    finished: CompletionMask,
    *,
    gamma: Discount,
    lam_value: Discount,
    bootstrap: Discount,
) -> PerToken:
    """Return the λ-return with λ = ``lam_value``, whatever that of the advantages is.

    Source: decoupled GAE (VC-PPO, arXiv 2503.01491); NeMo-RL ``gae_lambda_value`` (7ea279a).
    """
    return gae_returns(token_rewards, values, mask, finished, gamma=gamma, lam=lam_value, bootstrap=bootstrap)


def rewards_to_go(token_rewards: PerToken, mask: TokenMask, *, gamma: Discount) -> PerToken:
    """Return G_t = Σ_{k ≥ t} gamma^(k − t) · r_k, the reward to go.

    Source: the return of REINFORCE with a learned baseline (Sutton and Barto, 2018, §13.4).
    """
    return returns_to_go(token_rewards.where(mask, 0.0), mask, gamma)


@NormFacts(laws=("scale",))
def running(
    rewards: PerCompletion, keep: CompletionMask, reward_moments: Remembered, *, eps: Positive, ddof: Ddof
) -> PerCompletion:
    """A = (r − mean_run) / (std_run + eps), statistics over all completions of the run so far, this step's included.

    Source: ROLL ``norm_mean_type=running, norm_std_type=running`` (``RunningMoments``, ddof 1, eps 1e-6). Exactly zero
    as long as all rewards of the run are equal.
    """
    number, mean, squares, smallest, largest = (
        moment[..., None, None] for moment in combine_moments(reward_moments, rewards, keep).unbind(-1)
    )
    deviation = (squares / (number - ddof).clamp(min=1)).sqrt()
    return ((rewards - mean) / (deviation + eps)).masked_fill(largest <= smallest, 0.0)


def no_moments() -> tuple[float, ...]:
    """Return the moments of no reward."""
    return 0.0, 0.0, 0.0, inf, -inf


def combine_moments(reward_moments: Remembered, rewards: PerCompletion, keep: CompletionMask) -> Remembered:
    """Return number, mean, Σ (r − mean)², smallest and largest of the rewards before and those of a batch, ``[*R 5]``.

    Source: pairwise update of Chan, Golub and LeVeque (1979).
    """
    number, mean, squares, smallest, largest = reward_moments.unbind(-1)
    batch_mean = masked_mean(rewards, keep, BATCH)
    batch_squares = masked_sum((rewards - batch_mean).square(), keep, BATCH)
    batch_smallest, batch_largest = (masked_extreme(rewards, keep, BATCH, sign).squeeze(BATCH) for sign in (-1, 1))
    batch_number = count(keep, BATCH, rewards.dtype).squeeze(BATCH)
    total, difference = number + batch_number, batch_mean.squeeze(BATCH) - mean
    weight = batch_number / total.clamp(min=1)
    mean = mean + difference * weight
    squares = squares + batch_squares.squeeze(BATCH) + difference.square() * number * weight
    return stack([total, mean, squares, smallest.minimum(batch_smallest), largest.maximum(batch_largest)], -1)


@NormFacts(laws=("linear",))
def ema(rewards: PerCompletion, reward_average: PerReplica, *, decay: Discount) -> PerCompletion:
    """A = r − average, the average of the run's earlier rewards; it starts at 0 and moves after the step.

    Source: a moving-average baseline (Williams, 1992); prime-rl ``rae`` (SPIRAL, arXiv 2506.24119), which moves it
    after each completion, here once a step by the mean of the step.
    """
    return rewards - reward_average[..., None, None]


def zero_average() -> float:
    """Return the average before the first reward."""
    return 0.0


def move_average(
    reward_average: PerReplica, rewards: PerCompletion, keep: CompletionMask, *, decay: Discount
) -> PerReplica:
    """Return decay · average + (1 − decay) · mean of the step; the average where no completion counts.

    Source: the moving-average baseline of ``ema`` (Williams, 1992).
    """
    moved = decay * reward_average + (1 - decay) * masked_mean(rewards, keep, BATCH).squeeze(BATCH)
    return moved.where(keep.any(-1).any(-1), reward_average)


@NormFacts(compares="batch", laws=("scale", "zero batch sum"), breaks=("equal",))
def spo(
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_values: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    prompts: Size | None,
    decay: Discount,
    prior: FiniteFloat,
    weight: Positive,
    eps: Positive,
    ddof: Ddof,
) -> PerCompletion:
    """A = (e − mean_batch e) / (std_batch e + eps) with e = r − v, v the value of the prompt before this step.

    A prompt's value v is a mean of its earlier rewards that forgets: a reward weighs 1, what was known before it
    ``decay`` as much as then. It begins as ``prior`` with the weight ``weight``. Source: single-stream policy
    optimization (SPO, arXiv 2509.13232) with a constant decay; verl-recipe ``spo``, α ← ρα + r, β ← ρβ + 1 − r,
    v = α / (α + β), written so that rewards need not be 0 or 1, and ``rho.type=constant``. The paper's own decay
    follows how far the policy has moved; its values begin at what eight completions of the start policy say. There a
    prompt has one completion a step; here the mean of all that a step has of a prompt is one observation.
    """
    values = prompt_values[..., 0].gather(-1, prompt_numbers).unsqueeze(-1)
    errors = rewards - values
    return centered(errors, keep, BATCH) / (masked_std(errors, keep, BATCH, ddof) + eps)


def prior_values(*, prompts: Size | None, prior: FiniteFloat, weight: Positive) -> list[list[float]]:
    """Return ``prior`` and ``weight`` for each prompt: its value and weight before any reward is known."""
    return [[prior, weight]] * prompts


def move_values(
    prompt_values: PerKnownPrompt,
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_numbers: PromptNumbers,
    *,
    decay: Discount,
) -> PerKnownPrompt:
    """Return values and weights after a step: v ← v + (mean of the step − v) / (decay · weight + 1), and that weight.

    Those of prompts that have no completion in the step that counts stay. Source: SPO (arXiv 2509.13232), as ``spo``.
    """
    number, total = sums_by_prompt(rewards, keep, prompt_numbers, prompt_values.shape[-2])
    value, weight = prompt_values.unbind(-1)
    more = decay * weight + 1
    moved = stack([value + (total / number.clamp(min=1) - value) / more, more], -1)
    return moved.where(number.unsqueeze(-1) > 0, prompt_values)


def dbb(
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_values: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    prompts: Size | None,
    decay: Discount,
    prior: FiniteFloat,
    weight: Positive,
    eps: Positive,
) -> PerCompletion:
    """A = (r − p) / (√(p (1 − p)) + eps), p the discounted share of successes of the prompt, this step's included.

    α ← decay · α + Σ r and β ← decay · β + n − Σ r over the n completions that a step has of a prompt, p = α / (α + β);
    they begin as ``weight`` · ``prior`` and ``weight`` · (1 − ``prior``). Equal rewards of a group have an advantage,
    which fades as its prompt stays all right or all wrong. Rewards are from 0 to 1. Source: discounted Beta–Bernoulli
    estimation (GRPO-DBB, arXiv 2603.18444, alg. 1 and eq. 11 to 13, which has no eps): decay 0.5 and 0.75, one step of
    a prompt an epoch, α = β = 1 at first. With decay 0 it is ``local`` of rewards that are 0 or 1, with ddof 0.
    """
    moved = count_rewards(prompt_values, rewards, keep, prompt_numbers, decay=decay)
    share = moved[..., 0].gather(-1, prompt_numbers).unsqueeze(-1)
    return (rewards - share) / ((share * (1 - share)).clamp(min=0).sqrt() + eps)


def count_rewards(
    prompt_values: PerKnownPrompt,
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_numbers: PromptNumbers,
    *,
    decay: Discount,
) -> PerKnownPrompt:
    """Return values and weights after a step: α / (α + β) and α + β, as ``dbb`` has them.

    Those of prompts that have no completion in the step that counts stay. Source: GRPO-DBB (arXiv 2603.18444, eq. 11).
    """
    number, total = sums_by_prompt(rewards, keep, prompt_numbers, prompt_values.shape[-2])
    value, weight = prompt_values.unbind(-1)
    more = decay * weight + number
    moved = stack([value + (total - number * value) / more, more], -1)
    return moved.where(number.unsqueeze(-1) > 0, prompt_values)


FUNCTIONS = by_name(none, center, center_batch, local, global_, hybrid, hybrid_centered, batch_mean_group_std)
FUNCTIONS |= by_name(rloo, rloo_zscore, gdpo, shrinkage, opo, optimal, remax, a2po, quantile, gpg, maxrl, asymre)
FUNCTIONS |= by_name(max_, grpo_passk, pass_at_k, w_reinforce)
FUNCTIONS |= by_name(reinforce, reinforce_pp, reinforce_pp_baseline, optimal_token, gae, gae_whitened, value_baseline)
FUNCTIONS |= by_name(gae_decoupled, gae_length_adaptive)
FUNCTIONS |= by_name(running, ema, spo, dbb, rwr, best_of_n)
TARGETS = {"gae": gae_returns, "gae_whitened": gae_returns, "value_baseline": rewards_to_go}
TARGETS |= {"gae_decoupled": decoupled_returns, "gae_length_adaptive": decoupled_returns}
MOMENTS = "number, mean, Σ (r − mean)², smallest and largest of the run's rewards before this step"
PRIOR = "value of each prompt of the run's set before this step, and the weight of what it is the mean of"
MEMORIES = {
    "running": Memory("reward_moments", no_moments, combine_moments, MOMENTS),
    "ema": Memory("reward_average", zero_average, move_average, "moving average of the rewards of earlier steps"),
    "spo": Memory("prompt_values", prior_values, move_values, PRIOR),
    "dbb": Memory("prompt_values", prior_values, count_rewards, PRIOR),
}
INPUTS = SAMPLED | SHAPED | KEEP | VALUES | KNOWN
INPUTS |= {
    "token_penalties": Offer(PerToken, "KL in the reward where it is due, 0 without it"),
    "token_rewards": Offer(
        PerToken, "outcomes where they are due, at the last token unless the task pays each, minus token_penalties"
    ),
}
