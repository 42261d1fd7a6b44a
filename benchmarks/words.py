"""How often words are false, intervals hold and headlines stay: `python -m benchmarks.words`.

Simulates conditions, pools them and says words as `analysis/stats/words.py` does, and compares with the truth: words
and power, the coverage of pooled and prediction intervals beside those of the usual formulas, the test of a moderator,
two assertions at once, and how often fresh seeds say the same word. Then it redraws the rows of docs/claims/results as
normal around their estimates and asks how often a headline stays: that of the old rule, which counts verdicts
(`benchmarks/claims/outcome.py`), and that of the pooled rule, for the contrasts that can be pooled.

Effects and their standard errors are in units of the smallest effect that counts, δ. The SD over seeds is 1.1 δ in the
geometric mean of the conditions, the median of the stored rows, and six times as large in one condition as in another.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from rich.console import Console
from scipy.special import ndtri, stdtrit

from benchmarks.claims.outcome import MORE, finding, findings, outcome
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats import words
from rlexp.analysis.stats.pooling import moderation, paule_mandel, pool, prediction_interval
from rlexp.analysis.stats.significance import ALPHA, MEAN_TEST, holm
from rlexp.analysis.stats.verdicts import difference_verdict
from rlexp.analysis.stats.words import EQUIVALENT, KINDS, NOT_INFERIOR, OPEN, SUPERIOR, WORDS

Array = np.ndarray
Rows = list[dict[str, Any]]

CLAIMS = Path(__file__).parents[1] / "docs" / "claims"
OUT = Path(__file__).parents[1] / "docs" / "statistics" / "words.json"
SD, RATIO = 1.1, 6.0
EFFECTS = (-1.0, 0.0, 0.5, 1.0, 2.0)
TAUS, SEEDS = (0.0, 0.5, 1.0), (5, 10, 20)
THRESHOLDS = (0.0, 0.5, 0.6, 0.8, 0.9)


class Drawn(NamedTuple):
    """Simulated effects, and their estimated standard errors, `[draws, k]`."""

    effects: Array
    errors: Array


def spreads(k: int, ratio: float = RATIO) -> Array:
    """Standard deviations over seeds of k conditions, the largest `ratio` times the smallest."""
    return SD * (np.geomspace(ratio**-0.5, ratio**0.5, k) if k > 1 else np.ones(1))


def draw(true: Array, sd: Array, n: int, rng: np.random.Generator) -> Drawn:
    """Means of n seeds around true effects `[draws, k]`, and their standard errors."""
    error = sd / np.sqrt(n)
    estimated = error * np.sqrt(rng.chisquare(n - 1, true.shape) / (n - 1))
    return Drawn(true + error * rng.normal(size=true.shape), estimated)


def is_false(kind: str, word: Array, truth: float) -> Array:
    """Whether words are false of a true effect, with δ = 1."""
    false = {
        SUPERIOR: {
            words.SUPPORTED: truth <= 0,
            words.SMALLER: not 0 < truth < 1,
            words.NO_EFFECT: abs(truth) >= 1,
            words.CONTRADICTED: truth >= 0,
        },
        EQUIVALENT: {words.SUPPORTED: abs(truth) >= 1, words.CONTRADICTED: abs(truth) < 1},
        NOT_INFERIOR: {words.SUPPORTED: truth <= -1, words.CONTRADICTED: truth >= -1},
    }[kind]
    return np.isin(word, [each for each, wrong in false.items() if wrong])


def words_against_truth(draws: int, redraws: int) -> Rows:
    """The share of each word, and of false ones, by kind, number of conditions, τ, seeds and true mean effect."""
    rows = []
    for k, tau, n, effect in product((1, 3, 9), TAUS, SEEDS, EFFECTS):
        if k == 1 and tau:
            continue
        rng = np.random.default_rng([k, int(10 * tau), n, int(10 * effect + 10)])
        found = draw(effect + tau * rng.normal(size=(draws, k)), spreads(k), n, rng)
        for kind in KINDS:
            said = words.stable_words(*found, n - 1.0, kind, 1.0, redraws=redraws)
            shares = {word: float((said.word == word).mean()) for word in WORDS[:-1]}
            false = float(is_false(kind, said.word, effect).mean())
            before = float(is_false(kind, said.plain, effect).mean())
            row = {"kind": kind, "k": k, "tau": tau, "seeds": n, "effect": effect, "false": false}
            rows.append(row | {"false_before_stability": before, "words": shares})
    return rows


def coverage(draws: int, predicted: int) -> Rows:
    """How often 95 % intervals hold the mean effect and that of one more condition, ours and the usual formulas."""
    rows = []
    for k, ratio, tau, n in product((3, 5, 9), (1.0, 6.0, 20.0), TAUS, (5, 10)):
        rng = np.random.default_rng([k, int(ratio), int(10 * tau), n])
        found = draw(tau * rng.normal(size=(draws, k)), spreads(k, ratio), n, rng)
        low, high = pool(*found, n - 1.0).interval()
        tau2 = paule_mandel(found.effects, found.errors**2)
        weights = 1 / (found.errors**2 + tau2[:, None])
        total = weights.sum(-1)
        mean = (weights * found.effects).sum(-1) / total
        factor = (weights * (found.effects - mean[:, None]) ** 2).sum(-1) / (k - 1)
        usual = stdtrit(k - 1, 0.975) / np.sqrt(total)
        new = tau * rng.normal(size=draws)
        plug_in = stdtrit(k - 2, 0.975) * np.sqrt(tau2 + 1 / total)
        ends = [prediction_interval(*(part[each] for part in found), draws=4000) for each in range(predicted)]
        held = [end.low < one < end.high for end, one in zip(ends, new, strict=False)]
        row = {"k": k, "ratio": ratio, "tau": tau, "seeds": n}
        row["pooled"] = float(((low < 0) & (high > 0)).mean())
        row["without_median"] = float((np.abs(mean) < usual).mean())
        row["plain_hartung_knapp"] = float((np.abs(mean) < usual * np.sqrt(factor)).mean())
        row["width_to_usual"] = float(np.median((high - low) / 2 / usual))
        row["predicted"] = float(np.mean(held))
        rows.append(row | {"plug_in": float((np.abs(new - mean) < plug_in).mean())})
    return rows


def moderators(draws: int) -> Rows:
    """How often p is below 0.05 for a moderator of three levels, or of four with one condition each, by its span."""
    rows = []
    for (k, levels), tau, span in product(((6, 3), (9, 3), (12, 3), (4, 4)), (0.0, 0.5), (0.0, 1.0, 2.0)):
        if levels == k and tau:
            continue
        rng = np.random.default_rng([k, int(10 * tau), int(span)])
        labels = [str(each % levels) for each in range(k)]
        true = span * (np.arange(k) % levels == 0) + tau * rng.normal(size=(draws, k))
        sd = rng.permuted(np.broadcast_to(spreads(k), (draws, k)), axis=-1)
        found = draw(true, sd, 10, rng)
        p = [moderation(*each, labels, 9.0).p for each in zip(*found, strict=True)]
        rows.append({"k": k, "levels": levels, "tau": tau, "span": span, "found": float(np.mean(np.array(p) < ALPHA))})
    return rows


def both_assertions(draws: int) -> Rows:
    """How often one or both of two assertions of a question get a false word, before unstable words are opened."""
    rows = []
    for kinds in ((SUPERIOR, SUPERIOR), (SUPERIOR, EQUIVALENT), (SUPERIOR, NOT_INFERIOR), (EQUIVALENT, NOT_INFERIOR)):
        for effects in product((-1.0, 0.0, 1.0, 2.0), repeat=2):
            rng = np.random.default_rng(0)
            pooled = [pool(*draw(np.full((draws, 9), effect), spreads(9), 10, rng), 9.0) for effect in effects]
            p = np.stack(
                [
                    one.p_equal(1.0) if kind == EQUIVALENT else one.p(0.0 if kind == SUPERIOR else -1.0)
                    for one, kind in zip(pooled, kinds, strict=True)
                ],
                axis=-1,
            )
            levels = np.array([words.holm_levels(each) for each in p])
            false = np.zeros(draws, dtype=bool)
            for place, (one, kind, effect) in enumerate(zip(pooled, kinds, effects, strict=True)):
                for alpha in (ALPHA, ALPHA / 2):
                    confidence = 1 - (2 if kind == EQUIVALENT else 1) * alpha
                    said = np.array(WORDS)[words.word_codes(*one.interval(confidence), kind, 1.0)]
                    false |= is_false(kind, said, effect) & np.isclose(levels[:, place], alpha)
            rows.append({"kinds": kinds, "effects": effects, "any_false": float(false.mean())})
    return rows


def kept_by_threshold(draws: int, redraws: int) -> Rows:
    """How often two sets of seeds in the same conditions get one word, by the share of redraws that a word needs."""
    totals: dict[float, list[tuple[float, float, float]]] = {}
    for k, tau, n, effect in product((1, 3, 9), TAUS, SEEDS, EFFECTS):
        rng = np.random.default_rng([k, int(10 * tau), n, int(10 * effect + 10), 1])
        true = effect + tau * rng.normal(size=(draws, k))
        both = [draw(true, spreads(k), n, rng) for _ in range(2)]
        for kind in KINDS:
            said = [words.stable_words(*each, n - 1.0, kind, 1.0, redraws=redraws) for each in both]
            places = [np.argmax(one.plain[:, None] == np.array(WORDS), -1) for one in said]
            kept = [np.take_along_axis(one.shares, at[:, None], -1)[:, 0] for one, at in zip(said, places, strict=True)]
            for threshold in THRESHOLDS:
                first, second = (
                    np.where(share >= threshold, one.plain, OPEN) for one, share in zip(said, kept, strict=True)
                )
                decided = first != OPEN
                counts = (first == second).mean(), decided.mean(), (decided & (first == second)).mean()
                totals.setdefault(threshold, []).append(counts)
    means = {threshold: np.mean(counts, axis=0) for threshold, counts in totals.items()}
    return [
        {"threshold": each, "same": float(same), "decided": float(decided), "decided_stays": float(stays / decided)}
        for each, (same, decided, stays) in means.items()
    ]


class Contrast(NamedTuple):
    """What the stored rows of several studies compare; rows of other conditions are pooled."""

    claim: str
    variant: str
    """A regular expression."""
    versus: str
    studies: Sequence[str]
    metric: str = "accuracy"


def _both(name: str) -> list[str]:
    return [f"transfer_{name}", f"transfer_{name}_llama"]


_DYNAMIC = [f"c05_dynamic{each}" for each in ("", "_mix", "_sgd", "_sort", "_sort_sgd")]
_NORMS, _RATIOS = ["c04_norm_sort_sgd", *_both("norm")], ["c12_ratio_sort", "c12_ratio_sort_sgd"]
_SHRINKAGE = ["d12_shrinkage", "d12_shrinkage_sgd"]
_LENGTHS = ["c01_length_sort", "c01_length_starts", "c01_length_starts_sgd", *_both("agg")]
_BASELINES = [f"c10_baseline{each}" for each in ("", "_sgd", "_sort", "_sort_sgd")]
CONTRASTS = [
    Contrast("c03", "clip=higher", "clip=symmetric", ["c03_clip_sort", "c03_clip_sort_sgd", *_both("clip")]),
    Contrast("c01", "agg=sequence", "agg=dr_grpo", _LENGTHS),
    Contrast("c04", "norm=hybrid", "norm=local", _NORMS),
    Contrast("c04", "norm=global", "norm=local", _NORMS),
    Contrast("c04", "norm=local", "norm=center", ["c04_difficulty", "c04_norm_sgd", "c04_norm_sort_sgd"]),
    Contrast("c05", "filter=dynamic", "filter=none", _DYNAMIC),
    Contrast("c05", "filter=dynamic", "filter=none", _DYNAMIC, "accuracy at equal rollouts"),
    Contrast("c07", "kl=k3", "kl=k2", ["c07_loss_sort", "c07_loss_sort_sgd"]),
    Contrast("c07", "kl=k3", "kl=none", _both("kl")),
    Contrast("c07", "kl=k1", "kl=none", _both("kl")),
    Contrast("c09", "group_size=2", "group_size=16", ["c09_group", "c09_group_sgd", *_both("group_size")]),
    Contrast("c10", "norm=none", "norm=center", _BASELINES),
    *(Contrast("c12", f"clip={name}", "clip=symmetric", _RATIOS) for name in ("gmpo", "cispo", "sapo", "gspo")),
    Contrast("c14", r"lr=0\.\d+", "lr=1e-12", ["c14_base"], "pass@32"),
    Contrast("d07", "clip=delightful", "clip=symmetric", ["d07_delight", "d07_delight_sgd"]),
    Contrast("d12", "norm=shrinkage", "norm=rloo", ["d12_group_size", *_SHRINKAGE]),
    Contrast("d12", "norm=shrinkage", "norm=local", _SHRINKAGE),
]
"""Those that a reading of docs/claims_explored.md pooled."""

Records = Mapping[str, Mapping[str, Any]]


class Pool(NamedTuple):
    """The conditions of a contrast, + as claimed."""

    kind: str
    smallest: float
    effects: Array
    errors: Array
    degrees: Array


def conditions_of(contrast: Contrast, records: Records) -> Pool:
    """The effects of a contrast in its conditions; where other seeds were asked again both count, by their seeds."""
    found: dict[tuple, list[tuple[float, float, int]]] = {}
    directions, minimum = set(), 0.0
    for name in (study + ending for study in contrast.studies for ending in ("", MORE)):
        for verdict in records.get(name, {}).get("verdicts", []):
            arms = [_without_conditions(verdict[side] or "", contrast.variant) for side in ("variant", "versus")]
            if not re.search(f"{contrast.metric}$", verdict["metric"] or ""):
                continue
            forward = re.fullmatch(contrast.variant, arms[0]) and arms[1] == contrast.versus
            if not forward and not (re.fullmatch(contrast.variant, arms[1]) and arms[0] == contrast.versus):
                continue
            sign = 1 if forward else -1
            conditions = finding(records[name], verdict).conditions
            dose = arms[0] if "\\d" in contrast.variant else ""
            key = name.removesuffix(MORE), dose, *sorted(conditions.items())
            found.setdefault(key, []).append((sign * verdict["estimate"], standard_error(verdict), verdict["n"]))
            directions.add(verdict["direction"])
            minimum = verdict["minimum_effect"]
    if not found or len(directions) > 2:
        raise AnalysisError(f"{contrast.claim} {contrast.variant}: {len(found)} conditions in docs/claims/results")
    kind = SUPERIOR if directions & {"higher", "lower"} else EQUIVALENT
    claimed = -1 if "lower" in directions else 1
    parts = [tuple(np.array(column) for column in zip(*rows, strict=True)) for rows in found.values()]
    effects = claimed * np.array([(n * effect).sum() / n.sum() for effect, _, n in parts])
    errors = np.array([np.sqrt(((n * error) ** 2).sum()) / n.sum() for _, error, n in parts])
    return Pool(kind, minimum, effects, errors, np.array([n.sum() - len(n) for _, _, n in parts], dtype=float))


def _without_conditions(arm: str, variant: str) -> str:
    """An arm without what is a condition: the start, and the group size unless that is compared."""
    names = ["start.accuracy"] if variant.startswith("group_size") else ["start.accuracy", "group_size"]
    return ",".join(part for part in arm.split(",") if part.split("=")[0] not in names)


def standard_error(verdict: Mapping[str, Any]) -> float:
    """The standard error of a stored row, from its 95 % paired t interval."""
    return float((verdict["high"] - verdict["low"]) / 2 / stdtrit(verdict["n"] - 1, 0.975))


def pooled_headlines(records: Records, draws: int, redraws: int) -> Rows:
    """The word of each contrast, and how often the rows, redrawn around their estimates, say it again."""
    rows = []
    for contrast in CONTRASTS:
        kind, smallest, effects, errors, degrees = conditions_of(contrast, records)
        noise = np.random.default_rng(1).normal(size=(draws, effects.size))
        said = words.stable_words(effects, errors, degrees, kind, smallest)
        again = words.stable_words(effects + noise * errors, errors, degrees, kind, smallest, redraws=redraws)
        one = pool(effects, errors, degrees)
        low, high = one.interval(0.9 if kind == EQUIVALENT else 0.95)
        kept = float(said.shares[WORDS.index(str(said.plain))])
        row = {
            "claim": contrast.claim,
            "contrast": f"{contrast.variant} − {contrast.versus}",
            "metric": contrast.metric,
        }
        row |= {"kind": kind, "k": one.k, "smallest": smallest, "effect": float(one.estimate)}
        row |= {"low": float(low), "high": float(high), "tau": float(one.tau), "word": str(said.word)}
        row |= {"leaning": str(said.plain) if said.word != said.plain else "", "stability": kept}
        row["stays"] = float((again.word == said.word).mean())
        row["turns"] = float(((again.word != said.word) & (again.word != OPEN) & (said.word != OPEN)).mean())
        rows.append(row)
    return rows


def counted_headlines(records: Records, draws: int) -> Rows:
    """The headline of each claim by the old rule, and how often it stays when its studies' rows are redrawn."""
    rng, rows = np.random.default_rng(2), []
    for file in sorted((CLAIMS / "texts").glob("*.yaml")):
        studies = yaml.safe_load(file.read_text(encoding="utf-8")).get("studies") or []
        asked = [records[study] for study in studies if study in records]
        if not findings(asked):
            continue
        word = outcome(findings([_again(record, None) for record in asked])).word
        fresh = [outcome(findings([_again(record, rng) for record in asked])).word for _ in range(draws)]
        rows.append({"claim": file.stem, "word": word, "stays": float(np.mean([each == word for each in fresh]))})
    return rows


