"""``rlexp check``: whether functions of yours, or of ours, keep what the loop relies on.

    $ rlexp check my_package      # all that a module, or an installed plugin, registers
    $ rlexp check norm=local      # one of ours

`--json` prints the same as JSON. Exit code 1 where a property does not hold, 2 where there is nothing to check.
docs/testing.md says what is checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from rlexp.axes import AXES, axis_of
from rlexp.core.exits import BAD_INPUT, FAILED, exit_with
from rlexp.core.registry import hyperparameters, registered
from rlexp.testing import Result, examine, examine_task
from rlexp.testing.choices import Choice, bind, resolved, shipped

WIDTH = 26  # of the names of properties


def of_module(name: str, registrations: Callable[[], Sequence[Any]] = registered) -> list[Any]:
    """Import a module, or the plugins of that name, and return what it registers; it has its own ``function``s."""
    sys.path.insert(0, "")  # a module of this folder, as `python -m` finds it
    before = {(each.group, each.name) for each in registrations()}
    plugins = [each for each in entry_points(group="rlexp.plugins") if name in (each.name, each.module)]
    try:
        for plugin in plugins:
            loaded = plugin.load()
            if callable(loaded):
                loaded()
        if not plugins:
            import_module(name)
    except Exception as error:
        exit_with(f"{name}: cannot be imported: {type(error).__name__}: {error}", BAD_INPUT, error)
    roots = {name.partition(".")[0], *(plugin.module.partition(".")[0] for plugin in plugins)}
    own = [each for each in registrations() if each.function.__module__.partition(".")[0] in roots]
    found = [each for each in registrations() if (each.group, each.name) not in before or each in own]
    if not found:
        exit_with(f'{name}: registers nothing; rlexp.register("norm", function) does', BAD_INPUT)
    return found


def chosen(word: str) -> list[Choice]:
    """Return what ``norm=local`` names: a choice of ``conf/norm``, or a function of the axis."""
    axis, _, label = word.partition("=")
    groups = dict.fromkeys(each.group for each in AXES.values())
    if axis not in groups:
        exit_with(f"{word}: no such axis; there are {', '.join(groups)}", BAD_INPUT)
    found = [choice for choice in shipped(axis) if label in (choice.label, choice.label.partition(".")[0])]
    if not found and label in axis_of(axis).functions:
        found = [bind(axis, axis_of(axis).functions[label])]
    if not found:
        names = {choice.label.partition(".")[0] for choice in shipped(axis)} | {*axis_of(axis).functions}
        exit_with(f"{word}: no such choice; there are {', '.join(sorted(names))}", BAD_INPUT)
    return found


def results(word: str, registrations: Callable[[], Sequence[Any]] = registered) -> Iterator[Result]:
    """Yield what the checks of a word of the command line find."""
    if "=" in word:
        for choice in chosen(word):
            yield from examine(choice)
        return
    for each in of_module(word, registrations):
        group, *places = each.group.split(".")
        node = each.values
        for place in places:
            node = node.get(place, {})
        # without what its group adds; none if a YAML has them
        values = {key: value for key, value in node.items() if key in hyperparameters(each.function)}
        if group == "task":
            yield from examine_task(each.name, each.function(**values))
        elif group not in {axis.group for axis in AXES.values()}:
            yield Result(f"{each.group}={each.name}", "no check", "there is none for this group", hint=True)
        else:
            choice = bind(group, each.function, **resolved(group, values))
            yield from examine(Choice(group, each.name, each.name, choice.hyperparameters, each.function))


def main(arguments: Sequence[str], registrations: Callable[[], Sequence[Any]] = registered) -> int:
    """Print a line for each property of each function; return the exit code."""
    words = [word for word in arguments if word != "--json"]
    if not words or any(word.startswith("-") for word in words):
        asked = bool({"-h", "--help"} & {*arguments})
        usage = "usage: rlexp check [--json] MODULE|AXIS=CHOICE ..."
        print(f"{usage}\n\n{__doc__}", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else BAD_INPUT
    found = (result for word in words for result in results(word, registrations))
    if "--json" in arguments:
        checked = [result._asdict() for result in found]
        failed = sum(bool(each["problem"]) and not each["hint"] for each in checked)
        print(json.dumps({"failed": failed, "checked": checked}, ensure_ascii=False))
        return FAILED if failed else 0
    subject, failed = "", 0
    for result in found:
        if result.choice != subject:
            subject = result.choice
            print(subject)
        failed += bool(result.problem) and not result.hint
        verdict = "ok" if not result.problem else f"{'hint' if result.hint else 'FAILED'}: {result.problem}"
        print(f"  {result.property:<{WIDTH}} {verdict}")
    print("every property holds" if not failed else f"{failed} properties do not hold")
    return FAILED if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
