"""What the fault-injection scripts share: their options, and the file that says what they found."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.parts import common

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "reliability"


def options(doc: str | None, **defaults: int | str) -> argparse.Namespace:
    """Read ``--name value`` for each default, and where the JSON goes."""
    return common.options(doc, RESULTS, **defaults)


def store(name: str, found: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Write what a script found, with its command and the machine."""
    command = shlex.join(["python", "-m", f"tests.faults.{name}", *sys.argv[1:]])
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"command": command, "machine": machine, **found}, indent=2, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def finish(name: str, found: Mapping[str, Any], results: Path, place: Path) -> None:
    """Print what a script found and write it down; where it found something, keep its folder and end with 1."""
    print()
    for key, value in found.items():
        print(f"{key}: {value}")
    store(name, found, results)
    if found["findings"]:
        sys.exit(f"see {place}")
    shutil.rmtree(place)
