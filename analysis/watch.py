"""A sweep's comparison while it trains: `rlexp watch runs/<sweep>`; Ctrl-C ends it."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rlexp.analysis.data.design import rename_variants
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.load import SweepData, config_section, load
from rlexp.analysis.data.readers.detect import holds_logs
from rlexp.analysis.data.run_values import late_means
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.data.variants import is_variant
from rlexp.analysis.report.tables import Terminal, comparison_table, fit_to_width, print_table
from rlexp.analysis.stats.comparison import compare
from rlexp.runfolder.files import SUMMARY_FILE
from rlexp.runfolder.variants import split_overrides, without_seed

RUNNING = "running"


def partial_data(folder: str | Path, metric: str | None = None) -> tuple[SweepData, str]:
    """A sweep's data as if it ended now: all runs cut to the step that each has reached, and the metric.

    Runs without a summary count as running; their score is the late mean of the metric up to there.
    """
    data = load(folder, columns=None)
    metric = metric or data.score_metric or config_section(data.config, "score").get("metric")
    if not metric or metric not in data.metrics:
        raise AnalysisError(f"no run has logged {metric or 'the metric of its score'} yet")
    running = ~data.runs["name"].map(lambda name: (data.folder / name / SUMMARY_FILE).exists())

    # a run that has no summary is of the variant that its folder names, as the others are
    names = {name: ",".join(without_seed(split_overrides(name))) for name in data.runs["name"] if "=" in name}
    variants = data.runs["variant"].mask(running, data.runs["name"].map(names).fillna(data.runs["variant"]))
    data = rename_variants(data, variants, list(dict.fromkeys(variants)))

    status = data.runs["status"].mask(running, RUNNING)
    alive = data.runs.loc[running | (status == "completed"), "name"]
    rows = data.metrics[data.metrics["name"].isin(alive)]
    reached = int(rows.groupby("name")["step"].max().min()) if len(rows) else 0
    metrics = data.metrics[data.metrics["step"] <= reached]
    cut = data._replace(metrics=metrics, score_metric=None)
    scores = data.runs["name"].map(late_means(cut, metric))
    return cut._replace(runs=data.runs.assign(status=status, score=scores), score_metric=metric), metric


def render(folder: str | Path, width: int, baseline: str | None = None, metric: str | None = None) -> tuple[Text, bool]:
    """The table to show now, and whether the sweep still runs."""
    data, metric = partial_data(folder, metric)
    status = data.runs["status"]
    reached = int(data.metrics["step"].max()) if len(data.metrics) else 0
    comparable = data._replace(runs=data.runs.assign(status=status.replace(RUNNING, "completed")))
    baseline = baseline or data.planned_baseline
    comparison = compare(comparable, metric, baseline if baseline and is_variant(baseline, data.labels) else None)
    counts = ", ".join(f"{count} {name}" for name, count in status.value_counts().items())
    total = data.config.get("steps")
    end = f"{reached} of {total}" if total else reached
    title = f"{printable(data.folder.resolve().name)}: {comparison.heading} up to step {end}; {counts}"
    running, unfinished = bool((status == RUNNING).any()), int(status.isin(UNFINISHED).sum())
    if running:
        standing = "a look at a sweep that is not done: no basis for a claim"
    elif unfinished:
        standing = f"nothing runs, but {unfinished} of {len(status)} runs have not ended: no basis for a claim"
    else:
        standing = f"the sweep is done; verdicts and notes: rlexp compare {shlex.quote(str(folder))}"
    console = Console(width=width, height=25, force_terminal=True)  # with no height TERM=dumb makes it 80 wide
    with console.capture() as captured:
        print_table(fit_to_width(comparison_table(comparison), width), console, title)
        console.print(Text(standing, style="dim"))
    return Text.from_ansi(captured.get()), running


def watch(
    folder: str | Path, every: float, baseline: str | None = None, metric: str | None = None, console=None
) -> None:
    """Show the comparison and refresh it until no run is running."""
    console = console or Terminal()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                text, running = render(folder, console.width, baseline, metric)
            except AnalysisError as error:
                text, running = Text(f"waiting: {error}"), True
            live.update(Group(text), refresh=True)
            if not running:
                return
            time.sleep(every)


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: the sweep has ended or Ctrl-C, 2: there is no such folder."""
    parser = CommandParser(prog="rlexp watch", description=__doc__)
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>; it may be empty still")
    parser.add_argument("--baseline", help="variant to compare with; the first unless named")
    parser.add_argument("--metric", help="compare this metric instead of that of the score")
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="time between looks; 5 unless named"
    )
    options = parser.parse_args(arguments)
    if not Path(options.folder).is_dir():
        raise AnalysisError(f"'{options.folder}' is not a folder")
    if holds_logs(Path(options.folder)):
        load(options.folder, columns=None)  # says what it cannot be without
    try:
        watch(options.folder, options.every, options.baseline, options.metric)
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
