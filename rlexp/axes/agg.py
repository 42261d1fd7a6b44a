"""Per-token losses to one loss a replica: ``agg(losses, mask, *, hyperparameters) -> loss``, ``[*R P G T] -> [*R]``.

P × G completions are those of one optimizer step (a minibatch, if there are several). The mean of the minibatches'
losses is the loss of the whole rollout, in value and gradient, for every choice but ``bnpo``: how a rollout is split
changes no weight. A completion whose tokens are all masked adds nothing to any numerator; what it does to the
denominator is said in each function.

Not here: Balanced Aggregation (arXiv 2605.04077). Its abstract combines the token means of a group's positive and
negative completions with weights by their numbers; the formula, and what an advantage of 0 belongs to, could not be
verified.
"""

from __future__ import annotations

from rlexp.axes.offered import LOSS, LOSSES
from rlexp.core.facts import AggregationFacts
from rlexp.core.masked import ALL, TIME, count, masked_mean, masked_sum
from rlexp.core.registry import by_name
from rlexp.core.types import FiniteNonNegative, PerReplica, PerToken, PositiveInt, TokenMask


@AggregationFacts(laws=("mean", "masked leaves"))
def token(losses: PerToken, mask: TokenMask, mean_tokens: PerReplica) -> PerReplica:
    """Σ ℓ / mean_tokens: every token of the rollout weighs the same, whichever minibatch it is in.

    ``mean_tokens`` is the number of tokens that count in the whole rollout, over the number of its minibatches. With
    one minibatch this is Σ ℓ / Σ mask. Source: DAPO (arXiv 2503.14476, eq. 8). TRL ``loss_type="dapo"`` (since 1.16
    with this denominator in any split). verl ``token-mean`` and OpenRLHF count the tokens of one optimizer step, which
    is ``bnpo`` here. A masked completion leaves the denominator.
    """
    return masked_sum(losses, mask, ALL).squeeze(ALL) / mean_tokens


@AggregationFacts(laws=("mean", "masked leaves"), breaks=("split",))
def bnpo(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Σ ℓ / Σ mask over the minibatch: a token weighs more in a minibatch of short completions.

    Source: TRL ``loss_type="bnpo"``, whose minibatch is what one device holds at a time; verl ``token-mean``, whose
    minibatch is that of an optimizer step, as here. A masked completion leaves the denominator.
    """
    return masked_mean(losses, mask, ALL).squeeze(ALL)


@AggregationFacts(unit="completion", laws=("mean",))
def sequence(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Mean over completions of each completion's token mean: every completion weighs the same.

    Source: GRPO (arXiv 2402.03300, eq. 3). TRL ``loss_type="grpo"``, verl ``seq-mean-token-mean``. A masked
    completion stays in the number of completions, as in TRL and verl; OpenRLHF and ROLL take it out.
    """
    return masked_mean(losses, mask, TIME).mean(-2, keepdim=True).mean(-3, keepdim=True).squeeze(ALL)


@AggregationFacts(unit="completion")
def sequence_sum(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Mean over completions of each completion's sum: Σ ℓ / (P · G).

    Source: verl ``seq-mean-token-sum``. Of a loss that is the same for all tokens of a completion (``clip=gspo``) it is
    the mean of length · loss: LUSPO (arXiv 2602.05261), TRL ``loss_type="luspo"``. A masked completion stays in the
    number of completions, as in TRL; verl takes it out where it does not know the global batch.
    """
    return masked_sum(losses, mask, TIME).mean(-2, keepdim=True).mean(-3, keepdim=True).squeeze(ALL)


def dr_grpo(losses: PerToken, mask: TokenMask, *, length: PositiveInt) -> PerReplica:
    """Σ ℓ / (P · G · length): a constant denominator, so that no length is favoured.

    Source: Dr. GRPO (arXiv 2503.20783, §3.2). TRL ``loss_type="dr_grpo"`` with ``length`` its
    ``max_completion_length``; open-instruct divides by the constant without P · G. A masked completion changes nothing.
    """
    completions = mask.shape[-2] * mask.shape[-3]
    return masked_sum(losses, mask, ALL).squeeze(ALL) / (completions * length)


@AggregationFacts(breaks=("split",))
def delta_l(losses: PerToken, mask: TokenMask, *, length: PositiveInt, alpha: FiniteNonNegative) -> PerReplica:
    """``dr_grpo`` with weights w_i = L_i^−alpha / mean_j L_j^−alpha of completions i, L their tokens: mean weight 1.

    Gradients of long completions are sums of more terms and scatter more, so less weight on them has less variance;
    that the weights add up to the number of completions keeps the estimate unbiased as long as length and gradient are
    independent. With alpha 1 every completion has its token mean, times one number; 0 is ``dr_grpo``. Source: ΔL
    Normalization (arXiv 2509.07558) and its code, zerolllin/Delta-L-Normalization 89da5b9 (``use_grpopp``), with 1, and
    0.75 for mathematics; there the mean is over the rollout, here over the minibatch. A completion without tokens in
    the loss has no weight, and stays in the number of completions.
    """
    lengths = count(mask, TIME, losses.dtype)
    weights = (-alpha * lengths.clamp(min=1).log()).exp().where(lengths > 0, 0.0)
    mean = masked_mean(weights, lengths > 0, ALL)
    weights = weights / mean.where(mean > 0, 1.0)
    return dr_grpo(weights * losses, mask, length=length)


@AggregationFacts(laws=("mean", "masked leaves"))
def prompt(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Mean over prompts of the token mean of the prompt's group: 1/P Σ_p (Σ_{g,t} ℓ / Σ_{g,t} mask).

    Every prompt weighs the same, and every token of its group. Source: DAPO (arXiv 2503.14476, eq. 8), whose
    expectation is over prompts and whose fraction is inside it; SkyRL ``prompt_mean``. DAPO's code, TRL, verl and
    OpenRLHF average over the batch instead (``token``). A masked completion leaves its group's denominator; a prompt
    without any token that counts stays in P with a loss of 0.
    """
    return masked_mean(losses, mask, (-1, -2)).mean(-3, keepdim=True).squeeze(ALL)


FUNCTIONS = by_name(token, bnpo, sequence, sequence_sum, dr_grpo, delta_l, prompt)
INPUTS = LOSS | LOSSES
