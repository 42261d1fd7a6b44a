"""Policy loss: ``clip(log_probs, old_log_probs, advantages, mask, *, hyperparameters) -> losses``, all ``[*R P G T]``.

``log_probs`` carries the gradient; ``old_log_probs`` are those of the policy before the inner steps, fixed through
them. ρ = exp(log_probs − old_log_probs), never a quotient of log-probabilities; sg stops the gradient. Losses are to be
minimised; positions outside ``mask`` hold numbers without a path to the gradient and are dropped by ``agg``. What is
exponentiated, log ρ of a token or its mean over a completion, is within ±``log_ratio_bound``, 20 nats by default: verl
bounds most of its losses so, OpenRLHF its PPO loss, TRL none. Beyond the bound a ratio has no gradient.

The families: tokens with a ratio, a weight or a decision each in ``token``, one ratio or decision a completion in
``sequence``; both act on advantages, as do the losses of a whole group in ``group``. Those over the pairs of a group,
also there, act on completions that the rewards rank.

At ρ = 1 the gradient of every choice that acts on advantages is that of −A log π, but for the tokens that ``clip_cov``
drops, for the gate of ``delightful`` and for the losses of a group.
"""

from __future__ import annotations

from rlexp.axes.clip import group, sequence, token
from rlexp.axes.offered import LOSS
from rlexp.core.registry import Offer, join_families
from rlexp.core.types import PerToken

FAMILIES = token, sequence, group
FUNCTIONS = join_families(FAMILIES, "FUNCTIONS")
MEMORIES = join_families(FAMILIES, "MEMORIES")
INPUTS = LOSS | {"uniforms": Offer(PerToken, "uniform in [0, 1), drawn anew at every update")}
