"""The body of ``rlexp --help``: every axis in a line, with its choices, and every other key.

It is the resolver ``axes_help``, made of config.yaml and the names of the files beside it. The template in which it
stands takes `$` for its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rlexp.config.choices import choices_of, groups, key_lines
from rlexp.core.hydra_compat import register_resolver

WIDTH, INDENT = 116, 15


def help_lines() -> Iterator[str]:
    """Yield the axes, then the keys."""
    yield "Axes, as norm=hybrid; a star marks the choice of the default run:"
    for name, group in groups().items():
        yield f"\n  {name:<{INDENT - 3}} {group.text}"
        starred = [choice + "*" * (choice == group.default) for choice in choices_of(name)]
        yield from wrap(", ".join(starred), WIDTH, initial_indent=" " * INDENT, subsequent_indent=" " * INDENT)
    yield "\nNumbers of a choice are keys below its axis, as clip.high=0.3. Other keys, as eval.every=10:\n"
    yield from ("  " + line if line else "" for line in key_lines())


def axes_help() -> str:
    """Return the lines as the template of Hydra's help takes them."""
    return "\n".join(help_lines()).replace("$", "$$")


register_resolver("axes_help", axes_help, replace=True)
