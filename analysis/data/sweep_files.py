"""What the files of a sweep's runs say of the sweep: a hash of what was read of it, and when its first run began."""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from rlexp.analysis.data import read
from rlexp.analysis.data.runs import find_jobs
from rlexp.runfolder.files import CODE_FILE, CONFIG_FILE, METRICS_FILE, SUMMARY_FILE

LOG_FILE = "train.log"
STAMP = "%Y-%m-%d %H:%M:%S"  # in local time, at the start of a line of it
FIRST_FILES = (LOG_FILE, CONFIG_FILE, CODE_FILE, METRICS_FILE, SUMMARY_FILE)


def run_folders(folder: Path) -> list[Path]:
    """Return the folders of a sweep's runs by name; AnalysisError if there are none."""
    return sorted(folder / job["name"] for job in find_jobs(folder, []))


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the names, the summaries and the rows of a sweep's runs, and of what it declares."""
    total = sha256()
    for path in run_folders(folder):
        for file in (path / SUMMARY_FILE, path / METRICS_FILE):
            content = read.content(file)
            total.update(f"{path.name}/{file.name} {len(content)}\n".encode() + content)
    for file in sorted(folder.glob("*.json")):
        total.update(file.name.encode() + b"\n" + read.content(file))
    return total.hexdigest()


def first_start(folder: Path) -> datetime | None:
    """Return when the first run of a sweep began, by the earliest sign of it; None without any.

    Signs are the first line of each train.log, and when files of a run were last written. Copies may have later times,
    but their logs do not.
    """
    return min((sign for path in run_folders(folder) for sign in _signs(path)), default=None)


def _signs(run: Path) -> Iterator[datetime]:
    line = read.content(run / LOG_FILE)[: len("2000-01-01 00:00:00")]
    try:
        yield datetime.strptime(line.decode("ascii"), STAMP).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    for name in FIRST_FILES:
        if (run / name).is_file():
            yield datetime.fromtimestamp((run / name).stat().st_mtime, UTC)
