"""What each of several processes does that train a run together: ``accelerate launch`` starts this module."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from rlexp.backends.trl.run import train_locked
from rlexp.core.exits import INTERRUPTED
from rlexp.sweep.interrupt import signals_as_ctrl_c


def main() -> None:
    """Train the job in the file that is named."""
    job, saved = pickle.loads(Path(sys.argv[1]).read_bytes())
    try:
        with signals_as_ctrl_c():
            train_locked(job, saved)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
