"""Which reader a path is for: by the names of files, in a folder by those of all files below it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.readers.logs import Columns, Logs
from rlexp.runfolder.files import CONFIG_FILE, INDEX_FILE, METRICS_FILE, SUMMARY_FILE

MOST_FILES = 100_000  # of a folder that are looked at
OWN = (INDEX_FILE, SUMMARY_FILE)  # what only our folders have
NOT_LOOKED_INTO = {"analysis", "__pycache__", "node_modules", ".git", ".hydra"}


class Reader(NamedTuple):
    """A format: how its files are known, and the module whose `read` takes them."""

    name: str
    is_file: Callable[[str], bool]
    """Whether a file is one, by its name."""
    module: str
    """In this folder, with `read(files, root, columns)`; imported when it is needed."""


READERS = (
    Reader("W&B run", lambda name: name.endswith(".wandb"), "wandb_files"),
    Reader("TensorBoard", lambda name: ".tfevents." in name, "tensorboard"),
    Reader("trainer_state.json", lambda name: name.endswith("trainer_state.json"), "trainer_state"),
    Reader("Trackio", lambda name: name.endswith(".db"), "trackio"),
    Reader("JSON lines", lambda name: name.endswith((".jsonl", ".ndjson")), "jsonl"),
    Reader("CSV", lambda name: name.endswith((".csv", ".tsv")), "tables"),
    Reader("Parquet", lambda name: name.endswith(".parquet"), "tables"),
)
ENDINGS = ".csv .tsv .parquet .jsonl .wandb .db trainer_state.json events.out.tfevents.*"


def is_online(path: Path) -> bool:
    """Whether a path is `wandb://entity/project`."""
    return path.parts[:1] == ("wandb:",)


def reader_of(path: Path) -> Reader | None:
    """The reader of a file, by its name."""
    return next((reader for reader in READERS if reader.is_file(path.name)), None)


def is_sweep(folder: Path) -> bool:
    """Whether a folder is a sweep or a run of rlexp."""
    places = [folder, *(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())]
    return any(
        any((place / name).exists() for name in (*OWN, ".hydra/overrides.yaml"))
        or ((place / METRICS_FILE).exists() and (place / CONFIG_FILE).exists())
        for place in places
    )


def holds_logs(path: Path) -> bool:
    """Whether a path is a log of another tool, or a folder that has some and is no sweep of rlexp."""
    if is_online(path):
        return True
    if path.is_file():
        return True
    if not path.is_dir() or is_sweep(path):
        return False
    return next(log_files(path), None) is not None


def log_files(folder: Path) -> Iterator[tuple[Reader, Path]]:
    """The logs below a folder, each with its reader. What lies beside a W&B run is not looked at."""
    seen = 0
    for place, folders, files in os.walk(folder):
        found = [(reader, Path(place, name)) for name in sorted(files) if (reader := reader_of(Path(name)))]
        if wandb := [each for each in found if each[0].module == "wandb_files"]:
            folders[:] = []
            found = wandb
        folders[:] = sorted(name for name in folders if name not in NOT_LOOKED_INTO)
        yield from found
        seen += len(files)
        if seen > MOST_FILES:
            raise AnalysisError(f"'{folder}' has more than {MOST_FILES:,} files; name a folder or file in it")


def read_logs(path: Path, columns: Columns) -> Logs:
    """The runs of a file, of a folder of files of one format, or of `wandb://entity/project`.

    Raises:
        AnalysisError: No format is known, several are there, or the reader's own.
    """
    if is_online(path):
        return _read("wandb_online", [path], path, columns)
    if path.is_file():
        reader = reader_of(path)
        if reader is None:
            raise AnalysisError(f"'{path}' is no log that is known; there are {ENDINGS}, and folders of these")
        return _read(reader.module, [path], path.parent, columns)
    found: dict[Reader, list[Path]] = {}
    for reader, file in log_files(path):
        found.setdefault(reader, []).append(file)
    if len({reader.module for reader in found}) > 1:
        listed = ", ".join(f"{reader.name} ({_shown(files, path)})" for reader, files in found.items())
        raise AnalysisError(f"'{path}' has logs of several formats: {listed}; name the files, as {path}/*/<file>")
    (module,) = {reader.module for reader in found}
    return _read(module, [file for files in found.values() for file in files], path, columns)


def _read(module: str, files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    return import_module(f"rlexp.analysis.data.readers.{module}").read(files, root, columns)


def _shown(files: Sequence[Path], root: Path) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0].relative_to(root)}{more}"
