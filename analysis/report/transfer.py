"""What sweeps in order of size say of each other, as text and as JSON, and its files."""

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.read import write_text, writing_to
from rlexp.analysis.report.tables import SPACE, TextTable, csv_text, plain, print_table
from rlexp.analysis.stats.agreement import EffectAgreement, Measured
from rlexp.analysis.stats.decision import CHANCE
from rlexp.analysis.stats.formatting import decimal_places, format_interval, format_number
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.transfer import Order, Transfer, decision_frame, transfer_frame

SIGNS = {"higher": "↑", "lower": "↓", "equal": "=", "unclear": "?"}


def print_transfer(found: Transfer, console: Console) -> None:
    """Print the differences in all sweeps by stratum, the orders, and how many pairs a smaller sweep decides."""
    metric = " and ".join(dict.fromkeys(found.metrics))
    console.print(Text(f"{metric}, difference to {found.baseline} [95 %]\n"))
    orders = {order.stratum: order for order in found.orders}
    strata = list(dict.fromkeys(row.stratum for row in found.differences))
    tables = [sign_table(found, stratum) for stratum in strata]
    if short := any(width_of(table) > console.width for table in tables):
        tables = [sign_table(found, stratum, intervals=False) for stratum in strata]
    for stratum, table in zip(strata, tables, strict=True):
        print_table(table, console, stratum or None)
        if stratum in orders:
            console.print(Text(order_text(orders[stratum], found)))
        console.print()
    small = f", {SIGNS['equal']} smaller than {found.margin:g}" if found.margin else ""
    if not small and any(each.says == "equal" for row in found.differences for each in row.found):
        small = f", {SIGNS['equal']} no material effect"  # of ablations, which have their own smallest one
    console.print(Text(f"{SIGNS['higher']} {SIGNS['lower']} p (Holm) < {ALPHA:g}{small}, {SIGNS['unclear']} unclear"))
    if short:
        console.print(Text("intervals: transfer.csv"))
    console.print(Text(summary(found), style="bold"))
    if found.decisions:
        console.print()
        print_table(decision_table(found), console, f"Does it decide as {largest(found)}? [95 %]")
        console.print(Text(f"chance is {CHANCE:g}; undecided: p ≥ {ALPHA:g}; effects are on the scale ({found.scale})"))
    for note in found.notes:
        console.print(Text(f"- {note}", style="dim"))


def width_of(table: TextTable) -> int:
    """Return the characters that a table needs to be printed in full."""
    return sum(max(map(len, column)) + SPACE for column in zip(table.headers, *table.rows, strict=True))


def largest(found: Transfer) -> str:
    """Return the name of the largest sweep."""
    return found.names[-1]


def sign_table(found: Transfer, stratum: str, intervals: bool = True) -> TextTable:
    """Return a row per arm: its difference in each sweep, and what each smaller one says beside the largest."""
    numbers = [each.difference for row in found.differences for each in row.found]
    digits = min(decimal_places(numbers), 3)
    many, rows = len(found.names) > 2, []
    for row in found.differences:
        if row.stratum == stratum:
            ends = [(each.low, each.high) if intervals else (np.nan, np.nan) for each in row.found]
            cells = [
                f"{format_interval(each.difference, *both, digits, signed=True)} {SIGNS[each.says]}"
                for each, both in zip(row.found, ends, strict=True)
            ]
            pairs = zip(cells, row.agreements, strict=False)
            cells = [*(text for pair in pairs for text in pair), cells[-1]] if many else [*cells, row.agreement]
            rows.append([row.label, *cells])
    headers = [text for name in found.names[:-1] for text in (name, "sign")]
    headers = [*headers, largest(found)] if many else [*found.names, "sign"]
    return TextTable([found.axis, *headers], rows)


def order_text(order: Order, found: Transfer) -> str:
    """Return the orders of the arms of a stratum, and how often a smaller sweep has that of the largest."""
    texts = [" > ".join(labels) for labels in order.orders]
    apart = ", ".join(f"{text} in {name}" for text, name in zip(texts, found.names, strict=True))
    everywhere = "both" if len(texts) == 2 else "all"
    said = f"{texts[0]} in {everywhere}" if len(set(texts)) == 1 else apart
    same = [format_number(each, 2) for each in order.same]
    if len(same) > 1:
        same = [f"{each} ({name})" for each, name in zip(same, found.names, strict=False)]
        same = [f"that of {largest(found)} in {' and '.join(same)}"]
    else:
        same = [f"the same in {same[0]}"]
    return f"order: {said} ({same[0]} of resampled {found.units[0].split()[1]}; by chance {order.chance:.2f})"


