"""What the system says when it does not let us write, as a line that names the file and what to do."""

from __future__ import annotations

from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC, EROFS
from pathlib import Path

from rlexp.core.exits import RunFailed

GOES_ON = "resume=failed then goes on from the last checkpoint"
REMEDIES = {
    ENOSPC: f"make room on that disk; {GOES_ON}",
    EDQUOT: f"make room in your quota; {GOES_ON}",
    EFBIG: f"allow larger files (ulimit -f); {GOES_ON}",
    EMFILE: f"allow more open files (ulimit -n), or train fewer runs at once; {GOES_ON}",
    ENFILE: f"the system has too many open files; {GOES_ON}",
    EROFS: f"make that file system writable; {GOES_ON}",
}


def unwritable(error: Exception, path: Path) -> RunFailed:
    """Return what ends a run that cannot write a file; what says itself what is wrong stays as it is."""
    if isinstance(error, RunFailed):
        return error
    if not path.parent.is_dir():
        return RunFailed(f"{path.parent} was removed while the run was writing there; start it again")
    number = getattr(error, "errno", None) or ENOSPC  # torch's own writer does not say
    reason = getattr(error, "strerror", None) or "no space left on device?"
    return RunFailed(f"{path} cannot be written ({reason}): {REMEDIES.get(number, GOES_ON)}")
