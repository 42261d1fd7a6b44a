"""The pictures of docs/tour that need runs: ``python -m benchmarks.tour``, two minutes on a core.

Trains the loop of the GRPO-TCR notebook, the rules of the lecture and three proxies, a seed each, in memory. What they
logged goes to docs/tour/runs.json and the figures, made of that file alone, to docs/tour/figures. ``--only lecture17``
trains one of them; ``--figures`` trains nothing and draws again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from benchmarks.parts import tour_figures
from benchmarks.parts.common import ROOT
from rlexp.analysis.figures.layout import save_figure
from rlexp.config.compose import compose
from rlexp.config.schema import Config
from rlexp.core.registry import bind_choice
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.rollout import sample
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import gather_log_probs
from rlexp.record.checkpoint import load_parameters
from rlexp.tasks import TASKS
from rlexp.training import Checkpoint, Row, train

STORED, FIGURES = ROOT / "docs" / "tour" / "runs.json", ROOT / "docs" / "tour" / "figures"
LOOP = "preset=grpo_tcr task=token_preference reward=prm steps=200"
LECTURE, PROXIES = "study=lecture17 seed=0", "study=overoptimisation seed=500"
ARMS = ("none", "center", "local", "max")
PROMPTS, GROUP = 64, 8  # of the histogram: completions of the policy at the end
DRAWN = {
    "grpo_tcr": ("grpo_tcr", tour_figures.loop_figure),
    "grpo_tcr_objective": ("grpo_tcr", tour_figures.objective_figure),
    "grpo_tcr_kl": ("grpo_tcr", tour_figures.kl_figure),
    "lecture17": ("lecture17", tour_figures.lecture_figure),
    "proxies": ("overoptimisation", tour_figures.proxies_figure),
}
Rows = list[dict[str, float]]


def main() -> None:
    """Train, store, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TRAINED, help="train this one, keep what is stored of the others")
    parser.add_argument("--figures", action="store_true", help="train nothing, draw what is stored")
    options = parser.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    for name in [] if options.figures else [options.only] if options.only else TRAINED:
        stored[name] = TRAINED[name]()
        STORED.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    draw(stored)


def draw(found: Mapping[str, Any]) -> None:
    """Write every figure as SVG."""
    drawn = {name: figure(found[run]) for name, (run, figure) in DRAWN.items() if run in found}
    for name, figure in (drawn | {"bars": tour_figures.bars_figure()}).items():
        for file in save_figure(figure, FIGURES / name):
            if file.suffix != ".svg":
                file.unlink()


def trained(configs: Sequence[Config]) -> tuple[list[Rows], list[Mapping[str, Any]]]:
    """Train configs; return the rows of each with their step, and the last state of each."""
    rows: list[Rows] = [[] for _ in configs]
    states: list[Any] = [None] * len(configs)
    for event in train(configs):
        if isinstance(event, Row):
            rows[event.run].append({"step": event.step, **event.metrics})
        elif isinstance(event, Checkpoint):
            states[event.run] = event.state
    return rows, states


def series(rows: Rows, **names: str) -> dict[str, list[float]]:
    """Return the steps at which all of some metrics were logged, and the metrics by new names, five digits each."""
    there = [row for row in rows if all(name in row for name in names.values())]
    of = {key: [float(f"{row[name]:.5g}") for row in there] for key, name in names.items()}
    return {"steps": [row["step"] for row in there], **of}


def loop() -> dict[str, Any]:
    """Train the notebook's loop; return its curves and estimates of the KL of the policy that it ends with."""
    config = compose(*LOOP.split(), "seed=0", "log_every=1", "logger=none", "eval.every=200")
    (rows,), (state,) = trained([config])
    for row in rows:
        if "loss/policy" in row:
            row["objective"] = -row["loss/policy"] - row["loss/kl"]
    found = series(rows, objective="objective", reward="reward/mean", kl="kl/ref_exact", shaped="reward/shaped")
    return {"command": f"rlexp {LOOP} seed=0", **found, **estimates(config, state)}


@torch.no_grad()
def estimates(config: Config, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return k1 and k3 of completions of the last policy to the first, and the exact KL at their places."""
    task = bind_choice(TASKS, config.task)()
    first, last = (bind_choice(MODELS, config.model)(Init([config.seed]), task) for _ in range(2))
    load_parameters(last, 0, state["networks"]["policy"]["parameters"], LOOP)
    prompts = task.prompts(uniforms([config.seed], Purpose.EVALUATION_PROMPTS, 0, (PROMPTS, task.draws)), held_out=True)
    numbers = uniforms([config.seed], Purpose.SAMPLING, 0, (PROMPTS, GROUP, task.cap))
    completions = sample(last, task, prompts, numbers, torch.ones(1)).completions
    policy, reference = (each(prompts, completions).log_softmax(-1) for each in (last, first))
    exact = (policy.exp() * (policy - reference)).sum(-1).mean().item()
    ratios = gather_log_probs(policy - reference, completions)
    k1, k3 = ratios, (-ratios).expm1() + ratios
    of = {
        name: [float(f"{x:.4g}") for x in each.mean(-1).flatten().tolist()] for name, each in (("k1", k1), ("k3", k3))
    }
    return {"exact": exact, **of}


def lecture() -> dict[str, Any]:
    """Train the lecture's four rules."""
    words = [*LECTURE.split(), "log_every=1", "logger=none"]
    rows, _ = trained([compose(*words, f"norm={arm}") for arm in ARMS])
    found = {arm: series(each, loss="loss/total", reward="reward/mean") for arm, each in zip(ARMS, rows, strict=True)}
    return {"command": f"rlexp {LECTURE}", "arms": found}


def proxies() -> dict[str, Any]:
    """Train on proxies that look at one, two and three symbols."""
    rows, _ = trained([compose(*PROXIES.split(), "logger=none", f"task.features={n}") for n in (1, 2, 3)])
    names = dict(kl="eval/exact/kl", gold="eval/exact/gold", proxy="eval/exact/proxy")
    return {"command": f"rlexp {PROXIES}", "features": {n: series(each, **names) for n, each in enumerate(rows, 1)}}


TRAINED = {"overoptimisation": proxies, "lecture17": lecture, "grpo_tcr": loop}


if __name__ == "__main__":
    main()
