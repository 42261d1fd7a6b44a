"""`rlexp --from <folder>`: train the run of a folder again, from its config.yaml alone.

The file is read as plain YAML: no node of Hydra, no resolver, no `_target_`, no environment. Code that it names is
refused until that is typed too or `--trust` is said (`config/trust.py`), so that one of somebody else's can do no more
than a run can. Where the new run goes and whether it goes on there is checked as ever.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from rlexp.config.choices import CONF
from rlexp.config.schema import Config, read
from rlexp.config.trust import CODE, check_config
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed, describe_error, printable, relative
from rlexp.launch.checks import check_single
from rlexp.launch.worker import train_batch
from rlexp.record.disk import saved_config
from rlexp.runfolder.files import CONFIG_FILE, SUMMARY_FILE, read_json
from rlexp.runfolder.variants import flatten, folder_name
from rlexp.sweep.job import Batch, Job, LogSettings

OPTION = "--from"
KEYS = ("hydra.run.dir", "resume", "threads", "checkpoint_every")  # none changes what the run computes
HOW = f"write {OPTION} <folder of a run>, and where wanted hydra.run.dir=<folder>, resume=…, threads=…"


def repeat(arguments: Sequence[str], trusted: bool = False) -> None:
    """Train a run again and print its score and folder; ConfigError before anything is written, RunFailed after."""
    source, changes = parse(arguments)
    place = changes.pop("hydra.run.dir", None)
    saved, named = saved_config(source / CONFIG_FILE), {key: changes.pop(key) for key in CODE if key in changes}
    if unlike := next((key for key, text in named.items() if dict(flatten(saved)).get(key) != text), None):
        raise ConfigError([f"{unlike}={named[unlike]}: {OPTION} repeats a run as it was, and {source} has another"])
    if not trusted:
        check_config(saved, source / CONFIG_FILE, named)
    config = read(saved | {key: yaml.safe_load(text) for key, text in changes.items()})
    new = Path("runs", f"{datetime.now():%Y-%m-%d_%H-%M-%S.%f}", folder_name(source.resolve().name))
    folder = Path(os.path.abspath(place or new))
    check_single(config, folder)
    score = train_single(job_of(config, folder, source))
    print(f"{config.score.metric} {score:.3f}")
    print(relative(folder))


def parse(arguments: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """Return the folder and the changes; ConfigError for what has no place beside them."""
    words = []
    for argument in arguments:  # `--from=x` → `--from`, `x`
        words += argument.split("=", 1) if argument.startswith(f"{OPTION}=") else [argument]
    place = words.index(OPTION)
    source, others = words[place + 1 : place + 2], words[:place] + words[place + 2 :]
    if not source or source[0].startswith("-") or not source[0]:
        raise ConfigError([f"{OPTION}: names no folder; {HOW}"])
    changes = dict(word.partition("=")[::2] for word in others)
    if refused := [word for word in others if "=" not in word or word.partition("=")[0] not in (*KEYS, *CODE)]:
        raise ConfigError([f"{refused[0]}: {OPTION} repeats a run as it was; {HOW}"])
    return Path(source[0]), changes


def job_of(config: Config, folder: Path, source: Path) -> Job:
    """Return the job; it has the name of the variant that it repeats, and logs as a single run does."""
    try:
        variant = (read_json(source / SUMMARY_FILE) or {}).get("variant")
    except RunFailed:
        variant = None
    variant = printable(variant) if isinstance(variant, str) else "default"
    logs: dict[str, Any] = yaml.safe_load((CONF / "hydra/job_logging/rlexp.yaml").read_text(encoding="utf-8"))
    logs["handlers"]["file"]["filename"] = str(folder / "train.log")
    return Job(config, folder, folder.name, variant, logs=LogSettings(logs))


def train_single(job: Job) -> float:
    """Train one run by itself; return its score. RunFailed, or KeyboardInterrupt with how to go on."""
    job.folder.mkdir(parents=True, exist_ok=True)
    try:
        (result,) = train_batch(Batch((job,), job.name))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"hydra.run.dir={relative(job.folder)}") from None
    if isinstance(result, Exception):
        raise RunFailed(f"{describe_error(result)} (see {relative(job.folder)})") from result
    return result
