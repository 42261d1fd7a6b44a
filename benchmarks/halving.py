"""Does successive halving find the best rate, and at what cost? `python -m benchmarks.halving`.

Trains 27 learning rates of the bandit over 24 seeds, to 108 steps, and anew to 36, 12 and 4, each with its own
schedule; accuracies are exact. Once rewards are as they are, once with noise of SD 2, so that seeds scatter. Sweeps of
nine of the seeds are then drawn from the scores, and each way chooses a rate:

    whole grid      all rates with all seeds
    by seeds        successive halving, as `hydra/sweeper=halving` does it: rungs of 1, 3 and 9 seeds
    by steps        the same with `hydra.sweeper.resource=steps`: all seeds in each of two, three or four budgets
    some rates      as many rates drawn at random as cost what halving by seeds does
    Optuna's        `SuccessiveHalvingPruner` with 1, 3 and 9 seeds, told one rate after another, if installed

`found` is how often the chosen rate is as good as the best: its mean over all seeds at 108 steps is within .01 of the
highest. `lost` is what it has less, on average.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.config.compose import compose
from rlexp.launch.rungs import best_places, rungs_of, shares
from rlexp.training import Row, train

Array = np.ndarray
Way = Callable[[np.random.Generator, list[int]], tuple[int, float]]
"""Seeds of a sweep → the place of the chosen rate, and the cost in sweeps of the whole grid."""

BASE = ("task=bandit", "model=tabular", "logger=none", "threads=1", "log_every=1000")
WORLDS = {"clean rewards": (), "noisy rewards": ("shaping=noise", "shaping.std=2")}
METRIC = "eval/exact/accuracy"
RATES, LOW, HIGH = 27, 3e-3, 30.0
RATE_NAMES = [f"{rate:.3g}" for rate in np.geomspace(LOW, HIGH, RATES)]
STEPS, FACTOR = 108, 3
SEEDS, OF_A_SWEEP = 24, 9
AS_GOOD = 0.01


def trained(world: Sequence[str], steps: int, seeds: int) -> Array:
    """The accuracy after so many steps, which a run's schedule ends at, `[rates, seeds]`."""
    recipe = compose(*BASE, *world, f"steps={steps}", f"eval.every={steps}")
    rates = np.geomspace(LOW, HIGH, RATES).tolist()
    configs = [recipe.model_copy(update={"lr": rate, "seed": seed}) for rate in rates for seed in range(seeds)]
    scores = np.full(len(configs), -np.inf)  # of a run that diverged
    for event in train(configs):
        if isinstance(event, Row) and event.step == steps:
            scores[event.run] = event.metrics[METRIC]
    return scores.reshape(RATES, seeds)


def whole_grid(full: Array, rng: np.random.Generator, seeds: list[int]) -> tuple[int, float]:
    """The best mean of all rates."""
    return int(full[:, seeds].mean(-1).argmax()), 1.0


def rung_ends(seeds: int) -> list[int]:
    """How many seeds each rung has seen when it ends."""
    rungs = rungs_of(shares(RATES, seeds, FACTOR), list(map(str, range(seeds))), "seed")
    return np.cumsum([len(rung.seeds) for rung in rungs]).tolist()


def by_seeds(full: Array, rng: np.random.Generator, seeds: list[int]) -> tuple[int, float]:
    """Halving over more and more seeds; of those in the last rung, the best on the seeds that have chosen nothing."""
    going, runs, (*ends, _) = np.arange(RATES), 0, rung_ends(len(seeds))
    for start, end in zip([0, *ends], ends, strict=False):
        runs += len(going) * (end - start)
        going = going[best_places(full[np.ix_(going, seeds[:end])].mean(-1).tolist(), FACTOR)]
    last = seeds[ends[-1] :]
    return int(going[full[np.ix_(going, last)].mean(-1).argmax()]), (runs + len(going) * len(last)) / RATES / len(seeds)


def by_steps(scores: Mapping[int, Array], rungs: int, rng: np.random.Generator, seeds: list[int]) -> tuple[int, float]:
    """Halving over longer and longer runs."""
    going, cost = np.arange(RATES), 0.0
    budgets = sorted(scores)[-rungs:]
    for steps in budgets:
        cost += len(going) / RATES * steps / budgets[-1]
        means = scores[steps][np.ix_(going, seeds)].mean(-1)
        if steps == budgets[-1]:
            return int(going[means.argmax()]), cost
        going = going[best_places(means.tolist(), FACTOR)]
    raise AssertionError


