"""The procedural data sets of reasoning-gym (Stojanovski et al., arXiv 2505.24760), with their own verifiers.

The package is the extra ``reasoning``; nothing of it is imported before a config chooses this task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Annotated, Any

from annotated_types import Ge, Le

from rlexp.core.errors import format_value
from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose, generator
from rlexp.language.answers import altered
from rlexp.language.text_task import Example, Score, is_held_out
from rlexp.tasks.task import Weighed, task

MISSING_EXTRA = "needs the extra reasoning: pip install 'rlexp[reasoning]'"
SEEDS = 2**31  # of data sets; the items of one are those of its seed and the seeds after it
ITEMS = 50  # of the data set of one seed; some make all of them when they are made
TRIES = 20  # times as many items as a share is expected to need are made before a search ends
SHOWN = 16  # items whose characters are looked at
ASCII = "\n" + "".join(map(chr, range(32, 127)))
TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@task
class ReasoningGym(Weighed):
    """Questions of one ``dataset``; ``settings`` are those of its config, and what is not named is as there.

    The answer is the completion, or what is in its last <answer>...</answer>; what was cut off has given an answer only
    if there are such tags. Component ``score``: what the data set's own verifier says, in [0, 1]; ``exact``: 1 where
    that is 1, else 0. Held out is a share ``held_out_share`` of all prompts, by a hash of the text. A seed, a purpose
    and a step always have the same items; data sets of few prompts repeat them.
    """

    dataset: str
    settings: dict[str, Any] | None
    held_out_share: Annotated[float, Ge(0.01), Le(0.9)]  # what is outside takes long to find

    components = ("exact", "score")

    def __post_init__(self):
        super().__post_init__()
        classes = known()
        if self.dataset not in classes:
            close = ", ".join(get_close_matches(self.dataset, classes))
            known_names = f"did you mean {close}?" if close else f"there are {', '.join(sorted(classes))}"
            raise ValueError(f"dataset={self.dataset}: no such data set of reasoning-gym; {known_names}")
        allowed = sorted({each.name for each in fields(classes[self.dataset][1]) if each.init} - {"seed", "size"})
        for name, value in (self.settings or {}).items():
            if name not in allowed:
                there = f"{self.dataset} has {', '.join(allowed) or 'no settings'}"
                raise ValueError(f"settings.{name}={format_value(value)}: no such setting; {there}")
        try:
            _ = item(*self.source, 0, 0)["question"]
        except Exception as error:  # each data set checks its settings in its own way
            given = json.dumps(self.settings)
            raise ValueError(f"settings={given}: {self.dataset} says: {' '.join(str(error).split())}") from None

    @property
    def source(self) -> tuple[str, str]:
        """What items are a function of, beside their seed and number: the data set and its settings as JSON."""
        return self.dataset, json.dumps(self.settings or {}, sort_keys=True)

    @cached_property
    def characters(self) -> str:
        """Printable ASCII, the line break and what else the first items have, in order."""
        seen = [item(*self.source, 0, index) for index in range(SHOWN)]
        return "".join(sorted({*ASCII, *"".join(each["question"] + str(each["answer"] or "") for each in seen)}))

    def examples(self, seed: int, purpose: Purpose, step: int, count: int, held_out: bool) -> list[Example]:
        """Draw prompts; RunFailed where a data set has hardly any on this side."""
        return list(drawn_items(*self.source, self.held_out_share, seed, purpose, step, count, held_out))

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = map(self.score_answer, examples, texts, finished)
        return [Score({"exact": float(score >= 1), "score": score}, score >= 1) for score in scores]

    def score_answer(self, example: Example, text: str, finished: bool) -> float:
        """Return the score of a completion in [0, 1]; a verifier that fails on what it reads gives 0."""
        *_, tagged = [None, *TAGGED.findall(text)]
        if tagged is None and not finished:
            return 0.0
        of, index, score = example.entry["seed"], example.entry["index"], 0.0
        entry, verifier = item(*self.source, of, index), dataset_of(*self.source, of)
        answer = text if tagged is None else tagged
        with suppress(Exception):
            score = float(verifier.score_answer(answer.strip(), entry))
        return min(max(score, 0.0), 1.0) if score == score else 0.0

    def solution(self, example: Example) -> str | None:
        """Return the data set's answer; None where it has none, or none that its verifier takes for right."""
        answer = example.entry["answer"]
        return answer if isinstance(answer, str) and self.score_answer(example, answer, True) >= 1 else None

    def wrong_solution(self, example: Example) -> str | None:
        """Return the answer with its last digit or letter altered; None where that is not wrong."""
        other = altered(self.solution(example) or "")
        return other if other is not None and self.score_answer(example, other, True) < 1 else None


def known() -> dict[str, tuple[type, type]]:
    """Return all data sets by name, each with the class of its settings; ValueError without the package."""
    try:
        import reasoning_gym  # noqa: F401 (registers them)
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise ValueError(MISSING_EXTRA) from None
    return DATASETS


@lru_cache(maxsize=64)
def dataset_of(name: str, settings: str, seed: int) -> Any:
    """Return the data set of a seed. Lists become tuples where the settings have tuples by default."""
    dataset, config = known()[name]
    made = ((f.name, f.default if f.default_factory is MISSING else f.default_factory()) for f in fields(config))
    tuples = {name for name, default in made if isinstance(default, tuple)}
    given = json.loads(settings).items()
    plain = {key: tuple(each) if key in tuples and isinstance(each, list) else each for key, each in given}
    return dataset(config=config(**plain, seed=seed, size=ITEMS))


@lru_cache(maxsize=4096)
def item(name: str, settings: str, seed: int, index: int) -> dict[str, Any]:
    """Return an item: question, answer, and what its verifier needs to know."""
    return dataset_of(name, settings, seed)[index]


@lru_cache(maxsize=8)
def drawn_items(
    name: str, settings: str, share: float, seed: int, purpose: Purpose, step: int, count: int, held_out: bool
) -> tuple[Example, ...]:
    """Return the first items of a stream of data sets that are on the wanted side."""
    most = int(TRIES * (count / (share if held_out else 1 - share) + ITEMS))
    stream, of, found = generator(seed, purpose, step), 0, []
    for tried in range(most):
        if len(found) == count:
            break
        index = tried % ITEMS
        if index == 0:  # of the next data set
            of = int(stream.integers(SEEDS))
        entry = item(name, settings, of, index)
        if is_held_out(entry["question"], share) == held_out:
            found.append(Example(entry["question"], {"seed": of, "index": index, "answer": entry["answer"]}))
    if len(found) < count:
        side = "are held out" if held_out else "are not held out"
        few = f"only {len(found)} of {most} prompts {side}, and {count} are wanted"
        raise RunFailed(f"task.dataset={name}: {few}; take other task.settings or another task.held_out_share")
    return tuple(found)
