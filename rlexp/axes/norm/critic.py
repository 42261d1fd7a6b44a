"""An advantage for each token, less what a critic expects; and what the critic is trained to."""

from __future__ import annotations

from torch import Tensor, arange
from torch.nn.functional import pad

from rlexp.axes.norm.tokens import returns_to_go
from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    ALL,
    TIME,
    centered,
    count,
    last_token,
    masked_std,
)
from rlexp.core.registry import by_name
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


FUNCTIONS = by_name(gae, gae_whitened, gae_decoupled, gae_length_adaptive, value_baseline)
TARGETS = {"gae": gae_returns, "gae_whitened": gae_returns, "value_baseline": rewards_to_go}
TARGETS |= {"gae_decoupled": decoupled_returns, "gae_length_adaptive": decoupled_returns}
