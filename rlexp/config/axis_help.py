"""The body of ``rlexp --help``: every axis in a line, with its choices, and every other key.

It is the resolver ``axes_help``, made of config.yaml and the names of the files beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rlexp.config.choices import choices_of, groups, keys
from rlexp.core.hydra_compat import register_resolver

WIDTH, INDENT = 116, " " * 15
COMMENT_COLUMN, COMMENT_WIDTH = 18, 103


def axes_help() -> str:
    """Return the axes, then the keys; the template of Hydra's help, in which they stand, takes `$` for its own."""
    lines = ["Axes, as norm=hybrid; a star marks the choice of the default run:"]
    for name, group in groups().items():
        starred = [choice + "*" * (choice == group.default) for choice in choices_of(name)]
        lines += [f"\n  {name:<12} {group.text}"]
        lines += wrap(", ".join(starred), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
    lines += ["\nNumbers of a choice are keys below its axis, as clip.high=0.3. Other keys, as eval.every=10:\n"]
    lines += ["  " + line if line else "" for line in key_lines()]
    return "\n".join(lines).replace("$", "$$")


def key_lines() -> Iterator[str]:
    """Yield the lines of config.yaml about the keys beside the groups."""
    inside = False
    for name, key in keys().items():
        node, _, last = name.rpartition(".")
        if not key.value or inside > bool(node):
            yield ""
        inside = bool(node)
        written = f"{'  ' * inside}{last}: {key.value}".rstrip()
        first, *rest = wrap(key.text, COMMENT_WIDTH, break_long_words=False) or [""]
        yield f"{written:<{COMMENT_COLUMN}} # {first}" if first else written
        yield from (f"{'':<{COMMENT_COLUMN}} # {line}" for line in rest)


register_resolver("axes_help", axes_help, replace=True)
