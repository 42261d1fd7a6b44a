"""What an ablation keeps beside its page: each run's number, the curves, both tables of results, a card, a notebook.

The notebook, `templates/recompute_ablation.ipynb`, computes whatever is printed from the files beside it.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from rlexp.analysis.data.metric_spec import BUDGETS, better_direction, direction_sign
from rlexp.analysis.data.run_values import cumulative_cost, resolve_metric
from rlexp.analysis.report.kept_files import (
    NOTEBOOK_FILE,
    PACKAGE_FILE,
    Column,
    Table,
    card_text,
    curves_table,
    runs_table,
    scale_facts,
    write_kept,
)
from rlexp.analysis.report.page import TEMPLATES
from rlexp.analysis.stats.ablation import ABLATION_FILE, Ablation, units_of
from rlexp.analysis.stats.designs import factorial_design
from rlexp.analysis.stats.endpoints import UNITS, parse_endpoint
from rlexp.analysis.stats.rates import RESAMPLES

ARM_COLUMNS = {
    "arm": Column("string", "the parts that are on", required=True),
    "n": Column("integer", "runs with a number", required=True),
    "iqm": Column("number", "interquartile mean of their numbers"),
    "iqm_low": Column("number", "lower end of its 95 % interval (bootstrap)"),
    "iqm_high": Column("number", "upper end of it"),
    "mean": Column("number", "mean of their numbers"),
    "sd": Column("number", "standard deviation over seeds"),
    "value": Column("number", "value of the tuned key with the best mean on the scale"),
    "edge": Column("string", "the end of the grid at which the best value is", allowed=("", "low", "high")),
    "score": Column(
        "number", "mean on the scale at the best value, less the luck of its choice, in the metric's units"
    ),
    "score_low": Column("number", "lower end of its 95 % interval"),
    "score_high": Column("number", "upper end of it"),
    "plateau_low": Column("number", "from this value on the mean is within the smallest effect of the best"),
    "plateau_high": Column("number", "to this value"),
    "octaves": Column("number", "log2(plateau_high / plateau_low)"),
    "octaves_low": Column("number", "lower end of its 95 % interval"),
    "octaves_high": Column("number", "upper end of it"),
    "plateau_open": Column("string", "the ends of the grid that it reaches", allowed=("", "low", "high", "both")),
    "collapsed": Column("integer", "runs at the best value that collapsed or diverged"),
    "collapsed_of": Column("integer", "of as many that say whether they did"),
    "collapse_p": Column(
        "number", "exact sign test (McNemar) against the baseline, or the recipe, over the same seeds"
    ),
    "collapse_q": Column("number", "p by Benjamini and Hochberg over these and the interactions in effects.csv"),
}
EFFECT_COLUMNS = {
    "kind": Column("string", "which difference of arms it is", required=True),
    "parts": Column("string", "of which part, or two", required=True),
    "effect": Column("number", "on the scale, larger is better"),
    "error": Column("number", "its standard error, t distribution with n − 1 degrees of freedom"),
    "n": Column("integer", "seeds", required=True),
    "p": Column("number", "two-sided, of no effect"),
    "p_holm": Column("number", "p by Holm over the effects of this kind; empty for interactions"),
    "q": Column("number", "p of an interaction, by Benjamini and Hochberg over all of them and collapse_p in arms.csv"),
    "word": Column("string", "by the interval at the level that Holm, or q, leaves it", required=True),
    "difference": Column(
        "number", "the effect in the metric's units, at the level of the arm without the part or of the baseline"
    ),
    "low": Column("number", "lower end of its 95 % interval"),
    "high": Column("number", "upper end of it"),
    "margin_low": Column("number", "below this a difference counts, in the metric's units at the same level"),
    "margin_high": Column("number", "above this a difference counts"),
    "speed_up": Column(
        "number", "completions of the arm without the part until its own end / of the arm with it until there"
    ),
    "speed_low": Column("number", "lower end of its 95 % interval"),
    "speed_high": Column("number", "upper end of it"),
    "speed_bound": Column("boolean", "whether speed_up is only an upper bound, as the arm never gets there", True),
}
OTHERS = {
    PACKAGE_FILE: "what each column is, the scale, and what was asked",
    NOTEBOOK_FILE: "computes what was printed from these files, without rlexp",
    "ablation.html": "the page; its figures are beside it",
}
NOTEBOOK = TEMPLATES / "recompute_ablation.ipynb"


def write_ablation(ablation: Ablation, place: Path, findings: list[str], command: str) -> list[Path]:
    """Write all that an ablation keeps into a folder that is there; return the files."""
    trials = [name for name in ablation.levels if name.startswith("best_of_")]
    arm_columns = ARM_COLUMNS | {
        name: Column("number", f"score to expect: {name.replace('_', ' ')} random values of the tuned key")
        for name in trials
    }
    tables = {
        "runs.parquet": run_table(ablation),
        "curves.parquet": curve_table(ablation),
        "arms.csv": Table(
            ablation.levels.reset_index(), "a row an arm, at its best value of a tuned key", arm_columns, ("arm",)
        ),
        "effects.csv": Table(ablation.effects, "a row a part and kind of effect", EFFECT_COLUMNS, ("kind", "parts")),
    }
    about = {name: table.about for name, table in tables.items()} | OTHERS
    text = card_text(f"Ablation of {', '.join(ablation.parts)}", about, card_sections(ablation, findings, command))
    return write_kept(place, tables, facts(ablation), text, NOTEBOOK.read_text(encoding="utf-8"))


def run_table(ablation: Ablation) -> Table:
    """Return a row a run: its role (arm, parts, tuned value, whether that is the arm's best), folder, and number."""
    tuned, rows = ablation.declared["tune"], []
    for arm, grid in ablation.grids.items():
        for place, rate in enumerate(grid.rates):
            role = {"arm": ablation.label(arm)} | {name: part in arm for part, name in enumerate(ablation.parts)}
            role |= ({tuned["key"]: rate} if tuned else {}) | {"best": place == grid.best}
            runs = zip(units_of(ablation.declared), ablation.folders[arm][place], grid.values[place], strict=True)
            rows += [role | {"seed": seed, "folder": name, "on_scale": scaled} for seed, name, scaled in runs]
    on = {"arm": ARM_COLUMNS["arm"]}
    on |= {name: Column("boolean", f"whether the part {name} is on", required=True) for name in ablation.parts}
    key = tuned["key"] if tuned else None
    return runs_table(pd.DataFrame(rows), ablation.data.runs, ablation.metric.values, key, on)


def compared_curve(ablation: Ablation) -> str:
    """Return the metric that runs are compared by, unless their endpoint names another, and of which speed-ups are."""
    return resolve_metric(ablation.data, ablation.declared["metric"] or ablation.data.score_metric)


def curve_table(ablation: Ablation) -> Table:
    """Return a row a run and evaluation: what had been spent by then, the compared metric, and the endpoint's own."""
    data, endpoint = ablation.data, parse_endpoint(ablation.declared["endpoint"])
    metrics = [compared_curve(ablation), *([resolve_metric(data, endpoint.metric)] if endpoint.metric else [])]
    columns = {"folder": data.metrics["name"], "seed": data.metrics["seed"], "step": data.metrics["step"]}
    for unit in dict.fromkeys(["completions", endpoint.unit]):
        if unit != "steps" and BUDGETS[UNITS[unit]] in data.metrics:
            columns[unit] = cumulative_cost(data, UNITS[unit])
    table = pd.DataFrame(columns | {name: data.metrics[name] for name in metrics})
    trained = {name for points in ablation.folders.values() for names in points for name in names}
    return curves_table(table[table["folder"].isin(trained) & table[metrics].notna().any(axis=1)])


def facts(ablation: Ablation) -> dict[str, Any]:
    """Return what a data package says beside its tables: what was asked with its hash, the metric, the scale."""
    scale, k = ablation.scale, len(ablation.parts)
    curve = compared_curve(ablation)
    factorial = factorial_design(k).arms if "factorial" in ablation.declared["designs"] else []
    return {
        "name": "ablation",
        "title": f"Ablation of {', '.join(ablation.parts)}",
        "question": {
            "hash": question_hash(ablation),
            "declared": dict(ablation.declared),
            "factorial": [ablation.label(arm) for arm in factorial],
        },
        "metric": {
            "name": ablation.metric.metric,
            "number": ablation.metric.aggregation,
            "late_share": ablation.data.score_share,
            "curve": curve,
            "curve_sign": direction_sign(better_direction(curve, ablation.data.score_metric)),
        },
        "scale": scale_facts(scale, direction_sign(ablation.metric.better)) | {"smallest": ablation.smallest},
    }


def question_hash(ablation: Ablation) -> str:
    """Return the hash of what was asked, as it was written down before the first run."""
    return str(json.loads((ablation.folder / ABLATION_FILE).read_text(encoding="utf-8")).get("hash", ""))


def card_sections(ablation: Ablation, findings: list[str], command: str) -> dict[str, list[str]]:
    """Return the paragraphs of the card by heading."""
    runs, tuned = ablation.data.runs, ablation.declared["tune"]
    by = "; ".join(
        f"{name} {', '.join(map(str, found))}"
        for name in ("commit", "machine")
        if len(found := runs[name].dropna().unique())
    )
    choice = (
        f"An arm is judged at the {tuned['key']} with its best mean. The choice is made anew in {RESAMPLES:,} "
        "bootstrap draws of the seeds: its luck is taken off the effect, and its scatter is in the error. "
        if tuned
        else ""
    )
    formula = scale_facts(ablation.scale, direction_sign(ablation.metric.better))["formula"]
    return {
        "": findings,
        "What was asked": [
            f"`{ABLATION_FILE}` in the folder above was written before the first run. The hash of what it declares is "
            f"`{question_hash(ablation)}`.",
            f"```\n{command}\n```",
        ],
        "What a seed randomizes": [
            "The weights at the start, the prompts, the sampling of completions, and the prompts and the sampling of "
            "evaluations. Runs of one seed share all of these, whatever their arm, so arms are compared seed by seed.",
        ],
        "How the numbers were made": [
            f"The number of a run is {ablation.metric.metric}: {ablation.metric.aggregation}. On the scale "
            f"({ablation.scale.name}) it is {formula}, and larger is better.",
            f"An effect is the mean over seeds of a weighted sum of arms on the scale; its interval is that of the t "
            f"distribution. {choice}Its difference is in the metric's units, at the level of the arm without the part. "
            "p is corrected by Holm within a kind, that of interactions and collapses by Benjamini and Hochberg over "
            f"all of them, and the smallest effect that counts is {ablation.smallest:.3g} on the scale. "
            f"`{NOTEBOOK_FILE}` computes all of it from these files; rlexp's docs/ablate.md and "
            "docs/questions.md say more.",
            f"Trained by {by}." if by else "",
        ],
    }
