"""Policy loss: ``clip(log_probs, old_log_probs, advantages, mask, *, knobs) -> losses``, all ``[*R P G T]``.

``log_probs`` carries the gradient; ``old_log_probs`` are those of the policy before the inner steps, fixed through
them. ρ = exp(log_probs − old_log_probs), never a quotient of log-probabilities; sg stops the gradient. Losses are to be
minimised; positions outside ``mask`` hold numbers without a path to the gradient and are dropped by ``agg``. The
log-ratio is not clamped, as in TRL; verl and OpenRLHF clamp it at ±20.

At ρ = 1 the gradient of every choice is that of −A log π, but for the tokens that ``clip_cov`` drops.
"""

from __future__ import annotations

from rlexp.clip_covariance import clip_cov, kl_cov
from rlexp.clip_sequence import gmpo, gspo, gspo_token, opsm, vespo
from rlexp.clip_token import dual, naive, ppo, sapo, scheduled, two_sided, unclipped
from rlexp.clip_weighted import cispo, dppo_kl, dppo_tv, dro, topr

FUNCTIONS = {
    "naive": naive,
    "unclipped": unclipped,
    "ppo": ppo,
    "scheduled": scheduled,
    "dual": dual,
    "two_sided": two_sided,
    "sapo": sapo,
    "cispo": cispo,
    "topr": topr,
    "dppo_tv": dppo_tv,
    "dppo_kl": dppo_kl,
    "dro": dro,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "gmpo": gmpo,
    "vespo": vespo,
    "opsm": opsm,
    "clip_cov": clip_cov,
    "kl_cov": kl_cov,
}