def some_rates(full: Array, rates: int, rng: np.random.Generator, seeds: list[int]) -> tuple[int, float]:
    """The best mean of rates that are drawn."""
    drawn = rng.choice(RATES, rates, replace=False)
    return int(drawn[full[np.ix_(drawn, seeds)].mean(-1).argmax()]), rates / RATES


def optuna_pruner(full: Array, rng: np.random.Generator, seeds: list[int]) -> tuple[int, float]:
    """Optuna's asynchronous halving: a trial is stopped by what was told before it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=FACTOR)
    study = optuna.create_study(direction="maximize", pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    runs, chosen, ends = 0, {}, rung_ends(len(seeds))
    for rate in rng.permutation(RATES):
        trial = study.ask()
        for end in ends:
            mean = full[rate, seeds[:end]].mean()
            trial.report(mean, end)
            if end != ends[-1] and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, mean)
            chosen[int(rate)] = mean
        runs += end
    return max(chosen, key=chosen.__getitem__), runs / RATES / len(seeds)


def ways(scores: Mapping[int, Array]) -> Iterator[tuple[str, Way]]:
    """Yield each way with its name."""
    full = scores[max(scores)]
    yield "whole grid", partial(whole_grid, full)
    yield "by seeds", partial(by_seeds, full)
    for rungs in range(2, len(scores) + 1):
        yield f"by steps, from {sorted(scores)[-rungs]}", partial(by_steps, scores, rungs)
    cost = by_seeds(full, np.random.default_rng(0), list(range(OF_A_SWEEP)))[1]
    yield "some rates", partial(some_rates, full, round(cost * RATES))
    if find_spec("optuna"):
        yield "Optuna's", partial(optuna_pruner, full)


def simulate(scores: Mapping[int, Array], sweeps: int) -> list[dict[str, str | float]]:
    """Return a row for each way: its cost, how often it finds the best, and what it loses."""
    truth = scores[max(scores)].mean(-1)
    rows = []
    for name, way in ways(scores):
        rng = np.random.default_rng(0)
        drawn = [rng.permutation(scores[max(scores)].shape[-1])[:OF_A_SWEEP].tolist() for _ in range(sweeps)]
        chosen, costs = zip(*(way(rng, seeds) for seeds in drawn), strict=True)
        lost = truth.max() - truth[list(chosen)]
        found = float((lost < AS_GOOD).mean())
        rows.append({"way": name, "cost": float(np.mean(costs)), "found": found, "lost": float(lost.mean())})
    return rows


def print_world(name: str, means: Mapping[int, Array], rows: list[dict[str, str | float]], console: Terminal) -> None:
    """Print the best rate of each budget, and what each way finds."""
    longest = means[max(means)]
    best = {steps: int(found.argmax()) for steps, found in means.items()}
    cells = [
        [str(steps), RATE_NAMES[place], f"{means[steps][place]:.3f}", f"{longest[place]:.3f}"]
        for steps, place in best.items()
    ]
    print_table(TextTable(["steps", "best rate", "accuracy", f"at {max(means)} steps"], cells), console, name)
    cells = [[row["way"], f"{row['cost']:.0%}", f"{row['found']:.2f}", f"{row['lost']:.3f}"] for row in rows]
    print_table(TextTable(["way", "cost", "found", "lost"], cells), console)


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints two tables, and writes their numbers as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.halving", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sweeps", type=int, default=1000, help="sweeps that are drawn")
    parser.add_argument("--quick", action="store_true", help="10 seeds, 27 steps, 50 sweeps")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.sweeps < 1:
        raise AnalysisError(f"--sweeps {options.sweeps}: must be at least 1")
    seeds, steps, sweeps = (10, 27, 50) if options.quick else (SEEDS, STEPS, options.sweeps)
    budgets = [steps // FACTOR**place for place in reversed(range(4))]
    console, content = Terminal(), {"rates": RATE_NAMES, "seeds": seeds, "sweeps": sweeps, "worlds": {}}
    for name, world in WORLDS.items():
        scores = {budget: trained(world, budget, seeds) for budget in budgets}
        rows = simulate(scores, sweeps)
        means = {budget: found.mean(-1) for budget, found in scores.items()}
        print_world(name, means, rows, console)
        spread = float(scores[steps][means[steps].argmax()].std(ddof=1))
        saved = {budget: found.round(4).tolist() for budget, found in means.items()}
        content["worlds"][name] = {"sd at the best rate": spread, "means": saved, "ways": rows}
    if options.out:
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
