"""States of tensors and numbers as files: with a checksum, and read without executing code."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from rlexp.runfolder.files import Damaged, archive_of, archive_with_checksum, content


def serialize(state: Mapping[str, Any]) -> bytes:
    """Return a state as bytes that ``torch.load`` reads, with their checksum."""
    buffer = BytesIO()
    torch.save(dict(state), buffer)
    return archive_with_checksum(buffer.getvalue())


def read_state(path: Path) -> dict[str, Any] | None:
    """Read a state; None if there is none. Damaged, or Unreadable. No code of the file is executed."""
    raw = content(path)
    if raw is None:
        return None
    try:
        return torch.load(BytesIO(archive_of(raw)), weights_only=True)
    except Exception:  # a damaged file makes the unpickler raise anything, a KeyError for one
        raise Damaged(path) from None
