"""A command line in process, up to where training would begin, and whether what it says is of help."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import QuotedString
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlexp import train
from rlexp.config.parse import parse_override
from rlexp.core.errors import format_value
from rlexp.launch.checks import plan_jobs
from rlexp.sweep import engine
from tests.faults import inputs

SECONDS = 30
LONG = re.compile(r"\S{520}|(a b ){60}")  # of what `inputs` has
WORDS_OF_PROGRAMS = re.compile(r"Traceback|HYDRA_FULL_ERROR|Warning: |^\s|Exception|^[A-Za-z]+Error\b", re.MULTILINE)


class Reached(BaseException):
    """Training would begin now; what it would train."""

    def __init__(self, jobs: Sequence[Any]):
        self.jobs = list(jobs)


class Waiting(BaseException):
    """An input took too long."""


class Outcome(NamedTuple):
    """How an input ended: `valid`, `refused`, `shown` or, with what is wrong, `finding`."""

    kind: str
    text: str = ""


def stop_before_training() -> None:
    """Let whatever would train end in ``Reached``; no input takes longer than SECONDS."""
    from rlexp.launch.launcher import SweepLauncher

    def launch(self: SweepLauncher, overrides: Sequence[Sequence[str]], first: int) -> None:
        raise Reached(plan_jobs(self.hydra.config_loader, self.config, overrides, first).jobs)

    def train_jobs(jobs: Sequence[Any], *_: Any) -> None:
        raise Reached(jobs)

    def wait(*_: Any) -> None:
        raise Waiting

    SweepLauncher.launch, engine.train_jobs = launch, train_jobs
    OmegaConf.load = staticmethod(remembered(OmegaConf.load))
    Hydra.get_mode = mode_of  # Hydra composes all of it once more for that
    gc.collect()
    gc.freeze()  # what is imported is no garbage, and there is much of it
    signal.signal(signal.SIGALRM, wait)


def remembered(load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The reader of YAML files, which reads each of this project once."""
    known: dict[str, Any] = {}

    def read(file: Any) -> Any:
        place = str(getattr(file, "name", file))
        if not place.startswith(str(inputs.CONF)):
            return load(file)
        if place not in known:
            known[place] = load(file)
        return copy.deepcopy(known[place])

    return read


def mode_of(self: Hydra, config_name: str | None, overrides: Sequence[str]) -> RunMode | None:
    """What ``hydra.mode`` says, None where it says nothing."""
    return RunMode.MULTIRUN if "hydra.mode=MULTIRUN" in overrides else None


def outcome(arguments: Sequence[str]) -> Outcome:
    """Type the arguments in the current folder, which is empty, and say how that ends."""
    out, err, jobs, code = io.StringIO(), io.StringIO(), None, 0
    before, sys.argv = sys.argv, ["rlexp", *arguments]
    GlobalHydra.instance().clear()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            train.main()
    except Reached as reached:
        jobs = reached.jobs
    except SystemExit as end:
        code = end.code
    except Waiting:
        return Outcome("finding", f"waits for more than {SECONDS} s")
    except BaseException as error:
        return Outcome("finding", f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
        sys.argv = before
        logging.getLogger().handlers.clear()
    if jobs is not None:
        ignored = [text for job in jobs for text in not_in_config(job, arguments)]
        return Outcome("finding", f"not in the config: {ignored[0]}") if ignored else Outcome("valid")
    return judge(code, err.getvalue())


def judge(code: object, said: str) -> Outcome:
    """Whether an end without training is one that helps."""
    lines = "\n".join(line for line in said.splitlines() if not line.startswith("note: "))
    if code == 0:
        return Outcome("finding", f"exit code 0 and {lines}") if lines else Outcome("shown")
    if code != 2 or not lines.strip():
        return Outcome("finding", f"exit code {code}: {lines}")
    if WORDS_OF_PROGRAMS.search(lines):
        return Outcome("finding", lines)
    if longest := LONG.search(lines):
        return Outcome("finding", f"repeats {len(longest[0])} characters: {lines}")
    return Outcome("finding", f"wrote {os.listdir()}") if os.listdir() else Outcome("refused", lines)


def not_in_config(job: Any, arguments: Sequence[str]) -> list[str]:
    """The overrides of a job whose value its config does not hold; what was given twice counts once, the last."""
    typed = job.overrides or [each for each in arguments if "=" in each and not each.startswith(("-", "~"))]
    read = [each for each in map(parse_override, typed) if each is not None and not each.is_sweep_override()]
    parsed = {each.key_or_group: each for each in read}
    settings = job.config.model_dump(mode="json")
    wrong = []
    for key, override in parsed.items():
        value = override.value()
        if override.is_delete() or key.startswith("hydra") or key in ("preset", "study") or "${" in str(value):
            continue
        node = settings
        for step in key.split("."):
            node = node.get(step) if isinstance(node, dict) else None
        as_text = override.input_line.partition("=")[2]  # a variant, as `baseline`, may be written without quotes
        if node != as_text and not same(node, value, [*inputs.choices_of(key), "mine"]):
            wrong.append(override.input_line)
    return wrong


def same(there: Any, typed: Any, choices: Sequence[str]) -> bool:
    """Whether a config holds what was typed: a choice, whose node has other names than its file, or a value."""
    typed = str(typed.text) if isinstance(typed, QuotedString) else typed
    if str(typed) in choices:
        return there is not None
    if isinstance(typed, dict):
        return isinstance(there, dict) and all(same(there.get(str(key)), item, ()) for key, item in typed.items())
    if isinstance(typed, list):
        return isinstance(there, list) and len(there) == len(typed) and all(map(same, there, typed, [()] * len(typed)))
    if isinstance(there, float) and isinstance(typed, int):
        return there == float(typed)
    return there == typed or format_value(there) == format_value(typed)
