"""One run of a language model under backend=trl in bfloat16 with gradient checkpointing, from its config to its folder.

The model is one that ``make_model`` makes, as random weights, unless --model names another.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from benchmarks.gpu.part import Part
from benchmarks.parts.common import number, shown

SIZE, TOY = (6, 1024, 16), (1, 48, 2)  # layers, width, heads
STEPS, LENGTH = 12, 32
SETTINGS = ["backend=trl", "model=pretrained", "model.dtype=bfloat16", "backend.precision=bf16", "lr=1e-5"]
SETTINGS += ["backend.gradient_checkpointing=true", f"backend.max_completion_length={LENGTH}"]
SETTINGS += ["task=sort", "start=random", "norm=local", "log_every=1", "eval.prompts=32", "eval.samples=1"]
SETTINGS += ["eval.ks=[1]", "logger=none"]
LEFT_OUT = 2  # first steps, in which things are set up


def main() -> None:
    """Make the model, train it, say what its rows say."""
    part = Part(__doc__)
    if find_spec("trl") is None:
        sys.exit("TRL is not installed: pip install '.[trl]'")
    with tempfile.TemporaryDirectory() as folder:
        place = part.model or make(Path(folder) / "model", TOY if part.quick else SIZE)
        rows = train(part, place, Path(folder) / "run", 4 if part.quick else STEPS)
    clock = [row["time/total"] for row in rows]
    tokens = [row["progress/tokens"] for row in rows]
    spans = [(b - a, d - c) for (a, b), (c, d) in zip(pairwise(clock[1:]), pairwise(tokens[1:]), strict=True)][:-1]
    spans = spans[LEFT_OUT:] or spans
    part.row(
        **{
            "model": part.model or "made here",
            "steps": rows[-1]["step"],
            "seconds a step": shown([seconds for seconds, _ in spans]),
            "completion tokens/s": shown([tokens / seconds for seconds, tokens in spans]),
            "peak GB": number(part.peak_gb()),
            "loss": number(rows[-1]["loss/total"]),
            "gradient norm": number(rows[-1]["optim/grad_norm"]),
        }
    )


def make(folder: Path, size: tuple[int, int, int]) -> Path:
    """Make a Llama of characters with random weights."""
    from rlexp import make_model

    layers, width, heads = size
    sizes = [f"model.layers={layers}", f"model.width={width}", f"model.heads={heads}"]
    make_model.main([str(folder), "task=sort", "start=random", *sizes])
    return folder


def train(part: Part, model: Path | str, folder: Path, steps: int) -> list[dict[str, float]]:
    """Train in this process; return the rows of metrics.jsonl."""
    import rlexp

    part.forget_peak()
    every = [f"steps={steps}", f"eval.every={steps}", f"device={part.device}"]
    run = rlexp.api.train(*SETTINGS, *every, f"model.path={model}", folder=folder)
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
