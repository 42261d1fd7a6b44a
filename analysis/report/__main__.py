"""One page per sweep that can be read without asking: `rlexp report runs/<sweep>`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.data.errors import CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.metric_spec import parse_option
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, take_columns
from rlexp.analysis.report.page import save_figures, write_report
from rlexp.analysis.stats.endpoints import ENDPOINT_HELP, parse_endpoint


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: written, 1: written, and some runs failed or are damaged, 2: nothing could be compared."""
    parser = CommandParser(prog="rlexp report", description=__doc__)
    parser.add_argument("folder", help=LOGS_HELP)
    parser.add_argument("--baseline", help="variant to compare with; the first unless named")
    parser.add_argument("--metric", help="compare this metric (mean over its last 10 %%) instead of the stored score")
    parser.add_argument("--endpoint", metavar="E", help=ENDPOINT_HELP)
    parser.add_argument("--out", help="the page; <folder>/analysis/report.html unless named")
    parser.add_argument("--figures", metavar="FOLDER", help="also save every figure as SVG, PDF and PNG here")
    parser.add_argument("--logbook", action="store_true", help="add it to the Trackio logbook of this folder, or above")
    add_column_options(parser)
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    options = parser.parse_args(arguments)
    endpoint = options.endpoint = parse_option("--endpoint ", options.endpoint, parse_endpoint)
    columns = take_columns(vars(options))
    page = write_report(options.folder, options.baseline, options.metric, options.out, endpoint, columns)
    if options.figures:
        save_figures(page.figures, Path(options.figures))
    if options.logbook:
        from rlexp.analysis.report.logbook import add_to_logbook

        title = add_to_logbook(page, [each for each in arguments if each != "--logbook"])
        print(f"logbook: page {title}")
    for omitted in page.omitted:
        print(f"left out: {omitted.title}: {omitted.reason}")
    print(printable(str(page.path)))
    return int(bool(page.answer.data.problems))


if __name__ == "__main__":
    sys.exit(main())
