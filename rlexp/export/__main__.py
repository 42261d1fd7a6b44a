"""``python -m rlexp.export <overrides> to=<framework>``: what reproduces a configuration in another framework."""

from __future__ import annotations

import sys

from rlexp.exits import BAD_INPUT, leave


def main(arguments: list[str]) -> None:
    """Print the settings; end whatever is wrong with the arguments in one line and exit code 2."""
    from rlexp.compose import compose
    from rlexp.explain import explain
    from rlexp.export import openrlhf, trl, verl
    from rlexp.export.rule import text

    frameworks = {"trl": trl.FRAMEWORK, "verl": verl.FRAMEWORK, "openrlhf": openrlhf.FRAMEWORK}
    targets = [argument for argument in arguments if argument.startswith("to=")]
    overrides = [argument for argument in arguments if argument not in targets]
    target = targets[-1].removeprefix("to=") if targets else ""
    if target not in frameworks:
        leave(f"to={target}: no such framework; there are {', '.join(frameworks)}", BAD_INPUT)
    try:
        config = compose(*overrides)
    except Exception as error:
        leave(explain(error, overrides), BAD_INPUT, error)
    print(text(overrides, config, frameworks[target]))


if __name__ == "__main__":
    main(sys.argv[1:])
