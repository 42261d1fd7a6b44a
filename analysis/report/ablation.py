"""An ablation as tables on the terminal, files, a figure and one page."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.metric_spec import direction_note, direction_sign
from rlexp.analysis.data.read import inner, unlinked
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.ablation import ablation_figure
from rlexp.analysis.figures.layout import caption_of
from rlexp.analysis.figures.rates import response_figure, short_rate
from rlexp.analysis.report.ablation_files import write_ablation
from rlexp.analysis.report.page import color_variables, inline_svg, template
from rlexp.analysis.report.tables import Terminal, TextTable, markdown, plain, print_table
from rlexp.analysis.stats.ablation import SECONDARY, Ablation, units_of
from rlexp.analysis.stats.arms import ScaledRuns
from rlexp.analysis.stats.formatting import (
    DASH,
    decimal_places,
    format_fraction,
    format_interval,
    format_number,
    format_p,
)
from rlexp.analysis.stats.noise import scores_statement
from rlexp.analysis.stats.tuned import tuning_table

EXPLAINED = {
    "whole recipe": "all parts − none",
    "added first": "the part alone − the baseline",
    "removed last": "the recipe − the recipe without the part",
    "step": "this rung of the ladder − the one before",
    "main effect": "with the part − without it, over all settings of the others",
    "interaction": "what a part is worth beside the other − without it",
    "Shapley value": "what the part adds, over all orders; they sum to the whole recipe",
}


def publish(ablation: Ablation, console: Console | None = None) -> list[Path]:
    """Print what came out, and write it below the ablation's folder; return the files."""
    console = console or Terminal()
    for line in findings(ablation):
        console.print(Text(line))
    console.print()
    for kind, table in effect_tables(ablation, short=True).items():
        print_table(table, console, f"{kind}: {EXPLAINED[kind]}")
    for heading, table in arm_tables(ablation).items():
        print_table(table, console, heading)
    for note in ablation.notes:
        console.print(Text(f"- {note}"))
    paths = write_files(ablation)
    console.print(Text(f"page: {next(path for path in paths if path.suffix == '.html')}"))
    console.print(Text(str(ablation.folder)))
    return paths


def findings(ablation: Ablation) -> list[str]:
    """Say in sentences what was asked and which parts matter."""
    units = count(len(units_of(ablation.declared)), ablation.data.unit)
    against = " ".join(ablation.declared["against"]) or "the default run"
    tuned = ablation.declared["tune"]
    how = f", each arm at its best {tuned['key']}" if tuned else ""
    lines = [
        f"What was asked: what are {count(len(ablation.parts), 'part')} worth, added to {against}? "
        f"{count(len(ablation.arms), 'arm')} of {units} each{how}, by {ablation.metric.metric}"
        f"{direction_note(ablation.metric.better)}."
    ]
    digits = decimal_places(ablation.effects["difference"])
    whole = ablation.effects[ablation.effects["kind"] == "whole recipe"]
    for _, row in whole.iterrows():
        lines.append(f"What came out: the whole recipe: {row['word']}, {interval(row, digits)}.")
    words = {kind: rows for kind, rows in ablation.effects.groupby("kind", sort=False) if kind in ablation.kinds}
    for kind, rows in words.items():
        by_word = {word: ", ".join(of_word["parts"]) for word, of_word in rows.groupby("word", sort=False)}
        lines.append(f"{kind.capitalize()}: {'; '.join(f'{word}: {parts}' for word, parts in by_word.items())}.")
    note, size = scale_note(ablation), float(np.abs(ablation.scale.change(ablation.smallest, level(ablation))))
    in_natural = f"{note}, {size:,.3g} at the baseline's level" if note else ""
    if note and (largest := float(ablation.effects["margin_high"].max())) > 1.1 * size:
        in_natural += f", up to {largest:,.3g} at that of others"
    lines.append(
        f"How sure: {noise(ablation)}The smallest effect that counts is {ablation.smallest:.3g}{in_natural}. “Open” is "
        "not “no effect”: more seeds would tell."
    )
    return [in_units(line, ablation.data.unit) for line in lines]


def as_json(ablation: Ablation) -> dict[str, object]:
    """Return everything that is printed for programs, by `ablation.schema.json`."""
    return plain(
        {
            "folder": str(ablation.folder),
            "parts": list(ablation.parts),
            "designs": list(ablation.declared["designs"]),
            "metric": ablation.metric.metric,
            "better": ablation.metric.better,
            "endpoint": ablation.declared["endpoint"],
            "scale": ablation.scale.name,
            "smallest": ablation.smallest,
            "seeds": len(units_of(ablation.declared)),
            "arms": ablation.levels.reset_index().to_dict("records"),
            "effects": ablation.effects.to_dict("records"),
            "findings": findings(ablation),
            "notes": ablation.notes,
        }
    )


