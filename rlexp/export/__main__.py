"""``python -m rlexp.export <overrides> to=<framework>``: what reproduces a configuration in another framework."""

from __future__ import annotations

import sys

from rlexp.core.exits import BAD_INPUT, exit_with, silent_without_reader

HELP = """\
A configuration in the settings of another framework, what differs there and what cannot be expressed there.

usage: python -m rlexp.export [axis=choice ...] [key=value ...] to=FRAMEWORK

FRAMEWORK:
{targets}

Before to= stand the choices and numbers of python -m rlexp.train: axes, presets, keys. What is not given is the
default. Names of axes and choices: python -m rlexp.train --help.

example:
  python -m rlexp.export preset=lite_ppo clip=higher lr=5e-4 to=trl"""


@silent_without_reader()
def main(arguments: list[str]) -> None:
    """Print the settings; end whatever is wrong with the arguments in one line and exit code 2."""
    from rlexp.config.compose import compose
    from rlexp.config.messages import explain
    from rlexp.export.tables import FRAMEWORKS, text
    from rlexp.language.backend import CAPABILITIES

    if {"--help", "-h"} & set(arguments):
        print(HELP.format(targets="\n".join(f"  {name:<10}{each.name}" for name, each in FRAMEWORKS.items())))
        return
    targets = [argument for argument in arguments if argument.startswith("to=")]
    overrides = [argument for argument in arguments if argument not in targets]
    target = targets[-1].removeprefix("to=") if targets else ""
    if target not in FRAMEWORKS:
        exit_with(f"to={target}: no such framework; there are {', '.join(FRAMEWORKS)}", BAD_INPUT)
    try:
        config = compose(*overrides)
    except Exception as error:
        exit_with(explain(error, overrides), BAD_INPUT, error)
    if not CAPABILITIES[config.backend.name].batched:
        exit_with(f"backend={config.backend.name}: trains by itself; leave it out, with its model and task", BAD_INPUT)
    print(text(overrides, config, FRAMEWORKS[target]))


if __name__ == "__main__":
    main(sys.argv[1:])
