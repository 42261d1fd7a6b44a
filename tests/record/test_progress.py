"""The display says what is known, seldom enough, and in the way of nothing else."""

import io
import logging
import math
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from rlexp.record.progress import Progress, QuietConsole, duration, stderr, swapped_streams


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def progress(variants, seeds, steps, interactive=False):
    """Return a progress that writes to a string, the function that returns what was written, and its clock."""
    console = Console(file=io.StringIO(), force_interactive=interactive, width=100)
    runs, clock = [variant for variant in variants for _ in range(seeds)], Clock()
    return Progress(runs, steps, console=console, clock=clock), console.file.getvalue, clock


NORMS = [f"norm={name}" for name in ("local", "global", "hybrid")]


def test_the_line_says_where_training_is():
    shown, text, clock = progress(NORMS, 2, 400)
    with shown:
        shown.update(0, [True] * 6, [0.0] * 6)
        clock.now = 40.0
        shown.update(120, [True] * 5 + [False], [0.60, 0.62, 0.5, math.nan, 0.63, 9.0])
        assert text().splitlines()[-1] == (
            "[rlexp] step 120/400 · 5 of 6 runs alive · 3.0 steps/s · 1 min 34 s left · 40 s elapsed"
            " · reward local 0.61 global 0.50 hybrid 0.63"
        )


def test_lines_come_at_the_start_every_ten_seconds_and_at_the_end():
    shown, text, clock = progress(["default"], 1, 1000)
    with shown:
        assert len(text().splitlines()) == 1
        for step in range(100):
            clock.now = step / 4
            shown.update(step, [True], [0.5])
        assert [line.split()[2] for line in text().splitlines()[1:]] == ["40/1000", "80/1000"]
    assert text().splitlines()[-1].startswith("[rlexp] step 99/1000 ")


def test_a_single_run_is_called_by_its_name_and_counts_no_runs():
    console = Console(file=io.StringIO(), force_interactive=False, width=100)
    with Progress(["norm=local"], 10, "norm=local,eval.ks=[1],seed=0", console=console, clock=Clock()) as shown:
        shown.update(10, [True], [0.5])
    name = "[norm=local,eval.ks=[1],seed=0]"
    assert console.file.getvalue() == f"{name} 10 steps\n{name} step 10/10 · 0 s elapsed · reward 0.50\n"


def test_a_resumed_run_is_not_taken_for_a_fast_one():
    shown, text, clock = progress(["default"], 1, 1000)
    with shown:
        shown.update(900, [True], [0.5])
        clock.now = 10.0
        shown.update(905, [True], [0.5])
    assert "2.0 s/step · 3 min 10 s left" in text()


def test_many_variants_are_cut_to_the_best():
    shown, text, _ = progress([f"lr={index}" for index in range(20)], 1, 10)
    rewards = [math.nan, *map(float, range(1, 20))]
    with shown:
        shown.update(10, [True] * 20, rewards)
    assert text().endswith(f"reward {' '.join(f'lr={rate} {rate}.00' for rate in range(19, 13, -1))} and 14 more\n")
    console = Console(file=io.StringIO(), width=80)
    console.print(shown.display)
    bar, _, *table = [line.split() for line in console.file.getvalue().splitlines()]
    assert (bar[0], bar[2], bar[-1]) == ("rlexp", "10/10", "left")
    assert table == [[f"lr={value}", "1/1", f"{value}.00"] for value in range(19, 7, -1)] + [["and", "8", "more"]]


def test_nothing_logged_yet_and_nothing_alive_can_be_shown():
    shown, text, _ = progress(NORMS, 1, 10)
    with shown:
        pass
    assert text().endswith("step 0/10 · 3 of 3 runs alive · 0 s elapsed · reward local – global – hybrid –\n")
    shown, text, _ = progress(NORMS, 1, 10)
    with shown:
        shown.update(1, [False] * 3, [math.nan] * 3)
    assert text().endswith("0 of 3 runs alive · 0 s elapsed · reward local – global – hybrid –\n")


def test_the_last_live_drawing_stays_when_training_fails():
    shown, text, _ = progress(NORMS, 1, 10, interactive=True)
    with pytest.raises(ZeroDivisionError), shown:
        shown.update(7, [True] * 3, [0.25] * 3)
        raise ZeroDivisionError
    assert " 7/10" in text()
    assert "[rlexp]" not in text()


@pytest.mark.slow
def test_on_a_terminal_prints_and_logs_stand_above_the_display():
    script = (
        "import logging, sys; from rlexp.record.progress import Progress\n"
        "logging.basicConfig(stream=sys.stdout, format='%(message)s')\n"
        "with Progress(['default'], 10) as shown:\n"
        "    shown.update(10, [True], [0.5]); print('PRINTED'); logging.warning('LOGGED')\n"
        "logging.warning('AFTER')"
    )
    terminal, child = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stdout=child, stderr=child, check=True, timeout=30)
    screen = os.read(terminal, 100_000).decode()
    up = "\x1b[1A\x1b[2K"
    assert up + "PRINTED\r\n" in screen and up + "LOGGED\r\n" in screen
    assert screen.endswith("AFTER\r\n")


class Closed(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError


@pytest.mark.parametrize("interactive", [False, True])
def test_training_outlives_the_reader_of_its_progress(interactive):
    console = QuietConsole(file=Closed(), force_interactive=interactive, force_terminal=interactive)
    with Progress(["default"], 10, console=console) as shown:
        shown.update(10, [True], [0.5])
    assert console.quiet


def test_a_file_is_never_animated(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not stderr().is_interactive
    stderr().print("x")
    assert capsys.readouterr() == ("", "x\n")


def test_log_handlers_get_their_streams_back():
    before, meanwhile, other = io.StringIO(), io.StringIO(), io.StringIO()
    handlers = [logging.StreamHandler(stream) for stream in (before, other)]
    logging.root.handlers, kept = handlers, logging.root.handlers
    try:
        with swapped_streams({id(before): meanwhile}):
            assert [handler.stream for handler in handlers] == [meanwhile, other]
        assert [handler.stream for handler in handlers] == [before, other]
    finally:
        logging.root.handlers = kept


@pytest.mark.parametrize(
    ("variants", "labels"),
    [
        (["norm=local", "norm=global"], ["local", "global"]),
        (["default", "norm=local"], ["default", "local"]),
        (["lr=1,norm=a", "lr=1,norm=b"], ["a", "b"]),
        (["norm=a,clip=x", "norm=b,clip=y"], ["norm=a,clip=x", "norm=b,clip=y"]),
        (["eval.ks=[1,2]", "eval.ks=[1,4]"], ["eval.ks=[1,2]", "eval.ks=[1,4]"]),
        (["lr=1", "lr=1,norm=b"], ["default", "b"]),
        (["default"], ["default"]),
    ],
)
def test_labels_say_what_differs(variants, labels):
    assert Progress(variants, 1).labels == dict(zip(variants, labels, strict=True))


def test_durations_read_well():
    assert [duration(value) for value in (0.2, 59.4, 92.0, 7500.0)] == ["0 s", "59 s", "1 min 32 s", "2 h 5 min"]
