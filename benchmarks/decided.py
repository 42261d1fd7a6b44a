"""What a question costs: processor time until a difference is decided, paired and together against unpaired and alone.

Three ways to ask whether an arm differs from its baseline:

unpaired, alone  a process a run, no seed in both arms; the seeds that a t test of two samples needs for 80 % power
planned          the same seeds in both arms, as one batch; as many as `rlexp plan` says
until_decided    the same, in turns, until the difference is shown; at most as many seeds as `MOST`

Many runs of both arms are trained first. They say how large the effect is, how it scatters, and what each way needs.
Sweeps drawn from them (seeds, with replacement) count how often each way is right and wrong; with the effect taken off
the arm's scores there is none, and whoever finds one is wrong. Then each way is trained for real by the command line,
on other seeds, in processes whose processor time is read. Of the unpaired runs a few are trained, and scaled.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from scipy.stats import nct, ttest_ind
from scipy.stats import t as student

from benchmarks.parts.common import ROOT, fresh, options, publish, ratios, shown
from rlexp.analysis.stats.significance import (
    ALPHA,
    MEAN_TEST,
    confidence_sequence,
    decide,
    look_schedule,
    seeds_for_effect,
)

Array = np.ndarray

MOST = 60
"""Seeds of a sweep with `until_decided`."""
ONE = ("logger=none", "threads=1")
BANDIT = ("task=bandit", "model=tabular", "steps=100", "lr=0.1")


class Question(NamedTuple):
    """An arm against its baseline: two values of a key."""

    base: tuple[str, ...]
    key: str
    values: tuple[str, str]

    @property
    def name(self) -> str:
        return f"{self.base[0].partition('=')[2]}, {self.key}: {self.values[1]} − {self.values[0]}"


QUESTIONS = (
    Question(BANDIT, "lr", ("0.1", "0.11")),
    Question(BANDIT, "norm", ("local", "center")),
    Question(BANDIT, "entropy_coef", ("0.02", "0")),
)


def scores(question: Question, value: str, seeds: Sequence[int]) -> tuple[Array, float]:
    """Return the scores of one arm, `[seeds]`, trained in this process, and the processor seconds a run."""
    from rlexp.config.compose import compose
    from rlexp.runfolder.rows import score
    from rlexp.training import Row, train

    config = compose(*question.base, *ONE, f"{question.key}={value}")
    rows: dict[int, list[Mapping[str, float]]] = {run: [] for run in range(len(seeds))}
    begun = time.process_time()
    for event in train([config.model_copy(update={"seed": seed}) for seed in seeds]):
        if isinstance(event, Row) and config.score.metric in event.metrics:
            rows[event.run].append(event.metrics)
    seconds = (time.process_time() - begun) / len(seeds)
    return np.array([score(each, config.score.metric, config.score.share) for each in rows.values()]), seconds


def unpaired_seeds(effect: float, sd: float, alpha: float = ALPHA, power: float = 0.8) -> int:
    """Fewest seeds an arm with which the two-sided t test of two samples finds an effect so often (Cohen 1988, 2.4)."""
    n = 2
    while True:
        freedom, shift = 2 * n - 2, abs(effect) / sd * np.sqrt(n / 2)
        critical = student.ppf(1 - alpha / 2, freedom)
        if nct.sf(critical, freedom, shift) + nct.cdf(-critical, freedom, shift) >= power:
            return n
        n += 1


class Decision(NamedTuple):
    """What one sweep says of the arm, and its seeds an arm."""

    word: str
    """`higher`, `lower`, `equal` (smaller than the margin) or `open`."""
    seeds: int


def unpaired(baseline: Array, arm: Array, n: int) -> Decision:
    """By the t test, of the first n seeds of the arm and the n after them of the baseline."""
    found = ttest_ind(arm[:n], baseline[n : 2 * n])
    return Decision(found.pvalue < ALPHA and ("higher" if found.statistic > 0 else "lower") or "open", n)


def planned(baseline: Array, arm: Array, n: int) -> Decision:
    """By sign flips of n paired differences."""
    differences = (arm - baseline)[:n]
    return Decision(MEAN_TEST.p(differences) < ALPHA and ("higher" if differences.mean() > 0 else "lower") or "open", n)


def until_decided(baseline: Array, arm: Array, margin: float) -> Decision:
    """By the bets of `until_decided`, in its turns."""
    differences, word, end = arm - baseline, "open", MOST
    for end in look_schedule(MOST):
        word = decide(confidence_sequence(differences[:end]), margin)
        if word != "open":
            break
    return Decision(word, end)


class Way(NamedTuple):
    """What sweeps of one way say."""

    right: float
    """Share that finds the difference."""
    wrong: float
    """Share that says that there is none, or the opposite."""
    false: float
    """Share that finds one where there is none."""
    seeds: float
    """An arm, on average."""


def redrawn(baseline: Array, arm: Array, decision: Callable[[Array, Array], Decision], draws: int, most: int) -> Way:
    """Draw sweeps of so many seeds from the scores of both arms, as they are and with the effect taken off."""
    rng, effect = np.random.default_rng(0), (arm - baseline).mean()
    right, found, null = "higher" if effect > 0 else "lower", [], []
    for _ in range(draws):
        drawn = rng.integers(len(arm), size=most)
        found.append(decision(baseline[drawn], arm[drawn]))
        null.append(decision(baseline[drawn], arm[drawn] - effect).word)
    words = [each.word for each in found]
    return Way(
        words.count(right) / draws,
        1 - (words.count(right) + words.count("open")) / draws,
        (null.count("higher") + null.count("lower")) / draws,
        mean(each.seeds for each in found),
    )


def worker(arguments: Sequence[str]) -> None:
    """Run the command line in this process; end with a line that says how much processor time it took, imports too."""
    from rlexp import train

    sys.argv = ["rlexp", *arguments]
    train.main()
    print(json.dumps({"processor": time.process_time()}))


def processor_seconds(*overrides: str) -> float:
    """Processor time of a run, or with `-m` of a sweep, in a fresh process."""
    return fresh("benchmarks.decided", "worker", *overrides, threads=1)["processor"]


class Cost(NamedTuple):
    """Processor seconds of one repetition, and the seeds an arm that a sweep took."""

    alone: float
    """Of a run in a process of its own."""
    planned: float
    until_decided: float
    seeds: int


def measure(question: Question, n: int, margin: float, seed: int) -> Cost:
    """Train a run of each arm alone, and the two sweeps, on seeds from `seed` on."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def run(name: str, value: str, *overrides: str) -> float:
            given = (*question.base, *ONE, f"{question.key}={value}", f"seed={seed}", *overrides)
            return processor_seconds(*given, f"hydra.run.dir={folder / name}")

        def sweep(name: str, seeds: int, *overrides: str) -> float:
            given = (*question.base, *ONE, *overrides, f"seed=range({seed},{seed + seeds})")
            swept = f"{question.key}={','.join(question.values)}"
            place = f"hydra.sweep.dir={folder / name}"
            return processor_seconds("-m", *given, swept, place, "hydra.launcher.workers=1")

        alone = mean(run(f"alone{value}", value) for value in question.values)
        fixed = sweep("planned", n)
        turns = sweep("turns", MOST, f"until_decided={margin:.3g}")
        seeds = len([*(folder / "turns").glob("*/summary.json")]) // 2
    return Cost(alone, fixed, turns, seeds)


