"""A sweep in several processes of this machine: the same bits, and nobody trains on whom nobody wants any more."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import stubborn
from clusters import until
from command import command, no_comparison  # noqa: F401 (fixtures)
from executors import (  # noqa: F401 (some are fixtures)
    TINY,
    assert_saved,
    endless,
    same_as_inline,
    saves_at_ctrl_c,
    survives_a_kill,
    writers,
)
from small_runs import compose
from sweep_files import rows

from rlexp.launch.executors import local
from rlexp.launch.worker import picklable
from rlexp.sweep.interrupt import signals_as_ctrl_c
from rlexp.sweep.job import Batch, Job

pytestmark = pytest.mark.usefixtures("no_comparison")
PROCESSES = ("hydra.launcher.workers=2",)


@pytest.mark.slow
def test_processes_leave_what_one_leaves(same_as_inline):
    same_as_inline(*PROCESSES)


@pytest.mark.rare
def test_a_killed_process_takes_only_its_runs_with_it(survives_a_kill):
    survives_a_kill(*PROCESSES)


@pytest.mark.rare
def test_ctrl_c_lets_processes_save(saves_at_ctrl_c):
    saves_at_ctrl_c(*PROCESSES)


@pytest.mark.slow
def test_processes_whose_parent_is_killed_save_and_end(tmp_path):
    parent, metrics = endless(tmp_path, *PROCESSES)
    parent.kill()
    parent.wait()
    until(lambda: not any(writers(path) for path in metrics), "nobody trains on: the end", 30)
    assert_saved(metrics)


@pytest.mark.slow
def test_ctrl_c_waits_for_a_process_and_a_second_one_does_not(monkeypatch):
    """The first is sent while the process works, the second when the first has long been passed on."""
    monkeypatch.setattr(local, "work", stubborn.work)
    monkeypatch.setattr(local, "SECONDS_TO_END", 0.2)
    monkeypatch.setattr(local, "SECONDS_TO_EXIT", 0.2)
    job = Job(compose(), Path("x"), "x", "x")
    pool, told = local.Pool([job], 2, 1), []

    def interrupt_twice():
        until(lambda: pool.processes and pool.shown[0][0] == 1, "the process")
        for _ in range(2):
            told.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)
            told.append(pool.processes and pool.processes[0].process.is_alive())

    thread = threading.Thread(target=interrupt_twice)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        list(pool.run([Batch((job,))]))
    second = time.monotonic() - told[2]
    thread.join()
    assert told[1] and not told[3] and second < 1.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_while_workers_train_is_a_ctrl_c(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_as_ctrl_c():
        os.kill(os.getpid(), number)
        time.sleep(1)
    assert signal.getsignal(number) is before


@pytest.mark.rare
def test_more_workers_than_shapes_cut_a_batch_and_a_failure_has_its_reason_and_its_traceback(command, tmp_path):
    extreme = ("lr=1e-3,1e38", "warmup_steps=0", "seed=0", "steps=6")
    result = command(*TINY, *extreme, *PROCESSES, "hydra.sweep.dir=x")
    assert result.code == 1
    lines = [line for line in result.err.splitlines() if "steps ·" in line]
    assert lines == ["[rlexp] 6 steps · runs: 2 · variants: 2"]
    good, bad = rows(tmp_path / "x")
    assert (good["status"], bad["status"]) == ("completed", "diverged")
    assert result.err.splitlines()[-1] == f"{bad['name']}: diverged: {bad['reason']}"
    assert "FloatingPointError" in (tmp_path / "x" / bad["name"] / "train.log").read_text()


def test_what_a_worker_sends_back_keeps_the_traceback():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        failed = picklable(error)
    assert str(failed) == "ZeroDivisionError: division by zero"
    assert "Traceback" in failed.__notes__[0] and "1 / 0" in failed.__notes__[0]
