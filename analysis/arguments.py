"""The command line of `python -m analysis.compare`."""

import argparse
from collections.abc import Sequence
from typing import Any

from analysis.measure import BUDGETS, Budget, Target
from analysis.read import AnalysisError
from analysis.variants import pieces

EXAMPLES = """
examples:
  python -m analysis.compare runs/<sweep> --baseline norm=global --metric eval/pass@8
  python -m analysis.compare runs/<sweep> --where norm=local,hybrid --by norm
  python -m analysis.compare runs/<one> runs/<another> --at tokens
  python -m analysis.compare runs/<sweep> --matched accuracy=0.9 --at tokens
  python -m analysis.compare runs/<sweep> --best-of lr
"""


def parse(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """The arguments of `report`. What argparse cannot read ends the process with 2; the rest is an AnalysisError."""
    given = vars(_parser().parse_args(arguments))
    return given | {
        "by": _axes(given["by"]),
        "within": _axes(given["within"]),
        "best_of": _axes(given["best_of"]) or (),
        "choose_seeds": _seeds(given["choose_seeds"]),
        "at": _budget(given["at"]),
        "matched": _target(given["matched"]),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.compare",
        description="Compare the variants of one or several sweeps over paired seeds; write tables and figures.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("folders", nargs="+", metavar="folder", help="a sweep's folder, such as runs/<sweep>")
    add("--baseline", help="variant to compare with; the first unless named")
    add("--metric", help="compare this metric (or part of its name), mean over its last 10 %%, instead of the score")
    add("--where", action="append", default=[], metavar="AXIS=A,B", help="only runs with these values; can be repeated")
    add("--by", metavar="AXES", help="axes that make the arms, as norm,clip; averaged over the others, per seed")
    add("--within", metavar="AXES", help="axes whose values are compared apart, then pooled; task unless named")
    add("--at", metavar="BUDGET", help=f"compare at an equal budget: {' '.join(BUDGETS)}; tokens=5000 names the amount")
    add("--matched", metavar="METRIC=VALUE", help="compare --metric, or the cost, where METRIC is first so high")
    add("--best-of", metavar="AXES", help="each arm at the best point of its grid, as lr, chosen on seeds not reported")
    add("--choose-seeds", metavar="SEEDS", help="seeds on which the best point is chosen, as 0,1,2; the lower half")
    add("--wide", metavar="AXIS", help="print wide tables too, with this axis (or the strata) in the columns")
    add("--out", help="folder for tables and figures; <folder>/analysis unless named")
    return parser


def _axes(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else () if text == "none" else tuple(pieces(text))


def _seeds(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(part) for part in pieces(text))
    except ValueError:
        raise AnalysisError(f"--choose-seeds {text}: expected numbers, as 0,1,2") from None


def _budget(text: str | None) -> Budget | None:
    if text is None:
        return None
    kind, _, amount = text.partition("=")
    if kind not in BUDGETS:
        raise AnalysisError(f"--at {text}: '{kind}' is no budget; choose one of: {'  '.join(BUDGETS)}")
    return Budget(kind, _number(f"--at {text}", amount) if amount else None)


def _target(text: str | None) -> Target | None:
    if text is None:
        return None
    metric, _, value = text.rpartition("=")
    if not metric:
        raise AnalysisError(f"--matched {text}: expected a metric and a value, as accuracy=0.9")
    return Target(metric, _number(f"--matched {text}", value))


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AnalysisError(f"{option}: '{text}' is no number") from None
