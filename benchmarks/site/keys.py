"""The page of all keys of a config: ``conf/config.yaml`` with its comments, and the files of other groups."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.catalogue import SECTIONS, table
from benchmarks.parts.yaml_files import comment
from rlexp.config.choices import CONF

KEY = re.compile(r"^( *)(- )?([\w/]+): *([^#]*?) *(?:# *(.*))?$")
MORE = re.compile(r"^ +# *(.*)$")
FILES = ("task", "model", "backend", "group_size", "logger")  # groups that are no axis of functions
HEAD = """# Keys of a config

`rlexp lr=3e-4` sets a key, `rlexp norm=hybrid` takes another choice of a group, and `norm.eps=1e-4` sets a key of that
choice. A run's `config.yaml` has them all. This page is made of the files in `conf/`.

"""


def keys(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield key, default and comment of each line of a YAML; a key below another one has a dot."""
    rows: list[list[str]] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        found, more = KEY.match(line), MORE.match(line)
        if more and rows:
            rows[-1][2] = f"{rows[-1][2]} {more[1]}"
        elif found:
            indent = len(found[1])
            above = [each for each in above if each[0] < indent]
            rows.append([".".join([*(name for _, name in above), found[3]]), found[4], found[5] or ""])
            above.append((indent, found[3]))
    yield from ((key, default, text) for key, default, text in rows)


def settings() -> tuple[list[list[str]], list[list[str]]]:
    """Return the groups and the settings of ``conf/config.yaml``, a row each."""
    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    groups, _, rest = text.partition("\n\n")
    rest = rest.partition("\nhydra:")[0]
    chosen = [(key.removeprefix("defaults."), *row) for key, *row in keys(groups)]
    first = [
        [f"[`{name}`]({place(name)})", f"`{default}`".replace('"', ""), text]
        for name, default, text in chosen
        if default
    ]
    second = [[f"`{key}`", f"`{default}`" if default else "", text] for key, default, text in keys(rest)]
    return first, second


def place(group: str) -> str:
    """Return where the choices of a group are told of."""
    if group in FILES:
        return f"#{group}"
    return f"variants.md#{group}" if group in (*SECTIONS, "preset") else "studies.md"


def files(group: str) -> Iterator[str]:
    """Yield each file of a group: what it is, and its keys as they stand there."""
    yield f"## {group}"
    for path in sorted((CONF / group).glob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        body = "\n".join(line for line in lines if not line.startswith("#")).strip()
        yield f"### {group}={path.stem}"
        yield comment(path)
        yield f"```yaml\n{body}\n```"


def page() -> str:
    """Return the page as Markdown."""
    groups, others = settings()
    blocks = ["## Groups", "\n".join(table(["group", "default", "what it is"], groups))]
    blocks += ["## Settings", "\n".join(table(["key", "default", "what it is"], others))]
    blocks += [block for group in FILES for block in files(group) if block]
    return HEAD + "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    print(page(), end="")
