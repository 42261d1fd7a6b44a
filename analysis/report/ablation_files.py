"""What an ablation keeps beside its page: each run's number, the curves, a description of the columns, and a card.

Whatever is printed can be recomputed from these files without this program; tests/support/recompute_ablation.py does.
"""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from rlexp.analysis.data.metric_spec import BUDGETS, OF_WHOLE_RUNS, direction_sign
from rlexp.analysis.data.run_values import cumulative_cost, resolve_metric
from rlexp.analysis.report.tables import plain
from rlexp.analysis.stats.ablation import ABLATION_FILE, Ablation
from rlexp.analysis.stats.endpoints import UNITS, parse_endpoint
from rlexp.analysis.stats.rates import RESAMPLES

FILES = {
    "runs.csv": "a row a run",
    "curves.csv.gz": "a row a run and evaluation",
    "arms.csv": "a row an arm, at its best value of a tuned key",
    "effects.csv": "a row a part and kind of effect",
}
OTHERS = {"schema.json": "what each column is, and the scale", "ablation.html": "the page; its figures are beside it"}
COLUMNS = {
    "runs.csv": {
        "arm": "the parts that are on",
        "seed": "shared by all arms: runs of one seed are compared with each other",
        "best": "whether the arm is judged at this value of the tuned key; true where none is tuned",
        "folder": "of the run, beside ablation/",
        "status": "of the run; missing: it has no folder",
        "number": "the run's own number, in the metric's units; empty: it has none",
        "on_scale": "that number on the scale of the effects, larger is better; a share that is empty counts as 0",
    },
    "curves.csv.gz": {
        "folder": "of the run",
        "seed": "of the run",
        "step": "after so many steps",
        **{unit: f"what the run had spent by then, in {unit}" for unit in UNITS if unit != "steps"},
    },
    "arms.csv": {
        "arm": "the parts that are on",
        "n": "runs with a number",
        "iqm": "interquartile mean of their numbers",
        "iqm_low": "lower end of its 95 % interval (bootstrap)",
        "iqm_high": "upper end of it",
        "mean": "mean of their numbers",
        "sd": "standard deviation over seeds",
        "value": "value of the tuned key with the best mean on the scale",
        "edge": "the end of the grid at which the best value is, low or high",
        "score": "mean on the scale at the best value, less the luck of its choice, in the metric's units",
        "score_low": "lower end of its 95 % interval",
        "score_high": "upper end of it",
        "plateau_low": "from this value of the tuned key the mean is within the smallest effect of the best",
        "plateau_high": "to this value",
        "octaves": "log2(plateau_high / plateau_low)",
        "octaves_low": "lower end of its 95 % interval",
        "octaves_high": "upper end of it",
        "plateau_open": "the ends of the grid that the plateau reaches, beyond which it may go on: low, high or both",
    },
    "effects.csv": {
        "kind": "which difference of arms it is",
        "parts": "of which part, or two",
        "effect": "on the scale, larger is better",
        "error": "its standard error, t distribution with n − 1 degrees of freedom",
        "n": "seeds",
        "p": "two-sided, of no effect",
        "p_holm": "p by Holm over the effects of this kind",
        "word": "by the interval at the level that Holm leaves it",
        "difference": "the effect in the metric's units, at the level of the arm without the part or of the baseline",
        "low": "lower end of its 95 % interval",
        "high": "upper end of it",
        "speed_up": "completions of the arm without the part until its own end / of the arm with it until there",
        "speed_low": "lower end of its 95 % interval",
        "speed_high": "upper end of it",
        "speed_bound": "whether speed_up is only an upper bound, as the arm never gets there",
    },
}


def run_table(ablation: Ablation) -> pd.DataFrame:
    """Return a row a run: its role (arm, parts, tuned value, whether that is the arm's best), folder, and number."""
    status = dict(zip(ablation.data.runs["name"], ablation.data.runs["status"], strict=True))
    tuned, rows = ablation.declared["tune"], []
    for arm, grid in ablation.grids.items():
        for place, rate in enumerate(grid.rates):
            role = {"arm": ablation.label(arm)} | {name: part in arm for part, name in enumerate(ablation.parts)}
            role |= ({tuned["key"]: rate} if tuned else {}) | {"best": place == grid.best}
            runs = zip(ablation.declared["seeds"], ablation.folders[arm][place], grid.values[place], strict=True)
            for seed, name, scaled in runs:
                number = ablation.metric.values.get(name, float("nan"))
                run = {"folder": name, "status": status.get(name, "missing"), "number": number, "on_scale": scaled}
                rows.append(role | {"seed": seed} | run)
    return pd.DataFrame(rows)


