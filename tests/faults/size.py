"""A thousand runs in one command, resumed and compared; and some thousand folders compared: time, memory, files.

python -m tests.faults.size --runs 1000 --folders 5000
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlexp.runfolder.files import json_with_checksum
from tests.faults.common import ROOT, options, store

SMALL = ["steps=4", "log_every=2", "eval.every=2", "eval.prompts=8", "eval.samples=2", "eval.ks=[1,2]"]
SMALL += ["group_size.completions=4", "group_size.prompts=4"]
VARIANTS = 10
MOST_FILES = 12  # of a run, the offline mirror of Weights & Biases included
MOST_GB = 4.0


def measured(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run a command to its end: exit code, seconds, the largest memory of one process of it."""
    started = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = round(time.perf_counter() - started, 1)
    return {"exit_code": process.returncode, "seconds": seconds, "peak_gb": round(used.ru_maxrss / 2**20, 2)}


def sweep_command(runs: int, logger: str) -> list[str]:
    """The command of a sweep with so many runs."""
    rates = ",".join(f"{rate}e-4" for rate in range(1, VARIANTS + 1))
    seeds = f"seed=range(0,{max(1, runs // VARIANTS)})"
    return ["-m", "rlexp.train", "-m", f"lr={rates}", seeds, *SMALL, f"logger={logger}", "hydra.sweep.dir=sweep"]


def statuses(folder: Path) -> dict[str, int]:
    """How many jobs of a sweep have each status."""
    found: dict[str, int] = {}
    for line in (folder / "jobs.jsonl").read_text(encoding="utf-8").splitlines():
        status = json.loads(line)["status"]
        found[status] = found.get(status, 0) + 1
    return found


def multiply(sweep: Path, folders: int) -> Path:
    """A sweep of so many folders, copies of the runs of another under further seeds; files are shared, not copied."""
    large = sweep.with_name("large")
    large.mkdir()
    runs = sorted(path for path in sweep.iterdir() if (path / "summary.json").exists())
    for number in range(folders):
        run = runs[number % len(runs)]
        seed = 10_000 + number // len(runs)
        name = f"{run.name.rpartition(',')[0]},seed={seed}{run.name.rpartition('=')[2]}"
        (large / name).mkdir()
        for file in ("config.yaml", "metrics.jsonl", "samples.jsonl"):
            os.link(run / file, large / name / file)
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        summary |= {"name": name, "seed": int(name.rpartition("=")[2])}
        del summary["checksum"]
        (large / name / "summary.json").write_bytes(json_with_checksum(json.dumps(summary, indent=2) + "\n"))
    return large


def look(runs: int, folders: int, logger: str, place: Path) -> tuple[dict[str, Any], list[str]]:
    """Measure all of it in a folder; and what is not as it should be."""
    sweep = place / "sweep"
    steps = {"train": measured(sweep_command(runs, logger), place)}
    made = statuses(sweep)
    files = sum(len(names) for _, _, names in os.walk(sweep)) / runs
    steps["resume"] = measured(sweep_command(runs, logger), place)
    steps["compare"] = measured(["-m", "rlexp.analysis.compare", "sweep"], place)
    if folders:
        multiply(sweep, folders)
        steps["compare_many"] = measured(["-m", "rlexp.analysis.compare", "large"], place)
    found = {"runs": runs, "folders": folders, "files_a_run": round(files, 1), "statuses": made, "steps": steps}
    wrong = [f"{name}: exit code {step['exit_code']}" for name, step in steps.items() if step["exit_code"] != 0]
    wrong += [f"{name}: {step['peak_gb']} GB" for name, step in steps.items() if step["peak_gb"] > MOST_GB]
    wrong += [f"{files:.1f} files a run"] if files > MOST_FILES else []
    return found, wrong + ([f"statuses {made}"] if made != {"completed": runs} else [])


def main() -> int:
    """Print what was measured; 1 if something is not as it should be."""
    chosen = options(__doc__, runs=1000, folders=5000, logger="none", under="")
    place = Path(tempfile.mkdtemp(dir=chosen.under or None))
    try:
        found, wrong = look(chosen.runs, chosen.folders, chosen.logger, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for name, step in found["steps"].items():
        print(f"{name:14} {step['seconds']:8.1f} s {step['peak_gb']:6.2f} GB  exit {step['exit_code']}")
    print(f"{found['files_a_run']} files a run, {found['statuses']}")
    print("\n".join(wrong) or "0 findings")
    store("size", found | {"findings": wrong}, chosen.results)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