def _again(record: Mapping[str, Any], rng: np.random.Generator | None) -> dict[str, Any]:
    """A study's record with each difference drawn anew and judged by the old rule; without rng as it is, judged anew.

    The differences of a row are normal quantiles with its mean and SD: single seeds are not on record. What has no
    difference that is finite keeps its verdict.
    """
    family, verdicts = int(record["differences_corrected"]), [dict(each) for each in record["verdicts"]]
    drawn = {}
    for place, verdict in enumerate(verdicts):
        numbers = [verdict.get(key) for key in ("estimate", "low", "high")]
        compared = verdict["direction"] in ("higher", "lower", "equal") and not verdict.get("control")
        if not compared or any(each is None or not np.isfinite(each) for each in numbers) or verdict["n"] < 3:
            continue
        n, error = verdict["n"], standard_error(verdict)
        scores = ndtri((np.arange(n) + 0.5) / n)
        shift = 0.0 if rng is None else error * rng.normal()
        drawn[place] = verdict["estimate"] + shift + error * np.sqrt(n) * scores / scores.std(ddof=1)
    p = np.full(max(family, len(drawn)), 1.0)
    p[: len(drawn)] = [MEAN_TEST.p(each) for each in drawn.values()]
    corrected = holm(p)
    for (place, differences), p_holm in zip(drawn.items(), corrected, strict=False):
        verdict = verdicts[place]
        minimum = verdict["minimum_effect"] or 0.0
        verdict["verdict"] = difference_verdict(verdict["direction"], differences, minimum, p_holm, family)
    return {**record, "verdicts": verdicts}