def curve_table(ablation: Ablation) -> pd.DataFrame:
    """Return a row a run and evaluation of the compared metric: what had been spent by then, and its value."""
    data, endpoint = ablation.data, parse_endpoint(ablation.declared["endpoint"])
    asked = [endpoint.metric if endpoint.kind == "cost" else ablation.declared["metric"] or data.score_metric]
    asked += [endpoint.metric] if endpoint.kind == "matched" else []
    metrics = [
        data.score_metric if name in OF_WHOLE_RUNS else name for name in (resolve_metric(data, a) for a in asked)
    ]
    columns = {"folder": data.metrics["name"], "seed": data.metrics["seed"], "step": data.metrics["step"]}
    for unit in dict.fromkeys(["completions", endpoint.unit]):
        if unit != "steps" and BUDGETS[UNITS[unit]] in data.metrics:
            columns[unit] = cumulative_cost(data, UNITS[unit])
    table = pd.DataFrame(columns | {name: data.metrics[name] for name in metrics})
    trained = {name for points in ablation.folders.values() for names in points for name in names}
    return table[table["folder"].isin(trained) & table[metrics].notna().any(axis=1)]


def scale_formula(ablation: Ablation) -> str:
    """Say how a run's number becomes that on the scale."""
    scale = ablation.scale
    share = "number" if scale.attainable == 1 else f"number / {scale.attainable:g}"
    formula = {
        "log-odds": f"log((m·s + 1/2) / (m − m·s + 1/2)), s = {share}, m = {scale.count:g}",
        "log": "log(number), of at least 0.001",
    }.get(scale.name, "number")
    return f"−({formula})" if direction_sign(ablation.metric.better) < 0 else formula


def schema(ablation: Ablation, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Describe the columns of the tables, as a Frictionless data package (specs.frictionlessdata.io).

    Beside the standard keys: `question`, what was asked with its hash, and `scale`, by which numbers are compared.
    """
    extra = {name: f"whether the part {name} is on" for name in ablation.parts}
    if tuned := ablation.declared["tune"]:
        extra[tuned["key"]] = "value of the tuned key"
    resources = []
    for file, table in tables.items():
        trials = {name: f"score to expect: {name.replace('_', ' ')} random values of the tuned key" for name in table}
        about = {name: text for name, text in trials.items() if name.startswith("best_of_")} | extra | COLUMNS[file]
        fields = [
            {"name": name, "type": _type(table[name]), "description": about.get(name, f"the metric {name}")}
            for name in table
        ]
        resources.append(
            {"name": file.partition(".")[0], "path": file, "description": FILES[file], "schema": {"fields": fields}}
        )
    scale = ablation.scale
    return plain(
        {
            "name": "ablation",
            "title": f"Ablation of {', '.join(ablation.parts)}",
            "question": {"hash": question_hash(ablation), "declared": dict(ablation.declared)},
            "metric": {"name": ablation.metric.metric, "number": ablation.metric.aggregation},
            "scale": {
                "name": scale.name,
                "formula": scale_formula(ablation),
                "count": scale.count,
                "attainable": scale.attainable,
                "sign": direction_sign(ablation.metric.better),
                "smallest": ablation.smallest,
            },
            "resources": resources,
        }
    )


def _type(column: pd.Series) -> str:
    kinds = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    return kinds.get(column.dtype.kind, "string")


def question_hash(ablation: Ablation) -> str:
    """Return the hash of what was asked, as it was written down before the first run."""
    return str(json.loads((ablation.folder / ABLATION_FILE).read_text(encoding="utf-8")).get("hash", ""))


def card(ablation: Ablation, findings: list[str], command: str) -> str:
    """Return the card of the folder as Markdown; its first lines tell the Hugging Face Hub which tables there are."""
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
    lines = [
        *("---", "configs:", "- config_name: runs", "  data_files: runs.csv"),
        *("- config_name: curves", "  data_files: curves.csv.gz", "---"),
        f"# Ablation of {', '.join(ablation.parts)}",
        *findings,
        "## What was asked",
        f"`{ABLATION_FILE}` in the folder above was written before the first run. The hash of what it declares is "
        f"`{question_hash(ablation)}`.",
        f"```\n{command}\n```",
        "## What a seed randomizes",
        "The weights at the start, the prompts, the sampling of completions, and the prompts and the sampling of "
        "evaluations. Runs of one seed share all of these, whatever their arm, so arms are compared seed by seed.",
        "## How the numbers were made",
        f"The number of a run is {ablation.metric.metric}: {ablation.metric.aggregation}. On the scale "
        f"({ablation.scale.name}) it is {scale_formula(ablation)}, and larger is better.",
        f"An effect is the mean over seeds of a weighted sum of arms on the scale; its interval is that of the t "
        f"distribution. {choice}Its difference is in the metric's units, at the level of the arm without the part. "
        f"p is corrected by Holm within a kind, and the smallest effect that counts is {ablation.smallest:.3g} on the "
        "scale. "
        "rlexp's docs/ablate.md and docs/questions.md say more.",
        f"Trained by {by}." if by else "",
        "## Files",
        "\n".join(f"- `{file}`: {about}" for file, about in (FILES | OTHERS).items()),
        "## License",
        "rlexp, which made these files, is under the Apache License 2.0.",
    ]
    head, rest = lines[:7], list(filter(None, lines[7:]))
    return "\n".join(head) + "\n\n" + "\n\n".join(rest) + "\n"
