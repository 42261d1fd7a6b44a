"""Ask a declared question: `rlexp ask clip_higher`, or a YAML file of your own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from rlexp.analysis.data.errors import CommandParser
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.question import new_folder
from rlexp.record.lock import released_at_the_end
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

EXAMPLES = """
examples:
  rlexp ask question.yaml --check            what would be trained; nothing is
  rlexp ask question.yaml --folder runs/q    the same command goes on there
  rlexp ask clip_higher steps=100            one of conf/study/questions, with an override that all runs share
  rlexp ask --folder runs/q                  the answer again, from the runs that are there
"""


@safe_stdio()
@signals_as_ctrl_c()
@released_at_the_end()
def main(arguments: Sequence[str] | None = None) -> None:
    """Train what a question asks for and print the answer; exit code 2 for a wrong question."""
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    what = "Answer a declared question: assertions about arms, pooled over conditions."
    parser = CommandParser("rlexp ask", what, EXAMPLES)
    parser.add_argument("question", nargs="?", help="a YAML file (docs/ask.md), or a name in conf/study/questions")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="override",
        help="what all runs share, in place of what the question says of the same, as steps=100",
    )
    parser.add_argument("--folder", help="where the runs go; the same command goes on there")
    parser.add_argument("--check", action="store_true", help="check the question and say what would be trained")
    parser.add_argument("--json", action="store_true", help="print answer.json, which is written anyway")
    options = parser.parse_args(arguments)
    if options.question is None and options.folder is None:
        parser.error("name a question, as a YAML file, or the --folder of one that was asked")
    folder = options.folder or new_folder("question")
    try:
        from rlexp.question.ask import ask, checked, plan_text

        if options.check:
            print(plan_text(checked(options.question, options.overrides)))
            return
        from rlexp.analysis.report.question import publish, write_files
        from rlexp.analysis.stats.question import answer

        found = answer(folder) if options.question is None else ask(options.question, *options.overrides, folder=folder)
        if options.json:
            print(next(path for path in write_files(found) if path.name == "answer.json").read_text(encoding="utf-8"))
        else:
            publish(found)
    except KeyboardInterrupt:
        end_undisturbed()
        again = arguments if options.folder else [*arguments, "--folder", folder]
        exit_with(f"interrupted; go on with: rlexp ask {shlex.join(again)}", INTERRUPTED)
    except RunFailed as error:
        exit_with(f"run failed: {describe_error(error)}", FAILED, error)
    except Exception as error:
        from rlexp.config.messages import explain

        exit_with(explain(error, options.overrides), BAD_INPUT, error)


if __name__ == "__main__":
    main()
