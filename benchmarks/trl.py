"""Against TRL's GRPOTrainer: the same sort task, the same batch, as many parameters, training steps and whole runs.

Sort 8 out of 16 tokens, completions of exactly 8, 16 prompts x group 8, two layers of width 64, learning rate 1e-3, one
update a batch. Needs `pip install '.[bench]'`; `compile=true` needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.parts.common import Fresh, Training, alternating, fresh, options, publish, ratios, shown

COMPLETIONS = 16 * 8
OURS = (
    "task.alphabet=16 task.shortest=8 task.longest=8 task.cap=8 group_size=8 model.width=64 model.layers=2 "
    "model.heads=4 model.feedforward=384 inner_steps=1 minibatches=1 entropy_coef=0 lr=1e-3 lr_final=1"
).split()
SWEEPS = {  # TRL evaluates nothing; our default is 1,152 completions of held-out prompts a run every 20 steps
    "rlexp, evaluated before and after": ["eval.every={steps}", "hydra.launcher.workers=1"],
    "rlexp, the same in two processes": ["eval.every={steps}", "hydra.launcher.workers=2"],
    "rlexp, evaluated every 20 steps": ["hydra.launcher.workers=1"],
}
INSTALLED = importlib.util.find_spec("trl") is not None


def reward(completion_ids: Sequence[Sequence[int]], items: Sequence[Sequence[int]], **_: object) -> list[float]:
    """Half for every place being right, half for the share of right places: the weights of our task."""
    pairs = [(list(given), sorted(asked)) for given, asked in zip(completion_ids, items, strict=True)]
    return [
        0.5 * (given == asked) + 0.5 * sum(a == b for a, b in zip(given, asked, strict=False)) / len(asked)
        for given, asked in pairs
    ]


def parts() -> tuple:
    """Return a Llama of 134k parameters, a tokenizer of 16 symbols and a data set of prompts, all made here."""
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {str(number): number for number in range(16)} | {"<pad>": 16, "<end>": 17, "<unknown>": 18}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>", padding_side="left"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=32,
        pad_token_id=16,
        bos_token_id=None,
        eos_token_id=17,
    )
    numbers = torch.randint(0, 16, (1024, 8)).tolist()
    rows = [{"prompt": " ".join(map(str, each)), "items": each} for each in numbers]
    return LlamaForCausalLM(config), tokenizer, Dataset.from_list(rows)


def train_trl(steps: int) -> dict[str, float]:
    """Train with TRL; return the completions a second of all steps but the first two."""
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Clock(TrainerCallback):
        """Notes when steps end."""

        ends: list[float] = []

        def on_step_end(self, *_: object, **__: object) -> None:
            self.ends.append(time.perf_counter())

    model, tokenizer, prompts = parts()
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=COMPLETIONS,
            num_generations=8,
            max_completion_length=8,
            generation_kwargs={"min_new_tokens": 8},
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            beta=0.0,
            max_steps=steps,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model, reward, args=settings, train_dataset=prompts, processing_class=tokenizer, callbacks=[Clock()]
        )
        trainer.train()
    ends, parameters = Clock.ends, sum(parameter.numel() for parameter in model.parameters())
    lengths = [row["completions/mean_length"] for row in trainer.state.log_history if "completions/mean_length" in row]
    rate = COMPLETIONS * (len(ends) - 2) / (ends[-1] - ends[1])
    return {"rate": rate, "parameters": parameters, "length": lengths[-1] if lengths else float("nan")}


def train_ours(steps: int, *overrides: str) -> dict[str, float]:
    """Train a single run step by step, as the engine does; return the same numbers."""
    training = Training(1, *OURS, *overrides)
    rate, length = training.completions / training.seconds(steps), training.state.task.cap
    return {"rate": rate, "parameters": training.parameters, "length": length}


def one_pair(steps: int) -> float:
    """Return the seconds of two whole runs of TRL side by side, a thread each."""
    pair = [Fresh("benchmarks.trl", "worker", "trl", steps, threads=1) for _ in range(2)]
    return max(process.wait()["seconds"] for process in pair)


def our_sweep(runs: int, steps: int, *overrides: str) -> float:
    """Return the seconds of the whole sweep by the command line, as users run it (Weights & Biases offline)."""
    with tempfile.TemporaryDirectory() as folder:
        given = [*OURS, f"steps={steps}", f"seed=range(0,{runs})", f"hydra.sweep.dir={Path(folder) / 'sweep'}"]
        return fresh("rlexp.train", "-m", *given, *overrides)["seconds"]


def main() -> None:
    """Measure, print, write; or, as ``worker trl|ours steps``, train in this process."""
    if sys.argv[1:2] == ["worker"]:
        which, steps, *overrides = sys.argv[2:]
        print(json.dumps({"trl": train_trl, "ours": train_ours}[which](int(steps), *overrides)))
        return
    if not INSTALLED:
        sys.exit("TRL is not installed: pip install '.[bench]'")
    measure(options(__doc__, repetitions=3, steps=30, runs=30, run_steps=200, pairs=15))


def whole(arguments: argparse.Namespace) -> tuple[dict[str, list[float]], list[float]]:
    """Return the seconds of our sweeps, a list for each of SWEEPS, and of pairs of runs of TRL, measured in turn."""
    rounds = min(arguments.repetitions, arguments.pairs)
    sweeps, pairs = {name: [] for name in SWEEPS}, []
    for part in range(rounds):
        for name, overrides in SWEEPS.items():
            given = [override.format(steps=arguments.run_steps) for override in overrides]
            sweeps[name].append(our_sweep(arguments.runs, arguments.run_steps, *given))
        pairs += [one_pair(arguments.run_steps) for _ in range(part, arguments.pairs, rounds)]
    return sweeps, pairs


def measure(arguments: argparse.Namespace) -> None:
    """Alternate ours and TRL in fresh processes: first the rates of single runs, then whole sweeps."""
    cases = {
        "rlexp, 1 thread": (1, "ours"),
        "TRL, 1 thread": (1, "trl"),
        "TRL, 2 threads": (2, "trl"),
        "rlexp compile=true, 1 thread": (1, "ours", "compile=true"),
    }
    said: dict[str, list[dict]] = {name: [] for name in cases}

    def rate(name: str) -> float:
        threads, which, *overrides = cases[name]
        said[name].append(fresh("benchmarks.trl", "worker", which, arguments.steps, *overrides, threads=threads))
        return said[name][-1]["rate"]

    rates = alternating({name: lambda name=name: rate(name) for name in cases}, arguments.repetitions)
    theirs = rates["TRL, 1 thread"]
    rows = [
        {
            "what": f"single run, {name}: completions/s",
            "value": shown(values),
            "times TRL": shown(ratios(values, theirs)),
            "parameters": said[name][0]["parameters"],
            "completion length": said[name][0]["length"],
        }
        for name, values in rates.items()
    ]
    sweeps, pairs = {}, []
    if arguments.pairs:
        sweeps, pairs = whole(arguments)
        theirs = sum(pairs) * arguments.runs / (2 * len(pairs))
        what = f"{arguments.runs} whole runs of {arguments.run_steps} steps"
        empty = {"parameters": "", "completion length": ""}
        measured = f"{len(pairs)} of {arguments.runs // 2} pairs measured"
        values = sweeps | {f"TRL, two at a time ({measured})": [theirs]}
        rows += [
            {"what": f"{what}, {name}: s", "value": shown(seconds)}
            | {"times TRL": shown([theirs / each for each in seconds])}
            | empty
            for name, seconds in values.items()
        ]
    publish("trl", rows, arguments, rates=rates, sweep_seconds=sweeps, pair_seconds=pairs)


if __name__ == "__main__":
    main()
