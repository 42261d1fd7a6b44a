"""What is stored of the processor types as tables: what each says, whose the variance is, what intervals leave out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.processors import variance
from rlexp.analysis.report.tables import TextTable, print_table
from rlexp.analysis.stats.estimates import mean_difference
from rlexp.analysis.stats.formatting import format_interval, format_number, format_p
from rlexp.analysis.stats.significance import ALPHA, holm, sign_flip_p

BASELINE, *OTHERS = NORMS = ("local", "global", "hybrid")
DIFFERENCES = {norm: f"{norm} − {BASELINE}" for norm in OTHERS}
TOGETHER = "mean of all types"
WIDTH, DIGITS = 100, 3

Values = Mapping[str, np.ndarray]


def page(stored: Mapping[str, Any]) -> str:
    """Return the tables as text."""
    types = [name for name in stored["types"] if name not in stored["same_bits"]]
    values = layout(stored, types)
    seeds = len(stored["seeds"])
    tables = {f"{name}, by {seeds} seeds": verdicts(types, values, norm) for norm, name in DIFFERENCES.items()}
    tables[f"whose the variance is, {seeds} seeds on each of {len(types)} types"] = variances(values)
    tables[f"what {seeds} seeds on one type leave out"] = left_out(values)
    console = Console(file=StringIO(), width=WIDTH, color_system=None)
    for title, table in tables.items():
        console.print()
        print_table(table, console, title)
    lines = [*heading(stored), *console.file.getvalue().splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def heading(stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was trained, and where."""
    yield f"$ {stored['command']}"
    yield stored["trains"]
    for name, found in stored["types"].items():
        settings = " ".join(f"{key}={value}" for key, value in found["settings"].items())
        same = f", the bits of {stored['same_bits'][name]}: left out" if name in stored["same_bits"] else ""
        yield f"{name}: {found['on']['processor']}, {settings}, hash of all rows {found['rows']}{same}"


def layout(stored: Mapping[str, Any], types: list[str]) -> dict[str, np.ndarray]:
    """Scores `[seeds, types]` of the baseline, and the differences of the others to it."""
    found = [stored["types"][name]["scores"] for name in types]
    scores = {norm: np.array([[one[norm][seed] for one in found] for seed in stored["seeds"]]) for norm in NORMS}
    return {BASELINE: scores[BASELINE]} | {DIFFERENCES[norm]: scores[norm] - scores[BASELINE] for norm in OTHERS}


def verdicts(types: list[str], values: Values, norm: str) -> TextTable:
    """What a sweep on each type says of a norm, and what the means of each seed over all types say."""
    rows = []
    for place, name in enumerate([*types, TOGETHER]):
        of_a_type = {key: each.mean(-1) if name == TOGETHER else each[:, place] for key, each in values.items()}
        corrected = holm(np.array([sign_flip_p(of_a_type[other]) for other in DIFFERENCES.values()]))
        found, p = mean_difference(of_a_type[DIFFERENCES[norm]]), float(corrected[OTHERS.index(norm)])
        interval = format_interval(float(found.mean), float(found.low), float(found.high), DIGITS, signed=True)
        level = format_number(of_a_type[BASELINE].mean(), DIGITS)
        rows.append([name, level, interval, format_p(p), verdict(found.mean, p)])
    return TextTable(["processor type", BASELINE, "difference [95 %]", "p (Holm)", "verdict"], rows)


def verdict(difference: float, p_holm: float) -> str:
    """What a comparison says of a difference."""
    return "not told apart" if p_holm >= ALPHA else "better" if difference > 0 else "worse"


def variances(values: Values) -> TextTable:
    """Standard deviation and share of each source, in the baseline's score and in the differences."""
    rows = []
    for name, array in values.items():
        found = zip(variance.components(array), variance.shares(array), variance.share_intervals(array), strict=True)
        cells = [(np.sqrt(max(square, 0.0)), format_interval(share, *ends, 2)) for square, share, ends in found]
        rows.append([name, *(f"{format_number(sd, DIGITS)}, {share}" for sd, share in cells)])
    return TextTable(["SD, share [95 %] of", "seed", "processor", "seed × processor"], rows)


def left_out(values: Values) -> TextTable:
    """The processor's own effect, by what factor an interval is too narrow for it, and how far means lie apart."""
    headers = ["", "F", "p", "too narrow by [95 %]", "holds in", "apart by type", "by seeds"]
    rows = []
    for name, array in values.items():
        n, effect = len(array), variance.processor_effect(array)
        factors, gaps = variance.too_narrow(array, n), variance.typical_gaps(array)
        row = [name, format_number(effect.f, 2), format_p(effect.p), format_interval(*factors, 2)]
        row += [format_number(variance.coverage(factors[0], n), 2), *(format_number(gap, DIGITS) for gap in gaps)]
        rows.append(row)
    return TextTable(headers, rows)
