"""A data set of sweeps, for others: `rlexp publish runs/norms runs/clips --out data`.

Runs and curves as Parquet, the comparison of each sweep, and what describes them: a card, Croissant metadata, a data
package, checksums, and a notebook that computes the comparisons again.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.data.load import load
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, say_origin, take_columns
from rlexp.analysis.report.data_set import write_data_set

EXAMPLES = """
examples:
  rlexp publish runs/<sweep> --out data
  rlexp publish runs.csv --metric accuracy --out data
  rlexp publish runs/* --out data --name norms-of-grpo --url https://example.org/norms
"""


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the files and their sizes."""
    parser = CommandParser("rlexp publish", "Make a data set of one or several sweeps.", EXAMPLES)
    parser.add_argument("folders", nargs="+", type=Path, metavar="folder", help=LOGS_HELP)
    parser.add_argument("--out", type=Path, required=True, help="a new folder, or one of an earlier call")
    parser.add_argument("--name", help="of the data set; that of --out unless given")
    parser.add_argument("--about", default="", help="what the runs are about, in a sentence, for the card")
    parser.add_argument("--url", help="where it will be found")
    parser.add_argument("--metric", help="of runs of other tools: which one is their score")
    add_column_options(parser)
    options = parser.parse_args(arguments)
    columns = take_columns(vars(options))
    if options.out.exists() and not (options.out / "croissant.json").is_file() and any(options.out.iterdir()):
        raise AnalysisError(f"{options.out}: has other files; name a new folder")
    data = load(options.folders, columns=columns)
    say_origin(data)
    parts = {folder: load(folder, columns=columns) for folder in options.folders}
    name = options.name or options.out.resolve().name
    files = write_data_set(options.out, name, data, parts, about=options.about, url=options.url)
    for file in files:
        print(f"{file.stat().st_size:>12,}  {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
