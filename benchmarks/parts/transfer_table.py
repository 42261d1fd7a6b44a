"""The table of docs/transfer.md: what the small policy and the Llama say of each claim, by how good the start is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SIGNS = {"higher": "↑", "lower": "↓", "equal": "=", "unclear": "?"}
STRATUM = "start.accuracy="


def transfer_table(files: Sequence[Path]) -> str:
    """Return a Markdown table: a row per arm, a column per start, in each cell the small policy and then the Llama."""
    rows, strata = [], []
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        strata = list(dict.fromkeys(each["stratum"] for each in found["differences"]))
        rows += arms(found, strata)
    heads = " | ".join(stratum.removeprefix(STRATUM) for stratum in strata)
    head = f"| arm, against | {heads} |\n|---|{'---|' * len(strata)}\n"
    return head + "".join(f"{row}\n" for row in rows)


def arms(found: Mapping[str, Any], strata: Sequence[str]) -> Iterator[str]:
    """Yield the rows of one claim."""
    cells: dict[str, dict[str, str]] = {}
    for each in found["differences"]:
        text = " · ".join(f"{number(one['difference'])} {SIGNS[one['says']]}" for one in each["found"])
        text = f"**{text}**" if each["agreement"] == "agree" else text
        cells.setdefault(each["arm"], {})[each["stratum"]] = text
    for arm, row in cells.items():
        yield f"| `{arm}`, {found['baseline']} | " + " | ".join(row[stratum] for stratum in strata) + " |"


def number(value: float) -> str:
    """`+0.027`, with a true minus sign, and none for 0."""
    text = f"{value:+.3f}"
    return (text[1:] if float(text) == 0 else text).replace("-", "−")
