"""Does what one sweep shows hold in another? `rlexp transfer runs/<toy> runs/<language model>`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from rlexp.analysis.compare import relative_path
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.load import load
from rlexp.analysis.data.read import inner, write_text, writing_to
from rlexp.analysis.report.tables import Terminal, TextTable, csv_text, plain, print_files, print_table
from rlexp.analysis.stats.answer import Answer, Question, answer
from rlexp.analysis.stats.formatting import decimal_places, format_interval
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.transfer import Transfer, transfer, transfer_frame

SIGNS = {"higher": "↑", "lower": "↓", "equal": "=", "unclear": "?"}
EXAMPLES = """
examples:
  rlexp transfer runs/small runs/llama
  rlexp transfer runs/small runs/llama --metric eval/greedy_accuracy --margin 0.02
  rlexp transfer runs/small runs/llama --json | jq '.differences[].agreement'
"""


def find(
    first: str,
    second: str,
    metric: str | None,
    baseline: str | None,
    margin: float | None,
    names: tuple[str, str] | None = None,
) -> Transfer:
    """The answers of two sweeps to the same question, side by side; AnalysisError if they have nothing in common."""
    if Path(first).resolve() == Path(second).resolve():
        raise AnalysisError(f"{first}: is both sweeps; name two")
    if names is None:  # their folders' names, or their paths if those are the same
        names = printable(Path(first).resolve().name), printable(Path(second).resolve().name)
        names = names if names[0] != names[1] else (first, second)
    question = Question(metric=metric, baseline=baseline)
    answers: list[Answer] = [answer(load(folder), question) for folder in (first, second)]
    return transfer((answers[0], answers[1]), names, margin)


def print_transfer(found: Transfer, console: Console) -> None:
    """A table per stratum with the differences in both sweeps, the orders, and how many agree."""
    metric = found.metrics[0] if found.metrics[0] == found.metrics[1] else " and ".join(found.metrics)
    numbers = [each.difference for both in found.differences for each in both.found]
    digits = min(decimal_places(numbers), 3)
    console.print(Text(f"{metric}, difference to {found.baseline} [95 %]\n"))
    for order in found.orders:
        rows = []
        for both in found.differences:
            if both.stratum == order.stratum:
                cells = [
                    f"{format_interval(each.difference, each.low, each.high, digits, signed=True)} {SIGNS[each.says]}"
                    for each in both.found
                ]
                rows.append([both.label, *cells, both.agreement])
        print_table(TextTable([found.axis, *found.names, "sign"], rows), console, order.stratum or None)
        texts = [" > ".join(labels) for labels in order.orders]
        apart = f"{texts[0]} in {found.names[0]}, {texts[1]} in {found.names[1]}"
        said = f"{texts[0]} in both" if texts[0] == texts[1] else apart
        odds = f"the same in {order.same:.2f} of resampled seeds; by chance {order.chance:.2f}"
        console.print(Text(f"order: {said} ({odds})"))
        console.print()
    small = f", {SIGNS['equal']} smaller than {found.margin:g}" if found.margin else ""
    console.print(Text(f"{SIGNS['higher']} {SIGNS['lower']} p (Holm) < {ALPHA:g}{small}, {SIGNS['unclear']} unclear"))
    console.print(Text(summary(found), style="bold"))


def summary(found: Transfer) -> str:
    """`Of 8 differences 3 agree, 1 is opposite, 1 is only in small, 3 are open; 3 of 4 orders are the same.`."""
    counts, total = found.counts(), len(found.differences)
    names = ("agree", "opposite", *(f"only in {name}" for name in found.names), "open")
    parts = [f"{counts[name]} {name}" for name in names if counts[name]]
    same = sum(order.orders[0] == order.orders[1] for order in found.orders)
    return f"Of {total} signs: {', '.join(parts)}. Of {len(found.orders)} orders: {same} the same."


def as_json(found: Transfer) -> str:
    """The text; numbers that are missing or not finite are null."""
    content = {
        "sweeps": list(found.names),
        "metrics": list(found.metrics),
        "baseline": found.baseline,
        "margin": found.margin,
        "counts": dict(found.counts()),
        "differences": [
            each._asdict() | {"found": [one._asdict() for one in each.found]} for each in found.differences
        ],
        "orders": [each._asdict() for each in found.orders],
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def write_files(found: Transfer, out: Path) -> list[Path]:
    """Table, JSON and figure; the paths written."""
    from rlexp.analysis.figures.effects import transfer_figure
    from rlexp.analysis.figures.layout import save_figure

    with writing_to(out):
        table = write_text(out / "transfer.csv", csv_text(transfer_frame(found), index=False))
        content = write_text(out / "transfer.json", as_json(found) + "\n")
        return [table, content, *save_figure(transfer_figure(found), out / "transfer")]


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 if something was compared, 2 if nothing could be."""
    description = "Set what two sweeps over the same arms say side by side: does the second agree with the first?"
    parser = CommandParser("rlexp transfer", description, EXAMPLES)
    add = parser.add_argument
    add("first", help="folder of a sweep, such as one of small policies")
    add("second", help="folder of a sweep with the same arms elsewhere, such as on a language model")
    add("--metric", help="compare this metric of both instead of the score")
    add("--baseline", help="arm that the others are compared with; that of the sweeps unless named")
    add("--names", help="what the sweeps are called, as small,llama; their folders' names unless given")
    add("--margin", type=float, help="differences below it count as none; the study's minimum_effect unless named")
    add("--out", help="folder for table, JSON and figure; <second>/analysis/transfer unless named")
    add("--json", action="store_true", help="print all as JSON, and nothing else")
    options = parser.parse_args(arguments)
    if options.margin is not None and not options.margin >= 0:
        raise AnalysisError(f"--margin {options.margin:g}: must be at least 0")
    names = None
    if options.names is not None:
        names = tuple(options.names.split(","))
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            raise AnalysisError(f"--names {options.names}: expected two different names, as small,llama")
    found = find(options.first, options.second, options.metric, options.baseline, options.margin, names)
    files = write_files(found, Path(options.out or inner(options.second, "analysis", "transfer")))
    if options.json:
        print(as_json(found))
        return 0
    console = Terminal()
    print_transfer(found, console)
    console.print()
    print_files(console, files, relative_path(files[0].parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
