"""Norms that give every token an advantage of its own, ``[*R P G T]``, from the reward that is still to come.

Those without a critic take the reward in its two parts: ``outcomes`` ``[*R P G]``, given at the last token, and
``token_penalties`` ``[*R P G T]``, KL in the reward where it is due (0 without it). Advantages outside ``mask`` are not
used. What a task pays for single tokens reaches the norms with a critic; in the others the outcome is due as a whole.

**With a critic** the baseline is learned: what ``critic=value`` expects before each token, and after the last. With the
policy that samples, γ and the reward r_t of each token, CS336 lecture 17 and Sutton and Barto (2018, ch. 3)
define V(s_t) = E[Σ_{k ≥ t} γ^(k − t) r_k | s_t], s_t the prompt and the tokens before t, Q(s_t, a_t) the same with
token t given, and A = Q − V. ``values`` are the critic's V; these functions estimate Q by what was sampled.
``token_rewards`` are the rewards where they are due. A completion that has ended has nothing to come. One that was cut
off at the cap is worth ``bootstrap`` times the value after its last token: 0 takes the cap for an end, as verl,
OpenRLHF and TRL do and as is right where the verifier does so; 1 takes it for a limit of time that the task does not
have (Pardo et al., arXiv 1712.00378). No reward ever follows that last place, so that the critic learns of it only from
places before it. ``TARGETS`` has for each norm what its critic is trained to: A + V before whitening, held fixed.
"""

from __future__ import annotations

from torch import Tensor, stack
from torch.nn.functional import pad

from rlexp.core.facts import NormFacts
from rlexp.core.masked import ALL, GROUP, at_last_token, centered, is_constant, masked_std, masked_sum
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Discount,
    PerCompletion,
    PerPlaceOfCompletion,
    PerToken,
    Positive,
    TokenMask,
)

SAME_STEP = (-2,)
SMALLEST_ENERGY = 1e-12


@NormFacts(laws=("linear",))
def reinforce(outcomes: PerCompletion, token_penalties: PerToken, mask: TokenMask, *, gamma: Discount) -> PerToken:
    """A_t = G_t = Σ_{k ≥ t} gamma^(k − t) · r_k, r_k the token rewards.

    Source: REINFORCE (Williams, 1992) with reward to go; ROLL ``reinforce``. OpenRLHF's ``reinforce`` whitens it, which
    is ``reinforce_pp``. With gamma = 1 and no penalty it is ``norm=none``.
    """
    return returns_to_go(token_rewards(outcomes, token_penalties, mask), gamma)


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
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), gamma)
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
    returns = returns_to_go(token_rewards(outcomes, token_penalties, mask), 1.0)
    counted = mask & keep.unsqueeze(-1)
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).cumsum(-1)
    baseline = masked_sum(energy * returns, counted, SAME_STEP) / masked_sum(energy, counted, SAME_STEP)
    return (returns - baseline).masked_fill(is_constant(returns, counted, SAME_STEP), 0.0)


def token_rewards(outcomes: Tensor, token_penalties: Tensor, mask: Tensor) -> Tensor:
    """Outcome at the last token that counts, minus the penalty at each: ``[*R P G T]``."""
    return at_last_token(outcomes, mask) - token_penalties


def returns_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """Σ_{k ≥ t} gamma^(k − t) · r_k along time."""
    total, sums = 0.0, []
    for reward in reversed(rewards.unbind(-1)):
        total = reward + gamma * total
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
    last, following = mask & ~pad(mask[..., 1:], (0, 1)), values[..., 1:]
    following = (bootstrap * following.where(~finished.unsqueeze(-1), 0.0)).where(last, following)
    errors = (token_rewards + gamma * following - values[..., :-1]).where(mask, 0.0)
    return returns_to_go(errors, gamma * lam)


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
def value_baseline(token_rewards: PerToken, values: PerPlaceOfCompletion, *, gamma: Discount) -> PerToken:
    """A_t = G_t − V_t, G_t = Σ_{k ≥ t} gamma^(k − t) · r_k the reward to go.

    Source: REINFORCE with a learned baseline (Williams, 1992; Sutton and Barto, 2018, §13.4). It is ``gae`` with lam =
    1 where every completion has ended. A moving average as baseline is ``ema``.
    """
    return returns_to_go(token_rewards, gamma) - values[..., :-1]


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


def rewards_to_go(token_rewards: PerToken, *, gamma: Discount) -> PerToken:
    """Return G_t = Σ_{k ≥ t} gamma^(k − t) · r_k, the reward to go.

    Source: the return of REINFORCE with a learned baseline (Sutton and Barto, 2018, §13.4).
    """
    return returns_to_go(token_rewards, gamma)


FUNCTIONS = by_name(reinforce, reinforce_pp, reinforce_pp_baseline, optimal_token, gae, gae_whitened, value_baseline)
TARGETS = {"gae": gae_returns, "gae_whitened": gae_returns, "value_baseline": rewards_to_go}
