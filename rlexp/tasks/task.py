"""What the training loop asks of a task, and what a task says of completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rlexp.core.types import (
    AnswerMask,
    Answers,
    CompletionMask,
    Completions,
    PerCompletion,
    PerToken,
    PromptDraws,
    Prompts,
    TokenMask,
)


class Scores(NamedTuple):
    """What a task says about completions.

    ``components`` are parts of the reward by name, NaN where one does not apply; ``correct`` says whether a completion
    is right. ``token_rewards`` are rewards of single tokens, None where the task judges completions as wholes.
    ``quality`` grades completions as −1, 0 or 1; None where a completion is right or wrong and no more.
    """

    components: dict[str, PerCompletion]
    correct: CompletionMask
    token_rewards: PerToken | None = None
    quality: PerCompletion | None = None


@runtime_checkable
class Task(Protocol):
    """Prompts, a verifier and the sizes of both; a frozen set of numbers without state.

    Sizes: ``vocabulary`` tokens, ``prompt_length`` L, ``cap`` T = most tokens of a completion, ``draws`` = random
    numbers that a prompt takes. Tokens: ``pad`` fills a prompt on the left and a completion behind its end, ``end`` is
    a completion's last one; −1 if there is none. ``weights`` are those of the components in the reward, which lies in
    ``reward_range``. ``metric`` scores a run that is not told otherwise; one that ends below ``floor`` has collapsed.

    A task may have a ``prompt_set``: a run is then trained on so many prompts of its own, drawn from the same numbers
    as all others, again and again (None: new ones at every step). What is held out stays what it is.
    """

    vocabulary: int
    prompt_length: int
    cap: int
    draws: int
    pad: int
    end: int
    reward_range: tuple[float, float]
    weights: Mapping[str, float]
    metric: str
    floor: float

    def prompts(self, uniforms: PromptDraws, held_out: bool) -> Prompts:
        """Make prompts of numbers in [0, 1), for training or held out from it."""

    def score(self, prompts: Prompts, completions: Completions, mask: TokenMask, finished: CompletionMask) -> Scores:
        """Judge completions; ``mask`` covers the tokens up to the end, ``finished`` says that there is one."""

    def oracle(self, prompts: Prompts) -> tuple[Answers, AnswerMask]:
        """Answer each prompt right, the end token included.

        The mask is empty where it shows no answer, or where none is right: a warm-up learns nothing of such prompts.
        """

    def render(self, tokens: Sequence[int]) -> str:
        """Write a prompt or a completion as one line of text."""
