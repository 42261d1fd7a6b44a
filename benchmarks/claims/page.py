"""docs/claims_explored.md, from the words of the claims and the records of their studies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims.outcome import Finding, Outcome, findings, latest, outcome
from benchmarks.claims.texts import Claim
from benchmarks.parts.common import ROOT
from rlexp.analysis.stats.verdicts import EXPLORATORY

SIZE = re.compile(r", (by at least|within) [^,]+")
STUDIED = ROOT / "docs" / "studies"
READ = {
    "full": "read whole",
    "excerpt": "read in part",
    "abstract": "only its abstract was read",
    "second-hand": "not read: known from what others say of it",
}
Records = Mapping[str, Mapping[str, Any]]

HEAD = Path(__file__).with_name("head.md")


def page(claims: Sequence[Claim], records: Records) -> str:
    """Return the whole page; a study without a record is named as not run."""
    parts = {"summary": summary(claims, records), "exploratory": EXPLORATORY, "table": table(claims, records)}
    text = HEAD.read_text(encoding="utf-8").format(**parts)
    sections = ["\n\n".join(filter(None, paragraphs(claim, records))) + "\n" for claim in claims]
    return text + "\n" + "\n".join(sections)


def found_of(claim: Claim, records: Records) -> list[Finding]:
    """Return what the studies of a claim found that have a record."""
    return findings([records[name] for name in claim.studies if name in records])


def outcome_of(claim: Claim, records: Records) -> Outcome:
    """Return what became of a claim."""
    return outcome(found_of(claim, records))


def summary(claims: Sequence[Claim], records: Records) -> str:
    """Return how many claims came out how, in a sentence."""
    asked = [claim for claim in claims if claim.studies]
    words = [outcome_of(claim, records).word for claim in asked]
    kinds = dict.fromkeys(word.split(" on ")[0] for word in sorted(words, key=words.count, reverse=True))
    told = {"depends": "that depend on the start or on something else", "in part": "in part"}
    counts = ", ".join(f"{sum(word.startswith(kind) for word in words)} {told.get(kind, kind)}" for kind in kinds)
    runs = sum(record["runs"] for record in records.values())
    return (
        f"{len(claims)} published claims were tried again on small tasks whose truth is known, with paired seeds, "
        f"tuned learning rates and expectations that were written down beforehand: {runs:,} runs. Of the {len(asked)} "
        f"that can be asked here: {counts}."
    )


def table(claims: Sequence[Claim], records: Records) -> str:
    """Return the table of all claims."""
    lines = ["| | claim | what became of it | its expectations |", "|---|---|---|---|"]
    for claim in claims:
        result = outcome_of(claim, records)
        word = f"**{result.word}**" if claim.studies else "not asked here"
        lines.append(f"| [{claim.label}](#{claim.label.lower()}) | {claim.title} | {word} | {result.text or '–'} |")
    return "\n".join(lines)


def paragraphs(claim: Claim, records: Records) -> Iterator[str]:
    """Yield the paragraphs of a claim's section."""
    yield f'<a id="{claim.label.lower()}"></a>\n## {claim.label}. {claim.title}'
    result = outcome_of(claim, records)
    if claim.studies:
        yield f"**{result.word.capitalize()}**" + (f" ({result.text})." if result.text else ".")
    else:
        yield f"**Not asked here.** {claim.needs.strip()}"
    sources = {claim.source: claim.read, **claim.further}
    yield f"{claim.says.strip()} Source: {'; '.join(f'{name} ({READ[read]})' for name, read in sources.items())}."
    run = [name for name in claim.studies if name in records]
    if run:
        yield verdict_table(found_of(claim, records))
        yield "\n".join(f"- Where it turns: {text}." for text in result.boundaries)
        yield checked([records[name] for name in run])
        if untuned := [name for name in run if not records[name].get("best_of")]:
            yield f"Without a learning rate chosen for each arm: {', '.join(untuned)}."
        yield f"![{claim.label}](claims/{claim.number}.svg)"
    yield f"**Why.** {claim.mechanism.strip()}"
    if claim.practice:
        yield f"**For practice.** {claim.practice.strip()}"
    yield f"**What this cannot show.** {claim.limits.strip()}"
    if claim.history:
        yield f"**Changed after the first run.** {claim.history.strip()}"
    earlier = [name for name in claim.studies if name not in records and (STUDIED / f"{name}.txt").is_file()]
    missing = [name for name in claim.studies if name not in records and name not in earlier]
    if earlier:
        links = ", ".join(f"[study={name}](studies.md#study{name})" for name in earlier)
        yield f"Earlier studies of the same, which do not count here: {links}."
    if run:
        yield f"Again: {', '.join(f'`rlexp study={name}`' for name in run)}."
    if missing:
        yield f"Written down and not run yet: {', '.join(f'`study={name}`' for name in missing)}."


def verdict_table(found: Sequence[Finding]) -> str:
    """Return a row for each expectation, with the number that it has in the figure."""
    lines = ["| | expected | where | study | found | verdict |", "|---|---|---|---|---|---|"]
    counted = latest(found)
    for n, each in enumerate(found, 1):
        word = each.word if each in counted else f"{each.word}, asked again below"
        cells = (str(n), f"`{each.expectation}`", each.place or "–", each.name, each.verdict["reason"], word)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def labelled(found: Finding) -> str:
    """Return an expectation and its place as a row's name in a figure."""
    words = SIZE.sub("", found.expectation)
    return f"{found.place}: {words}" if found.place else words


def checked(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what became of controls and identity checks, and of studies without a verdict."""
    done = findings(records, checks=True)
    lines = [each["no_verdict"] for each in records if each["no_verdict"]]
    if done:
        good = sum(each.word == "reproduced" for each in done)
        lines.append(f"Checks that hold (arms that must coincide, and controls): {good} of {len(done)}.")
        lines += [f"Does not hold: `{each.expectation}` ({each.name}): {each.verdict['reason']}."
                  for each in done if each.word != "reproduced"]  # fmt: skip
    return "\n".join(lines)


def write(claims: Sequence[Claim], records: Records, home: Path) -> None:
    """Write the page, and the figures beside the records."""
    from benchmarks.claims.figure import rows_figure
    from rlexp.analysis.figures.layout import theme

    (home.parent / "claims_explored.md").write_text(page(claims, records), encoding="utf-8")
    found = [(claim, found_of(claim, records)) for claim in claims]
    rows = {"claims": [(f"{claim.label}  {claim.title}", latest(each)) for claim, each in found if each]}
    rows |= {claim.number: [(f"{n}  {labelled(one)}", [one]) for n, one in enumerate(each, 1)] for claim, each in found}
    titles = {claim.number: claim.label for claim in claims} | {"claims": "Which published tricks survive ten seeds?"}
    with theme():
        for name, lines in rows.items():
            if lines:
                figure = rows_figure(lines, titles[name], intervals=name != "claims")
                figure.savefig(home / f"{name}.svg", metadata={"Date": None})
