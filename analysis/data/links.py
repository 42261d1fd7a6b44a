"""Links that lead out of the folder that was named are neither read nor written."""

from pathlib import Path

from rlexp.analysis.data.errors import AnalysisError
from rlexp.runfolder.files import leads_out


def inner(folder: str | Path, *names: str) -> Path:
    """A path in a folder; AnalysisError if a link leads out of there."""
    path = Path(folder, *names)
    if leads_out(path, Path(folder)):
        raise AnalysisError(f"'{path}' leads out of '{folder}': remove the link, or name where to write (--out)")
    return path


def unlinked(file: Path) -> Path:
    """The file, no longer as a link to another one, which would be written instead."""
    if file.is_symlink():
        file.unlink()
    return file
