"""What `rlexp compare` and `rlexp ablate` printed, as findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchmarks.stored.study import DIFFERENCE, EXPECTED, PART, Finding

NUMBER = r"[+\-−]?[\d.]+(?:e[+\-−]?\d+)?"
INTERVAL = rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]"
VERDICTS = ("reproduced", "reversed", "practically equal", "not reproduced", "underpowered", "not judged")
VERDICT = re.compile(rf"^({'|'.join(VERDICTS)}): ")
CLAIM = re.compile(r"^(\S+) (?:higher than|lower than|equal to) (\S+?)(?:,? (?:by|within|in) .*)?$")
LEVEL = re.compile(r"^(\S+) (?:above|below) ")
SMALLEST = re.compile(r"(?:by at least |within ±)([\d.]+)")
OTHER_METRIC = re.compile(r", in (\S+)$")
REASON = re.compile(rf"^{INTERVAL}, p \(Holm\) = ({NUMBER}), n = (\d+)")
SEEDS = re.compile(r"^\d+/(\d+) seeds ")
PARTS = re.compile(rf"^(.*?)\s+{INTERVAL}\s+(<?[\d.]+)\s*(?:<? ?[\d.]+×)?\s*(.*?)\s*$")
TABLE_ROW = re.compile(r"^(\S+)\s+(\d+)\s+\S+ \[.+?\]\s+(\S+ \[.+?\]|baseline)\s*(<?[\d.]*|–)(?: |$)")
WORDS = ("helps a little", "hurts a little", "no material effect", "helps", "hurts", "open")


def number(text: str) -> float:
    """Return a printed number: `−0.014`, `<0.001`."""
    return float(text.replace("−", "-").lstrip("<"))


def verdicts(text: str, metric: str) -> list[Finding]:
    """Return what became of each expectation of a study; ``metric`` is the study's."""
    return [verdict(claim, reason, metric) for claim, reason in verdict_lines(text)]


def verdict_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each verdict with its claim, and its reason, whose lines are wrapped."""
    claim, reason, told = "", "", False
    for line in [*text.splitlines(), "- "]:
        if VERDICT.match(line) or line.startswith("- "):
            if claim:
                yield claim, reason
            if line.startswith("- "):
                return
            claim, reason, told = line, "", False
        elif claim:
            told = told or line.startswith("    ")
            claim, reason = (claim, f"{reason} {line.strip()}".strip()) if told else (f"{claim} {line.strip()}", "")


def verdict(line: str, reason: str, metric: str) -> Finding:
    """Return a verdict that was printed on two lines."""
    word = VERDICT.match(line)[1]
    claim = line.removeprefix(f"{word}: ")
    sides = CLAIM.match(claim)
    arm, versus = (sides[1], sides[2].rstrip(",")) if sides else (LEVEL.match(claim)[1], "")
    smallest, other = SMALLEST.search(claim), OTHER_METRIC.search(claim)
    found = REASON.match(reason)
    seeds = SEEDS.match(reason)
    numbers = dict(zip(("effect", "low", "high", "p"), map(number, found.groups()[:4]), strict=True)) if found else {}
    return Finding(
        role=EXPECTED,
        condition="",
        arm=arm,
        versus=versus,
        metric=other[1] if other else metric,
        verdict=word,
        expected=claim,
        n=int(found[5]) if found else int(seeds[1]) if seeds else None,
        smallest=float(smallest[1]) if smallest else None,
        said=reason,
        **numbers,
    )


def differences(text: str, axis: str, metric: str) -> list[Finding]:
    """Return the differences of a printed table: of the values of one axis to the one that is the baseline."""
    rows = [found for line in text.splitlines() if (found := TABLE_ROW.match(line))]
    return _differences([(row[1], row[2], row[3], row[4]) for row in rows], axis, metric)


def markdown_differences(text: str, axis: str, metric: str) -> list[Finding]:
    """Return the differences of a Markdown table; where several axes vary, rows have their overrides."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    head, _, *rows = lines
    columns = [head.index(name) for name in ("n", "difference [95 %]", "p (Holm)")]
    return _differences([(row[0], *(row[column] for column in columns)) for row in rows], axis, metric)


def _differences(rows: Sequence[tuple[str, str, str, str]], axis: str, metric: str) -> list[Finding]:
    """Return findings from rows of label, n, difference with its interval, and p."""
    (baseline,) = (label for label, _, difference, _ in rows if difference == "baseline")
    found = []
    for label, n, difference, p in rows:
        if numbers := re.match(INTERVAL, difference):
            effect, low, high = map(number, numbers.groups())
            arm, versus = named(label, axis), named(baseline, axis)
            p = number(p) if p not in ("", "–") else None
            numbers = {"effect": effect, "low": low, "high": high, "n": int(n), "p": p}
            found.append(Finding(DIFFERENCE, "", arm, versus, metric, **numbers))
    return found


def named(label: str, axis: str) -> str:
    """Return an arm's overrides from its label in a table of one axis."""
    return label if "=" in label else f"{axis}={label}"


def parts(text: str, names: Sequence[str], metric: str, n: int) -> list[Finding]:
    """Return what each part of a recipe is worth, from what `rlexp ablate` printed.

    Args:
        text: what was printed.
        names: of the parts, in their order; long ones are cut in two lines there.
        metric: that of the ablation.
        n: how many seeds, or starts, each arm has.

    Raises:
        ValueError: if there is not one row for each part.
    """
    _, _, below = text.partition("added first: the part alone − the baseline")
    rows, words = [], []
    for line in below.partition("arms:")[0].splitlines():
        if found := PARTS.match(line):
            rows.append(found)
            words.append(found[6])
        elif rows and line.strip():
            words[-1] += f" {line[len(line) - len(line.lstrip()) :].split('  ')[-1].strip()}"
    if len(rows) != len(names):
        raise ValueError(f"{len(rows)} rows for {len(names)} parts: {', '.join(names)}")
    return [
        Finding(
            role=PART,
            condition="",
            arm=name,
            versus="baseline",
            metric=metric,
            verdict=next(each for each in WORDS if word.startswith(each)),
            effect=number(row[2]),
            low=number(row[3]),
            high=number(row[4]),
            n=n,
            p=number(row[5]),
        )
        for name, row, word in zip(names, rows, words, strict=True)
    ]
