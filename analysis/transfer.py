"""Does what smaller sweeps show hold in a larger one? `rlexp transfer runs/<toy> runs/<language model>`."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.compare import relative_path
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.model_size import model_weights
from rlexp.analysis.data.read import inner
from rlexp.analysis.report.forecast import print_forecast, print_score, score_forecast, score_json, write_score
from rlexp.analysis.report.forecast_file import check_read, check_time, make_forecast, read_forecast, write_forecast
from rlexp.analysis.report.tables import Terminal, print_files
from rlexp.analysis.report.transfer import as_json, print_transfer, write_files
from rlexp.analysis.stats.ablation import Ablation
from rlexp.analysis.stats.answer import Answer, Question
from rlexp.analysis.stats.sweep_arms import read_sweep
from rlexp.analysis.stats.transfer import MANY, transfer

EXAMPLES = """
examples:
  rlexp transfer runs/small runs/llama
  rlexp transfer runs/small runs/llama --metric eval/greedy_accuracy --margin 0.02
  rlexp transfer runs/10k runs/70k runs/300k --sizes 10000,70000,300000
  rlexp transfer runs/10k runs/70k --forecast forecast.json --target-name 300k
  rlexp transfer runs/10k runs/70k runs/300k --score forecast.json
  rlexp transfer runs/small runs/llama --json | jq '.differences[].agreement'
"""


def names_of(folders: Sequence[str], given: str | None) -> tuple[str, ...]:
    """Name sweeps as asked, else by their folders' names, or by their paths where two names are the same."""
    resolved = [Path(folder).resolve() for folder in folders]
    if twice := next((folder for place, folder in enumerate(folders) if resolved[place] in resolved[:place]), None):
        what = "is both sweeps; name two" if len(folders) == 2 else "is named twice; name each sweep once"
        raise AnalysisError(f"{twice}: {what}")
    if len(folders) > MANY:
        raise AnalysisError(f"{len(folders)} sweeps: must be at most {MANY}")
    if given is not None:
        names = tuple(given.split(","))
        if len(names) != len(folders) or not all(names) or len({*names}) < len(names):
            wanted = "two different names, as small,llama" if len(folders) == 2 else f"{len(folders)} different names"
            raise AnalysisError(f"--names {given}: expected {wanted}")
        return names
    names = tuple(printable(each.name) for each in resolved)
    return names if len({*names}) == len(names) else tuple(folders)


def sizes_of(text: str | None, count: int) -> list[float | None]:
    """Return the numbers of weights that are named, None each where they are not."""
    if text is None:
        return [None] * count
    try:
        sizes = [float(each) for each in text.split(",")]
    except ValueError:
        sizes = []
    if len(sizes) != count or not all(0 < low < high for low, high in zip([1e-9, *sizes], [*sizes, 1e99], strict=True)):
        raise AnalysisError(f"--sizes {text}: expected {count} numbers of weights, each larger than the one before")
    return sizes


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 if something was compared, forecast or scored, 2 if nothing could be."""
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    description = "Set what sweeps over the same arms say side by side: does the largest agree with the smaller ones?"
    parser = CommandParser("rlexp transfer", description, EXAMPLES)
    add = parser.add_argument
    add("folders", nargs="+", metavar="folder", help="folders of sweeps with the same arms, in order of size")
    add("--metric", help="compare this metric of all instead of the score")
    add("--baseline", help="arm that the others are compared with; that of the sweeps unless named")
    add("--best-of", metavar="KEY", help="each arm at its best value of a key, as lr; an ablation has its own")
    add("--names", help="what the sweeps are called, as small,llama; their folders' names unless given")
    add("--sizes", help="how many weights the models have, as 10000,70000; as their runs say unless given")
    add("--margin", type=float, help="differences below it count as none; the study's minimum_effect unless named")
    add("--forecast", metavar="FILE", help="write what a larger sweep will show, which is not trained yet")
    add("--target-name", help="what that sweep is called")
    add("--units", type=int, help="how many seeds, or starts, it will have; as many as the last one unless given")
    add("--score", metavar="FILE", help="score a forecast on the last folder")
    add("--out", help="folder for tables, JSON and figure; <last>/analysis/transfer unless named")
    add("--json", action="store_true", help="print all as JSON, and nothing else")
    options = parser.parse_args(arguments)
    check(options)
    if options.score:
        return score(options)
    names, sizes = names_of(options.folders, options.names), sizes_of(options.sizes, len(options.folders))
    best_of = tuple(options.best_of.split(",")) if options.best_of else ()
    question = Question(metric=options.metric, baseline=options.baseline, best_of=best_of)
    sources = [read_sweep(folder, question) for folder in options.folders]
    if options.margin is not None and any(isinstance(source, Ablation) for source in sources):
        raise AnalysisError("--margin: an ablation has declared its smallest effect that counts; leave it out")
    if options.forecast:
        return forecast(options, sources, names, question, shlex.join(["rlexp", "transfer", *arguments]))
    weights = [size or model_weights(source.data) for size, source in zip(sizes, sources, strict=True)]
    found = transfer(sources, names, options.margin, weights, options.baseline)
    files, console = write_files(found, out_folder(options)), Terminal()
    if options.json:
        print(as_json(found))
        return 0
    print_transfer(found, console)
    console.print()
    print_files(console, files, relative_path(files[0].parent))
    return 0


def check(options: Namespace) -> None:
    """Raise AnalysisError for options that do not go together."""
    if options.margin is not None and not options.margin >= 0:
        raise AnalysisError(f"--margin {options.margin:g}: must be at least 0")
    if options.units is not None and options.units < 1:
        raise AnalysisError(f"--units {options.units}: must be at least 1")
    if options.forecast and options.score:
        raise AnalysisError("--forecast and --score: a forecast is scored later, on a sweep that is trained after it")
    if not options.forecast and (options.target_name or options.units):
        raise AnalysisError(f"{'--target-name' if options.target_name else '--units'}: goes with --forecast")
    if len(options.folders) < 2 and not (options.forecast or options.score):
        raise AnalysisError(f"{options.folders[0]}: is one sweep; name two or more, in order of size")


def out_folder(options: Namespace) -> Path:
    """Return where tables go."""
    return Path(options.out or inner(options.folders[-1], "analysis", "transfer"))


def forecast(
    options: Namespace,
    sources: Sequence[Answer | Ablation],
    names: Sequence[str],
    question: Question,
    command: str,
) -> int:
    """Write a forecast of a larger sweep, and print it."""
    file = Path(options.forecast)
    made = make_forecast(options.folders, sources, names, question, command, options.target_name, options.units)
    write_forecast(made, file)
    if options.json:
        print(file.read_text(encoding="utf-8"), end="")
        return 0
    console = Terminal()
    print_forecast(made, console)
    console.print(f"{file}: commit it before the target is trained", style="dim", markup=False, highlight=False)
    return 0


def score(options: Namespace) -> int:
    """Score a forecast on the last folder, and print how good it was."""
    file, (*smaller, target) = Path(options.score), options.folders
    content = read_forecast(file)
    check_read(content, file, smaller)
    check_time(content, file, Path(target))
    asked = content["question"]
    question = Question(metric=asked["metric"], baseline=asked["baseline"], best_of=tuple(asked["best_of"]))
    found = score_forecast(content, read_sweep(target, question))
    name = options.names.split(",")[-1] if options.names else printable(Path(target).resolve().name)
    files, console = write_score(content, found, name, out_folder(options)), Terminal()
    if options.json:
        print(score_json(content, found, name))
        return 0
    print_score(content, found, name, console)
    console.print()
    print_files(console, files, relative_path(files[0].parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
