"""Sessions at a terminal as text files: what is typed, what it prints, how it ends.

    $ rlexp norm=locl
    ! norm=locl: no such choice; did you mean local? (rlexp explain norm has all 39)
    [2]

Lines after ``| `` went to stdout, after ``! `` to stderr, ``[2]`` is the exit code (0 is left out). A blank line begins
another session, in a folder of its own. ``# in:`` at the top of a file names what the folders hold (``SCENES``), a line
``NAME="words"`` words for ``$NAME`` below it. ``rlexp`` runs in a process that is forked from one that has imported
everything, any other command in a shell. Times are ``#`` in the files; below ``# masked: decimals`` so is every number
with a point, for what is trained: it depends on the processor.

    python -m tests.commands.transcript            # types all of it and writes what it prints into the files
    python -m tests.commands.transcript explain    # only tests/commands/explain.txt
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 300
COLUMNS = 120
WORKERS = 2
TRAINS = 99  # exit code of what is refused nowhere, in scenes where nothing is trained
# The program's own modules are left to it: ``rlexp`` runs them as ``python -m`` would.
PRELOADED = ["torch", "pandas", "scipy.stats", "seaborn", "hydra.main", "rich.console", "rlexp.sweep.engine"]
PRELOADED += ["rlexp.config.schema", "rlexp.launch.launcher", "rlexp.launch.hooks", "rlexp.analysis.stats.answer"]
DATE = re.compile(r"\d{4}-\d\d-\d\d[ T_]\d\d[:-]\d\d([:-]\d\d(\.\d+)?)?")
CLOCK = re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|h|steps/s|runs/s|GB|MB)\b(?!=)")
PROGRESS = re.compile(r"^.*\bstep \d+/\d+ ·.*\n", re.MULTILINE)
DECIMAL = re.compile(r"(?<![\w.])[-−+]?\d*\.\d+(e[-+]?\d+)?(?![\w])")

forks = multiprocessing.get_context("forkserver")


@dataclass
class Session:
    """Commands that are typed one after another in the same folder."""

    scene: str
    masked: bool
    commands: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)  # the whole text, with what was printed

    @property
    def name(self) -> str:
        """The commands as they stand in the file."""
        return "; ".join(self.commands)

    def typed(self, command: str) -> str:
        """Return a command with words for its ``$NAME``s."""
        return re.sub(r"\$([A-Z]+)", lambda match: self.words[match[1]], command)


def sessions(path: Path) -> list[Session]:
    """Read the sessions of a file."""
    head, *texts = re.split(r"\n\n+", path.read_text(encoding="utf-8").strip())
    settings = dict(re.findall(r"^# (in|masked): (.*)$", head, re.MULTILINE))
    words = dict(re.findall(r'^([A-Z]+)="(.*)"$', head, re.MULTILINE))
    found = []
    for text in texts:
        lines = text.splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found.append(Session(settings.get("in", "empty"), "masked" in settings, commands, words, lines))
    return found


def printed(session: Session) -> list[str]:
    """Type the commands of a session in a new folder; return its text as it would stand in the file."""
    with tempfile.TemporaryDirectory(prefix="typed") as place:
        folder = Path(place).resolve() / "here"
        folder.mkdir()
        for source in SCENES[session.scene]():
            shutil.copytree(source, folder / source.name, symlinks=True)
        lines = []
        for command in session.commands:
            code, out, err = run(session.typed(command), folder, session.scene == "trained")
            lines.append(f"$ {command}")
            for mark, text in (("|", out), ("!", err)):
                lines += [f"{mark} {line}".rstrip() for line in stable(text, folder, session.masked).splitlines()]
            lines += [f"[{code}]"] * (code != 0)
        return lines


def stable(text: str, folder: Path, masked: bool) -> str:
    """Return what was printed without what differs between machines, folders and times."""
    text = text.replace(str(folder), "<here>").replace(str(ROOT), "<rlexp>")
    text = DATE.sub("<date>", PROGRESS.sub("", text))
    text = CLOCK.sub(lambda match: re.sub(r"[\d.]+", "#", match[0]), text)
    return re.sub("  +", "  ", re.sub("─+", "─", DECIMAL.sub("#", text))) if masked else text


def run(command: str, folder: Path, trains: bool) -> tuple[int, str, str]:
    """Run a command in a folder; return its exit code, stdout and stderr."""
    words = shlex.split(command)
    if words[0] != "rlexp":
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
    files = [folder.parent / name for name in ("out", "err")]
    for file in files:
        file.write_text("")
    forks.set_forkserver_preload(PRELOADED)
    process = forks.Process(target=typed, args=(words, folder, files, trains))
    process.start()
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{command}: takes more than {SECONDS} s")
    return process.exitcode, *(file.read_text(errors="replace") for file in files)


def typed(words: list[str], folder: Path, files: list[Path], trains: bool) -> None:
    """Be the program, started in a folder; end with 99 where it would train and should not."""
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ |= {"COLUMNS": str(COLUMNS), "MPLBACKEND": "agg"}
    os.environ.pop("HYDRA_FULL_ERROR", None)
    import warnings

    import torch

    from rlexp.__main__ import main
    from rlexp.sweep.interrupt import end_undisturbed

    warnings.filterwarnings("ignore", message=".*found in sys.modules after import", category=RuntimeWarning)
    torch.set_num_threads(1)
    if not trains:
        from rlexp.launch.launcher import SweepLauncher
        from rlexp.sweep import engine

        SweepLauncher.launch = engine.train_jobs = lambda *_, **__: os._exit(TRAINS)
    sys.argv = words
    try:
        main()
    finally:
        end_undisturbed()


def keep(place: Path) -> Path:
    """Make the folders of the scenes, once a process; return where."""
    sys.path += [str(ROOT / "tests" / "support" / "reports")]
    from analysis_fixtures import random_scores, write_sweep
    from foreign_logs import write_examples

    clips = [f"norm={norm},clip={clip}" for norm in ("local", "global") for clip in ("symmetric", "higher")]
    rates = [f"norm={norm},lr={lr}" for norm in ("local", "global") for lr in ("0.001", "0.01", "0.1")]
    write_sweep(place / "made/runs/norms", random_scores(["norm=local", "norm=hybrid", "norm=global"], 10))
    write_sweep(place / "made/runs/clips", random_scores(clips, 5, seed=1))
    write_sweep(place / "made/runs/rates", random_scores(rates, 8, seed=2))
    write_sweep(place / "made/runs/two", random_scores(["norm=local", "norm=hybrid"], 2, seed=3))
    write_sweep(place / "made/runs/one", random_scores(["norm=local"], 3, seed=4))
    write_examples(place / "logs/mine")
    shutil.copytree(ROOT / "tests/data/logs/trackio", place / "logs/trackio")
    trained, little = place / "trained", sessions(HERE / "runs.txt")[0].words["LITTLE"]
    trained.mkdir()
    for words in ("hydra.run.dir=runs/single norm=hybrid", "-m hydra.sweep.dir=runs/pair norm=local,global"):
        code, _, err = run(f"rlexp {little} seed=0 {words}", trained, True)
        if code:
            raise ChildProcessError(err)
    return place


made: list[Path] = []


def scene(name: str) -> list[Path]:
    """Return the folders of a scene, made when first asked for."""
    if not made:
        place = Path(tempfile.mkdtemp(prefix="scenes")).resolve()
        atexit.register(shutil.rmtree, place)
        made.append(keep(place))
    return list((made[0] / name).iterdir())


SCENES = {
    "empty": list,
    "made": lambda: scene("made"),
    "logs": lambda: scene("logs"),
    "trained": lambda: scene("trained"),
}


def main() -> None:
    """Type the sessions of all files, or of those named, and write what they print into them."""
    paths = [HERE / f"{name}.txt" for name in sys.argv[1:]] or sorted(HERE.glob("*.txt"))
    for path in paths:
        head = re.split(r"\n\n+", path.read_text(encoding="utf-8").strip())[0]
        found = sessions(path)
        SCENES[found[0].scene]()
        with ThreadPoolExecutor(WORKERS) as pool:
            texts = ["\n".join(lines) for lines in pool.map(printed, found)]
        path.write_text("\n\n".join([head, *texts]) + "\n", encoding="utf-8")
        print(f"{path.name}: {sum(len(session.commands) for session in found)} commands")


if __name__ == "__main__":
    main()
