"""Values as text."""

from __future__ import annotations

from typing import Any


def format_value(value: Any) -> str:
    """Return a value as one types it on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(format_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
