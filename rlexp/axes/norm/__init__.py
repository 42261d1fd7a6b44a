"""Rewards to advantages: ``norm(rewards, keep, …, *, …)``, ``[*R P G]``, or ``[*R P G T]`` where tokens differ.

``keep`` says which completions enter the statistics; what a function returns for the others is not used
(``loop.step.compute_advantages`` gives them advantage 0). ``rewards`` are those after shaping and KL in the reward. A
norm that needs the parts asks for ``outcomes`` and ``token_penalties`` instead, never beside: rewards = outcomes − Σ_t
token_penalties.

Shared rule of all that center: a group (for ``global`` and ``center_batch``: a batch) of equal rewards, a group of one
included, gives exactly zero. ``ddof`` is the divisor correction of the deviation: 1 as in ``torch.std``, TRL, verl,
OpenRLHF; 0 as in open-instruct. ``eps`` is added to the deviation.

Equal is equal to the last bit. A tolerance would need a scale, which the rewards of a group do not have (slime and ROLL
take 1e-6 whatever they are); differences far below ``eps`` vanish, as in TRL, verl and OpenRLHF. With KL in the reward
the rewards of a group are hardly ever equal: where the outcomes are, the deviation of the group is that of the
penalties.

``asymre`` moves its baseline away from the mean, and equal rewards away from zero with it.

The families: norms of completions in ``statistics``, of tokens, some with a critic, in ``token``, statistics of the
whole run in ``memory``. ``TARGETS`` has what a critic is trained to, for the norms that ask for its values.
"""

from __future__ import annotations

from rlexp.axes.norm import memory, statistics, token
from rlexp.axes.offered import KEEP, KNOWN, SAMPLED, SHAPED, VALUES
from rlexp.core.registry import Offer, join_families
from rlexp.core.types import PerToken

FAMILIES = statistics, token, memory
FUNCTIONS = join_families(FAMILIES, "FUNCTIONS") | statistics.IMITATION
MEMORIES = join_families(FAMILIES, "MEMORIES")
TARGETS = token.TARGETS
INPUTS = SAMPLED | SHAPED | KEEP | VALUES | KNOWN
INPUTS |= {
    "token_penalties": Offer(PerToken, "KL in the reward where it is due, 0 without it"),
    "token_rewards": Offer(
        PerToken, "outcomes where they are due, at the last token unless the task pays each, minus token_penalties"
    ),
}
