"""Kill commands at random moments, run them again to their end, compare every line with those of undisturbed runs.

python -m tests.faults.kills --number 300 --seed 0
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.faults import commands, common, forked

SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
SECONDS_TO_END, SECONDS_TO_BE_GONE, LONGEST_GAP, MOST_OF_A_START = 120.0, 30.0, 0.5, 1.5
SHARE_WHILE_TRAINING = 0.7  # of the kills; composing takes longer than so little training, and has less to lose


@dataclass
class Whole:
    """What a command leaves that nobody disturbs, and how long it takes."""

    lines: dict[str, list[str]]
    seconds: float
    training: float
    """Seconds from the first row on."""


@dataclass
class Attempt:
    """A command that was killed: how, at what, and what was wrong afterwards."""

    command: str
    kills: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def lines_in(folder: Path) -> dict[str, list[str]]:
    """Return every line of rows and samples of the runs below a folder, times aside, as text."""
    found = {}
    for path in sorted([*folder.rglob("metrics.jsonl"), *folder.rglob("samples.jsonl")]):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kept = [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]
        found[f"{path.parent.name}/{path.name}"] = [json.dumps(row) for row in kept]
    return found


def undisturbed(name: str, folder: Path, teacher: Path) -> Whole:
    """Run a command in one process, and once as it is for its time."""
    words = commands.arguments(name, teacher)
    for each in [commands.alone(words), words] if commands.alone(words) != words else [words]:
        shutil.rmtree(folder, ignore_errors=True)
        started = time.monotonic()
        process = forked.start(each, folder, quick(name))
        wait_for_rows(process, folder)
        trains = time.monotonic()
        code = forked.wait(process, SECONDS_TO_END)
        seconds, training, lines = time.monotonic() - started, time.monotonic() - trains, lines_in(folder / "x")
        if code != 0:
            raise SystemExit(f"{name}: exit code {code}: {forked.said(folder)}")
    return Whole(lines, seconds, training)


def wait_for_rows(process: BaseProcess, folder: Path) -> None:
    """Wait until a run of a command has more rows than before, or the command has ended."""
    before = number_of_rows(folder)
    while process.exitcode is None and number_of_rows(folder) <= before:
        process.join(0.01)


def wait_for_start(process: BaseProcess, folder: Path) -> None:
    """Wait until a command makes what its runs start from, or has ended."""
    while process.exitcode is None and forked.phase(folder) != "starts":
        process.join(0.01)


def number_of_rows(folder: Path) -> int:
    """Return how many rows the runs of a folder have."""
    return sum(path.read_bytes().count(b"\n") for path in (folder / "x").rglob("metrics.jsonl"))


def quick(name: str) -> bool:
    """Whether a command is run without its analysis."""
    return name not in commands.ANALYSED


def attempt(name: str, whole: Whole, folder: Path, teacher: Path, chance: random.Random) -> Attempt:
    """Kill a command once or twice, each time with one signal or two, then let it come to its end."""
    result, words = Attempt(name), commands.arguments(name, teacher)
    for _ in range(chance.choice((1, 1, 2))):
        disturb(result, words, whole, folder, chance)
    code = forked.wait(forked.start(words, folder, quick(name)), SECONDS_TO_END)
    said = forked.said(folder)
    if code != 0:
        result.findings.append(f"the last start ended with {code}: {said[-2000:]}")
    if "Traceback" in said:
        result.findings.append(f"a traceback: {said.partition('Traceback')[2][:1500]}")
    result.findings += differences(whole.lines, lines_in(folder / "x"))
    result.findings += leftovers(folder / "x")
    return result


def disturb(result: Attempt, words: list[str], whole: Whole, folder: Path, chance: random.Random) -> None:
    """Start the command and send its signals after a random time."""
    process = forked.start(words, folder, quick(result.command))
    if result.command in commands.STARTING:
        wait_for_start(process, folder)
        process.join(chance.uniform(0, MOST_OF_A_START))
    elif chance.random() < SHARE_WHILE_TRAINING:
        wait_for_rows(process, folder)
        process.join(chance.uniform(0, whole.training))
    else:
        process.join(chance.uniform(0, whole.seconds))
    if process.exitcode is not None:
        result.phases.append("over")
        return
    name, everyone = chance.choice(SIGNALS), chance.random() < 0.5
    times = chance.choice((1, 2))
    result.phases.append(forked.phase(folder))
    for time_ in range(times):
        send(process.pid, getattr(signal, name), everyone or name in ("SIGINT", "SIGHUP"))
        if time_ + 1 < times:
            process.join(chance.uniform(0, LONGEST_GAP))
    result.kills.append(f"{name}{' twice' * (times > 1)}{' to all its processes' * everyone}")
    code = forked.wait(process, SECONDS_TO_END)
    if code == 0 and result.phases[-1] == "starts":
        result.findings.append(f"went on to its end after {result.kills[-1]} while its start was made")
    if code is None:
        result.findings.append(f"did not end after {result.kills[-1]} at {result.phases[-1]}")
    elif chance.random() < 0.5 and forked.survivors(process.pid, SECONDS_TO_BE_GONE):  # else the next start waits
        result.findings.append(f"left processes behind after {result.kills[-1]} at {result.phases[-1]}")


def send(pid: int, number: int, everyone: bool) -> None:
    """Send a signal to a process, or to all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number) if everyone else os.kill(pid, number)


