"""One command from sweeps' folders to their answer: `rlexp compare runs/<sweep>`."""

import sys
from argparse import SUPPRESS
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, plain_letters, printable
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.metric_spec import BUDGETS, parse_budget, parse_option
from rlexp.analysis.data.read import inner
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, output_folder, say_origin, take_columns
from rlexp.analysis.data.runs import Problem
from rlexp.analysis.noise import noise_of_folder
from rlexp.analysis.report.tables import Terminal, answer_json, print_answer, print_files, wide_text, write_files
from rlexp.analysis.stats.answer import Answer, Question, answer, question_name
from rlexp.analysis.stats.borrowed_noise import borrowed_sentences
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.endpoints import ENDPOINT_HELP, parse_endpoint
from rlexp.analysis.stats.verdicts import Verdict
from rlexp.runfolder.variants import split_commas

if TYPE_CHECKING:
    from rlexp.analysis.report.page import ReportPage

EXAMPLES = """
examples:
  rlexp compare runs/<sweep> --baseline norm=global --metric eval/pass@8
  rlexp compare runs/<sweep> --where norm=local,hybrid --by norm
  rlexp compare runs/<one> runs/<another> --at tokens
  rlexp compare runs/<sweep> --endpoint 'cost:accuracy>=0.9:tokens'
  rlexp compare runs/<sweep> --best-of lr
  rlexp compare runs/<sweep> --json | jq '.comparisons[0].arms'
  rlexp compare runs.csv --arm method --metric accuracy
"""


class Report(NamedTuple):
    """The results and files of a report."""

    data: SweepData
    comparison: Comparison
    """The first of the answer's."""
    verdicts: list[Verdict]
    notes: list[str]
    problems: list[Problem]
    files: list[Path]
    answer: Answer

    @property
    def exit_code(self) -> int:
        """1 if a run failed or is damaged, else 0."""
        return int(bool(self.problems))


def report(
    folders: str | Path | Sequence[str | Path],
    baseline: str | None = None,
    console: Console | None = None,
    metric: str | None = None,
    out: str | Path | None = None,
    wide: str | None = None,
    page: "ReportPage | None" = None,
    columns: Columns = Columns(),  # noqa: B008 (a tuple)
    noise: str | Path | None = None,
    **choices: object,
) -> Report:
    """Compare a sweep's variants, print table, verdicts and notes, write tables and figures.

    They go to `<folder>/analysis`, or for another question than the configuration asks to a folder in it with the
    question's name. choices: other fields of `Question`; wide: print a table with this axis in the columns too; page:
    the page of the same question: it has the answer and the figures, which are not made again, and the notes, which
    are not printed; columns: what of other tools' logs is the arm, the seed and the metric; noise: other runs, whose
    scatter over seeds says what arms of one run cannot.
    The baseline and metric of the configuration hold unless others are named. Runs that failed are left out and listed.
    Raises AnalysisError, one line, if nothing can be compared.
    """
    plain_letters()
    console, question = console or Terminal(), Question(metric=metric, baseline=baseline, **choices)
    data = page.data if page else load(folders, metrics=question.metrics, columns=columns)
    if data.origin:  # its score is of the metric that was named
        say_origin(data)
        question = question._replace(metric=None)
    result = page.answer if page else answer(data, question)
    borrowed = _by_noise(result, noise, columns) if noise else []
    result = result._replace(remarks=[*result.remarks, *borrowed])
    if wide and wide_text(result.comparisons, "iqm", wide) is None:
        raise AnalysisError(f"nothing to lay out wide by '{wide}': there is one stratum, and not two axes")
    if not out:
        first, *others = [folders] if isinstance(folders, str | Path) else folders
        sweeps = "+".join(Path(other).resolve().name for other in others)
        chosen = data.score_metric if data.origin and columns.metric else None
        name = question_name(question, data, **{"with": sweeps, "wide": wide, "metric": chosen})
        out = output_folder(first) / name if data.origin else inner(first, "analysis", name)
    files = write_files(Path(out), result, wide, page and page.figures)
    print_answer(console, data, result, wide, page and relative_path(page.path))
    for sentence in borrowed:
        console.print(Text(sentence))
    console.print()
    print_files(console, files, relative_path(files[0].parent))
    return Report(data, result.comparisons[0], result.verdicts, result.notes, data.problems, files, result)


