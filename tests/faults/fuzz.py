"""Override lists and YAML fragments, real ones and spoiled ones, through the command line up to the checks.

python -m tests.faults.fuzz --number 10000 --commands 100 --seed 0

Each input must end in runs that hold every value that was typed, or in lines that say what is wrong and exit code 2
with nothing written. A traceback, a word of a program error, a value that is not in the config, or half a minute of
waiting is a finding. ``--commands`` of the inputs that are refused are typed as real commands as well.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import QuotedString
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlexp import train
from rlexp.config.typed import parse
from rlexp.core.errors import format_value
from rlexp.launch.plan import plan_jobs
from rlexp.sweep import engine
from tests.faults import inputs
from tests.faults.common import ROOT, options, store

SECONDS = 30
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
    return Outcome("finding", f"wrote {os.listdir()}") if os.listdir() else Outcome("refused", lines)


def not_in_config(job: Any, arguments: Sequence[str]) -> list[str]:
    """The overrides of a job whose value its config does not hold; what was given twice counts once, the last."""
    typed = job.overrides or [each for each in arguments if "=" in each and not each.startswith(("-", "~"))]
    read = [each for each in map(parse, typed) if each is not None and not each.is_sweep_override()]
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
        if not same(node, value, [*inputs.choices_of(key), "mine"]):
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
    return there == typed or format_value(there) == format_value(typed)


class Fuzz:
    """Inputs one after another, each in an empty folder, and what became of them."""

    def __init__(self, folder: Path):
        self.folder, self.counts = folder, Counter()
        self.findings: list[dict[str, Any]] = []
        self.refused: list[tuple[list[str], str]] = []
        stop_before_training()

    def overrides(self, number: int, seed: int) -> None:
        """Type so many override lists."""
        self.generate(inputs.arguments(), number, seed, self.try_arguments)

    def fragments(self, number: int, seed: int) -> None:
        """Let so many YAML files stand in a folder of the user's, and choose them."""
        self.generate(inputs.fragments(), number, seed, self.try_fragment)

    @staticmethod
    def generate(strategy: Any, number: int, seed: int, each: Any) -> None:
        """Call a function with so many examples of a strategy."""
        settings = hypothesis.settings(
            max_examples=number, deadline=None, database=None, derandomize=False, phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        hypothesis.seed(seed)(settings(hypothesis.given(strategy)(lambda example: each(example))))()

    def try_arguments(self, arguments: list[str], note: str = "") -> None:
        """Type one list."""
        empty(self.folder / "here")
        os.chdir(self.folder / "here")
        result = outcome(arguments)
        self.counts[result.kind] += 1
        if result.kind == "finding":
            self.findings.append({"arguments": arguments, "fragment": note, "finding": result.text[:500]})
        elif result.kind == "refused" and not note:
            self.refused.append((arguments, result.text))

    def try_fragment(self, fragment: tuple[str, str]) -> None:
        """Choose a file."""
        group, text = fragment
        empty(self.folder / "conf" / group)
        (self.folder / "conf" / group / "mine.yaml").write_text(text, encoding="utf-8", errors="replace")
        self.try_arguments(["--config-dir", str(self.folder / "conf"), f"{group}=mine"], f"{group}: {text}")

    def commands(self, number: int) -> None:
        """Type every so-manieth refused input as a real command: the same line and exit code."""
        every = max(1, len(self.refused) // max(number, 1))
        for arguments, expected in self.refused[::every][:number]:
            empty(self.folder / "here")
            command = [sys.executable, "-m", "rlexp.train", *arguments]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, cwd=self.folder / "here", env=environment, capture_output=True, timeout=120)
            result = judge(done.returncode, done.stderr.decode(errors="backslashreplace"))
            self.counts["commands"] += 1
            if result.kind != "refused":
                self.findings.append({"command": arguments, "finding": result.text[:500], "in process": expected[:500]})


def empty(folder: Path) -> None:
    """Make a folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main() -> int:
    """Print what was found; 1 if anything was."""
    chosen = options(__doc__, number=10_000, commands=100, seed=0)
    started, home = time.perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder))
        try:
            fuzz.overrides(chosen.number * 3 // 4, chosen.seed)
            fuzz.fragments(chosen.number // 4, chosen.seed)
            seconds = time.perf_counter() - started
            fuzz.commands(chosen.commands)
        finally:
            os.chdir(home)
    speed = round(sum(fuzz.counts[kind] for kind in ("valid", "refused", "shown", "finding")) / seconds, 1)
    for finding in fuzz.findings:
        print(finding)
    counts = dict(fuzz.counts)
    print(f"{counts}: {len(fuzz.findings)} findings, {speed} inputs a second, {time.perf_counter() - started:.0f} s")
    found = {"seed": chosen.seed, "counts": counts, "inputs_a_second": speed, "findings": fuzz.findings}
    store("fuzz", found | {"seconds": round(time.perf_counter() - started)}, chosen.results)
    return int(bool(fuzz.findings))


if __name__ == "__main__":
    sys.exit(main())
