"""Who judges: ``reward(...) -> rewards`` of every completion, ``[*R P G]``, before shaping.

The task's own verdict stays beside it as gold: it is logged for runs that are trained on another, and evaluation is
always by it. A completion without a reward of the task (NaN) gets none from any judge. A judge sees what it asks for,
of what was sampled and what the task knows: ``quality`` is the truth that it errs about. Its rewards are made once,
when completions are sampled, and all that follows has these: refill, shaping, filter, norm, greedy baselines.

One file a family: the task itself (``verifier``), judges who vote and err (``judges``, by ``voting``),
models that have learnt from pairs (``learned``).
"""

from rlexp.axes.offered import FINISHED, TOKENS
from rlexp.axes.reward import judges, learned, verifier
from rlexp.axes.reward.learned import PerModel
from rlexp.axes.reward.voting import NUMBERS, PerVote
from rlexp.core.offers import Offer
from rlexp.core.registry import join_families
from rlexp.core.types import PerCompletion

FAMILIES = (verifier, judges, learned)
FUNCTIONS = join_families(FAMILIES, "FUNCTIONS")
JUDGED = {
    "verified": Offer(PerCompletion, "rewards of the task: Σ weight · component, NaN where there is none"),
    "correct": Offer(PerCompletion, "1 where the task's verifier says so, else 0"),
    "quality": Offer(PerCompletion, "−1, 0 or 1 where the task has such grades, else 2 · correct − 1"),
    "lengths": Offer(PerCompletion, "tokens of the completion, the end token included"),
    "proxies": Offer(PerModel, "numbers of the reward models, standardised; with `reward.model` only"),
    "vote_draws": Offer(PerVote, f"{NUMBERS} uniforms in [0, 1) a completion, drawn anew at every step"),
    "vote_hashes": Offer(PerVote, "the same number of uniforms, the same for a prompt and completion in the whole run"),
}
INPUTS = TOKENS | FINISHED | JUDGED
