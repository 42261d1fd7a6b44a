"""Sweep folders with everything that a report shows, made of random numbers, and all that can be wrong with them."""

import json
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from analysis_fixtures import METRIC, random_scores, write_lines, write_sweep

from rlexp.analysis.data.kept import read_samples, variant_gradients
from rlexp.analysis.data.load import load
from rlexp.analysis.data.variants import variant_configs
from rlexp.analysis.figures.inputs import FigureInputs
from rlexp.analysis.figures.layout import variant_colors
from rlexp.analysis.report.page import write_report
from rlexp.analysis.stats.comparison import compare
from rlexp.runfolder.variants import split_overrides

LONG = [
    "preset=grpo_tcr,clip.high=0.28,group_size=64,task.length_penalty.coefficient=0.001",
    "preset=dapo,clip.high=0.24,group_size=8,a=$x$",
    "preset=averyveryveryveryveryverylongnamewithoutanycommaoranythingelse,agg=token",
    "preset=grpo_tcr,clip.high=0.28,group_size=64,task.length_penalty.coefficient=0.002",
]
SCRIPT = "norm=<script>alert(1)"
CASES = {
    "3 variants": [f"norm={name}" for name in ("local", "global", "hybrid")],
    "8 variants": [f"norm={name}" for name in "abcdefgh"],
    "20 variants": [f"clip.high=0.{i},norm={'ab'[i % 2]}" for i in range(20)],
    "long names": LONG,
    "two axes": [f"norm={norm},clip={clip}" for norm in ("local", "global", "none") for clip in ("b", "d")],
    "group sizes": [f"norm={norm},group_size={size}" for norm in ("local", "rloo") for size in (2, 4, 16)],
    "tasks": [f"task={task},norm={norm}" for task in ("sort", "bandit", "length") for norm in ("local", "global")],
    "markup": ["norm=local", SCRIPT],
}


def diagnostics(step: float, last: int, place: int, rng: np.random.Generator) -> dict[str, float | None]:
    """What a training run logs beside its evaluations, by how far it is and which variant it belongs to."""
    done, noise = step / last, lambda size: float(size * rng.normal())
    return {
        "policy/entropy": 2.2 - (1.2 + 0.05 * place) * done + noise(0.03),
        "kl/ref_exact": (0.02 + 0.3 * done) * (1 + 0.25 * place) * float(np.exp(noise(0.1))),
        "length/mean": 4 + done + noise(0.1),
        "length/correct": 4 + noise(0.1) if done > 0.1 else None,
        "length/wrong": 4.5 + 0.1 * place - done + noise(0.1),
        "groups/zero_variance": float(np.clip(0.1 + 0.5 * done + 0.01 * place + noise(0.02), 0, 1)),
        "progress/completions": int(128 * step),
    }


def ppo_gradient(low: float, high: float) -> dict:
    """What a run with PPO's policy loss writes of its gradient."""
    ratios = np.geomspace(0.3, 6, 100)
    weights = {
        "positive": np.where(ratios <= 1 + high, ratios, 0.0),
        "negative": np.where(ratios >= 1 - low, ratios, 0.0),
    }
    lines = {"": {name: values.tolist() for name, values in weights.items()}}
    return {"ratios": ratios.tolist(), "lines": lines, "note": ""}


