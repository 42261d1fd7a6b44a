"""The page of what ``--json`` prints: every JSON Schema of the package as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.catalogue import table
from benchmarks.parts.common import ROOT

HEAD = """# JSON for programs

With `--json` a command prints one JSON document and nothing else. `rlexp compare` writes the same to `comparison.json`
beside the tables ([analysis](analysis.md#what-is-compared)); its `schema` changes where a program that reads this one
would be wrong. The tables are made of the schemas that tests hold outputs to.
"""


def kind(node: dict[str, Any]) -> str:
    """Return the type of a node of a schema as text."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "enum" in node:
        return ", ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    if "anyOf" in node:
        return " or ".join(kind(each) for each in node["anyOf"])
    types = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", ["any"])
    return " or ".join(
        f"list of {kind(node['items'])}" if each == "array" and "items" in node else each for each in types
    )


def rows(node: dict[str, Any], above: str = "") -> Iterator[list[str]]:
    """Yield a row for each property of an object, and of the objects in it that have no name."""
    for name, each in node.get("properties", {}).items():
        needed = "" if name in node.get("required", ()) else "may be left out"
        yield [f"`{above}{name}`", kind(each), "; ".join(filter(None, [each.get("description", ""), needed]))]
        inner = [each, each.get("items", {}), *each.get("anyOf", [])]
        for inside in inner:
            yield from rows(inside, f"{above}{name}{'[]' if inside is each.get('items') else ''}.")


def sections(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the blocks of one schema."""
    yield f"## {schema['title']}"
    yield schema.get("description", "")
    yield "\n".join(table(["key", "type", "what it is"], list(rows(schema.get("items", schema)))))
    for name, node in schema.get("$defs", {}).items():
        yield f"### {name}"
        yield node.get("description", "")
        listed = list(rows(node))
        yield "\n".join(table(["key", "type", "what it is"], listed)) if listed else kind(node)


def page() -> str:
    """Return the page as Markdown."""
    files = sorted([*ROOT.glob("analysis/**/*.schema.json"), *ROOT.glob("rlexp/**/*.schema.json")])
    blocks = [block for path in files for block in sections(json.loads(path.read_text(encoding="utf-8"))) if block]
    return "\n\n".join([HEAD, *blocks]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
