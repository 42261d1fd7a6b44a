"""What a backend that trains language models asks of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rlexp.core.streams import Purpose


class Example(NamedTuple):
    """A prompt as text, and what its verifier needs to know of it: plain values, as JSON has them."""

    prompt: str
    entry: Any


class Score(NamedTuple):
    """What a task says of one completion: the components of its reward, NaN where one does not apply; is it right."""

    components: dict[str, float]
    correct: bool


@runtime_checkable
class TextTask(Protocol):
    """Prompts as text and a verifier; a frozen set of settings.

    ``weights``, ``reward_range``, ``metric`` and ``floor`` are as in ``tasks.Task``. ``characters`` are all that
    prompts and right answers are made of, in order: the vocabulary of a model that is made for the task.
    """

    weights: Mapping[str, float]
    reward_range: tuple[float, float]
    metric: str
    floor: float
    characters: str

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Draw so many prompts from the stream of a run's seed, a purpose and a step: the same ones whenever asked.

        No prompt is among both those that are ``held_out`` and the others, whatever the seed.
        """

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Score one completion for each example; those not ``finished`` were cut off."""

    def solution(self, example: Example) -> str | None:
        """Answer right, in the shortest way; None where no answer is known."""

    def wrong_solution(self, example: Example) -> str | None:
        """Answer wrong in the form of a right answer; None where that cannot be made."""


def is_held_out(prompt: str, share: float) -> bool:
    """Whether a prompt is among the ``share`` of all texts that is held out: by a hash, so whatever seed drew it."""
    digest = blake2b(prompt.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64