def decision_table(found: Transfer) -> TextTable:
    """Return a column per smaller sweep: decision accuracy, abstentions, and agreement of effects."""
    rows: dict[str, list[str]] = {}
    for size, one, effects in zip(found.weights, found.decisions, found.effects, strict=False):
        cells = {} if size is None else {"weights": f"{size:,.0f}"}
        cells |= {
            f"accuracy over all {one.pairs} pairs": format_interval(one.accuracy, one.low, one.high, 2),
            "over pairs decided in both": format_interval(one.decided_accuracy, one.decided_low, one.decided_high, 2),
            "pairs decided in both": str(one.decided),
            "undecided here": str(one.abstained[0]),
            f"undecided in {largest(found)}": str(one.abstained[1]),
        }
        if not np.isnan(effects.pearson.value):
            names = {"slope of effects": effects.slope, "correlation (Pearson)": effects.pearson}
            names |= {"correlation (Spearman)": effects.spearman, "correlation without noise": effects.disattenuated}
            cells |= {name: format_interval(*each, 2) for name, each in names.items()}
        for name, text in cells.items():
            rows.setdefault(name, []).append(text)
    return TextTable(["", *found.names[:-1]], [[name, *cells] for name, cells in rows.items()])


def summary(found: Transfer) -> str:
    """Count signs and orders: `Of 8 signs: 3 agree, 1 opposite, 4 open. Of 4 orders: 3 the same.`.

    Of several smaller sweeps each has a line.
    """
    lines = []
    for place, name in enumerate(found.names[:-1]):
        counts = found.counts(place)
        words = ("agree", "opposite", *(f"only in {each}" for each in (name, largest(found))), "open")
        parts = [f"{counts[word]} {word}" for word in words if counts[word]]
        line = f"Of {len(found.differences)} signs: {', '.join(parts)}."
        if found.orders:
            same = sum(order.orders[place] == order.orders[-1] for order in found.orders)
            line += f" Of {len(found.orders)} orders: {same} the same."
        lines.append(line if len(found.names) == 2 else f"{name}: {line}")
    return "\n".join(lines)


def as_json(found: Transfer) -> str:
    """Return all of it; numbers that are missing or not finite are null."""
    names = found.names[:-1]
    content = {
        "sweeps": list(found.names),
        "weights": found.weights,
        "units": found.units,
        "metrics": list(found.metrics),
        "baseline": found.baseline,
        "margin": found.margin,
        "scale": found.scale,
        "counts": dict(found.counts()),
        "decisions": [
            {"sweep": name, **one._asdict(), "effects": _numbers(effects)}
            for name, one, effects in zip(names, found.decisions, found.effects, strict=False)
        ],
        "differences": [
            {"stratum": row.stratum, "arm": row.arm, "label": row.label}
            | {"found": [one._asdict() for one in row.found], "agreement": row.agreement}
            | {"agreements": dict(zip(names, row.agreements, strict=True))}
            for row in found.differences
        ],
        "orders": [each._asdict() | {"same": dict(zip(names, each.same, strict=True))} for each in found.orders],
        "notes": list(found.notes),
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def _numbers(effects: EffectAgreement) -> dict[str, object]:
    return {key: each._asdict() if isinstance(each, Measured) else each for key, each in effects._asdict().items()}


def write_files(found: Transfer, out: Path) -> list[Path]:
    """Write tables, JSON and figure; return the paths written."""
    from rlexp.analysis.figures.layout import save_figure
    from rlexp.analysis.figures.transfer import transfer_figure

    with writing_to(out):
        tables = [write_text(out / "transfer.csv", csv_text(transfer_frame(found), index=False))]
        if found.decisions:
            tables.append(write_text(out / "decisions.csv", csv_text(decision_frame(found), index=False)))
        content = write_text(out / "transfer.json", as_json(found) + "\n")
        return [*tables, content, *save_figure(transfer_figure(found), out / "transfer")]
