"""docs/claims.md: a scorecard of the claims, how sure it is, and what is not trained yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cards import changes, forecasts, one_rate, other_tasks
from benchmarks.cards.asked import (
    DOCS,
    LANGUAGE_MODEL,
    STAYS,
    Asked,
    depends,
    effect,
    headline,
    settings,
    sides,
    sign,
    stays,
    steps_of,
    tier,
)
from benchmarks.cards.controls import nulls
from benchmarks.cards.declared import answered, last_asked
from benchmarks.cards.texts import REPLICATION, TASKS, Card
from rlexp.analysis.stats.words import CANNOT
from rlexp.question.declare import declaration, first_runs
from rlexp.question.spec import named_conditions, read_question

HEAD = Path(__file__).with_name("head.md")
Answers = Mapping[str, Asked]


def page(cards: Sequence[Card], answers: Answers) -> str:
    """Return docs/claims.md.

    Raises:
        Refused: a question is younger than its first run.
    """
    used = [
        answers[name] for name in dict.fromkeys(name for card in cards for name in card.questions) if name in answers
    ]
    parts = {
        "summary": summary(cards, used),
        "answers": "\n".join(in_short(cards)),
        "changes": changes.summary([*changes.changes(last_asked(used))]),
        "rates": one_rate.summary([*one_rate.compared(last_asked(used))]),
        "scorecard": "\n".join(scorecard(cards, answers)),
        "checks": "\n".join(f"- {line}" for line in checks(last_asked(used), answers)),
        "forecasts": "\n".join(forecasts.section(cards, answers)),
        "tasks": "\n".join(other_tasks.section(cards, answers)),
        "untrained": "\n".join(untrained(cards, answers)),
    }
    return HEAD.read_text(encoding="utf-8").format(**parts)


def summary(cards: Sequence[Card], used: Sequence[Asked]) -> str:
    """Return how many claims have an answer, and what it rests on."""
    names = {one.name for one in used}
    there = sum(bool(names & {*card.questions}) for card in cards)
    runs = sum(len(one.runs) for one in used)
    unasked = [f"[{card.label}](claims/{card.number}.md)" for card in cards if not card.questions]
    rest = f" No question is asked of {' and '.join(unasked)}: see the card." if unasked else ""
    rest += " The others wait for their runs ([below](#not-trained-yet))." if there + len(unasked) < len(cards) else ""
    return (
        f"**{there} of {len(cards)} published claims have an answer here**, from {runs:,} runs of small models on "
        f"tasks whose truth is known.{rest}"
    )


def in_short(cards: Sequence[Card]) -> Iterator[str]:
    """Yield a row a claim: its answer in one sentence, and how far it can be trusted."""
    yield "| | claim | answer | trust |"
    yield "|---|---|---|---|"
    for card in cards:
        cells = [f"[{card.label}](claims/{card.number}.md)", card.claim, card.answer or "not asked yet"]
        yield f"| {' | '.join(cell.replace('|', '/') for cell in [*cells, card.trust.grade if card.trust else ''])} |"


def scorecard(cards: Sequence[Card], answers: Answers) -> Iterator[str]:
    """Yield the table of claims with an answer: a row a claim, then one for each of its assertions."""
    yield "| | claim | answer | effect | settings | tier | trust |"
    yield "|---|---|---|---|---|---|---|"
    for card in cards:
        found = last_asked(answered(card, answers))
        rows = [assertion_cells(one, place) for one in found for place in range(len(one.assertions))]
        trust = f"**{card.trust.grade}**: {card.trust.reason}" if card.trust else "not judged yet"
        head = [f"[{card.label}](claims/{card.number}.md)", f"**{card.claim}**", "", "", "", "", trust]
        for cells in [head, *rows] if rows else []:
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def assertion_cells(one: Asked, place: int) -> list[str]:
    """Return an assertion as a row: what is claimed of which number, its word, effect, settings and tier."""
    assertion = one.assertions[place]
    arm, versus = sides(assertion)
    claimed = f"`{arm}` {sign(assertion)} `{versus}`, {one.number(place)}"
    word = ", ".join(filter(None, [f"**{headline(assertion)}**", depends(assertion)]))
    return ["", claimed, word, effect(one, place), settings(one, place), one.tier, ""]


def checks(used: Sequence[Asked], answers: Answers) -> Iterator[str]:
    """Yield what the page's answers and the controls of all questions say of how sure it is."""
    assertions = [each for one in used for each in one.assertions]
    places = [condition for each in assertions for condition in each["conditions"]]
    lost = sum(bool(each["fails"]) for each in places)
    silent = sum(each["word"] == CANNOT for each in assertions)
    yield f"**Dropped**: {lost} of {len(places)} settings of assertions{share(lost, len(places))}."
    yield f"**Cannot answer**: {silent} of {len(assertions)} assertions{share(silent, len(assertions))}."
    pairs = [(one, condition) for one in used for condition in one.conditions if one.tuned]
    ends = sum(bool(one.ends(condition)) for one, condition in pairs)
    yield (
        f"**Best rate at the end of its grid**, where the curve still rises: in {ends} of {len(pairs)} settings in "
        "which one is chosen. They are dropped."
    )
    kept = np.array([stays(each) for each in assertions if each["stability"]])
    lean = int((kept < STAYS).sum())
    mean = f" on average {kept.mean():.3f}" if kept.size else " not known yet"
    yield (
        f"**Redrawn**: effects are drawn 1,000 times around their estimates, and judged. The share that says the word "
        f"again is{mean}. It is below {STAYS:g} for {lean} of {kept.size} words, which say that they lean."
    )
    found = [null for name in sorted(answers) for null in nulls(answers[name])]
    called, moved, all_of = (
        sum(null.called for null in found),
        sum(n.moved for n in found),
        sum(n.conditions for n in found),
    )
    names = "; ".join(f"`{null.what}` ({null.question})" for null in found if null.called)
    yield (
        f"**Negative controls** of all questions that were asked: {called} of {len(found)} are called something"
        f"{f' ({names})' if names else ''}. Their check fails in {moved} of {all_of} settings."
    )
    (known,) = (each for each in calibrated() if (each["of"], each["words"]) == ("all nulls", "all conditions"))
    yield (
        f"**Twenty nulls** whose truth is known, each asked three times through the [whole pipeline]"
        f"(questions.md#calibration-of-the-whole-pipeline), rates included: {known['false']} of {known['of_words']} "
        "are called something."
    )


