"""How the reference policy follows the policy: ``follow(reference, policy, step) -> reference``, on any weights.

It is asked after the updates of every step. Where the reference begins is ``reference.begin``: as a copy of the policy
where training starts (``start``), as the random initial weights (``random``), as a policy of half the start's accuracy,
made in the same way (``halfway``), or as the last policy of another run (``run``, whose folder is ``reference.run``).
"""

from __future__ import annotations

from torch import Tensor

from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import PositiveInt, Share


@Facts(is_noop=True)
def frozen(reference: Tensor) -> Tensor:
    """Keep the policy that it began as, which is mostly the one that training started from.

    Source: Ziegler et al. (arXiv 1909.08593); what all frameworks do unless they are told otherwise.
    """
    return reference


def follow(reference: Tensor, policy: Tensor, step: int, *, every: PositiveInt, rate: Share) -> Tensor:
    """π_ref ← rate · π + (1 − rate) · π_ref, weight by weight, after every ``every``-th step; 1 is an exact copy.

    With a copy the penalty begins again at zero and bounds each period, not the whole way. Source: TRL
    ``sync_ref_model`` (rate 0.6 every 512 steps), after TR-DPO (arXiv 2404.09656); open-instruct
    ``ref_policy_update_freq`` with ``alpha``; slime ``ref_update_interval`` (copies). Polyak averaging is ``every`` 1.
    """
    return reference if step % every else rate * policy + (1 - rate) * reference


FUNCTIONS = by_name(frozen, follow)
INPUTS = {
    "reference": Offer(Tensor, "one parameter of the reference policy"),
    "policy": Offer(Tensor, "the same parameter of the policy, after the updates of the step"),
    "step": Offer(int, "number of the step, from 1"),
}
