"""Batches side by side, in processes of this machine that each train one after another."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from rlexp.core.exits import INTERRUPTED, describe_error
from rlexp.launch.executors.combined import CombinedProgress
from rlexp.launch.executors.process import STOP, work
from rlexp.launch.worker import NO_RESULT, failed_results
from rlexp.sweep.interrupt import SIGNALS, Interrupt
from rlexp.sweep.job import Batch, Job, Results
from rlexp.sweep.machine import gpus

SECONDS_TO_END, SECONDS_TO_EXIT = 5.0, 30.0  # after a second Ctrl-C; of an interpreter that has nothing to do
SECONDS_BETWEEN_LOOKS = 0.2  # at whether there was a signal
SPAWN = get_context("spawn")


@dataclass
class Output:
    """What a process writes to one of its standard streams, repeated here in whole lines."""

    pipe: Connection
    stream: Any
    rest: bytes = b""

    def repeat(self) -> None:
        """Repeat what there is; nothing if it is closed."""
        if self.pipe.closed:
            return
        new = os.read(self.pipe.fileno(), 1 << 16)
        *lines, self.rest = (self.rest + new).split(b"\n")
        if not new:
            self.pipe.close()
            lines += [self.rest] if self.rest else []
        self.stream.writelines(f"{line.decode(errors='replace')}\n" for line in lines)
        self.stream.flush()


@dataclass
class Worker:
    """A process, what it trains at the moment, and what it has to say."""

    process: BaseProcess
    connection: Connection
    outputs: list[Output]
    batch: Batch | None = None
    gpu: str | None = None

    @classmethod
    def start(cls, cores: int, gpu: str | None = None) -> Worker:
        """Start a process that may use so many cores, and of several CUDA devices one."""
        ours, theirs = SPAWN.Pipe()
        readers, writers = zip(*(SPAWN.Pipe(duplex=False) for _ in range(2)), strict=True)
        process = SPAWN.Process(target=work, args=(theirs, writers, cores, gpu), daemon=True)
        resource_tracker.ensure_running()  # which else lets the signals through when it starts
        with without_main(), signals_held():
            process.start()
        for end in (theirs, *writers):
            end.close()
        streams = zip(readers, (sys.stdout, sys.stderr), strict=True)
        return cls(process, ours, [Output(*pair) for pair in streams], gpu=gpu)

    def send(self, message: object) -> None:
        """Send a batch, STOP, or None if there is no more; a process that is gone is noticed elsewhere."""
        with suppress(OSError):
            self.connection.send(message)

    def train(self, batch: Batch) -> None:
        """Begin with a batch."""
        self.batch = batch
        self.send(batch)

    def repeat_output(self, seconds: float = 0.0) -> None:
        """Repeat everything that the process has written so far."""
        while ready := wait([each.pipe for each in self.outputs if not each.pipe.closed], seconds):
            for output in self.outputs:
                if output.pipe in ready:
                    output.repeat()

    def close(self) -> str:
        """Take leave of a process that has ended, or is about to; return why it sends no result."""
        self.process.join(SECONDS_TO_EXIT)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.repeat_output()
        for end in (self.connection, *(each.pipe for each in self.outputs)):
            end.close()
        code = self.process.exitcode
        if code == INTERRUPTED:
            time.sleep(SECONDS_BETWEEN_LOOKS)  # for the same signal to this process
        return f"{NO_RESULT}: {signal.Signals(-code).name if code and code < 0 else f'exit code {code}'}"


@contextmanager
def without_main() -> Iterator[None]:
    """Context in which a new process imports no main module: a user's script would run once more in each."""
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def signals_held() -> Iterator[None]:
    """Context in which signals wait, and for good in a new process, which lets them through when it is prepared."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class Processes:
    """At most so many processes at a time, each with so many cores."""

    count: int
    cores: int
    workers: list[Worker] = field(default_factory=list)
    leaving: list[Worker] = field(default_factory=list)

    def run(self, jobs: Sequence[Job], batches: Iterable[Batch]) -> Iterator[tuple[Batch, Results]]:
        """Train the batches, which hold the jobs; each comes back when it has ended."""
        pending = iter(batches)
        with CombinedProgress(jobs) as self.progress:
            try:
                with Interrupt() as interrupt:  # not in the middle of a message, or of the start of a process
                    yield from self.begin(pending, self.count)
                    while self.workers and not interrupt.requested:
                        for batch, results in self.events(SECONDS_BETWEEN_LOOKS):
                            if interrupt.requested:  # whoever ends everything may have ended the worker first
                                break
                            self.progress.end(batch, results)
                            yield batch, results
                            yield from self.begin(pending, 1)
                        self.dismiss_idle()
                if interrupt.requested:
                    raise KeyboardInterrupt
            finally:
                self.stop()

    def begin(self, pending: Iterator[Batch], count: int) -> Iterator[tuple[Batch, Results]]:
        """Give the next batches to processes that are idle, or new; yield those for which there is none."""
        while count and (batch := next(pending, None)):
            idle = next((worker for worker in self.workers if worker.batch is None), None)
            try:
                if idle is None:
                    idle = Worker.start(self.cores, self.free_gpu())
                    self.workers.append(idle)
            except OSError as error:
                yield batch, failed_results(batch, f"no worker: {describe_error(error)}")
                continue
            idle.train(batch)
            count -= 1

    def free_gpu(self) -> str | None:
        """Return the CUDA device that fewest processes have; None where there are not several."""
        devices = gpus() if self.count > 1 else []
        taken = [worker.gpu for worker in self.workers]
        return min(devices, key=taken.count) if len(devices) > 1 else None

    def dismiss_idle(self) -> None:
        """Send home whoever has nothing left to do."""
        for worker in [worker for worker in self.workers if worker.batch is None]:
            worker.send(None)
            self.workers.remove(worker)
            self.leaving.append(worker)

    def events(self, timeout: float | None = None) -> Iterator[tuple[Batch, Results]]:
        """Wait for something to happen; yield batches that have ended."""
        sources: dict = {worker.connection: worker for worker in self.workers}
        outputs = [output for worker in [*self.workers, *self.leaving] for output in worker.outputs]
        sources |= {output.pipe: output for output in outputs if not output.pipe.closed}
        for ready in wait(list(sources), timeout):
            source = sources[ready]
            if isinstance(source, Output):
                source.repeat()
            elif ended := self.receive(source):
                yield ended

    def receive(self, worker: Worker) -> tuple[Batch, Results] | None:
        """Take what a process sends: how far it is, or the results of its batch. One that is gone has failed ones."""
        try:
            kind, *content = worker.connection.recv()
        except Exception:  # it is gone, or a second Ctrl-C has cut its message
            self.workers.remove(worker)
            reason = worker.close()
            return (worker.batch, failed_results(worker.batch, reason)) if worker.batch else None
        if kind == "progress":
            self.progress.update(*content)
            return None
        worker.repeat_output()
        batch, worker.batch = worker.batch, None
        return batch, *content

    def stop(self) -> None:
        """Let the runs save after the step that they are in, however long it takes; a second Ctrl-C ends them soon."""
        try:
            for worker in self.workers:
                worker.send(STOP)
            while self.workers:
                list(self.events())
        except KeyboardInterrupt:
            end = time.monotonic() + SECONDS_TO_END
            for worker in self.workers:
                worker.process.join(max(0.0, end - time.monotonic()))
        for worker in self.workers:
            worker.process.kill()
        for worker in [*self.workers, *self.leaving]:
            worker.close()
        self.workers.clear()
        self.leaving.clear()
