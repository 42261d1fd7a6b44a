"""The language model that a run begins with: built or read, warmed up once for all its sharers, adapters put on."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EEXIST, ENOTEMPTY
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from filelock import FileLock

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose
from rlexp.language.models import Pretrained, language_model, quiet, read
from rlexp.language.text_task import TextTask
from rlexp.language.warm_up import STARTS, Learner, Reached

LOG = logging.getLogger(__name__)
NOTE = "rlexp.json"  # beside the weights of a model that was made here: from what, and what was reached
PACKAGE = Path(__file__).parents[1]
ROOMS = ("core", "tasks", "language")  # whose code a model depends on
LOOKED_AT = 64  # examples that tell a task from another with the same settings
MAKERS = ("torch", "transformers")  # packages whose versions a model depends on


def problems(config: Any) -> Iterator[str]:
    """Say what is wrong with model and start, from what is known before anything is loaded."""
    if config.start.name not in STARTS:
        yield f"start={config.start.name}: is not of language models; take one of {', '.join(STARTS)}"
    if line := language_model(config.model).problem():
        yield line


def load(config: Any, task: TextTask, folder: Path | None) -> tuple[Any, Any]:
    """Return the model of a run at its start, on the CPU, and its tokenizer.

    ``config`` is that of a run; of it ``task model start backend seed device`` are read. What a warm-up makes is kept
    in ``folder`` and read from there by others with the same settings; with None nothing is kept. A model without one
    is built or read anew. ConfigError for settings that are wrong by themselves; RunFailed in one line for a start that
    was not reached, and for a model that cannot be loaded.
    """
    if found := list(problems(config)):
        raise ConfigError(found)
    chosen = language_model(config.model)
    if config.start.name == "random":
        model, tokenizer = chosen.build(task.characters, config.start_seed, chosen.dtype)
    elif kept := folder and keep(config, task, folder):
        try:
            with quiet():
                model, tokenizer = read(str(kept), chosen.dtype, chosen.chat)
        except RunFailed as error:
            raise RunFailed(f"{kept}: is damaged; remove it, then it is made again ({error})") from error
    else:
        model, tokenizer, _ = make(config, task)
        model.to(getattr(torch, chosen.dtype))
    return chosen.adapted(model, config.seed), tokenizer


def keep(config: Any, task: TextTask, folder: Path) -> Path | None:
    """Return where the model after the warm-up is, made now or before; None where the folder cannot be written."""
    try:
        return made_once(folder / key(config, task), partial(write, config, task))
    except OSError as error:
        LOG.warning("%s: the start is not kept, other runs make it again (%s)", folder, error.strerror or error)
        return None


def make(config: Any, task: TextTask) -> tuple[Any, Any, Reached]:
    """Return model and tokenizer after the warm-up, on the CPU and in float32, and what it reached.

    A Llama is trained on the CPU, whatever trains on it; one that was read on the run's device.
    """
    chosen = language_model(config.model)
    model, tokenizer = chosen.build(task.characters, config.start_seed)
    if isinstance(chosen, Pretrained):
        model.to(config.device)
    learner = Learner(
        model=model,
        tokenizer=tokenizer,
        task=task,
        seed=config.start_seed,
        length=config.backend.max_completion_length,
        ask=chosen.prompt_of,
    )
    reached = STARTS[config.start.name](learner, **config.start.model_dump(exclude={"name", "seed"}))
    return model.to("cpu"), tokenizer, reached


def write(config: Any, task: TextTask, folder: Path) -> None:
    """Make the model and write it, as Hugging Face has it, to a folder with a note of how it was made."""
    model, tokenizer, reached = make(config, task)
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    note = {
        "versions": {name: version(name) for name in MAKERS},
        **{part: getattr(config, part).model_dump(mode="json") for part in ("task", "model", "start")},
        "max_completion_length": config.backend.max_completion_length,
        "seed": config.start_seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **{name: getattr(reached, name) for name in ("accuracy", "formed", "updates")},
    }
    (folder / NOTE).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def key(config: Any, task: TextTask) -> str:
    """Return the name of a warmed-up model: a hash of all that it depends on, the code that makes it included."""
    seed, code = config.start_seed, sha256()
    for file in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        code.update(file.read_bytes())
    # what a task says may stand in files beside its settings
    learned = task.examples(seed, Purpose.START_PROMPTS, 0, LOOKED_AT, held_out=False)
    checked = task.examples(seed, Purpose.START_CHECKS, 0, LOOKED_AT, held_out=True)
    shown = [(*example, task.solution(example), task.wrong_solution(example)) for example in [*learned, *checked]]
    depends = {
        "model": config.model.model_dump(mode="json", exclude={"seed", "lora", "lora_alpha", "lora_target", "dtype"}),
        "task": config.task.model_dump(mode="json"),
        "start": config.start.model_dump(mode="json", exclude={"seed"}),
        "length": config.backend.max_completion_length,
        "seed": seed,
        "examples": [task.characters, *shown],
        "versions": {name: version(name) for name in MAKERS},
        "code": code.hexdigest(),
    }
    if config.model.name == "pretrained":  # a folder's files by name, size and time; a name of the hub has none
        place = Path(config.model.path)
        found = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else []
        stats = ((path, path.stat()) for path in found)
        depends["files"] = [(str(path.relative_to(place)), stat.st_size, stat.st_mtime_ns) for path, stat in stats]
        depends["device"] = config.device
    return sha256(json.dumps(depends, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return ``place``, which ``make`` has filled: now, or for an earlier caller, whole or not at all.

    It is filled under another name beside it and renamed at the end. Others who want it meanwhile wait, and where the
    file system has no locks the first to end wins. OSError where it cannot be written.
    """
    if filled(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}-{uuid4().hex}")
    lock = FileLock(place.with_name(f".{place.name}.lock"), fallback_to_soft=False)
    with suppress(OSError):  # of a file system without locks
        lock.acquire()
    try:
        if filled(place):
            return place
        for left in place.parent.glob(f".{place.name}-*") if lock.is_locked else ():  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft.mkdir()
        make(draft)
        for path in filter(Path.is_file, draft.rglob("*")):
            path.chmod(draft.stat().st_mode & 0o666)  # safetensors writes for the owner alone
            with path.open("rb") as file:
                os.fsync(file)
        os.rename(draft, place)
    except OSError as error:
        if error.errno not in (EEXIST, ENOTEMPTY) or not filled(place):
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()
    return place


def filled(place: Path) -> bool:
    return place.is_dir() and any(place.iterdir())
