"""Norms with a learned baseline, ``[*R P G T]``: what ``critic=value`` expects before each token, and after the last.

With the policy that samples, γ and the reward r_t of each token, CS336 lecture 17 and Sutton and Barto (2018, ch. 3)
define V(s_t) = E[Σ_{k ≥ t} γ^(k − t) r_k | s_t], s_t the prompt and the tokens before t, Q(s_t, a_t) the same with
token t given, and A = Q − V. ``values`` are the critic's V; these functions estimate Q by what was sampled.

``token_rewards`` are the rewards where they are due. A completion that has ended has nothing to come. One that was cut
off at the cap is worth ``bootstrap`` times the value after its last token: 0 takes the cap for an end, as verl,
OpenRLHF and TRL do and as is right where the verifier does so; 1 takes it for a limit of time that the task does not
have (Pardo et al., arXiv 1712.00378). No reward ever follows that last place, so that the critic learns of it only from
places before it.

``TARGETS`` has for each norm what its critic is trained to: A + V before whitening, held fixed.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from rlexp.axes.norm.token import TOKENS, returns_to_go
from rlexp.core.facts import NormFacts
from rlexp.core.masked import centered, masked_std
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Discount,
    PerPlaceOfCompletion,
    PerToken,
    Positive,
    TokenMask,
)


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
    following = values_to_come(values, mask, finished, bootstrap)
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
    return centered(advantages, counted, TOKENS) / (masked_std(advantages, counted, TOKENS, ddof) + eps)


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


def values_to_come(values: Tensor, mask: Tensor, finished: Tensor, bootstrap: float) -> Tensor:
    """Return the value after each token: of the last one of a completion 0 if it has ended, else its share."""
    last = mask & ~pad(mask[..., 1:], (0, 1))
    after = values[..., 1:]
    return (bootstrap * after.where(~finished.unsqueeze(-1), 0.0)).where(last, after)


FUNCTIONS = {"gae": gae, "gae_whitened": gae_whitened, "value_baseline": value_baseline}
TARGETS = {"gae": gae_returns, "gae_whitened": gae_returns, "value_baseline": rewards_to_go}