def differences(whole: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """Say which lines are lost, doubled or changed."""
    wrong = [f"{name}: missing" for name in whole.keys() - found.keys()]
    wrong += [f"{name}: unexpected" for name in found.keys() - whole.keys()]
    for name in whole.keys() & found.keys():
        if whole[name] != found[name]:
            pairs = zip(whole[name], found[name], strict=False)
            first = next((place for place, (one, other) in enumerate(pairs) if one != other), "the end")
            wrong.append(f"{name}: {len(found[name])} lines, not {len(whole[name])}; they differ from {first}")
    return wrong


def leftovers(sweep: Path) -> list[str]:
    """Say which runs do not say that they have completed, and which files should not be there."""
    wrong = [f"{path} is left" for pattern in ("*/.lock", ".lock", "*/*.tmp") for path in sweep.glob(pattern)]
    for path in sweep.rglob("summary.json"):
        status = json.loads(path.read_text())["status"]
        wrong += [f"{path.parent.name} says {status}"] if status != "completed" else []
    index = sweep / "jobs.jsonl"
    for row in map(json.loads, index.read_text().splitlines() if index.exists() else ()):
        wrong += [f"jobs.jsonl says {row['status']} of {row['name']}"] if row["status"] != "completed" else []
    return wrong


def campaign(number: int, seed: int, names: list[str], at_once: int, place: Path) -> list[Attempt]:
    """Make so many attempts, over all commands in turn."""
    code = forked.wait(forked.start(commands.TEACHER, place / "made"), SECONDS_TO_END)
    if code != 0:
        raise SystemExit(forked.said(place / "made"))
    teacher = place / "made" / "teacher"
    wholes = {name: undisturbed(name, place / "whole" / name, teacher) for name in names}

    def one(count: int) -> Attempt:
        name, folder = names[count % len(names)], place / str(count)
        found = attempt(name, wholes[name], folder, teacher, random.Random(f"{seed} {count}"))
        if not found.findings:
            shutil.rmtree(folder)
        print("." if not found.findings else f"\n{count} {found}\n", end="", flush=True)
        return found

    with ThreadPoolExecutor(at_once) as threads:
        return [*threads.map(one, range(number))]


def summed_up(attempts: list[Attempt], seconds: float) -> dict:
    """Return the counts that are written down."""
    kills = [kill for each in attempts for kill in each.kills]
    return {
        "attempts": len(attempts),
        "kills": len(kills),
        "findings": [f"{each.command}: {finding}" for each in attempts for finding in each.findings],
        "by signal": dict(Counter(kill.removesuffix(" to all its processes") for kill in kills).most_common()),
        "by phase": dict(Counter(phase for each in attempts for phase in each.phases).most_common()),
        "by command": dict(Counter(each.command for each in attempts for _ in each.kills).most_common()),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run the campaign, print its table, write its numbers down."""
    chosen = common.options(__doc__, number=300, seed=0, only="", workers=2)
    names = [name for name in commands.COMMANDS if not chosen.only or name in chosen.only.split(",")]
    place, started = Path(tempfile.mkdtemp(prefix="kills-")), time.monotonic()
    found = summed_up(campaign(chosen.number, chosen.seed, names, chosen.workers, place), time.monotonic() - started)
    common.finish("kills", found, chosen.results, place)


if __name__ == "__main__":
    main()
