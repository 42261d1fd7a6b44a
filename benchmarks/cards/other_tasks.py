"""Whether answers carry to other tasks: each effect there beside that where it was asked first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cards.asked import Asked, headline, sides, sign
from benchmarks.cards.forecasts import asked_again
from benchmarks.cards.texts import REPLICATION, TASKS, Card
from rlexp.analysis.stats.formatting import format_p
from rlexp.analysis.stats.pooling import moderation
from rlexp.analysis.stats.significance import ALPHA, holm
from rlexp.analysis.stats.words import CANNOT, errors_to_pool


class Pair(NamedTuple):
    """An assertion where it was asked first, and on other tasks, with its places (from 0) there."""

    card: Card
    first: Asked
    other: Asked
    place: int
    again: int

    @property
    def there(self) -> dict[str, Any]:
        return self.first.assertions[self.place]

    @property
    def found(self) -> dict[str, Any]:
        return self.other.assertions[self.again]

    def inside(self) -> bool:
        """Say whether the effect lies where one more setting of the first task would."""
        low, high = self.there["predicted"]
        return low <= self.found["effect"] <= high

    def counted(self) -> bool:
        """Say whether the effect of the first task has a size that counts."""
        return abs(self.there["effect"]) >= self.there["smallest"]

    def shown(self) -> bool:
        """Say whether the interval on other tasks lies on the side of the first effect."""
        return self.found["low"] > 0 if self.there["effect"] > 0 else self.found["high"] < 0

    def p(self) -> float:
        """Return the p of the same mean effect in settings of the first task and of the others."""
        ways = (self.there, self.found)
        used = [[each for each in one["conditions"] if not each["fails"]] for one in ways]
        errors = [
            errors_to_pool(np.array([each["error"] for each in some]), one["smallest"])
            for some, one in zip(used, ways, strict=True)
        ]
        effects = [each["effect"] for some in used for each in some]
        labels = [name for some, name in zip(used, ("first", "others"), strict=True) for _ in some]
        return moderation(np.array(effects), np.concatenate(errors), labels).p


def pairs(cards: Sequence[Card], answers: Mapping[str, Asked]) -> Iterator[Pair]:
    """Yield each assertion that has an answer on both sides; a replication is in the place of what it repeats."""
    for card in cards:
        for name in card.questions:
            if name.endswith(TASKS) and name in answers:
                first = name.removesuffix(TASKS)
                one = answers.get(first + REPLICATION) or answers[first]
                for place, each in enumerate(one.assertions):
                    pair = Pair(card, one, answers[name], place, asked_again(answers[name], one, place))
                    if CANNOT not in (each["word"], pair.found["word"]):
                        yield pair


def summary(found: Sequence[Pair]) -> str:
    """Return how many effects carry."""
    inside, same = sum(each.inside() for each in found), sum(each.there["word"] == each.found["word"] for each in found)
    large = [each for each in found if each.counted()]
    alike = sum(each.there["effect"] * each.found["effect"] > 0 for each in large)
    return (
        f"{inside} of {len(found)} effects lie where one more setting of the first task would, and {same} have the "
        f"same word. Of the {len(large)} that have a size that counts on the first task, {alike} have the same sign on "
        f"the others, and {sum(each.shown() for each in large)} of them with an interval that leaves 0 out."
    )


def differences(p: np.ndarray) -> str:
    """Return how many effects differ between the tasks."""
    return (
        f"Looked at afterwards: {(p < ALPHA).sum()} of them differ between the first task and the others (p < .05), "
        f"{(holm(p) < ALPHA).sum()} of them after Holm's correction for all {len(p)}."
    )


def section(cards: Sequence[Card], answers: Mapping[str, Asked]) -> Iterator[str]:
    """Yield how many effects carry, and the table of them."""
    found = [*pairs(cards, answers)]
    p = np.array([pair.p() for pair in found])
    if found:
        yield f"**{summary(found)}** {differences(p)}"
        yield ""
    yield "| | claim | first task | other tasks | | p of a difference |"
    yield "|---|---|---|---|---|---|"
    for pair, differs in zip(found, p, strict=True):
        arm, versus = sides(pair.there)
        what = f"`{arm}` {sign(pair.there)} `{versus}`, {pair.first.number(pair.place)}"
        cells = [
            f"[{pair.card.label}](claims/{pair.card.number}.md)",
            what,
            f"{pair.first.show(pair.place, pair.there)}: {headline(pair.there)}",
            f"{pair.other.show(pair.again, pair.found)}: {headline(pair.found)}",
            "inside" if pair.inside() else "**outside**",
            format_p(differs),
        ]
        yield f"| {' | '.join(cells)} |"
