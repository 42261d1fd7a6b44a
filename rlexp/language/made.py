"""The language model that a run begins with: built or read, warmed up once for all its sharers, adapters put on."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, ENOLCK, ENOSYS, ENOTEMPTY, ENOTSUP
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice
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
WITHOUT_LOCKS = (ENOLCK, ENOSYS, ENOTSUP)


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
        model, tokenizer = chosen.build(task.characters, seed_of(config), chosen.dtype)
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


def seed_of(config: Any) -> int:
    """Return the seed of weights and warm-up: the model's own, or the run's where it has none."""
    own = getattr(config.model, "seed", None)
    return config.seed if own is None else own


def make(config: Any, task: TextTask) -> tuple[Any, Any, Reached]:
    """Return model and tokenizer after the warm-up, on the CPU and in float32, and what it reached.

    A Llama is trained on the CPU, whatever trains on it; one that was read on the run's device.
    """
    chosen = language_model(config.model)
    model, tokenizer = chosen.build(task.characters, seed_of(config))
    if isinstance(chosen, Pretrained):
        model.to(config.device)
    learner = Learner(
        model=model,
        tokenizer=tokenizer,
        task=task,
        seed=seed_of(config),
        length=config.backend.max_completion_length,
        ask=chosen.prompt_of,
    )
    reached = bind_choice(STARTS, config.start)(learner)
    if reached.problem:
        raise RunFailed(reached.problem)
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
        "seed": seed_of(config),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **{name: getattr(reached, name) for name in ("accuracy", "formed", "updates")},
    }
    (folder / NOTE).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def key(config: Any, task: TextTask) -> str:
    """Return the name of a warmed-up model: a hash of all that it depends on, the code that makes it included."""
    depends = {
        "model": config.model.model_dump(mode="json", exclude={"seed", "lora", "lora_alpha", "lora_target", "dtype"}),
        **{part: getattr(config, part).model_dump(mode="json") for part in ("task", "start")},
        "length": config.backend.max_completion_length,
        "seed": seed_of(config),
        "examples": examples(task, seed_of(config)),
        "versions": {name: version(name) for name in MAKERS},
        "code": code_hash(),
    }
    if config.model.name == "pretrained":  # a folder's files by name, size and time; a name of the hub has none
        place = Path(config.model.path)
        found = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else []
        stats = ((path, path.stat()) for path in found)
        depends["files"] = [(str(path.relative_to(place)), stat.st_size, stat.st_mtime_ns) for path, stat in stats]
        depends["device"] = config.device
    return sha256(json.dumps(depends, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def examples(task: TextTask, seed: int) -> list[str | tuple]:
    """Return some of a task's examples and their answers: what it says may stand in files beside the settings."""
    learned = task.examples(seed, Purpose.START_PROMPTS, 0, LOOKED_AT, held_out=False)
    checked = task.examples(seed, Purpose.START_CHECKS, 0, LOOKED_AT, held_out=True)
    shown = [(*example, task.solution(example), task.wrong_solution(example)) for example in [*learned, *checked]]
    return [task.characters, *shown]


def code_hash() -> str:
    """Return a hash of the Python files of the rooms that a model depends on."""
    digest = sha256()
    for file in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return ``place``, which ``make`` has filled: now, or for an earlier caller, whole or not at all.

    It is filled under another name beside it and renamed at the end. Others who want it meanwhile wait, and where the
    file system has no locks the first to end wins. OSError where it cannot be written.
    """
    if filled(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with alone(place.with_name(f".{place.name}.lock")) as sure:
        if filled(place):
            return place
        for left in place.parent.glob(f".{place.name}-*") if sure else ():  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        try:
            make(draft)
            settle(draft)
            os.rename(draft, place)
        except OSError as error:
            if error.errno not in (EEXIST, ENOTEMPTY) or not filled(place):
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def filled(place: Path) -> bool:
    """Whether there is a folder with something in it."""
    return place.is_dir() and any(place.iterdir())


def settle(folder: Path) -> None:
    """Give a new folder and its files the rights that new ones have here, and wait until the disk has the files."""
    mask = os.umask(0o022)  # it can only be read by setting it
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
    for path in filter(Path.is_file, folder.rglob("*")):
        path.chmod(0o666 & ~mask)  # safetensors writes for the owner alone
        with path.open("rb") as file:
            os.fsync(file)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Context that one process at a time is in; False where that cannot be had. The system ends it with the process."""
    while True:
        descriptor, sure = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            sure = False
        with suppress(FileNotFoundError):
            if not sure or os.path.samestat(path.stat(), os.fstat(descriptor)):
                break
        os.close(descriptor)  # its last holder has removed the file while we waited
    try:
        yield sure
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)
