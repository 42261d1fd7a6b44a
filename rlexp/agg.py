"""Per-token losses to one loss a replica: ``agg(losses, mask, *, knobs) -> loss``, ``[*R P G T] -> [*R]``.

P × G completions are those of one optimizer step (a minibatch, if there are several). A completion whose
tokens are all masked adds nothing to any numerator; what it does to the denominator is said in each function.
"""

from __future__ import annotations

from rlexp.masked import masked_mean, masked_sum
from rlexp.types import PerReplica, PerToken, PositiveInt, TokenMask

TIME, ALL = (-1,), (-1, -2, -3)


def token(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Σ ℓ / Σ mask: every token weighs the same, so long completions weigh more.

    Source: DAPO (arXiv 2503.14476, eq. 8). TRL ``loss_type="dapo"``, verl ``token-mean``, OpenRLHF's and
    open-instruct's default. A masked completion leaves the denominator.
    """
    return masked_mean(losses, mask, ALL).squeeze(ALL)


def sequence(losses: PerToken, mask: TokenMask) -> PerReplica:
    """Mean over completions of each completion's token mean: every completion weighs the same.

    Source: GRPO (arXiv 2402.03300, eq. 3). TRL ``loss_type="grpo"``, verl ``seq-mean-token-mean``. A masked
    completion stays in the number of completions, as in TRL and verl; OpenRLHF and ROLL take it out.
    """
    return masked_mean(losses, mask, TIME).mean(-2, keepdim=True).mean(-3, keepdim=True).squeeze(ALL)


def dr_grpo(losses: PerToken, mask: TokenMask, *, length: PositiveInt) -> PerReplica:
    """Σ ℓ / (P · G · length): a constant denominator, so that no length is favoured.

    Source: Dr. GRPO (arXiv 2503.20783, §3.2). TRL ``loss_type="dr_grpo"`` with ``length`` its
    ``max_completion_length``; open-instruct divides by the constant without P · G. A masked completion changes nothing.
    """
    completions = mask.shape[-2] * mask.shape[-3]
    return masked_sum(losses, mask, ALL).squeeze(ALL) / (completions * length)


FUNCTIONS = {"token": token, "sequence": sequence, "dr_grpo": dr_grpo}
