"""What a GPU is worth here: ``python -m benchmarks.gpu`` on a machine with one, in less than ten minutes.

  cuda_tests  the tests that need a GPU
  loop        our loop with 1 to 4,096 runs of a small Llama, beside backend=trl on the same GPU
  ladder      what a step of 20 and 100 million weights takes, and the hours of a ladder of arms and starts
  language    one run of backend=trl in bfloat16 with gradient checkpointing

Each part is a process of its own with a share of the minutes. One that fails is named with the reason, and the others
go on. The tables are printed; gpu.json has them too, and gpu.log all that was said.

With --study NAME nothing of this is done: a declared study or question is trained for --minutes, and the same command
goes on where it stopped. NAME may also be the arguments of an ablation, as "ablate preset=dapo --against preset=grpo".
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from benchmarks.gpu import study
from benchmarks.parts.common import RESULTS, ROOT, environment_here, store, table

PARTS = {"cuda_tests": 0.25, "loop": 0.3, "ladder": 0.25, "language": 0.2}  # shares of the time
MARGIN = 20  # seconds before the end of its share in which a part begins nothing new; after it, it is killed
RESERVE = 10  # seconds of all, for what is around the parts


def main() -> None:
    """Train a slice of a study, or measure all parts; exit with 1 where one failed, with 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="of a study: what all its runs share, as steps=100")
    parser.add_argument("--minutes", type=float, default=10, help="of all parts, or of a slice of a study (10)")
    parser.add_argument("--only", choices=PARTS, help="this part, with all the minutes")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu is to try the command out")
    parser.add_argument("--quick", action="store_true", help="toy sizes, which say nothing of speed")
    parser.add_argument("--model", metavar="PATH", help="of the part language: a folder, or a name of the hub")
    parser.add_argument("--study", metavar="NAME", help="of conf/study or conf/study/questions, or a question's file")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="of the study's runs (runs/gpu/NAME)")
    parser.add_argument("--results", metavar="FOLDER", type=Path, default=RESULTS, help="of gpu.json and gpu.log")
    chosen = parser.parse_args()
    if chosen.minutes <= 0:
        parser.error(f"--minutes {chosen.minutes:g}: must be above 0")
    if chosen.overrides and chosen.study is None:
        parser.error(f"{chosen.overrides[0]}: overrides are of a study; name it with --study")
    if chosen.study is None and chosen.device == "cpu" and not chosen.quick:
        parser.error("--device cpu: only with --quick; the other sizes are for a GPU")
    if problem := device_problem(chosen.device):
        parser.exit(2, f"{problem}; try it out with --device cpu --quick\n")
    if chosen.study is not None:
        sys.exit(study.slice_of(chosen.study, chosen.overrides, chosen.device, 60 * chosen.minutes, chosen.runs))
    sys.exit(measure(chosen))


def device_problem(device: str) -> str | None:
    """Say that there is no GPU, if one is wanted."""
    from rlexp.config.compose import compose
    from rlexp.sweep import machine

    return machine.device_problem(compose(f"device={device}"))


def measure(chosen: argparse.Namespace) -> int:
    """Run the parts one after another, print and store what each found; return the exit code."""
    ends = time.monotonic() + 60 * chosen.minutes - RESERVE
    names = [chosen.only] if chosen.only else [*PARTS]
    found: dict[str, dict[str, Any]] = {}
    chosen.results.mkdir(parents=True, exist_ok=True)
    with open(chosen.results / "gpu.log", "w", encoding="utf-8") as log:
        for place, name in enumerate(names):
            share = PARTS[name] / sum(PARTS[each] for each in names[place:])
            seconds = max(1.0, share * (ends - time.monotonic()))  # what a part leaves is for those behind it
            print(f"\n{name}: at most {seconds:.0f} s", flush=True)
            found[name] = run(name, seconds, chosen, log)
            show(name, found[name])
            store("gpu", shown_settings(chosen), gpus=gpus(), parts=found)
    failed = [name for name, part in found.items() if part["failed"]]
    print(f"\n{len(found) - len(failed)} of {len(found)} parts done; see gpu.json and gpu.log in {chosen.results}")
    for name in failed:
        print(f"{name} failed: {found[name]['failed']}")
    return 1 if failed else 0


def run(name: str, seconds: float, chosen: argparse.Namespace, log: TextIO) -> dict[str, Any]:
    """Run a part for at most so many seconds; return its rows and notes, and why it failed, or None."""
    command = [sys.executable, "-m", f"benchmarks.gpu.{name}", "--device", chosen.device]
    command += ["--seconds", str(max(seconds - MARGIN, seconds / 2)), *["--quick"] * chosen.quick]
    command += ["--model", chosen.model] if chosen.model else []
    print(f"== {name}", file=log, flush=True)
    rows, notes, last, late = [], [], "it said nothing", threading.Event()
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment_here(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip

    def end() -> None:
        late.set()
        kill(process)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        for line in process.stdout:
            print(line, end="", file=log, flush=True)
            said = parsed(line)
            rows += [said["row"]] if "row" in said else []
            notes += [said["note"]] if "note" in said else []
            last = line.strip() or last
        code = process.wait()
    finally:
        timer.cancel()
        kill(process)
    failed = None if code == 0 else f"{last} (exit code {code})"
    if late.is_set():
        failed = f"it was not done after {seconds:.0f} s; what it had found by then is kept"
    return {"rows": rows, "notes": notes, "seconds": round(time.monotonic() - began, 1), "failed": failed}


def parsed(line: str) -> dict[str, Any]:
    """Return a row or a note that a part has said; nothing for another line."""
    with suppress(ValueError):
        said = json.loads(line) if line.startswith(('{"row"', '{"note"')) else {}
        return said
    return {}


def kill(process: subprocess.Popen) -> None:
    """End a part and all that it has started, if it still runs."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def show(name: str, part: dict[str, Any]) -> None:
    """Print a part's table, its notes, and why it failed."""
    if part["rows"]:
        print(table(part["rows"]))
    for line in [*part["notes"], *[f"{name} failed: {part['failed']}"] * bool(part["failed"])]:
        print(line)
    print(f"{name}: {part['seconds']} s", flush=True)


def shown_settings(chosen: argparse.Namespace) -> argparse.Namespace:
    """Return the settings without those of studies."""
    settings = {key: value for key, value in vars(chosen).items() if key not in ("study", "runs", "overrides")}
    return argparse.Namespace(**settings)


def gpus() -> list[dict[str, object]]:
    """Return name and memory of each CUDA device, and the CUDA version of PyTorch."""
    import torch

    found = [torch.cuda.get_device_properties(place) for place in range(torch.cuda.device_count())]
    return [{"name": each.name, "GB": each.total_memory / 1e9, "cuda": torch.version.cuda} for each in found]


if __name__ == "__main__":
    main()