def _by_noise(result: Answer, noise: str | Path, columns: Columns) -> list[str]:
    """What the scatter of other runs says of the differences to the baseline."""
    found = {each.metric: noise_of_folder(noise, each.metric, columns) for each in result.comparisons}
    return [text for each in result.comparisons for text in borrowed_sentences(each, found[each.metric], str(noise))]


def relative_path(path: Path) -> str:
    """The path relative to the working directory if it lies inside, else in full."""
    path, here = path.resolve(), Path.cwd()
    return printable(str(path.relative_to(here)) if path.is_relative_to(here) else str(path))


def parse(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """The arguments of `report`. What argparse cannot read ends the process with 2; the rest is an AnalysisError."""
    description = "Compare the variants of one or several sweeps over paired seeds; write tables and figures."
    parser = CommandParser("rlexp compare", description, EXAMPLES)
    add = parser.add_argument
    add("folders", nargs="+", metavar="folder", help=LOGS_HELP)
    add("--baseline", help="variant to compare with; the first unless named")
    add("--metric", help="compare this metric (or part of its name), mean over its last 10 %%, instead of the score")
    add("--where", action="append", default=[], metavar="AXIS=A,B", help="only runs with these values; can be repeated")
    axes = {"metavar": "AXES", "type": _axes}
    add("--by", **axes, help="axes that make the arms, as norm,clip; averaged over the others, per seed")
    add("--within", **axes, help="axes whose values are compared apart, then pooled; task unless named")
    add("--at", metavar="BUDGET", help=f"compare at an equal budget: {' '.join(BUDGETS)}; tokens=5000 names the amount")
    add("--endpoint", metavar="E", help=ENDPOINT_HELP)
    add("--matched", help=SUPPRESS)  # of old commands; studies still have the key
    best = "each arm at the best point of its grid, as lr, chosen on seeds not reported"
    add("--best-of", **axes, default=(), help=best)
    add("--choose-seeds", metavar="SEEDS", help="seeds on which the best point is chosen, as 0,1,2; the lower half")
    add("--noise", metavar="FOLDER", help="also say what the scatter over seeds of these runs says of each difference")
    add("--wide", metavar="AXIS", help="print wide tables too, with this axis (or the strata) in the columns")
    add("--out", help="folder for tables and figures; one of the question's own in <folder>/analysis unless named")
    add("--json", action="store_true", help="print the whole comparison as JSON, and nothing else")
    add_column_options(parser)
    options = vars(parser.parse_args(arguments))
    if (old := options.pop("matched")) is not None:
        name, _, value = old.partition("=")
        raise AnalysisError(
            f"--matched {old}: took the first evaluation, which noise decides; say "
            f"--endpoint 'cost:{name}>={value or 'VALUE'}:steps' for what it costs, or with --metric --endpoint "
            f"matched:{name}={value or 'VALUE'} for another metric there"
        )
    options |= {
        "choose_seeds": _seeds(options["choose_seeds"]),
        "at": parse_option("--at ", options["at"], parse_budget),
        "endpoint": parse_option("--endpoint ", options["endpoint"], parse_endpoint),
    }
    return options | {"columns": take_columns(options)}


def _axes(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(split_commas(text))


def _seeds(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(part) for part in split_commas(text))
    except ValueError:
        raise AnalysisError(f"--choose-seeds {text}: expected numbers, as 0,1,2") from None


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: all runs are good, 1: some are not, or have not ended (listed), 2: nothing could be compared."""
    options = parse(arguments)
    as_json = options.pop("json")
    found = report(**options, console=Console(quiet=True) if as_json else None)
    if as_json:
        print(answer_json(found.answer, found.files))
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
