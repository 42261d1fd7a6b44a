"""The policy that ratios are taken against: ``anchor(…) -> log_probs``, ``[*R P G T]``, in the place of old_log_probs.

Three policies can differ: the sampler μ that drew a token, as it reported it (``sampler_log_probs``); π_old, the same
weights as the trainer computes them (``old_log_probs``); the proximal policy π_prox, the weights at the beginning of
the step. μ and π_old differ by ``sampler``, π_old and π_prox by ``data`` that are not fresh. The ratio ρ = π / π_anchor
of ``clip`` and ``kl`` is against what an anchor returns, and so is κ = π_anchor / μ of ``mismatch``. An anchor carries
no gradient.
"""

from __future__ import annotations

from rlexp.axes.offered import LOG_PROBS, TOKENS
from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import PerToken


@Facts(is_noop=True)
def old(old_log_probs: PerToken) -> PerToken:
    """π_old: the weights that sampled, however long ago, as the trainer computes them.

    Source: PPO (arXiv 1707.06347) and GRPO; what TRL and verl compute before the first update of a synchronous step.
    """
    return old_log_probs


def rollout(sampler_log_probs: PerToken) -> PerToken:
    """μ: what the sampler reported, so that ρ holds the disagreement of sampler and trainer as well.

    Source: verl ``rollout_correction.bypass_mode``, SkyRL ``cispo`` with its anchor ``rollout``, UniRL
    ``old_logp_source=rollout``. ``mismatch`` has nothing left to correct.
    """
    return sampler_log_probs


def proximal(proximal_log_probs: PerToken) -> PerToken:
    """π_prox: the policy at the beginning of the step, which costs a pass through the network where data are not fresh.

    With a ``mismatch`` whose weights are π_prox / μ it is the decoupled objective, a trust region around π_prox and a
    correction of the age; without one the age stays, as a bias. Source: Hilton et al. (arXiv 2110.00641, eq. 2); AReaL
    (arXiv 2505.24298, eq. 5) ``use_decoupled_loss``, ``prox_logp_method=recompute``; verl's decoupled mode.
    """
    return proximal_log_probs


def loglinear(log_probs: PerToken, old_log_probs: PerToken, ages: PerToken) -> PerToken:
    """log π_old + α (log π − log π_old), α = (a − 1) / a at an age of a ≥ 1 steps, else 0: π_prox without its pass.

    log π without its gradient. Source: AReaL ``prox_logp_method=loglinear`` (``compute_prox_logp_approximations`` in
    ``areal/trainer/ppo/actor.py``, commit 4aef98d), where π_prox is one version behind the weights that are trained: of
    age 1 it is π_old.
    """
    weight = ((ages - 1) / ages.clamp(min=1)).clamp(min=0)
    return old_log_probs + weight * (log_probs.detach() - old_log_probs)


FUNCTIONS = by_name(old, rollout, proximal, loglinear)
INPUTS = {name: TOKENS[name] for name in ("old_log_probs", "sampler_log_probs", "mask")} | LOG_PROBS
INPUTS |= {
    "proximal_log_probs": Offer(PerToken, "log π of the tokens, by the policy at the beginning of the step"),
    "ages": Offer(PerToken, "steps since a token was drawn, 0 for the policy as it is"),
}
