"""A copy of the project to try a change in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("rlexp", "analysis", "hydra_plugins", "conf", "tests", "docs", "README.md", "pyproject.toml")


class Copy:
    """The copy in a folder: its files can be added to, its modules run."""

    def __init__(self, folder: Path):
        self.folder = folder
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, folder / part)

    def append(self, path: str, text: str) -> None:
        """Write text at the end of a file, two lines below what is there; make the file if there is none."""
        file = self.folder / path
        before = file.read_text(encoding="utf-8") + "\n\n" if file.exists() else ""
        file.write_text(before + text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text that a file has."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    @contextmanager
    def replaced(self, path: str, *pairs: tuple[str, str]) -> Iterator[None]:
        """Context in which texts of a file are others."""
        file = self.folder / path
        before = file.read_text(encoding="utf-8")
        try:
            for old, new in pairs:
                self.replace(path, old, new)
            yield
        finally:
            file.write_text(before, encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run a module of the copy by its name."""
        return self.shell([sys.executable, "-m", *arguments])

    def shell(self, command: list[str] | str) -> subprocess.CompletedProcess:
        """Run a command in the copy, with the Python of this process as ``python``."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the next command need not compile everything anew
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, shell=isinstance(command, str)
        )