def noise(ablation: Ablation) -> str:
    """Say how far luck of the seed moves a run, of the arms at their best values; empty where nothing is known."""
    sign = direction_sign(ablation.metric.better)
    best = [grid.values[grid.best] for grid in ablation.grids.values()]
    said = scores_statement([ablation.scale.inverse(sign * np.array(best)).T], ablation.metric.metric)
    return f"{said} " * bool(said)


def scale_note(ablation: Ablation) -> str:
    """Name the scale, where it is not that of the metric's own units."""
    return f" ({ablation.scale.name})" if ablation.scale.name != "identity" else ""


def level(ablation: Ablation) -> float:
    mean = ablation.levels["mean"]
    return float(mean.get("baseline", mean.iloc[0]))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def interval(row: pd.Series, digits: int) -> str:
    return format_interval(row["difference"], row["low"], row["high"], digits, signed=True)


def speed(row: pd.Series, short: bool) -> str:
    """`1.4× [1.1, 2.0]`, or `1.4×`; `< 1.3×` where the arm never gets to where the other one ends."""
    if np.isnan(row["speed_up"]):
        return DASH
    if row["speed_bound"]:
        return f"< {row['speed_up']:.2g}×"
    ends = "" if short else f" [{row['speed_low']:.2g}, {row['speed_high']:.2g}]"
    return f"{row['speed_up']:.2g}×{ends}"


def effect_tables(ablation: Ablation, short: bool = False) -> dict[str, TextTable]:
    """Return a table for each kind of effect, a row a part; short ones without the interval of the speed-up."""
    digits = decimal_places(ablation.effects["difference"])
    tables = {}
    for kind, rows in ablation.effects.groupby("kind", sort=False):
        with_speed = bool(rows["speed_up"].notna().any())
        name, column = ("q (BH)", "q") if kind in SECONDARY else ("p (Holm)", "p_holm")
        headers = ["part", "difference [95 %]", name, *["speed-up"] * with_speed, ""]
        cells = [
            [
                row["parts"],
                interval(row, digits),
                format_p(row[column]),
                *[speed(row, short)] * with_speed,
                row["word"],
            ]
            for _, row in rows.iterrows()
        ]
        tables[kind] = TextTable(headers, cells)
    return tables


def level_table(ablation: Ablation) -> TextTable:
    """Return a row an arm: how good it is, and where."""
    levels, tuned = ablation.levels, ablation.declared["tune"]
    digits = decimal_places(levels["mean"])
    fallen = ["collapsed"] if "collapsed" in levels else []
    headers = ["arm", "n", "IQM [95 %]", *([f"best {tuned['key']}"] if tuned else []), *fallen]
    rows = []
    for name, row in levels.iterrows():
        at = [f"{row['value']:.3g}{' ▲ ' * bool(row['edge'])}{row['edge']}"] if tuned else []
        rows.append([name, f"{row['n']:g}", format_interval(row["iqm"], row["iqm_low"], row["iqm_high"], digits), *at])
        rows[-1] += [format_fraction(row["collapsed"], row["collapsed_of"])] if fallen else []
    return TextTable(headers, rows)


def arm_tables(ablation: Ablation) -> dict[str, TextTable]:
    """Return the tables that have a row an arm, by their headings."""
    tables = {f"arms: {ablation.metric.metric}{direction_note(ablation.metric.better)}": level_table(ablation)}
    if tuned := ablation.declared["tune"]:
        near = f"the mean is within {ablation.smallest:.3g}{scale_note(ablation)} of the best"
        heading = f"tuning {tuned['key']}: where {near}; the score of the best of 1, 2, 3, all values tried"
        tables[heading] = tuned_table(ablation)
    return tables


def tuned_table(ablation: Ablation) -> TextTable:
    """Return a row an arm: its plateau, with ≤ or ≥ where it reaches an end of the grid, and what fewer trials give."""
    table = tuning_table(ablation)
    digits, tried = decimal_places(table["score"]), [k for k in (1, 2, 3) if f"best_of_{k}" in table]
    rows = []
    for name, row in table.iterrows():
        ends = [short_rate(row[f"plateau_{end}"]) for end in ("low", "high")]
        low, high = (
            f"{sign} {text}" if row["plateau_open"] in (end, "both") else text
            for sign, text, end in zip("≤≥", ends, ("low", "high"), strict=True)
        )
        octaves = f"{'≥ ' * bool(row['plateau_open'])}{row['octaves']:.1f}"
        numbers = [*(row[f"best_of_{k}"] for k in tried), row["score"]]
        rows.append([str(name), f"{low} to {high}", octaves, *(format_number(each, digits) for each in numbers)])
    return TextTable(["arm", "plateau", "octaves", *(f"of {k}" for k in tried), "of all"], rows)


