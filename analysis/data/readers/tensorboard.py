"""TensorBoard folders: the scalars of all event files of a folder are one run. Needs the extra `tensorboard`."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.readers.files import run_name
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, flat_config
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.runs import Problem

if TYPE_CHECKING:
    import pandas as pd

LENGTH, CHECKSUM = struct.Struct("<QI"), 4  # bytes
HPARAMS = "_hparams_/session_start_info"
BY_DATE = re.compile(r"(^|/)(runs/)?[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_[^/]*$")  # of SummaryWriter and Transformers


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of event files, one per folder.

    Raises:
        AnalysisError: TensorBoard is not installed, or no file has a scalar.
    """
    if find_spec("tensorboard") is None:
        raise AnalysisError("TensorBoard's event files need the extra: pip install 'rlexp[tensorboard]'")
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    runs, problems, configs = [], [], {}
    for folder, events in folders.items():
        damaged: list[str] = []
        config: dict[str, Any] = {}
        rows = _table(_scalars(sorted(events), damaged, config))
        name = run_name(folder / "events", root, ("events",))
        problems += [Problem(name, text) for text in damaged]
        if config and folder.parent in folders:  # of add_hparams, which writes into a folder of its own
            configs[folder.parent] = flat_config(config)
        elif len(rows):
            runs.append(LoggedRun(BY_DATE.sub("", name) or name, rows, flat_config(config), str(folder)))
    runs = [run._replace(config={**run.config, **configs.get(Path(run.folder), {})}) for run in runs]
    if not runs:
        raise AnalysisError(f"'{root}' has no TensorBoard file with a scalar")
    return Logs("TensorBoard", runs, problems)


def _table(scalars: Iterator[tuple[str, int, float]]) -> pd.DataFrame:
    """A row per step with all scalars that it has; of a step that was written twice the last number counts."""
    table = number_table({STEP: step, tag: value} for tag, step, value in scalars)
    return table.groupby(STEP, sort=True).last().reset_index() if len(table) else table


def _scalars(files: Sequence[Path], damaged: list[str], config: dict[str, Any]) -> Iterator[tuple[str, int, float]]:
    """Tag, step and value of all scalars of event files, in the order of the files; `config` takes hyperparameters."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    for file in files:
        try:
            for data in _records(file):
                event = Event()
                event.ParseFromString(data)
                for value in event.summary.value:
                    if value.tag == HPARAMS:
                        config |= _hyperparameters(value.metadata.plugin_data.content)
                    elif (number := _number(value)) is not None:
                        yield printable(value.tag), event.step, number
        except (EOFError, struct.error, DecodeError, MemoryError):
            damaged.append(f"the end of {file.name} is cut, or damaged: skipped")


def _records(file: Path) -> Iterator[bytes]:
    """The records of an event file, as TensorFlow writes them: length, its checksum, data, its checksum."""
    with file.open("rb") as events:
        while head := events.read(LENGTH.size):
            size, _ = LENGTH.unpack(head)
            data = events.read(size)
            if len(data) < size or len(events.read(CHECKSUM)) < CHECKSUM:
                raise EOFError
            yield data


def _hyperparameters(content: bytes) -> dict[str, Any]:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = HParamsPluginData()
    data.ParseFromString(content)
    values = data.session_start_info.hparams.items()
    return {key: getattr(value, value.WhichOneof("kind") or "string_value") for key, value in values}


def _number(value: Any) -> float | None:
    """The number of a summary's value; None for images, histograms and texts."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or value.tensor.tensor_shape.dim:
        return None
    for numbers in (value.tensor.float_val, value.tensor.double_val):
        if len(numbers) == 1:
            return float(numbers[0])
    return None