def calibrated() -> list[dict[str, Any]]:
    """Return how often words of trained nulls are false, as ``python -m benchmarks.calibration`` counted it."""
    return json.loads((DOCS / "statistics" / "calibration.json").read_text(encoding="utf-8"))["false"]


def share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.0f} %)" if whole else ""


def untrained(cards: Sequence[Card], answers: Answers) -> Iterator[str]:
    """Yield the table of questions without an answer."""
    yield "| | claim | trains it | runs | core-minutes, about |"
    yield "|---|---|---|---:|---:|"
    missing = [(card, name) for card in cards for name in card.questions if name not in answers]
    for card, name in missing:
        link, claim = f"[{card.label}](claims/{card.number}.md)", card.claim.replace("|", "/")
        asks = declared_in(name)
        seconds = likely_seconds(name, asks, answers)
        minutes = f"{first_runs(asks) * steps_of(asks) * seconds / 60:.0f}" if seconds else "–"
        yield f"| {link} | {claim} | `rlexp ask {name} --folder runs/{name}` | {first_runs(asks):,} | {minutes} |"
    yield "\nMinutes are runs times steps times what one took where the question was asked first, grown grids included."
    times, llama = on_other_tasks(answers), of_tier(LANGUAGE_MODEL, answers)
    if times and any(name.endswith(TASKS) for _, name in missing):
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
        yield (
            f"Other tasks are taken to need {median:.1f} times that, as in the median of the {len(times)} that are "
            f"answered (half of them: {low:.1f} to {high:.1f})."
        )
    if llama and any(name.endswith(forecasts.LLAMA) for _, name in missing):
        yield f"A Llama is taken to need {np.median(llama):.2f} s a step, as in the median of its questions."


def likely_seconds(name: str, asks: Mapping[str, Any], answers: Answers) -> float | None:
    """Return what a step of a run likely takes: by the question asked first, or by the median answer of the tier."""
    first, times = name.removesuffix(REPLICATION).removesuffix(TASKS), on_other_tasks(answers)
    if first in answers:
        return answers[first].core_seconds * (np.median(times) if times and name.endswith(TASKS) else 1)
    like = of_tier(tier(asks["with"], [each["levels"] for each in asks["conditions"]]), answers)
    return np.median(like) if like else None


def of_tier(where: str, answers: Answers) -> list[float]:
    """Return what a step of a run took, of each answer of a tier."""
    return [one.core_seconds for one in answers.values() if one.tier == where]


def on_other_tasks(answers: Answers) -> list[float]:
    """Return how many times as long a step took on other tasks, of each question that is answered on both."""
    pairs = ((one, answers.get(f"{name}{TASKS}")) for name, one in answers.items())
    return [other.core_seconds / one.core_seconds for one, other in pairs if other]


def declared_in(name: str) -> dict[str, Any]:
    """Return what a question declares, unchecked."""
    written = read_question(name)
    return declaration(written, written.shared, named_conditions(written.conditions))
