"""A Weights & Biases workspace as code: `rlexp dashboard runs/<sweep>` writes it, `--push` uploads it.

Needs the optional extra `dashboard` (wandb-workspaces). Writing needs neither an account nor a network.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.data.errors import CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.load import load
from rlexp.analysis.data.read import inner, unlinked
from rlexp.analysis.report.wandb import push, to_json, workspace


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: written (and pushed), 2: not."""
    parser = CommandParser(prog="rlexp dashboard", description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>")
    parser.add_argument("--out", help="the file; <folder>/analysis/workspace.json unless named")
    parser.add_argument("--push", action="store_true", help="also save it on the server, after `wandb login`")
    options = parser.parse_args(arguments)
    path = Path(options.out) if options.out else inner(options.folder, "analysis") / "workspace.json"
    view = workspace(load(options.folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    unlinked(path).write_text(to_json(view) + "\n", encoding="utf-8")
    print(printable(str(path)))
    if options.push:
        print(push(view))
    return 0


if __name__ == "__main__":
    sys.exit(main())
