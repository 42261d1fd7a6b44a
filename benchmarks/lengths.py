"""What a token costs where answers may be long: a step, and an evaluation with pass@256, by the cap of the task.

Runs sort 5 to 8 of 16 symbols, 16 prompts x 8 completions, two updates a step; a policy that has not learned yet ends
with about every 17th token, so that most of the places of a long cap are empty. A token is one that was generated, up
to the end. ``whole`` reads and decodes all places of completions, as caps up to 16 are read, with a tenth of the runs:
it takes too much memory for all of them. Evaluations, of a third of the runs, are by that policy or by one that has
imitated right answers, of 32 prompts; what one costs is over what the 20 steps between two of them cost. Processor
seconds, one thread.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial

from benchmarks.parts.common import Training, alternating, options, publish, ratios, shown

TASK = ["task=sort", "task.shortest=5", "task.longest=8", "task.alphabet=16"]
BETWEEN = 20  # steps between evaluations


def training(model: str, cap: int, runs: int, packs: bool = True) -> Training:
    """Build runs, which read whole completions unless they are to be packed."""
    made = Training(runs, *TASK, f"model={model}", f"task.cap={cap}", warm_up=1)
    made.state.policy.packs &= packs
    made.state.reference.packs &= packs
    microseconds(made, 2)
    return made


def microseconds(made: Training, steps: int) -> float:
    """Train on; return the processor microseconds a token."""
    import torch

    from rlexp.loop.step import train_step

    torch.set_num_threads(1)
    tokens, started = 0, time.process_time()
    for _ in range(steps):
        made.done += 1
        tokens += int(train_step(made.state, made.done, False)["tokens"].sum())
    return 1e6 * (time.process_time() - started) / tokens


def seconds(function: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def share_of_evaluation(made: Training, steps: int, prompts: int) -> float:
    """Return what an evaluation takes over what the steps between two take."""
    from rlexp.loop.evaluation import evaluate

    def train() -> None:
        microseconds(made, steps)

    return seconds(partial(evaluate, made.state, made.done, prompts, 256, [1, 256])) / (
        seconds(train) * BETWEEN / steps
    )


def imitate(made: Training, updates: int) -> None:
    """Let the policies imitate right answers."""
    import torch

    state, optimizer = made.state, torch.optim.Adam(made.state.policy.parameters(), lr=3e-3)
    for step in range(updates):
        numbers = torch.rand(len(state.seeds), 32, state.task.draws, generator=torch.Generator().manual_seed(step))
        prompts = state.task.prompts(numbers, held_out=False)
        answers, mask = (each.unsqueeze(2) for each in state.task.oracle(prompts))
        log_probs = state.policy.log_probs(prompts, answers, torch.ones_like(state.temperature)).log_probs
        optimizer.zero_grad()
        (-(log_probs * mask).sum()).backward()
        optimizer.step()
    optimizer.zero_grad()


def steps_of(model: str, caps: list[int], chosen: Namespace) -> tuple[list[dict], dict[str, list[float]]]:
    """Measure steps of all caps in turn; return the rows of the table and what was measured."""
    few, first = max(1, chosen.runs // 10), caps[0]
    wanted = {("packed", cap): (chosen.runs, True) for cap in caps} | {("few", cap): (few, True) for cap in caps}
    wanted |= {("whole", cap): (few, False) for cap in caps if cap > first}
    made = {key: training(model, key[1], runs, packs) for key, (runs, packs) in wanted.items()}
    found = alternating({key: partial(microseconds, made[key], chosen.steps) for key in made}, chosen.repetitions)
    rows = []
    for (how, cap), values in found.items():
        base = found["packed" if how == "packed" else "few", first]
        what, runs = "step, whole" if how == "whole" else "step", wanted[how, cap][0]
        rows.append(row(what, model, runs, cap, shown(values), shown(ratios(values, base)), ""))
    return rows, {f"{model}, {how}, cap {cap}": values for (how, cap), values in found.items()}


def evaluations_of(model: str, cap: int, chosen: Namespace) -> tuple[list[dict], dict[str, list[float]]]:
    """Measure evaluations by a policy as it is drawn and by one that imitates; return rows and what was measured."""
    runs, times = max(1, chosen.runs // 3), max(1, chosen.repetitions // 2)
    made, rows, measured = training(model, cap, runs), [], {}
    for how in ("untrained", "imitating"):
        if how == "imitating":
            imitate(made, chosen.updates)
        share_of_evaluation(made, 1, chosen.prompts)  # tries its products out
        name = f"{model}, {how}, cap {cap}"
        measured |= alternating({name: partial(share_of_evaluation, made, chosen.steps, chosen.prompts)}, times)
        rows.append(row(f"pass@256, {how}", model, runs, cap, "", "", shown(measured[name])))
    return rows, measured


def row(what: str, model: str, runs: int, cap: int, cost: str, times: str, share: str) -> dict[str, object]:
    shape = {"what": what, "model": model, "runs": runs, "cap": cap}
    return shape | {"µs a token": cost, "times the first cap": times, f"share of {BETWEEN} steps": share}


def main() -> None:
    """Measure, print, write."""
    chosen = options(
        __doc__, runs=30, steps=1, repetitions=5, models="transformer,llama_70k", caps="16,64,128", evaluated="16,128",
        prompts=32, updates=300, quick=False,
    )  # fmt: skip
    if chosen.quick:
        small = {"runs": 2, "repetitions": 1, "models": "transformer", "caps": "16,24", "evaluated": "24", "updates": 2}
        small |= {"prompts": 2}
        vars(chosen).update(small)
    rows, measured = [], {}
    for model in chosen.models.split(","):
        parts = [steps_of(model, [int(cap) for cap in chosen.caps.split(",")], chosen)]
        parts += [evaluations_of(model, int(cap), chosen) for cap in chosen.evaluated.split(",")]
        for found, values in parts:
            rows += found
            measured |= values
    publish("lengths", rows, chosen, measured=measured)


if __name__ == "__main__":
    main()
