"""What happens while a policy trains? ``python -m benchmarks.dynamics`` trains four sweeps and writes docs/dynamics.md.

Every seed has a start of its own, so intervals say what another start would have given. ``--only NAME`` does one sweep;
``--seeds`` and ``--with`` change what is trained; with ``--runs FOLDER`` runs are kept there, and the same command goes
on with them. A table is what ``rlexp compare`` says, a figure what it draws; coverage has a figure of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.parts.common import ROOT, between, machine

ADDITION = (
    "task=addition",
    "start=pretrained_mixture",
    "start.accuracy=0.3",
    "lr=3e-4",
    "entropy_coef=0",
    "logger=none",
)
COUNTDOWN = (
    "task=countdown",
    "start=pretrained_mixture",
    "start.accuracy=0.3",
    "lr=1e-3",
    "entropy_coef=0",
    "logger=none",
    "eval.every=50",
    "eval.samples=128",
    "eval.ks=[1,2,4,8,16,32,64,128]",
)


class Sweep(NamedTuple):
    """What is trained, and which metrics are compared, in the order of its section."""

    overrides: Sequence[str]
    metrics: Sequence[str]
    options: Sequence[str] = ()


SWEEPS = {
    "lengths": Sweep(
        [*ADDITION, "steps=200", "agg=dr_grpo,token,sequence"],
        ["length/wrong", "length/correct", "eval/sampled_accuracy", "policy/entropy"],
    ),
    "truncation": Sweep(
        [*ADDITION, "steps=200", "task.cap=24", "filter=none,overlong", "shaping=none,overlong"],
        ["eval/sampled_accuracy", "length/truncated"],
    ),
    "clip": Sweep(
        [*ADDITION, "steps=10,50,200", "minibatches=4", "clip=symmetric,higher"],
        ["eval/sampled_accuracy", "policy/entropy"],
        ["--within", "steps"],
    ),
    "coverage": Sweep([*COUNTDOWN, "steps=200", "norm=local,maxrl"], ["eval/pass@1", "eval/pass@8", "eval/pass@64"]),
}


def main() -> None:
    """Train, compare, store, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=SWEEPS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--with", dest="changes", metavar="OVERRIDE", nargs="*", default=[])
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="keep runs here, and go on with those that are")
    parser.add_argument("--docs", metavar="FOLDER", type=Path, default=ROOT / "docs", help="where the page is")
    chosen = parser.parse_args()
    results = chosen.docs / "dynamics"
    results.mkdir(exist_ok=True)
    for name in [chosen.only] if chosen.only else SWEEPS:
        overrides = [*SWEEPS[name].overrides, f"seed=range({chosen.seeds})", *chosen.changes]
        with nullcontext(chosen.runs) if chosen.runs else tempfile.TemporaryDirectory() as folder:
            place = Path(folder).resolve() / name
            train = [sys.executable, "-m", "rlexp.train", "-m", *overrides, f"hydra.sweep.dir={place}"]
            subprocess.run(train, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
            found = {metric: compared(name, metric, place, results) for metric in SWEEPS[name].metrics}
            covered = coverage(place, results) if name == "coverage" else None
        command = " ".join(["rlexp", "-m", *overrides, f"hydra.sweep.dir=runs/{name}"])
        document = {"command": command, "machine": machine(), "compared": found, "coverage": covered}
        (results / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
        page = chosen.docs / "dynamics.md"
        text = section(name, command, {metric: each["table"] for metric, each in found.items()})
        page.write_text(between(page.read_text("utf-8"), f"python -m benchmarks.dynamics --only {name}", text), "utf-8")


def compared(name: str, metric: str, folder: Path, results: Path) -> dict[str, object]:
    """Compare the arms of a sweep in a metric; keep the (last) figure; return the table and each run's number."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "rlexp", "compare", str(folder), "--metric", metric, *SWEEPS[name].options]
        subprocess.run([*command, "--out", out], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        table = (Path(out) / "table.md").read_text("utf-8").partition("\n\n- ")[0].strip()  # without notes
        comparisons = json.loads((Path(out) / "comparison.json").read_text("utf-8"))["comparisons"]
        last = comparisons[-1]["stratum"]
        curves = f"curves_{last.replace('=', '_')}.svg" if last else "curves.svg"
        shutil.copy(Path(out) / curves, results / figure_of(name, metric))
    return {"table": table, "scores": {str(each["stratum"]): each["scores"] for each in comparisons}}


def figure_of(name: str, metric: str) -> str:
    """`"lengths", "length/wrong"` → `"lengths_wrong.svg"`."""
    return f"{name}_{metric.rpartition('/')[2].replace('@', '_')}.svg"


def coverage(folder: Path, results: Path) -> dict[str, dict[str, list[float]]]:
    """Draw pass@k over k before and after training for each value of ``norm``; return mean and 95 % t interval."""
    import matplotlib.pyplot as plt

    from rlexp import analysis
    from rlexp.analysis.figures import layout
    from rlexp.analysis.stats.estimates import mean_difference

    data = analysis.load(folder)
    keys = sorted((key for key in data.metrics if key.startswith("eval/pass@")), key=lambda key: int(key[10:]))
    rows = data.metrics.dropna(subset=keys[-1:]).sort_values("step").groupby("name")[keys]
    first, last = rows.first(), rows.last()
    norm = data.runs.set_index("name")["norm"].reindex(first.index)
    ends = {"start": first[norm == norm.iloc[0]]}  # a seed's start is the same for all arms
    ends |= {f"norm={each}": last[norm == each] for each in norm.unique()}
    found = {}
    with layout.theme():
        figure, axes = plt.subplots(figsize=(4.2, 3))
        for label, table in ends.items():
            each = [mean_difference(table[key].to_numpy()) for key in keys]
            mean, low, high = (np.array([getattr(e, name) for e in each]) for name in ("mean", "low", "high"))
            ks = [int(key[10:]) for key in keys]
            axes.plot(ks, mean, label=label, linestyle="--" if label == "start" else "-")
            axes.fill_between(ks, low, high, alpha=layout.BAND, linewidth=0)
            found[label] = dict(zip(keys, np.stack([mean, low, high], -1).tolist(), strict=True))
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, list(map(str, ks)))
        axes.set(xlabel="k", ylabel="pass@k on held-out prompts")
        axes.legend(frameon=False)
        figure.savefig(results / "coverage.svg", bbox_inches="tight")
        plt.close(figure)
    return found


def section(name: str, command: str, tables: Mapping[str, str]) -> str:
    """Return the part of the page that is measured: commands, tables, figures."""
    options = "".join(f" {option}" for option in SWEEPS[name].options)
    compare = [f"rlexp compare runs/{name} --metric {metric}{options}" for metric in tables]
    parts = ["```", command, *compare, "```", ""]
    if name == "coverage":
        parts += ["![pass@k over k](dynamics/coverage.svg)", ""]
    for metric, table in tables.items():
        image = f'<img src="dynamics/{figure_of(name, metric)}" width="520" alt="{metric} of each arm over steps">'
        parts += [f"`{metric}`", "", table, "", image, ""]
    return "\n".join(parts).rstrip()


if __name__ == "__main__":
    main()
