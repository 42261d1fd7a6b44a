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

Those that ask for ``correct``, 1 where the task's verifier says so, else 0, do not see rewards, and so neither shaping
nor KL in the reward. ``asymre`` moves its baseline away from the mean, and equal rewards away from zero with it.
``rwr`` and ``best_of_n`` are weights from 0 up of what is imitated, not centered: they are meant for ``clip=naive``,
whose loss is then a weighted cross-entropy on completions of the policy's own, or of whoever wrote them (``data``). To
imitate all that is correct is ``norm=psr``.

**Norms of tokens** give every token an advantage of its own, from the reward that is still to come. Those without a
critic take the reward in its two parts: ``outcomes`` ``[*R P G]``, given at the last token, and ``token_penalties``
``[*R P G T]``, KL in the reward where it is due (0 without it). Advantages outside ``mask`` are not used. What a task
pays for single tokens reaches the norms with a critic; in the others the outcome is due as a whole. Time is counted in
tokens of ``mask``: where others stand between them, as an environment's do, no reward is discounted by these, and what
follows a token is the next one that counts. Source: verl ``compute_gae_advantage_return``, which skips values and
errors of such tokens; its ``reinforce_plus_plus`` forgets there what is still to come.

**With a critic** the baseline is learned: what ``critic=value`` expects before each token, and after the last. With the
policy that samples, γ and the reward r_t of each token, CS336 lecture 17 and Sutton and Barto (2018, ch. 3)
define V(s_t) = E[Σ_{k ≥ t} γ^(k − t) r_k | s_t], s_t the prompt and the tokens before t, Q(s_t, a_t) the same with
token t given, and A = Q − V. ``values`` are the critic's V; these functions estimate Q by what was sampled.
``token_rewards`` are the rewards where they are due. A completion that has ended has nothing to come. One that was cut
off at the cap is worth ``bootstrap`` times the value after its last token: 0 takes the cap for an end, as verl,
OpenRLHF and TRL do and as is right where the verifier does so; 1 takes it for a limit of time that the task does not
have (Pardo et al., arXiv 1712.00378). No reward ever follows that last place, so that the critic learns of it only from
places before it. ``TARGETS`` has for each norm what its critic is trained to: A + V before whitening, held fixed.

**With a memory** the statistics are those of the whole run: ``MEMORIES`` says how what is remembered goes on.

A family is a file: means and deviations (``group``), other baselines (``baseline``), the best of a group (``best``),
norms of tokens (``tokens``), with a critic (``critic``), with a memory (``memory``).
"""

from __future__ import annotations

from rlexp.axes.norm import baseline, best, critic, group, memory, tokens
from rlexp.axes.norm.critic import TARGETS
from rlexp.axes.norm.memory import MEMORIES
from rlexp.axes.offered import KEEP, KNOWN, SAMPLED, SHAPED, VALUES
from rlexp.core.registry import Offer
from rlexp.core.types import PerToken

__all__ = ["FUNCTIONS", "INPUTS", "MEMORIES", "TARGETS"]
FUNCTIONS = (
    group.FUNCTIONS | baseline.FUNCTIONS | best.FUNCTIONS | tokens.FUNCTIONS | critic.FUNCTIONS | memory.FUNCTIONS
)
INPUTS = SAMPLED | SHAPED | KEEP | VALUES | KNOWN
INPUTS |= {
    "token_penalties": Offer(PerToken, "KL in the reward where it is due, 0 without it"),
    "token_rewards": Offer(
        PerToken, "outcomes where they are due, at the last token unless the task pays each, minus token_penalties"
    ),
}
