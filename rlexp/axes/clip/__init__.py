"""Policy loss: ``clip(log_probs, old_log_probs, advantages, mask, *, hyperparameters) -> losses``, all ``[*R P G T]``.

``log_probs`` carries the gradient; ``old_log_probs`` are those of the policy before the inner steps, fixed through
them. ρ = exp(log_probs − old_log_probs), never a quotient of log-probabilities; sg stops the gradient. Losses are to be
minimised; positions outside ``mask`` hold numbers without a path to the gradient and are dropped by ``agg``. What is
exponentiated, log ρ of a token or its mean over a completion, is within ±``log_ratio_bound``, 20 nats by default: verl
bounds most of its losses so, OpenRLHF its PPO loss, TRL none. Beyond the bound a ratio has no gradient.

At ρ = 1 the gradient of every choice that acts on advantages is that of −A log π, but for the tokens that ``clip_cov``
drops, for those with A ≤ 0 in ``wapo``, for the gate of ``delightful``, for ``a2po`` and for the losses of a group.

What is weighed or decided, a file each: tokens, with the gradient through ρ (``ratio``), with a weight that has none
(``weighted``), or without those that have moved too far (``trust``); tokens by all that stands before them
(``prefix``); completions (``completion``); groups (``group``) and their pairs (``pairs``).
"""

from __future__ import annotations

from rlexp.axes.clip.completion import a2po, gmpo, gspo, gspo_token, opsm, trm, vespo
from rlexp.axes.clip.group import flowrl, gvpo, real, tpo
from rlexp.axes.clip.pairs import dpo, ipo
from rlexp.axes.clip.prefix import cppo, ctpo, minpro, mu_grpo
from rlexp.axes.clip.ratio import drpo, dual, ppo, sapo, scheduled, spo, two_sided, unclipped, wapo
from rlexp.axes.clip.trust import clip_cov, ipo_prime_rl, kl_cov, m2po, m2po_clipped, vaco
from rlexp.axes.clip.weighted import cispo, delightful, dppo_kl, dppo_tv, dro, naive, rollout_is, topr
from rlexp.axes.offered import LOSS
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import PerToken

FUNCTIONS = by_name(naive, unclipped, ppo, scheduled, dual, two_sided, sapo, spo, drpo, wapo)
FUNCTIONS |= by_name(cispo, rollout_is, topr, dppo_tv, dppo_kl, dro, delightful)
FUNCTIONS |= by_name(ipo_prime_rl, m2po, m2po_clipped, vaco, clip_cov, kl_cov)
FUNCTIONS |= by_name(ctpo, minpro, mu_grpo, cppo)
FUNCTIONS |= by_name(gspo, gspo_token, gmpo, vespo, opsm, trm, a2po, gvpo, tpo, real, flowrl, dpo, ipo)
INPUTS = LOSS | {"uniforms": Offer(PerToken, "uniform in [0, 1), drawn anew at every update")}
