"""``python -m rlexp.make_model <folder> <overrides>``: a language model made for a task, as a Hugging Face folder."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with

if TYPE_CHECKING:
    from rlexp.config.schema import Config

DEFAULTS = ("backend=trl", "model=llama")
HELP = """\
A language model made for a task and put at a start, in a folder that model=pretrained reads.

usage: python -m rlexp.make_model FOLDER [axis=choice ...] [key=value ...]
       python -m rlexp.make_model FOLDER run=RUN

The choices and numbers are those of python -m rlexp.train: task, model, start and their keys count, and seed where
model.seed=null. What is not given is the default, with backend=trl model=llama, whose tokens are characters. With
backend=replicas the start is that of this project's loop, and tokens are the task's words. With run=RUN it is the
policy that a run of backend=replicas with model=llama, or one of its sizes, has left in its folder.

examples:
  python -m rlexp.make_model models/sort task=sort start=mixture start.accuracy=0.2
  python -m rlexp.train backend=trl task=sort model=pretrained model.path=models/sort
  python -m rlexp.make_model models/sums backend=replicas model=llama_300k task=addition start=pretrained_mixture
  python -m rlexp.make_model models/trained run=runs/<sweep>/<run>
  python -m rlexp.train task=sort model=llama_300k start=pretrained start.path=models/trained"""


def main(arguments: Sequence[str]) -> None:
    """Make the model and say what was reached; end whatever is wrong in one line, bad input with exit code 2."""
    if {"--help", "-h"} & {*arguments}:
        return print(HELP)
    from rlexp.config.messages import explain
    from rlexp.language.made import NOTE, made_once

    folder, overrides = next(iter(arguments), ""), list(arguments[1:])
    try:
        began = time.monotonic()
        if overrides and overrides[0].startswith("run="):
            write_it = writer_of_run(folder, overrides)
        else:
            write_it = writer_of_start(folder, overrides)
        logging.basicConfig(format="%(message)s")
        logging.getLogger("rlexp.language").setLevel(logging.INFO)
        made_once(Path(folder), write_it)
        note = json.loads((Path(folder) / NOTE).read_text(encoding="utf-8"))
    except KeyboardInterrupt:
        exit_with("interrupted", INTERRUPTED)
    except RunFailed as error:
        exit_with(describe_error(error), FAILED, error)
    except Exception as error:
        exit_with(explain(error, overrides), BAD_INPUT, error)
    reached = f"as {note['run']} left them" if "run" in note else f"at start={note['start']['name']}"
    if note.get("accuracy") is not None:
        reached = f"sampled accuracy {note['accuracy']:.3f} after {note['updates']} updates"
    millions, seconds = note["parameters"] / 1e6, time.monotonic() - began
    print(f"{folder}: {millions:.2f} million parameters, {reached}, {seconds:.0f} s")
    print(f"take it with: model=pretrained model.path={folder}")


def check_place(folder: str) -> None:
    """Raise ConfigError for what is no new folder."""
    from rlexp.language.made import filled

    if not folder or "=" in folder or folder.startswith("-"):
        raise ConfigError(["the first argument is the folder to make, as models/sort; --help says the rest"])
    place = Path(folder)
    if filled(place):
        raise ConfigError([f"{folder}: is there already; name another folder, or remove it"])
    if place.exists() and not place.is_dir():
        raise ConfigError([f"{folder}: is there already, and is no folder"])


def writer_of_run(folder: str, overrides: Sequence[str]) -> Callable[[Path], None]:
    """Return what writes the policy of a run to a folder; ConfigError where it has none that can be written."""
    from rlexp.export.hugging_face import read_run, write_policy

    check_place(folder)
    if len(overrides) > 1:
        raise ConfigError([f"{overrides[1]}: a run is written as it is; leave it out"])
    run = overrides[0].partition("=")[2]
    return partial(write_policy, read_run(run), {"run": run})


def writer_of_start(folder: str, overrides: Sequence[str]) -> Callable[[Path], None]:
    """Return what makes the start of the overrides and writes it; ConfigError for what cannot be made there."""
    from rlexp.config import parse
    from rlexp.config.compose import compose
    from rlexp.config.trust import split_option
    from rlexp.language.backend import CAPABILITIES

    check_place(folder)
    overrides, trusted = split_option(overrides)
    if wrong := [override for override in overrides if "=" not in override]:
        raise ConfigError([f"{wrong[0]}: is no override, as task=sort"])
    parse.check(overrides)
    chosen = {override.partition("=")[0] for override in overrides}
    defaults = (default for default in DEFAULTS if default.partition("=")[0] not in chosen)
    config = compose(*defaults, *overrides, trusted=trusted)
    return of_replicas(config) if CAPABILITIES[config.backend.name].batched else of_text(config)


def of_replicas(config: Config) -> Callable[[Path], None]:
    """Return what writes the start that this project's loop makes, with the task's words as tokens."""
    from rlexp.core.registry import bind_choice
    from rlexp.export.hugging_face import problem, write_policy
    from rlexp.sweep.build import policy_shape
    from rlexp.sweep.starts import started_policy
    from rlexp.tasks import TASKS

    if line := problem(policy_shape(config), bind_choice(TASKS, config.task)()):
        raise ConfigError([f"model={config.model.name} task={config.task.name}: {line}"])
    origin = {part: getattr(config, part).model_dump(mode="json") for part in ("task", "model", "start")}
    return lambda folder: write_policy(started_policy(config), origin, folder)


def of_text(config: Config) -> Callable[[Path], None]:
    """Return what makes and writes a language model of single characters."""
    from rlexp.language import text_task
    from rlexp.language.made import problems, write

    if getattr(config.model, "lora", None) is not None:
        raise ConfigError([f"model.lora={config.model.lora}: adapters are made with each run; take null"])
    if found := list(problems(config)):
        raise ConfigError(found)
    try:
        return partial(write, config, text_task(config.task))
    except ValueError as error:
        raise ConfigError([f"task={config.task.name}: {error}"]) from error


if __name__ == "__main__":
    main(sys.argv[1:])
