"""Training from Python, in memory: configs in, events out. No folder, no logger, no Hydra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError
from rlexp.language.backend import CAPABILITIES
from rlexp.sweep.build import into_batches, variant_order
from rlexp.sweep.training import FRESH, Checkpoint, Ended, Event, Row, Samples, Step, never, train_batch

__all__ = ["Checkpoint", "Ended", "Event", "Row", "Samples", "Step", "Training", "train"]

States = Mapping[int, Mapping[str, Any]]


class NumberedConfig(NamedTuple):
    """A config and its place among those that are trained."""

    run: int
    config: Config


def train(
    configs: Config | Sequence[Config],
    *,
    states: States | None = None,
    stop: Callable[[], bool] = never,
    starts: str | Path | None = None,
) -> Training:
    """Train configs and yield what happens, as it happens.

    >>> from rlexp.config.compose import compose
    >>> from rlexp.training import Ended, Row, train
    >>> short = ["steps=2", "log_every=1", "group_size.prompts=4", "group_size.completions=4"]
    >>> configs = [compose(*short, f"norm={norm}") for norm in ("local", "global")]
    >>> for event in train(configs):
    ...     match event:
    ...         case Row(run, step, metrics) if "reward/mean" in metrics:
    ...             print(f"run {run} step {step}: {0 <= metrics['reward/mean'] <= 1}")
    ...         case Ended(run, step, status):
    ...             print(f"run {run}: {status}")
    run 0 step 1: True
    run 1 step 1: True
    run 0 step 2: True
    run 1 step 2: True
    run 0: completed
    run 1: completed

    Runs that share their shapes train as one batch, the batches one after another. A run has the same bits in any
    batch, and those of the same run on the command line.

    Args:
        configs: complete configs. ``run`` of an event is the place in them.
        states: ``event.state`` of a ``Checkpoint`` by run: these runs go on after its step. The others begin.
        stop: asked once a step of each batch. Once it says yes, the runs of the batch yield checkpoints and end as
            interrupted, and further batches do not begin. For Ctrl-C: ``rlexp.sweep.interrupt.Interrupt``.
        starts: a folder in which the weights that runs start from are kept for later runs; None keeps none.

    Returns:
        An iterator of events. A ``Row`` has the metrics of docs/metrics.md but the times. Its ``end(run)`` ends a run,
        its ``close()`` all of them. The process has its settings of torch back once it is exhausted or closed.

    Raises:
        ConfigError: a config is of another backend.
        RuntimeError, MemoryError: a whole batch cannot be trained. A run that fails alone has an ``Ended`` instead.
    """
    configs = [configs] if isinstance(configs, Config) else [*configs]
    for config in configs:
        if not CAPABILITIES[config.backend.name].batched:
            raise ConfigError([f"backend={config.backend.name}: train() trains backend=replicas only"])
    active = set(range(len(configs)))
    return Training(events(configs, active, states or {}, stop, starts and Path(starts)), active)


class Training(Iterator[Event]):
    """The events of runs that train, see ``train``; ``active`` are the runs that have not ended."""

    def __init__(self, events: Iterator[Event], active: set[int]):
        self.events, self.active = events, active

    def __next__(self) -> Event:
        return next(self.events)

    def end(self, run: int) -> None:
        """Train a run no further; it has no more events."""
        self.active.discard(run)

    def close(self) -> None:
        """Train nothing further, and release everything."""
        self.events.close()


def events(
    configs: Sequence[Config], active: set[int], states: States, stop: Callable[[], bool], starts: Path | None
) -> Iterator[Event]:
    """Yield the events of one batch after another: of runs that share their shapes and stand at the same step."""
    numbered = [NumberedConfig(run, config) for run, config in enumerate(configs)]
    steps = [states.get(run, FRESH)["step"] for run, _ in numbered]
    for step in sorted({*steps}):
        for batch in into_batches([each for each in numbered if steps[each.run] == step], None):
            ordered = (batch[place] for place in variant_order(batch))
            chosen = {run: config for run, config in ordered if run in active}
            if chosen and not stop():
                yield from train_batch(chosen, active, states, stop, starts)
