"""Batches on this machine: one after another in this process, or side by side in processes that train one at a time."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from rlexp.core.exits import INTERRUPTED, describe_error
from rlexp.launch.worker import NO_RESULT, failed_results, interrupt_main_thread, train_batch, train_in_worker
from rlexp.record.progress import Progress
from rlexp.sweep import build, machine
from rlexp.sweep.interrupt import SIGNALS, Interrupt, end_undisturbed
from rlexp.sweep.job import Batch, Job, Results

SECONDS_TO_END, SECONDS_TO_EXIT = 5.0, 30.0  # after a second Ctrl-C; of an interpreter that has nothing to do
SECONDS_BETWEEN_LOOKS = 0.2  # at whether there was a signal
SPAWN = get_context("spawn")


@contextmanager
def open_pool(folder: Path, jobs: Sequence[Job], *, workers: int | str | None) -> Iterator[Pool]:
    """Return a pool of so many processes; None for one a core, "auto" for as many as have enough to do."""
    cores = machine.usable_cores()
    wanted = build.num_workers(jobs, cores) if workers == "auto" else workers or cores
    count = max(1, min(int(wanted), len(jobs)))
    yield Pool(jobs, count, max(1, cores // count))


@dataclass
class Worker:
    """A process, what it trains at the moment, and the threads that repeat what it prints."""

    process: BaseProcess
    connection: Connection
    outputs: list[threading.Thread]
    gpu: str | None = None
    batch: Batch | None = None

    @classmethod
    def start(cls, cores: int, gpu: str | None = None) -> Worker:
        """Start a process that may use so many cores, and of several CUDA devices one."""
        ours, theirs = SPAWN.Pipe()
        readers, writers = zip(*(SPAWN.Pipe(duplex=False) for _ in range(2)), strict=True)
        process = SPAWN.Process(target=work, args=(theirs, writers, cores, gpu), daemon=True)
        resource_tracker.ensure_running()  # which else lets the signals through when it starts
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")  # no user's script runs again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the process lets them through when it is prepared
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sys.modules["__main__"] = main
        for end in (theirs, *writers):
            end.close()
        streams = zip(readers, (sys.stdout, sys.stderr), strict=True)
        outputs = [threading.Thread(target=repeat, args=pair, daemon=True) for pair in streams]
        for thread in outputs:
            thread.start()
        return cls(process, ours, outputs, gpu)

    def train(self, batch: Batch | None) -> None:
        """Begin with a batch, or end if there is none; a process that is gone is noticed elsewhere."""
        self.batch = batch
        with suppress(OSError):
            self.connection.send(batch)

    def close(self) -> str:
        """Take leave of a process that has ended, or is about to; return why it sends no result."""
        self.process.join(SECONDS_TO_EXIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        for thread in self.outputs:  # a process of its own may still have the other end
            thread.join(1.0)
        self.connection.close()
        code = self.process.exitcode
        if code == INTERRUPTED:
            time.sleep(SECONDS_BETWEEN_LOOKS)  # for the same signal to this process
        return f"{NO_RESULT}: {signal.Signals(-code).name if code and code < 0 else f'exit code {code}'}"


@dataclass
class Pool:
    """At most so many processes at a time, each with so many cores; this one where there is only one.

    ``shown`` are step, alive, reward by job number.
    """

    jobs: Sequence[Job]
    workers: int
    cores: int
    processes: list[Worker] = field(default_factory=list)
    shown: dict[int, tuple[int, bool, float]] = field(default_factory=dict)

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Results]]:
        """Train the batches, which hold the jobs; each comes back when it has ended."""
        if self.workers > 1:
            yield from self.run_in_processes(iter(batches))
        else:
            yield from ((batch, train_batch(batch)) for batch in batches)

    def run_in_processes(self, pending: Iterator[Batch]) -> Iterator[tuple[Batch, Results]]:
        self.shown = {job.number: (0, True, math.nan) for job in self.jobs}
        steps = round(fmean(job.config.steps for job in self.jobs))
        with Progress([job.variant for job in self.jobs], steps) as self.display:
            try:
                with Interrupt() as interrupt:  # not in the middle of a message, or of the start of a process
                    yield from self.begin(pending, self.workers)
                    while self.processes and not interrupt.requested:
                        for batch, results in self.events(SECONDS_BETWEEN_LOOKS):
                            if interrupt.requested:  # whoever ends everything may have ended the worker first
                                break
                            for job, result in zip(batch.jobs, results, strict=True):  # also of those that have died
                                reward = self.shown[job.number][2]
                                self.shown[job.number] = job.config.steps, not isinstance(result, Exception), reward
                            self.show()
                            yield batch, results
                            yield from self.begin(pending, 1)
                if interrupt.requested:
                    raise KeyboardInterrupt
            finally:
                self.stop()

    def begin(self, pending: Iterator[Batch], count: int) -> Iterator[tuple[Batch, Results]]:
        """Give the next batches to processes that are idle, or new; yield those for which there is none."""
        while count and (batch := next(pending, None)):
            idle = next((worker for worker in self.processes if worker.batch is None), None)
            try:
                if idle is None:
                    idle = Worker.start(self.cores, self.free_gpu())
                    self.processes.append(idle)
            except OSError as error:
                yield batch, failed_results(batch, f"no worker: {describe_error(error)}")
                continue
            idle.train(batch)
            count -= 1
        if count:  # there are no more: who is idle ends
            for worker in self.processes:
                if worker.batch is None:
                    worker.train(None)

    def free_gpu(self) -> str | None:
        """Return the CUDA device that fewest processes have; None where there are not several."""
        devices = machine.gpus() if self.workers > 1 else []
        taken = [worker.gpu for worker in self.processes]
        return min(devices, key=taken.count) if len(devices) > 1 else None

    def events(self, timeout: float | None = None) -> Iterator[tuple[Batch, Results]]:
        """Wait for processes to say something; yield batches that have ended. One that is gone has failed results."""
        workers = {worker.connection: worker for worker in self.processes}
        for connection in wait([*workers], timeout):
            worker = workers[connection]
            try:
                kind, *content = connection.recv()
            except Exception:  # it is gone, or a second Ctrl-C has cut its message
                self.processes.remove(worker)
                reason = worker.close()
                if worker.batch:
                    yield worker.batch, failed_results(worker.batch, reason)
                continue
            if kind == "progress":
                self.shown |= content[0]
                self.show()
            else:
                batch, worker.batch = worker.batch, None
                yield batch, *content

    def show(self) -> None:
        """Show the mean step of the runs, all that are alive, all rewards."""
        steps, alive, rewards = zip(*self.shown.values(), strict=True)
        self.display.update(round(fmean(steps)), alive, rewards)

    def stop(self) -> None:
        """Let the runs save after the step that they are in, however long it takes; a second Ctrl-C ends them soon."""
        try:
            for worker in self.processes:
                worker.process.terminate()
            while self.processes:
                list(self.events())
        except KeyboardInterrupt:
            end = time.monotonic() + SECONDS_TO_END
            for worker in self.processes:
                worker.process.join(max(0.0, end - time.monotonic()))
        for worker in self.processes:
            worker.process.kill()
            worker.close()
        self.processes.clear()


def repeat(pipe: Connection, stream: Any) -> None:
    """Repeat what a process prints, in whole lines, until it has ended."""
    with pipe, open(pipe.fileno(), "rb", closefd=False) as lines, suppress(OSError, ValueError):  # of a closed stream
        for line in lines:
            stream.write(line.decode(errors="replace").rstrip("\n") + "\n")
            stream.flush()


def work(connection: Connection, outputs: Sequence[Connection], cores: int, gpu: str | None = None) -> None:
    """Train batches with so many cores, and with one CUDA device if it is named, until there are no more.

    A Ctrl-C and the end of a terminal are the parent's, which then sends SIGTERM: to the runs that is a Ctrl-C.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=end_with_parent, daemon=True).start()
        while batch := connection.recv():
            results = train_in_worker(batch, cores, lambda jobs, steps, title: nullcontext(Report(connection, jobs)))
            connection.send(("results", results))
    except (KeyboardInterrupt, EOFError, BrokenPipeError):  # the last two where the parent has ended
        raise SystemExit(INTERRUPTED) from None
    finally:
        end_undisturbed()


def end_with_parent() -> None:
    """Let the runs save when the parent has ended, and end soon, saved or not: nobody waits for them."""
    wait([parent_process().sentinel])
    interrupt_main_thread(signal.SIGTERM, threading.Event())


@dataclass
class Report:
    """Takes the place of the display of some jobs: hands on what it would show."""

    connection: Connection
    jobs: Sequence[Job]

    def update(self, step: int, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Send a logged step; that nobody reads it any more is noticed elsewhere."""
        logged = {job.number: (step, *each) for job, *each in zip(self.jobs, alive, rewards, strict=True)}
        with suppress(OSError):
            self.connection.send(("progress", logged))
