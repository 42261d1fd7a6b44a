"""How often `rlexp ablate` says a false word, and how often the right one: `python -m benchmarks.calibration`.

Twenty nulls and twenty planted effects are trained by `rlexp.ablate`, with a learning rate for each arm, on a bandit
that is computed exactly. Each is asked in three conditions (how far apart the logits start), on seeds of its own. A
condition has the word of `rlexp ablate`, and the three together are pooled and judged by `analysis/stats/words.py`.

Nulls are of three sorts:

scatter    both arms have the same law and other random numbers: `norm=half` learns from one half of the completions (or
           of the prompts), and the other arm from the other half. The difference is random, and 0 on average, exactly.
rounding   losses that are equal by algebra, a KL of weight 1e-9: the arms differ by what float32 rounds, if at all.
identical  the same arm under another name, bit by bit.

Planted effects are known exactly, too: `task=planted` is the bandit, and reports its exact accuracy plus `shift` as a
component of weight 0, which nothing learns from. The arm with the part has a shift, and learns from the other half.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import FiniteFloat
from rich.console import Console
from scipy.stats import binomtest

import rlexp
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.words import EQUIVALENT, NO_EFFECT, SMALLER, SUPERIOR, SUPPORTED, Assertion, Condition, judge
from rlexp.core import types as t
from rlexp.core.types import CompletionMask, PerCompletion
from rlexp.tasks.tabular import Bandit
from rlexp.tasks.task import Scores, task

Rows = list[dict[str, Any]]

OUT = Path(__file__).parents[1] / "docs" / "statistics" / "calibration.json"
STARTS = (0.0, 0.5, 1.0)
SIZES = (0.25, 0.5, 1.0, 2.0)
"""Planted effects in smallest effects that count."""
SMALLEST = 0.05
"""Of planted effects, a difference of accuracies; nulls have that of `rlexp ablate`, .25 log-odds."""
SEEDS = 8
BASE = ("task=bandit", "model=tabular", "steps=20", "minibatches=1", "entropy_coef=0", "eval.every=20", "logger=none")
NOISY = (*BASE, "shaping=noise", "shaping.std=1")
"""With noise in the rewards the best learning rate lies inside the grid."""
LR = "lr=1,4,16"
HELPS, HURTS = ("helps", "helps a little"), ("hurts", "hurts a little")


@rlexp.register("norm")
def half(
    rewards: PerCompletion,
    keep: CompletionMask,
    *,
    of: Literal["alternate", "block", "prompts"] = "alternate",
    which: Literal[0, 1] = 0,
    divide: bool = False,
) -> PerCompletion:
    """Center the rewards of one half of the completions in each group, or of the groups; 0 for the other half.

    Completions of a group are drawn independently, and so are prompts, so both halves have the same law.
    """
    prompts, completions = rewards.shape[-2:]
    place = torch.arange(completions) % 2 if of == "alternate" else 2 * torch.arange(completions) // completions
    chosen = place == which
    if of == "prompts":
        chosen = (torch.arange(prompts) % 2 == which).unsqueeze(-1).expand(prompts, completions)
    chosen = (chosen.to(rewards.device) & keep).expand_as(rewards)
    count = chosen.sum(-1, keepdim=True).clamp(min=1)
    centered = (rewards - rewards.where(chosen, 0.0).sum(-1, keepdim=True) / count).where(chosen, 0.0)
    if divide:
        centered = centered / ((centered.square().sum(-1, keepdim=True) / count).sqrt() + 1e-6)
    return centered


@rlexp.register("norm")
def center_again(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """What `norm=center` is, under another name."""
    from rlexp.axes.norm.group import center

    return center(rewards, keep)


@task
class Planted(Bandit):
    """The bandit with one more component, its accuracy plus `shift`; of weight 0, so nothing is learned from it."""

    shift: FiniteFloat

    components = ("easy", "hard", "impossible", "planted")

    def score(
        self, prompts: t.Prompts, completions: t.Completions, mask: t.TokenMask, finished: t.CompletionMask
    ) -> Scores:
        scores = super().score(prompts, completions, mask, finished)
        return scores._replace(components=scores.components | {"planted": scores.correct.float() + self.shift})


PLANTED = {"actions": 64, "easy": 12, "hard": 12, "impossible": 8, "easy_right": 40, "hard_right": 1, "cap": 1}
PLANTED |= {"weights": {"easy": 1.0, "hard": 1.0, "impossible": 1.0, "planted": 0.0}, "shift": 0.0}
rlexp.register("task", Planted, "planted", defaults=PLANTED | {"metric": "eval/exact/accuracy", "floor": 0.0})


class Case(NamedTuple):
    """A part, what it is added to, and its true effect."""

    name: str
    sort: str
    """`scatter`, `rounding`, `identical` or `planted`."""
    part: str
    base: tuple[str, ...] = ()
    size: float = 0.0
    """In smallest effects that count, with its sign."""


HALVES = (
    ("alternate completions", ("norm.of=alternate",)),
    ("blocks of completions", ("norm.of=block",)),
    ("prompts", ("norm.of=prompts",)),
    ("alternate, divided by the SD", ("norm.of=alternate", "norm.divide=true")),
    ("prompts, divided by the SD", ("norm.of=prompts", "norm.divide=true")),
    ("alternate, two minibatches", ("norm.of=alternate", "minibatches=2")),
    ("blocks, groups of four", ("norm.of=block", "group_size.completions=4", "group_size.prompts=16")),
    ("prompts, entropy bonus", ("norm.of=prompts", "entropy_coef=0.02")),
    ("alternate, a KL", ("norm.of=alternate", "kl=k3")),
    ("blocks, constant rate", ("norm.of=block", "lr_final=1")),
    ("alternate, no clipping of gradients", ("norm.of=alternate", "grad_clip=null")),
    ("prompts, two passes", ("norm.of=prompts", "inner_steps=2")),
)
NULLS = [
    *(Case(name, "scatter", "norm.which=1", ("norm=half", *base)) for name, base in HALVES),
    Case("a KL of weight 1e-9", "rounding", "kl=k3+kl.coef=1e-9", ("norm=center",)),
    Case("rloo is center · G/(G − 1)", "rounding", "norm=rloo", ("norm=center", "shaping=none")),
    Case("a temperature of 1.0000001", "rounding", "temperature=1.0000001", ("norm=center",)),
    Case("ε in the deviation", "rounding", "norm.eps=1e-4", ("norm=local",)),
    Case("an unreached bound of the gradient", "identical", "grad_clip=1e6", ("norm=center", "grad_clip=null")),
    Case("means of one token", "identical", "agg=sequence", ("norm=center",)),
    Case("clip with ratios of 1", "identical", "clip=higher", ("norm=center",)),
    Case("a part under another name", "identical", "norm=center_again", ("norm=center",)),
]


def planted_cases() -> list[Case]:
    """Four sizes in five settings, of either sign in turn."""
    cases = []
    for place, (name, base) in enumerate(HALVES[:5]):
        for size in SIZES:
            signed = size * (-1) ** place
            part = f"task.shift={signed * SMALLEST:g}+norm.which=1"
            cases.append(Case(f"{name}, {signed:+g} δ", "planted", part, ("norm=half", "task=planted", *base), signed))
    return cases


PLANTS = planted_cases()


class Job(NamedTuple):
    """A case in one condition, with its first seed."""

    case: Case
    start: float
    seed: int


def kept(job: Job, folder: Path | None) -> dict[str, Any]:
    """Return the answer to a job, from the folder if it is there already."""
    file = None if folder is None else folder / f"{job.seed}.json"
    if file is not None and file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    row = answer(job)
    if file is not None:
        file.write_text(json.dumps(row), encoding="utf-8")
    return row


def answer(job: Job) -> dict[str, Any]:
    """Ask one case in one condition: what `rlexp ablate` says of it."""
    case = job.case
    overrides = [each for each in NOISY if each != "task=bandit" or "task=planted" not in case.base]
    own = {each.partition("=")[0] for each in case.base}
    if "shaping=none" in case.base:
        own.add("shaping.std")
    overrides = [each for each in overrides if each.partition("=")[0] not in own]
    asked = {"metric": "eval/exact/planted", "smallest": SMALLEST} if case.sort == "planted" else {}
    with tempfile.TemporaryDirectory() as folder:
        found = rlexp.ablate(
            parts=case.part,
            designs=["add-one"],
            tune=LR,
            seeds=range(job.seed, job.seed + SEEDS),
            overrides=[*overrides, *case.base, f"model.std={job.start:g}"],
            folder=Path(folder) / "ablation",
            **asked,
        )
    row = found.effects.set_index("kind").loc["added first"]
    said = {name: float(row[name]) for name in ("effect", "error", "p")} | {"word": row["word"], "n": int(row["n"])}
    return {"case": case.name, "sort": case.sort, "size": case.size, "start": job.start, "seed": job.seed} | {
        **said,
        "leaves_0_out": bool(row["p"] < ALPHA),
        "smallest": float(found.smallest),
        "rates": [float(rate) for rate in found.levels["value"]],
    }


def pooled(rows: Rows) -> dict[str, Any]:
    """The words of one case over its conditions: + is the direction of a planted effect."""
    first = rows[0]
    sign = -1.0 if first["size"] < 0 else 1.0
    conditions = [
        Condition(f"model.std={row['start']:g}", sign * row["effect"], row["error"], row["n"] - 1.0) for row in rows
    ]
    superior, equal = (judge([Assertion(kind, first["smallest"], conditions)])[0] for kind in (SUPERIOR, EQUIVALENT))
    said = {"superior": superior.word, "equivalent": equal.word, "low": superior.low, "high": superior.high}
    return {key: first[key] for key in ("case", "sort", "size")} | said


def is_false(word: str, size: float) -> bool:
    """Whether a word of `rlexp ablate` is false of an effect of this size, in smallest effects that count."""
    true = {"helps": size > 0, "helps a little": 0 < size < 1, "hurts": size < 0, "hurts a little": -1 < size < 0}
    return not (true | {"no material effect": abs(size) < 1, "open": True})[word]


def is_false_of_conditions(row: Mapping[str, Any]) -> bool:
    """Whether one of the words over conditions is false; + is the direction of the planted effect."""
    size = abs(row["size"])
    superior = {SUPPORTED: size > 0, SMALLER: 0 < size < 1, NO_EFFECT: size < 1, "contradicted": False}
    equal = {SUPPORTED: size < 1, "contradicted": size >= 1}
    return not (superior.get(row["superior"], True) and equal.get(row["equivalent"], True))


def share(count: int, of: int) -> dict[str, Any]:
    """A share with its Wilson interval."""
    low, high = binomtest(count, of).proportion_ci(method="wilson")
    return {"false": count, "of": of, "share": count / of, "low": float(low), "high": float(high)}


def false_words(rows: Rows, cases: Rows) -> Iterator[dict[str, Any]]:
    """Shares of false words, of one condition and of all together, by sort."""
    for sort in ("scatter", "rounding", "identical", "all nulls", "planted"):

        def of(row: Mapping[str, Any], sort: str = sort) -> bool:
            return row["sort"] == sort or (sort == "all nulls" and row["sort"] != "planted")

        each, together = [row for row in rows if of(row)], [row for row in cases if of(row)]
        if each:
            count = sum(is_false(row["word"], row["size"]) for row in each)
            yield {"of": sort, "words": "each condition"} | {"runs": share(count, len(each))}
            if sort != "planted":
                count = sum(row["leaves_0_out"] for row in each)
                yield {"of": sort, "words": "each interval leaves 0 out"} | {"runs": share(count, len(each))}
            count = sum(is_false_of_conditions(row) for row in together)
            yield {"of": sort, "words": "all conditions"} | {"runs": share(count, len(together))}


def power(rows: Rows, cases: Rows) -> Rows:
    """By the size of an effect, how often its direction is found, and how often it is decided whether it counts."""
    table = []
    for size in sorted({abs(row["size"]) for row in rows if row["sort"] in ("scatter", "planted")}):
        each = [row for row in rows if abs(row["size"]) == size and row["sort"] in ("scatter", "planted")]
        together = [row for row in cases if abs(row["size"]) == size and row["sort"] in ("scatter", "planted")]
        if not size:
            right = (
                [row["word"] == "no material effect" for row in each],
                [row["superior"] == NO_EFFECT for row in together],
            )
        else:
            right = (
                [row["word"] in (HELPS if row["size"] > 0 else HURTS) for row in each],
                [row["superior"] in (SUPPORTED, SMALLER) for row in together],
            )
        equal = [row["equivalent"] == (SUPPORTED if size < 1 else "contradicted") for row in together]
        shares = {"each": np.mean(right[0]), "all": np.mean(right[1]), "equality": np.mean(equal)}
        table.append({"size": size, "cases": len(together)} | {name: float(each) for name, each in shares.items()})
    return table


def print_all(found: Mapping[str, Any], console: Console) -> None:
    """Print the tables."""
    rows = [
        [row["of"], row["words"], f"{row['false']} of {row['of_words']}", f"{row['share']:.3f}"]
        + [f"[{row['low']:.3f}, {row['high']:.3f}]"]
        for row in found["false"]
    ]
    print_table(TextTable(["of", "words of", "false", "share", "Wilson 95 %"], rows), console, "false words")
    headers = ["effect/δ", "cases", "each condition", "all conditions", "equality"]
    rows = [
        [f"{row['size']:g}", str(row["cases"]), *(f"{row[each]:.2f}" for each in ("each", "all", "equality"))]
        for row in found["power"]
    ]
    print_table(TextTable(headers, rows), console, "right words by the size of the effect (0: no material effect)")
    headers = ["case", "sort", "each condition", "superior", "equivalent"]
    rows = [
        [row["case"], row["sort"], ", ".join(row["each"]), row["superior"], row["equivalent"]] for row in found["cases"]
    ]
    print_table(TextTable(headers, rows), console, "words of each case")


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the tables and writes the numbers as JSON."""
    parser = CommandParser(prog="python -m benchmarks.calibration", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--workers", type=int, default=2, help="processes; they change no number")
    parser.add_argument("--repeat", type=int, default=1, help="how often each case is asked, on other seeds")
    parser.add_argument("--quick", action="store_true", help="three cases in two conditions; writes only to --out")
    parser.add_argument("--folder", type=Path, help="keeps the answers; the same command goes on there")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON (docs/statistics/calibration.json)")
    options = parser.parse_args(arguments)
    if options.workers < 1 or options.repeat < 1:
        raise AnalysisError("--workers and --repeat: must be at least 1")
    cases, starts = [case for both in zip(NULLS, PLANTS, strict=True) for case in both] * options.repeat, STARTS
    if options.quick:
        cases, starts = [NULLS[0], NULLS[19], PLANTS[3]], STARTS[:2]
    jobs = [
        Job(case, start, 1000 * (len(starts) * place + number))
        for place, case in enumerate(cases)
        for number, start in enumerate(starts)
    ]
    found = measure(jobs, options.workers, len(starts), options.folder)
    print_all(found, Terminal())
    target = options.out or (None if options.quick else OUT)
    if target:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(jobs: Sequence[Job], workers: int, conditions: int, folder: Path | None) -> dict[str, Any]:
    """Ask all jobs, those of a case one after another, and count."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if workers == 1:
        rows = [kept(job, folder) for job in jobs]
    else:
        context, one = get_context("spawn"), torch.set_num_threads
        with ProcessPoolExecutor(workers, mp_context=context, initializer=one, initargs=(1,)) as pool:
            rows = list(pool.map(kept, jobs, [folder] * len(jobs)))
    groups = [rows[first : first + conditions] for first in range(0, len(rows), conditions)]
    cases = [pooled(group) | {"each": [row["word"] for row in group]} for group in groups]
    false = [
        {"of": row["of"], "words": row["words"], "of_words": row["runs"].pop("of")} | row["runs"]
        for row in false_words(rows, cases)
    ]
    return {"seeds": SEEDS, "false": false, "power": power(rows, cases), "cases": cases, "conditions": rows}


if __name__ == "__main__":
    sys.exit(main())