def samples(steps: int, rng: np.random.Generator, text: str) -> list[dict]:
    """Completions at three moments."""
    lines = []
    for step in (0, steps // 2, steps):
        for number in range(8):
            reward = float(rng.integers(0, 3)) / 2
            lines.append({"step": step, "prompt": f"{number // 4} 3 →", "completion": text, "correct": reward == 1})
            lines[-1] |= {"reward": reward, "advantage": float(rng.normal())}
    return lines


def write_report_sweep(
    folder: Path, variants: list[str], seeds: int = 6, steps: int = 40, text: str = "0 3 end"
) -> Path:
    """A sweep with diagnostics, configurations and samples."""
    write_sweep(folder, random_scores(variants, seeds), steps)
    for place, variant in enumerate(variants):
        parts = dict(part.split("=", 1) for part in variant.split(",") if "=" in part)
        for seed in range(seeds):
            enrich(folder / ",".join([*split_overrides(variant), f"seed={seed}"]), place, seed, steps, text, parts)
    return folder


def enrich(path: Path, place: int, seed: int, steps: int, text: str, parts: dict[str, str]) -> None:
    """Add to one run of `write_sweep` what a training run would also leave."""
    rng = np.random.default_rng([place, seed])
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    write_lines(path / "metrics.jsonl", [row | diagnostics(row["step"], steps, place, rng) for row in rows])
    write_lines(path / "samples.jsonl", samples(steps, rng, text))
    high = 0.28 if place % 2 else 0.2
    config = {"seed": seed, "steps": steps, "lr": 1e-3, "clip": {"name": "ppo", "low": 0.2, "high": high}}
    config |= {
        "shaping": {"name": "overlong", "cap": 6, "cache": 2, "factor": 1.0},
        "norm": {"name": parts.get("norm")},
    }
    for key, value in parts.items():
        node = config.setdefault(key, value)
        if isinstance(node, dict):
            node["name"] = value
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | {"gradient": ppo_gradient(0.2, high)}))


def fail(folder: Path, name: str, reason: str = "diverged by step 7: loss/total is nan") -> None:
    """Turn a run into one that ended early."""
    path = folder / name
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | {"status": "diverged", "reason": reason, "score": None}))


def erase(folder: Path, metric: str) -> None:
    """Make a metric null in every row of every run."""
    for file in folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        write_lines(file, [row | {metric: None} if metric in row else row for row in rows])


def write_flat_sweep(folder: Path, seeds: int = 3) -> Path:
    """A sweep in which every evaluation of every run is 0."""
    write_report_sweep(folder, CASES["3 variants"], seeds)
    for file in folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        write_lines(file, [row | {METRIC: 0.0} if METRIC in row else row for row in rows])
    for file in folder.glob("*/summary.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"score": 0.0, "collapsed": True}))
    return folder


def write_case(folder: Path, case: str) -> Path:
    """A sweep by the name of its case."""
    if case in CASES:
        return write_report_sweep(folder, CASES[case], text="<b>0 & 3</b>" if case == "markup" else "0 3 end")
    if case == "one seed":
        return write_report_sweep(folder, CASES["3 variants"], seeds=1)
    if case == "one variant":
        return write_report_sweep(folder, ["default"])
    write_report_sweep(folder, CASES["3 variants"])
    if case == "a failed run":
        fail(folder, "norm=global,seed=2")
    elif case == "a variant that failed":
        for seed in range(6):
            fail(folder, f"norm=global,seed={seed}")
    elif case == "nothing but NaN":
        erase(folder, "policy/entropy")
        erase(folder, METRIC)
    else:
        raise KeyError(case)
    return folder


ALL_CASES = [*CASES, "one seed", "one variant", "a failed run", "a variant that failed", "nothing but NaN"]


def figure_inputs(folder: Path) -> FigureInputs:
    """What the figures of a sweep without strata are drawn from."""
    data = load(folder)
    read = variant_configs(data.runs), read_samples(data), variant_gradients(data)
    return FigureInputs(data, compare(data), data, *read, variant_colors(data.variants, data.variants[0]))


class Page(HTMLParser):
    """What the tests look at in HTML: tags with their attributes, and the text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.broken = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.broken = tag == "wbr"

    def handle_data(self, data):
        if self.broken:  # within a word
            self.words[-1] += data
        else:
            self.words.append(data)
        self.broken = False

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A function that returns what was written for a case; each is written once."""
    return cache(lambda case: write_report(write_case(tmp_path_factory.mktemp("case") / "sweep", case)))
