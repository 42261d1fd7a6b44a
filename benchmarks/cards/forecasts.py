"""Forecasts of a language model, one of each decided answer about small ones: ``python -m benchmarks.cards.forecasts``.

The forecast is the pooled effect, with the interval in which one more setting would lie. It is kept in
docs/claims/forecasts.csv, and stays as it is once ``rlexp ask NAME_llama`` has asked the same of a Llama.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cards.asked import DOCS, STAYS, Asked, asked, effect, headline, sides, sign, stays
from benchmarks.cards.declared import git, last_asked
from benchmarks.cards.texts import REPLICATION, TASKS, Card, Refused, read_cards
from rlexp.analysis.stats.words import CANNOT, OPEN

FILE = DOCS / "claims" / "forecasts.csv"
LLAMA = "_llama"
"""What the name of a question ends with that asks the same of a Llama."""
NOT_WITH_TRL = {
    "dynamic_transformer": "`filter.refill`",
    "random_rewards": "`start=pretrained_mixture`",
    "random_rewards_start": "`start=pretrained_mixture`",
    "prompt_mean": "`start=pretrained_mixture`",
    "sharpening": "`start=pretrained_mixture`",
    "tricks_by_start": "`start=sharpened`",
    "staleness_drift": "`data=stale`",
    "self_distillation": "`start=pretrained_mixture`",
    "bf16_sampler": "`sampler=bf16_products`",
    "evolution_strategies": "`optimizer=evolution_strategies`",
    "errors_that_stay": "`task.prompt_set`",
    "cispo_bounds": "`data=stale`",
    "prime_rl_spring": "`data=stale`",
}
"""What a question rests on that ``backend=trl`` does not have."""
OWN = {("group_size_equal", 1): "group_size_equal_completions_llama"}
"""The question of a Llama about one assertion alone, where that with the name asks another."""


class Forecast(NamedTuple):
    """Of an assertion (from 1): its word, and its effect on its scale with the interval for one more setting."""

    question: str
    assertion: int
    word: str
    scale: str
    effect: str
    low: str
    high: str

    def holds(self, effect: float) -> bool:
        return float(self.low) <= effect <= float(self.high)


def main() -> None:
    """Write the forecasts of what has no answer yet; those of the others stay."""
    answers = asked()
    names = list(dict.fromkeys(name for card in read_cards() for name in card.questions if name in answers))
    made = [each for one in last_asked(answers[name] for name in names) for each in forecasts(one)]
    kept = [each for each in read() if of_a_llama(*each[:2]) in answers]
    kept += [each for each in made if of_a_llama(*each[:2]) not in answers]
    kept.sort(key=lambda each: (names.index(each.question), each.assertion))
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([Forecast._fields, *kept])
    FILE.write_text(text.getvalue(), encoding="utf-8")


def of_a_llama(name: str, assertion: int) -> str:
    """Return the name of the question that asks a Llama what a question, or its replication, asks small models."""
    first = name.removesuffix(REPLICATION)
    return OWN.get((first, assertion), first + LLAMA)


def forecasts(one: Asked) -> Iterator[Forecast]:
    """Yield a forecast of each assertion about small models whose word is decided and does not lean.

    What asks the same on other tasks forecasts nothing: the first tasks are those of the Llama.
    """
    for place, each in enumerate([] if one.name.endswith(TASKS) else one.assertions):
        if one.tier == "small" and each["word"] not in (OPEN, CANNOT) and stays(each) >= STAYS:
            numbers = [f"{value:.4f}" for value in (each["effect"], *each["predicted"])]
            yield Forecast(one.name, place + 1, each["word"], each["scale"], *numbers)


def read(text: str | None = None) -> list[Forecast]:
    """Return the forecasts that are kept, or those of an earlier text of their file."""
    if text is None:
        text = FILE.read_text(encoding="utf-8") if FILE.is_file() else ""
    return [Forecast(**row | {"assertion": int(row["assertion"])}) for row in csv.DictReader(StringIO(text))]


def committed(forecast: Forecast, file: Path = FILE) -> datetime | None:
    """Return the time of the oldest commit since which the file holds a forecast as it is; None if none does."""
    found = None
    for line in git(file, "log", "--format=%H %cI", "--", file.name).splitlines():
        commit, time = line.split()
        if forecast not in read(git(file, "show", f"{commit}:./{file.name}")):
            break
        found = datetime.fromisoformat(time)
    return found


class Scored(NamedTuple):
    """A forecast with what a Llama did; ``found`` is None before it was asked."""

    forecast: Forecast
    small: Asked
    llama: Asked | None
    found: Mapping[str, Any] | None


def scored(kept: Sequence[Forecast], answers: Mapping[str, Asked]) -> Iterator[Scored]:
    """Yield each forecast with the answer of the Llama.

    Raises:
        Refused: A forecast is younger than the first run of what it forecasts.
    """
    for each in kept:
        small, llama = answers[each.question], answers.get(of_a_llama(*each[:2]))
        if llama is None:
            yield Scored(each, small, None, None)
            continue
        since = committed(each)
        if since is None or since > llama.began:
            when = f"at {since:%F %T%z}" if since else "nowhere yet"
            raise Refused(
                f"{llama.name}: its forecast was committed {when}, after its first run, {llama.began:%F %T%z}"
            )
        yield Scored(each, small, llama, llama.assertions[asked_again(llama, small, each.assertion - 1)])


def asked_again(one: Asked, first: Asked, place: int) -> int:
    """Return the place of the assertion of a question that asks what an assertion (from 0) of another one does.

    Raises:
        Refused: There is none, or more than one.
    """

    def asks(of: Asked, at: int) -> list[Any]:
        return [of.number(at), *(of.assertions[at][key] for key in ("arm", "versus", "direction"))]

    found = [at for at in range(len(one.assertions)) if asks(one, at) == asks(first, place)]
    if len(found) != 1:
        raise Refused(f"{one.name}: asks {len(found)} times what is assertion {place + 1} of {first.name}")
    return found[0]


def section(cards: Sequence[Card], answers: Mapping[str, Asked]) -> Iterator[str]:
    """Yield how the forecasts did, and the table of them."""
    of = {name: card for card in cards for name in card.questions if name in answers}
    rows = list(scored([each for each in read() if each.question in of], answers))
    there = [(each.forecast, each.found) for each in rows if each.found and each.found["word"] != CANNOT]
    if there:
        inside = sum(forecast.holds(found["effect"]) for forecast, found in there)
        errors = [abs(found["effect"] - float(forecast.effect)) for forecast, found in there]
        nothing = [abs(found["effect"]) for _, found in there]
        large = [(float(each.effect), found) for each, found in there if abs(float(each.effect)) >= found["smallest"]]
        shown = sum(found["low"] > 0 if effect > 0 else found["high"] < 0 for effect, found in large)
        yield (
            f"**{inside} of {len(there)} lie in their interval.** "
            f"Of those that forecast a size that counts, {shown} of {len(large)} have their sign shown; the others do "
            "not test whether an effect carries over. The mean error is "
            f"{sum(errors) / len(there):.3f} on the scales of the effects; a forecast of no effect has "
            f"{sum(nothing) / len(there):.3f}."
        )
        yield ""
    yield "| | claim | forecast | of a Llama |"
    yield "|---|---|---|---|"
    for each in rows:
        place, card = each.forecast.assertion - 1, of[each.forecast.question]
        claimed = each.small.assertions[place]
        arm, versus = sides(claimed)
        what = f"`{arm}` {sign(claimed)} `{versus}`, {each.small.number(place)}"
        numbers = zip(("effect", "low", "high"), map(float, each.forecast[-3:]), strict=True)
        said = each.small.show(place, dict(numbers) | {"level": claimed["level"]})
        yield f"| [{card.label}](claims/{card.number}.md) | {what} | {said} | {told(each)} |"


def told(each: Scored) -> str:
    """Return what a Llama did, or which command asks it."""
    if lacking := NOT_WITH_TRL.get(each.forecast.question.removesuffix(REPLICATION)):
        return f"`backend=trl` has no {lacking}"
    if each.llama is None or each.found is None:
        return f"`rlexp ask {of_a_llama(*each.forecast[:2])}`"
    said = f"{effect(each.llama, each.llama.assertions.index(each.found))}: {headline(each.found)}"
    if each.found["word"] == CANNOT:
        return said
    return f"{said}; {'inside' if each.forecast.holds(each.found['effect']) else '**outside**'}"


if __name__ == "__main__":
    main()