def print_all(found: Mapping[str, Any], console: Console) -> None:
    """The tables: words in brief, the rest row by row."""
    truth = found["words"]
    rows = []
    for kind, k, tau in dict.fromkeys((row["kind"], row["k"], row["tau"]) for row in truth):
        part = [row for row in truth if (row["kind"], row["k"], row["tau"]) == (kind, k, tau)]
        decided = {row["effect"]: 1 - row["words"][OPEN] - row["false"] for row in part if row["seeds"] == 10}
        worst = max(row["false"] for row in part)
        shown = [f"{decided[each]:.2f}" for each in EFFECTS]
        rows.append([kind, k, f"{tau:g}", *shown, f"{worst:.3f}"])
    headers = ["kind", "k", "τ/δ", *(f"{each:+g} δ" for each in EFFECTS), "false, at most"]
    title = "true words of 10 seeds by true effect, and the largest share of false words (5, 10, 20 seeds)"
    _print(headers, rows, console, title)
    brief = {
        "coverage": _worst(
            found["coverage"], ["k", "ratio"], ["pooled", "without_median", "predicted", "plug_in"], min
        ),
        "both_assertions": _worst(found["both_assertions"], ["kinds"], ["any_false"], max),
    }
    for name, title in TITLES.items():
        table = brief.get(name, found[name])
        _print([*table[0]], [[_cell(each) for each in row.values()] for row in table], console, title)
    for key, value in found["summary"].items():
        console.print(f"{key}: {_cell(value)}")