def figures(ablation: Ablation) -> dict[str, tuple[Figure, str, str]]:
    """Return the figures by name, each with its heading and its caption."""
    metric = f"difference in {ablation.metric.metric}{direction_note(ablation.metric.better)}"
    caption = "95 % intervals; gray: smaller than counts."
    if scale_note(ablation):
        caption = f"{caption[:-1]}, {ablation.smallest:.3g}{scale_note(ablation)} at the level of the arm without it."
    found = {
        "parts": (
            ablation_figure(ablation.effects, ablation.kinds, metric, caption),
            "What each part is worth",
            caption,
        )
    }
    if (tuned := ablation.declared["tune"]) and all(len(grid.rates) > 1 for grid in ablation.grids.values()):
        by_name = {ablation.label(arm): grid for arm, grid in ablation.grids.items()}
        baseline = "baseline" if "baseline" in by_name else next(iter(by_name))
        runs = ScaledRuns(ablation.metric, ablation.scale)
        labels = tuned["key"], f"{runs.metric.metric}{direction_note(runs.metric.better)}"
        figure = response_figure(by_name, baseline, labels, ablation.smallest, runs.natural)
        found["rates"] = figure, f"Each arm over {tuned['key']}", caption_of(figure)
    return found


def write_files(ablation: Ablation) -> list[Path]:
    """Write tables, figures (SVG, PDF, PNG), the page, and `write_ablation`'s files into `<folder>/ablation/`."""
    place = inner(ablation.folder, "ablation")
    place.mkdir(parents=True, exist_ok=True)
    drawn = figures(ablation)
    text = "\n".join([*findings(ablation), ""])
    for kind, table in effect_tables(ablation).items():
        text += f"\n**{kind}** ({EXPLAINED[kind]})\n\n{markdown(table)}"
    kept = ablation
    if ablation.declared["tune"]:
        tuning = tuning_table(ablation).drop(columns=["value", "edge"])
        kept = ablation._replace(levels=ablation.levels.join(tuning))
    content = {
        "declared": ablation.declared,
        "metric": ablation.metric.metric,
        "scale": ablation.scale.name,
        "smallest": ablation.smallest,
        "levels": kept.levels.reset_index().to_dict("records"),
        "effects": ablation.effects.to_dict("records"),
        "notes": ablation.notes,
    }
    arms = "".join(f"\n**{name}**\n\n{markdown(table)}" for name, table in arm_tables(ablation).items())
    texts = {
        "ablation.md": text + arms,
        "ablation.json": json.dumps(plain(content), indent=2) + "\n",
        "ablation.html": page(ablation, drawn),
    }
    for name, each in texts.items():
        unlinked(place / name).write_text(each, encoding="utf-8")
    paths = write_ablation(kept, place, findings(ablation), command(ablation)) + [place / name for name in texts]
    with layout.theme():
        return paths + [
            path for name, (figure, *_) in drawn.items() for path in layout.save_figure(figure, place / name)
        ]


def page(ablation: Ablation, drawn: dict[str, tuple[Figure, str, str]]) -> str:
    """Return one self-contained page; the template escapes all texts."""
    return template("ablation.html").render(
        title=ablation.folder.resolve().name,
        light_marks=color_variables(is_dark=False),
        dark_marks=color_variables(is_dark=True),
        swatches={},
        findings=findings(ablation),
        tables={f"{kind}: {EXPLAINED[kind]}": table for kind, table in effect_tables(ablation).items()},
        arms=arm_tables(ablation),
        figures=[
            {"heading": heading, "caption": caption, "svg": inline_svg(figure, name, f"{heading}. {caption}")}
            for name, (figure, heading, caption) in drawn.items()
        ],
        notes=ablation.notes,
        command=command(ablation),
    )


def command(ablation: Ablation) -> str:
    """Return the command that goes on with the folder."""
    declared = ablation.declared
    words = ["rlexp", "ablate", "--parts", ",".join(ablation.parts)]
    words += ["--against", *declared["against"]] if declared["against"] else []
    for design in declared["designs"]:
        words.append(f"--{design}")
        if design == "ladder" and declared["order"]:
            words.append(",".join(ablation.parts[part] for part in declared["order"]))
    if tuned := declared["tune"]:
        words += ["--tune", f"{tuned['key']}={','.join(f'{value:g}' for value in tuned['values'])}"]
    words += ["--starts", str(len(declared["starts"]))] if declared.get("starts") else []
    seeds = declared["seeds"]
    words += ["--seeds", str(len(seeds)) if seeds == [*range(len(seeds))] else ",".join(map(str, seeds))]
    for name in ("budget", "metric", "smallest"):
        words += [f"--{name}", str(declared[name])] if declared[name] else []
    words += ["--endpoint", declared["endpoint"]] if declared["endpoint"] != "final" else []
    words += ["--with", *declared["overrides"]] if declared["overrides"] else []
    return shlex.join([*words, "--folder", str(ablation.folder)])