def asked(question: Question, options: Mapping[str, int]) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Return a row a way, and the numbers that they are made of."""
    question = question._replace(base=(*question.base, "steps=10")) if options["quick"] else question
    scores(question, question.values[0], [0])  # the first call loads what it needs
    singly = [scores(question, question.values[0], [seed])[1] for seed in range(options["repetitions"])]
    bank = [scores(question, value, range(options["seeds"])) for value in question.values]
    (baseline, together), (arm, _) = bank
    differences = arm - baseline
    effect, scatter = float(differences.mean()), float(differences.std(ddof=1))
    sd = float(np.sqrt((baseline.var(ddof=1) + arm.var(ddof=1)) / 2))
    alone, fixed, margin = unpaired_seeds(effect, sd), seeds_for_effect(abs(effect), scatter) or MOST, abs(effect) / 2
    draws = options["draws"]
    ways = {
        "unpaired, alone": redrawn(baseline, arm, lambda a, b: unpaired(a, b, alone), draws, 2 * alone),
        "planned": redrawn(baseline, arm, lambda a, b: planned(a, b, fixed), draws, fixed),
        "until_decided": redrawn(baseline, arm, lambda a, b: until_decided(a, b, margin), draws, MOST),
    }
    first = options["seeds"]
    costs = [measure(question, fixed, margin, first + MOST * place) for place in range(options["repetitions"])]
    seconds = {
        "unpaired, alone": [2 * alone * each.alone for each in costs],
        "planned": [each.planned for each in costs],
        "until_decided": [each.until_decided for each in costs],
    }
    seeds = {
        "unpaired, alone": [alone] * len(costs),
        "planned": [fixed] * len(costs),
        "until_decided": [each.seeds for each in costs],
    }
    rows = []
    for name, way in ways.items():
        a_run = [each / 2 / n for each, n in zip(seconds[name], seeds[name], strict=True)]
        rows.append(
            {"question": question.name, "way": name, "right": f"{way.right:.2f}", "wrong": f"{way.wrong:.3f}"}
            | {"false": f"{way.false:.3f}", "seeds an arm": shown(seeds[name])}
            | {"processor min": shown([each / 60 for each in seconds[name]])}
            | {"times less": shown(ratios(seconds["unpaired, alone"], seconds[name]))}
            | {"by fewer seeds": shown([alone / n for n in seeds[name]])}
            | {"by a cheaper run": shown(ratios([each.alone for each in costs], a_run))}
        )
    said = {
        "question": question.name,
        "effect": effect,
        "standard error": scatter / np.sqrt(len(arm)),
        "SD of the difference": scatter,
        "SD of an arm": sd,
        "correlation": float(np.corrcoef(baseline, arm)[0, 1]),
        "ways": {name: way._asdict() for name, way in ways.items()},
        "processor s a run, without the process": {"alone": singly, "together": [together]},
        "costs": [each._asdict() for each in costs],
    }
    return rows, said


def main() -> None:
    """Measure, print, write; ``worker ...`` is the command line with a clock."""
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2:])
        return
    arguments = options(
        __doc__, ROOT / "docs" / "statistics", repetitions=3, seeds=100, draws=200, questions=3, quick=False
    )
    if arguments.quick:
        arguments.repetitions, arguments.seeds, arguments.draws, arguments.questions = 1, 8, 20, 1
    rows, found = [], []
    for question in QUESTIONS[: arguments.questions]:
        of_question, said = asked(question, vars(arguments))
        rows, found = rows + of_question, [*found, said]
        print(f"{said['question']}: {said['effect']:+.4f} ± {said['standard error']:.4f} (standard error)")
        alone = shown([each["alone"] for each in said["costs"]])
        inside = {way: shown(each) for way, each in said["processor s a run, without the process"].items()}
        line = f"{inside['alone']} of them without the process; {inside['together']} in a batch of {arguments.seeds}"
        print(f"a run alone: {alone} processor s, {line}", flush=True)
        publish("decided", rows, arguments, questions=found)


if __name__ == "__main__":
    main()