TITLES = {
    "coverage": "how often 95 % intervals hold, at worst over τ and seeds, by the ratio of errors",
    "moderators": "how often a moderator is found",
    "both_assertions": "two assertions of one question, 9 conditions: how often a word is false, at worst",
    "thresholds": "two sets of seeds in the same conditions, by the share of redraws that a word needs",
    "pooled": "headlines by the pooled rule",
    "counted": "headlines by the old rule",
}


def _worst(rows: Rows, keys: Sequence[str], values: Sequence[str], worst: Callable[..., float]) -> Rows:
    """The worst of some columns, by others."""
    groups = dict.fromkeys(tuple(row[key] for key in keys) for row in rows)
    parts = {group: [row for row in rows if tuple(row[key] for key in keys) == group] for group in groups}
    return [
        dict(zip(keys, group, strict=True)) | {value: worst(row[value] for row in part) for value in values}
        for group, part in parts.items()
    ]


def _print(headers: Sequence[str], rows: Sequence[Sequence[Any]], console: Console, title: str) -> None:
    print_table(TextTable([*headers], [[str(each) for each in row] for row in rows]), console, title)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else "–"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def summary(found: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers that must hold."""
    for kind in KINDS:
        yield (
            f"largest share of false words, {kind}",
            max(row["false"] for row in found["words"] if row["kind"] == kind),
        )
    yield "smallest coverage of pooled intervals", min(row["pooled"] for row in found["coverage"])
    yield "the same without the median", min(row["without_median"] for row in found["coverage"])
    yield "smallest coverage of prediction intervals", min(row["predicted"] for row in found["coverage"])
    yield "the same of plug-in ones", min(row["plug_in"] for row in found["coverage"])
    yield "largest share of false words in a question of two", max(row["any_false"] for row in found["both_assertions"])
    yield "headlines that stay, pooled rule", float(np.mean([row["stays"] for row in found["pooled"]]))
    yield (
        "headlines that turn from one decided word to another",
        float(np.mean([row["turns"] for row in found["pooled"]])),
    )
    yield "headlines that stay, old rule", float(np.mean([row["stays"] for row in found["counted"]]))
    pooled = {row["claim"] for row in found["pooled"]}
    same = [row["stays"] for row in found["counted"] if row["claim"] in pooled]
    yield "headlines that stay, old rule, claims of the pooled contrasts", float(np.mean(same))


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the tables and writes the numbers as JSON."""
    parser = CommandParser(prog="python -m benchmarks.words", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--draws", type=int, default=1000, help="simulated questions a row")
    parser.add_argument("--quick", action="store_true", help="as few draws as show that it runs; writes only to --out")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON (docs/statistics/words.json)")
    options = parser.parse_args(arguments)
    if options.draws < 10:
        raise AnalysisError(f"--draws {options.draws}: must be at least 10")
    draws, redraws = (20, 20) if options.quick else (options.draws, 100)
    few = max(10, draws // 10)
    records = {each["study"]: each for each in map(_read, sorted((CLAIMS / "results").glob("*.json")))}
    found: dict[str, Any] = {
        "draws": draws,
        "words": words_against_truth(draws, redraws),
        "coverage": coverage(5 * draws, draws // 4),
        "moderators": moderators(draws),
        "both_assertions": both_assertions(draws),
        "thresholds": kept_by_threshold(few, redraws),
        "pooled": pooled_headlines(records, max(10, draws // 2), 5 * redraws),
        "counted": counted_headlines(records, 2 if options.quick else few),
    }
    found["summary"] = dict(summary(found))
    print_all(found, Terminal())
    target = options.out or (None if options.quick else OUT)
    if target:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
