"""The card of a claim, docs/claims/<number>.md: its parts always come in one order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC

from benchmarks.cards.asked import DOCS, Asked, depends, effect, headline, settings, sides
from benchmarks.cards.declared import answered, committed_since, last_asked
from benchmarks.cards.page import declared_in
from benchmarks.cards.texts import Card, label
from rlexp.analysis.stats.words import CANNOT
from rlexp.question.declare import first_runs

READ = {
    "full": "read in full",
    "excerpt": "read in part",
    "abstract": "abstract read",
    "second-hand": "known second-hand",
}


def card_page(card: Card, answers: Mapping[str, Asked]) -> str:
    """Return the page of a card; Refused where a question is younger than its first run."""
    return "\n\n".join(sections(card, answers)) + "\n"


def sections(card: Card, answers: Mapping[str, Asked]) -> Iterator[str]:
    """Yield the paragraphs of a card."""
    there = answered(card, answers)
    last = last_asked(there)
    first = [one for one in there if one not in last]
    found = [*last, *first]
    yield f"# {card.label}. {card.claim}"
    yield f"**Claim.** {card.said} Source: {card.source} ({READ[card.read]}). Its setting: {card.regime}"
    yield f"**Answer.** {card.answer or ('Not written yet.' if found else 'Not trained yet.')}"
    if found:
        yield "\n".join(f"- {line}" for one in last for line in outcomes(one))
    if first:
        yield "Before the replication, which counts in its place:"
        yield "\n".join(f"- {line}" for one in first for line in outcomes(one))
    if card.trust:
        yield f"**Trust {card.trust.grade}**: {card.trust.reason}"
    for one in found:
        yield f"## {one.declared['question']}"
        yield from effects(one)
        yield from figures(one)
    if found:
        yield "## What to make of it"
    if card.details:
        yield f"**In detail.** {card.details}"
    yield f"**Why.** {card.why}"
    if card.practice:
        yield f"**For practice.** {card.practice}"
    yield f"**Strongest objection.** {card.objection}"
    yield f"**What is known about it.** {card.known}"
    for one in found:
        yield f"**Every seed.** {every_seed(one)}"
        yield f"**Declared.** {declared(one)}"
    for name in card.questions:
        runs = "" if name in answers else f": {first_runs(declared_in(name)):,} runs to begin with"
        yield f"**Train it{' again' if name in answers else ''}.** `rlexp ask {name} --folder runs/{name}`{runs}."
    tried = f"[What was tried before](../claims_explored.md#{label(card.explored).lower()}). " if card.explored else ""
    yield f"{tried}[All claims](../claims.md)."


def outcomes(one: Asked) -> Iterator[str]:
    """Yield what came out for each assertion: the word, the effect, and where one more setting would lie."""
    for place, each in enumerate(one.assertions):
        text = f"{each['claim']}: **{headline(each)}**, {effect(one, place)}"
        if each["word"] != CANNOT:
            text += f" ({100 * each['confidence']:g} % interval, {settings(one, place)})"
            if each["predicted"][0] is not None:
                low, high = each["predicted"]
                _, _, ends = one.show(place, each | {"low": low, "high": high}).partition("[")
                text += f". In 95 of 100 more settings like these it lies in [{ends.partition(']')[0]}]"
            text += f". It {found}" if (found := depends(each)) else ""
            shares = ", ".join(f"{word} {share:.2f}" for word, share in each["stability"].items())
            text += f". Redrawn: {shares}"
        yield f"{text}."


def effects(one: Asked) -> Iterator[str]:
    """Yield the forest of each assertion, with a table of its settings."""
    for place, each in enumerate(one.assertions):
        arm, versus = sides(each)
        if one.conditions:
            yield image(
                one, f"assertion_{place + 1}.svg", f"The effect in each setting, and pooled: {one.number(place)}"
            )
        heads = ["setting", "n", *([f"best {one.tuned}"] if one.tuned else [])]
        heads += [f"`{arm}` {'/' if each['scale'] == 'log' else '−'} `{versus}` [95 %]", ""]
        rows = [heads, ["---", "---:", *(["---:"] if one.tuned else []), "---:", "---"]]
        for found in each["conditions"]:
            values = [", ".join(f"{value:.3g}" for value in found["values"])] if one.tuned and found["n"] else []
            shown = "–" if found["error"] is None else one.show(place, found, found["condition"])
            values = values or (["–"] if one.tuned else [])
            dropped = f"dropped: {found['fails']}" if found["fails"] else ""
            rows.append([found["condition"].replace(",", ", "), str(found["n"]), *values, shown, dropped])
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)


def figures(one: Asked) -> Iterator[str]:
    """Yield the learning curves and the curves over the tuned key; where no arm is judged there are none."""
    if not one.conditions:
        return
    for number, metric in enumerate(one.metrics, 1):
        yield image(one, f"curves_{number}.svg", f"Learning curves of each arm in each setting: {metric}")
    if one.tuned:
        yield image(one, "rates.svg", f"Each arm over {one.tuned} in each setting")


def image(one: Asked, file: str, text: str) -> str:
    return f'<img src="{at(one)}/{file}" width="420" alt="{text}">'


def at(one: Asked) -> str:
    """Return where what is kept lies, from a card."""
    return f"../{one.folder.relative_to(DOCS).as_posix()}"


def every_seed(one: Asked) -> str:
    """Return where each run's score and curve are."""
    return (
        f"[docs/{at(one)[3:]}]({at(one)}): `runs.parquet` has a row a run, `curves.parquet` one an evaluation, and "
        f"`effects.csv` one a setting. [The explorer](../explorer.html#q={one.name}) shows them, and the "
        "[data set](../explore.md#the-data-set) has them."
    )


def declared(one: Asked) -> str:
    """Return when a question was committed, when its first run began, and on which processors runs were trained."""
    since = committed_since(one.name)
    then, began = (f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for time in (since.time, one.began))
    file = f"conf/study/questions/{one.name}.yaml"
    processors = sorted({machine.partition(",")[0] for machine in one.runs["machine"]})
    return (
        f"[{file}](../../{file}), as it is since {then} ({since.commit[:8]}); its hash is `{one.hash}`. The first run "
        f"began at {began}. Trained on {' and '.join(processors)}."
    )
