"""A signal to the process that has others train a run reaches each of them once, also while a start is made."""

import os
import signal
import sys
import threading
import time

import pytest

pytest.importorskip("psutil")

from rlexp.backends.trl import processes  # noqa: E402
from rlexp.core.exits import INTERRUPTED  # noqa: E402
from rlexp.sweep.interrupt import Interrupt  # noqa: E402

pytestmark = pytest.mark.slow  # processes
SECONDS = 60.0
TRAINER = """
import signal, sys, time
from pathlib import Path
place, told = Path(sys.argv[2]), []
def save(*_):
    told.append(1)
    place.with_suffix(".told").write_text(str(len(told)))
signal.signal(signal.SIGTERM, save)
place.touch()
end = time.monotonic() + 20.0
while not told and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(1.0)
sys.exit({code} if told else 0)
"""
LAUNCHER = """
import subprocess, sys
found = [subprocess.Popen([sys.executable, "-c", {trainer!r}, {child!r}, place]) for place in sys.argv[1:]]
sys.exit(max(each.wait() for each in found))
"""


def launcher(*places):
    """The command of a launcher that waits for a trainer for each of the places."""
    trainer = TRAINER.replace("{code}", str(INTERRUPTED))
    return [sys.executable, "-c", LAUNCHER.format(trainer=trainer, child=processes.CHILD), *map(str, places)]


def until_there(*places):
    end = time.monotonic() + SECONDS
    while not all(place.exists() for place in places) and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_each_is_told_once_and_waited_for(tmp_path, number):
    places = [tmp_path / "a", tmp_path / "b"]

    def end():
        until_there(*places)
        os.kill(os.getpid(), number)

    threading.Thread(target=end, daemon=True).start()
    with Interrupt() as interrupt:
        code = processes.exit_code(launcher(*places), interrupt)
    assert interrupt.requested and code == INTERRUPTED
    assert [path.with_suffix(".told").read_text() for path in places] == ["1", "1"]


def test_a_second_signal_ends_them_at_once(tmp_path):
    place = tmp_path / "a"

    def end_twice():
        until_there(place)
        os.kill(os.getpid(), signal.SIGINT)
        until_there(place.with_suffix(".told"))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=end_twice, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        processes.exit_code(launcher(place), interrupt)
    assert time.monotonic() - started < SECONDS


def test_what_they_end_with_is_handed_on():
    with Interrupt() as interrupt:
        assert processes.exit_code([sys.executable, "-c", "raise SystemExit(3)"], interrupt) == 3
