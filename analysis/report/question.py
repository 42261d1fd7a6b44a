"""An answered question as text on the terminal, files, figures and one page."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.read import inner, unlinked
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.layout import caption_of
from rlexp.analysis.figures.question import ForestRow, forest, is_cut
from rlexp.analysis.figures.rates import response_figure
from rlexp.analysis.report.page import color_variables, inline_svg, template
from rlexp.analysis.report.question_files import write_question
from rlexp.analysis.report.tables import Terminal, TextTable, csv_text, markdown, plain, print_table
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.analysis.stats.formatting import DASH, format_p
from rlexp.analysis.stats.noise import scores_statement
from rlexp.analysis.stats.pooling import pool
from rlexp.analysis.stats.question import QUESTION_FILE, Answer, Answered
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.words import EQUIVALENT, NOT_INFERIOR, SUPERIOR, errors_to_pool
from rlexp.runfolder.variants import parse_override, split_commas

UNITS = {"log-odds": "points", "log": "ratio"}
DROPPED = "dropped"
LABEL = 30  # characters of a line beside a curve


def publish(answer: Answer, console: Console | None = None) -> list[Path]:
    """Print the answer, and write it below the question's folder; return the files."""
    console = console or Terminal()
    for line in findings(answer):
        console.print(Text(line))
    console.print()
    for name, table in tables(answer).items():
        print_table(table, console, name)
    for note in answer.notes:
        console.print(Text(f"- {note}"))
    paths = write_files(answer)
    console.print(Text(f"page: {next(path for path in paths if path.suffix == '.html')}"))
    console.print(Text(str(answer.folder)))
    return paths


def number(answered: Answered) -> str:
    return parse_endpoint(answered.declared["endpoint"]).label(answered.metric)


def main_number(answer: Answer) -> str:
    return parse_endpoint(answer.declared["endpoint"]).label(answer.conditions[0].main.metric.metric)


def names(answered: Answered) -> tuple[str, str]:
    return tuple("+".join(answered.declared[side]) or "default" for side in ("arm", "versus"))


def claim(answered: Answered) -> str:
    """Say what an assertion claims, in a clause."""
    (arm, versus), of, size = names(answered), number(answered), natural_size(answered)
    direction = answered.declared["direction"]
    verb, comparatives = "has", {"higher": "a higher", "lower": "a lower"}
    if parse_endpoint(answered.declared["endpoint"]).kind == "cost":
        verb, comparatives = "needs", {"higher": "more", "lower": "fewer"}
    other = comparatives["lower" if direction == "higher" else "higher"]
    return {
        SUPERIOR: f"{arm} {verb} {comparatives.get(direction)} {of} than {versus}",
        EQUIVALENT: f"{arm} and {versus} {'need' if verb == 'needs' else 'have'} the same {of}, within {size}",
        NOT_INFERIOR: f"{arm} {verb} not {other} {of} than {versus}, by {size}",
    }[answered.declared["kind"]]


def natural_text(answered: Answered, effect: float) -> str:
    """Return an effect at the mean level as `+1.2 points`, `×1.3`, or in the metric's units."""
    if answered.scale.name == "log":
        return f"×{np.exp(effect):.3g}"
    unit = UNITS.get(answered.scale.name, "")
    return f"{natural(answered.scale, effect, answered.level):+.3g} {unit}".rstrip().replace("-", "−")


def natural(scale: Scale, effect: float, level: float) -> float:
    """Return an effect on a scale as points of a share, a ratio of amounts, or in the metric's units."""
    if scale.name == "log":
        return float(np.exp(effect))
    change = float(scale.change(effect, level))
    return 100 * change if scale.name == "log-odds" else change


def natural_size(answered: Answered) -> str:
    """Return the smallest effect that counts: `5.9 points`, `25 %` of an amount, or in the metric's units.

    It is that of the side which is claimed, as a share that rises from .3 moves by more than one that falls: the loss
    that would count, where the claim is that there is none. Without a level it is on the scale.
    """
    side = -answered.sign if answered.declared["kind"] == NOT_INFERIOR else answered.sign
    size = natural(answered.scale, side * answered.smallest, answered.level)
    if answered.scale.name == "log":
        return f"{100 * abs(size - 1):.3g} %"
    if not np.isfinite(answered.level):
        return f"{answered.smallest:.3g} ({answered.scale.name})"
    return f"{abs(size):.3g}{' points' * (answered.scale.name == 'log-odds')}"


def p_text(p: float) -> str:
    """Return `p = 0.020`, or `p < 0.001`."""
    text = format_p(p)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


def shown(answered: Answered) -> str:
    """Return the pooled effect, arm − versus, in natural units, with the interval that the word rests on."""
    judgment, sign = answered.judgment, answered.sign
    ends = sorted((sign * judgment.low, sign * judgment.high))
    text = answered.scale.show(sign * float(judgment.pooled.estimate), *ends, answered.level)
    corrected = " by Holm" * (judgment.p_holm != judgment.p)
    return f"{text} ({100 * judgment.confidence:g} % interval; {p_text(judgment.p_holm)}{corrected})"


def findings(answer: Answer) -> list[str]:
    """Say what was asked, what came out, and how sure that is."""
    declared, conditions = answer.declared, len(answer.declared["conditions"])
    tuned = f", each arm at its best {declared['tune']['key']}" if declared["tune"] else ""
    source = f" Source: {declared['source']}." if declared["source"] else ""
    seeds = sorted({len(row) for each in answer.conditions for rows in each.names.values() for row in rows})
    lines = [
        f"What was asked: {declared['question']}{source} {count(conditions, 'condition')} of "
        f"{' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} paired seeds{tuned}."
    ]
    for place, answered in enumerate(answer.assertions, 1):
        lines.append(f"What came out: {f'{place}. ' * (len(answer.assertions) > 1)}{outcome(answered)}")
    noise = f"{scores_statement(best_scores(answer), main_number(answer))} ".lstrip()
    lines.append(
        f"How sure: {noise}The smallest effect that counts is {sizes(answer)}. “Open” is not “no effect”: more "
        "seeds or conditions would tell."
    )
    return [in_units(line, answer.data.unit) for line in lines]


def outcome(answered: Answered) -> str:
    """Say the word on an assertion, the effect, and what moderates it."""
    judgment = answered.judgment
    text = f"{claim(answered)}: {judgment.text}"
    if judgment.pooled is None:
        dropped = len(judgment.dropped)
        return f"{text}: {dropped} of {count(len(answered.effects), 'condition')} fail a check (below)."
    text += f": {shown(answered)}, in {judgment.pooled.scope}."
    if np.isfinite(judgment.predicted.low):
        ends = sorted(answered.sign * end for end in judgment.predicted)
        low, high = (natural_text(answered, end) for end in ends)
        text += f" In 95 of 100 more conditions like these it lies in [{low}, {high}]."
    for each in judgment.moderators:
        levels = ", ".join(
            f"{level}: {natural_text(answered, answered.sign * estimate)}"
            for level, estimate in zip(each.test.levels, each.test.estimates, strict=True)
        )
        said = "It depends on" if each.depends else "That it depends on"
        rest = "" if each.depends else " is not shown"
        text += f" {said} {each.name}{rest} ({levels}; {p_text(each.p_holm)})."
    for name, why in judgment.untested.items():
        text += f" {name} was not tested: {why}."
    if judgment.dropped:
        text += f" Dropped: {count(len(judgment.dropped), 'condition')} (below)."
    return text


def sizes(answer: Answer) -> str:
    found = (
        natural_size(each)
        if each.scale.name == "log" or not np.isfinite(each.level)
        else f"{each.smallest:.3g} ({each.scale.name}), {natural_size(each)} at {each.level:.3g}"
        for each in answer.assertions
    )
    return "; ".join(dict.fromkeys(found))


def best_scores(answer: Answer) -> list[np.ndarray]:
    """Return the question's number of each arm at its best, `[seeds, arms]`, by condition."""
    found = []
    for condition in (each for each in answer.conditions if not each.lacks):
        best = np.array([grid.values[grid.best] for grid in condition.grids.values()])
        found.append(condition.main.scale.inverse(condition.main.sign * best).T)
    return found


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def tables(answer: Answer) -> dict[str, TextTable]:
    """Return a table an assertion, arm less versus in a row a condition, and one a pair of all that is secondary."""
    found = {}
    for place, answered in enumerate(answer.assertions, 1):
        tuned, rows = answer.declared["tune"], []
        for effect in answered.effects:
            low, high = effect.found.interval()
            at = f"{effect.values[0]:.3g}, {effect.values[1]:.3g}" if effect.found.n else DASH
            values = [at] if tuned else []
            text = (
                DASH
                if not np.isfinite(effect.found.error)
                else answered.scale.show(effect.found.value, low, high, effect.level)
            )
            arrived = [effect.arrived or DASH] if answered.effects[0].arrived else []
            rows.append(
                [spaced(effect.condition), str(effect.found.n), *values, *arrived, text, effect.fails and DROPPED]
            )
        best = [f"best {tuned['key']}"] if tuned else []
        arrived = ["arrived"] if answered.effects[0].arrived else []
        compared = "ratio [95 %]" if answered.scale.name == "log" else "difference [95 %]"
        headers = ["condition", "n", *best, *arrived, compared, ""]
        found[f"{place}. {claim(answered)}: {answered.judgment.text}"] = TextTable(headers, rows)
    if dropped := dropped_conditions(answer):
        found["dropped"] = TextTable(["condition", "why"], dropped)
    for (arm, versus), numbers in answer.secondary.groupby(["arm", "versus"], sort=False):
        rows = [[each.metric, each.shown, format_p(each.p), format_p(each.q)] for each in numbers.itertuples()]
        title = f"secondary, {arm} − {versus}, all conditions (q: false-discovery rate, Benjamini and Hochberg)"
        found[title] = TextTable(["number", "difference [95 %]", "p", "q"], rows)
    return found


def spaced(condition: str) -> str:
    """Return a condition's name with room to break it."""
    return ", ".join(split_commas(condition))


def told_apart(conditions: Sequence[str], first: Sequence[str] = ()) -> dict[str, str]:
    """Return each condition's name with no more than tells it from the others; keys in ``first`` are tried first."""
    levels = {name: dict(map(parse_override, split_commas(name))) for name in conditions}
    chosen: list[str] = []
    for key in dict.fromkeys([*first, *(key for each in levels.values() for key in each)]):
        told = [len({tuple(map(each.get, keys)) for each in levels.values()}) for keys in (chosen, [*chosen, key])]
        chosen += [key] * (told[1] > told[0])
    return {
        name: ",".join(f"{key}={value}" for key, value in each.items() if key in chosen) or name
        for name, each in levels.items()
    }


def dropped_conditions(answer: Answer) -> list[list[str]]:
    """Return what was dropped and why, once for all assertions that drop it for the same reason."""
    found = {(effect.condition, effect.fails) for answered in answer.assertions for effect in answered.effects}
    return [[spaced(name), why] for name, why in sorted(found) if why]


def figures(answer: Answer) -> dict[str, tuple[Figure, str, str]]:
    """Return the figures by name, each with its heading and its caption; none of an assertion without any effect."""
    found = {}
    for place, (answered, assertion) in enumerate(
        zip(answer.assertions, as_json(answer)["assertions"], strict=True), 1
    ):
        if any(effect.found.n for effect in answered.effects):
            figure = effects_figure(assertion, answered.scale, number(answered))
            found[f"assertion_{place}"] = figure, f"{place}. {claim(answered)}", caption_of(figure)
    if answer.declared["tune"]:
        for place, condition in enumerate(answer.conditions, 1):
            if len(condition.values) > 1 and not condition.lacks:
                grids = {
                    arm if budget is None else f"{arm}, {budget}": grid
                    for (arm, budget), grid in condition.grids.items()
                }
                key, main = answer.declared["tune"]["key"], condition.main
                labels = key, fill(main_number(answer), LABEL)
                figure = response_figure(grids, next(iter(grids)), labels, condition.smallest, main.natural)
                found[f"rates_{place}"] = figure, f"Each arm over {key}: {condition.name}", caption_of(figure)
    return found


def effects_figure(assertion: Mapping[str, Any], scale: Scale, number: str) -> Figure:
    """Draw an assertion of ``as_json``: a row a condition and the pooled effect, in natural units.

    Args:
        assertion: as the file has it.
        scale: of its effects.
        number: what they are of, as the axis says it.
    """
    level = assertion["level"]

    def row(name: str, ends: Sequence[float | None], level: float, valid: bool = True) -> ForestRow:
        shown = (np.nan if end is None else natural(scale, end, level) for end in ends)
        margins = tuple(natural(scale, sign * assertion["smallest"], level) for sign in (-1, 1))
        return ForestRow(name, *shown, margins, valid)

    names = {each["condition"]: each["condition"] for each in assertion["conditions"]}
    if any(is_cut(name) for name in names):
        names = told_apart([*names], [each["name"] for each in assertion["moderators"]])
    rows = [
        row(
            names[each["condition"]], [each[end] for end in ("effect", "low", "high")], each["level"], not each["fails"]
        )
        for each in assertion["conditions"]
    ]
    pooled = predicted = None
    if assertion["effect"] is not None:
        used = [each for each in assertion["conditions"] if not each["fails"]]
        effects, errors, seeds = (np.array([each[key] for each in used], float) for key in ("effect", "error", "n"))
        ends = pool(effects, errors_to_pool(errors, assertion["smallest"]), seeds - 1).interval()
        pooled = row("", [assertion["effect"], *ends], level)
        if None not in assertion["predicted"]:
            predicted = tuple(natural(scale, end, level) for end in assertion["predicted"])
    caption = "95 % intervals. Diamond: pooled; thin line: one more condition (95 %). Gray: smaller than counts."
    caption += " Open and gray: dropped." if assertion["dropped"] else ""
    arm, versus = ("+".join(assertion[side]) or "default" for side in ("arm", "versus"))
    sign = "/" if scale.name == "log" else "−"
    label = f"{number} ({UNITS.get(scale.name, 'difference')})\n{arm} {sign} {versus}"
    return forest(rows, pooled, predicted, label, caption, none=1.0 if sign == "/" else 0.0)


def as_json(answer: Answer) -> dict:
    """Return the answer for programs: words, effects, conditions, what was dropped, and what is secondary.

    Effects, intervals and predictions are of arm − versus, on the scale, whatever direction is claimed.
    """
    assertions = []
    for answered in answer.assertions:
        judgment = answered.judgment
        pooled = judgment.pooled
        low, high = sorted((answered.sign * judgment.low, answered.sign * judgment.high))
        conditions = [
            {"condition": each.condition, "levels": dict(each.levels), "n": each.found.n, "effect": each.found.value}
            | {"error": each.found.error, "low": each.found.interval()[0], "high": each.found.interval()[1]}
            | {"level": each.level, "own": each.own, "values": list(each.values), "fails": each.fails}
            for each in answered.effects
        ]
        assertions.append(
            dict(answered.declared)
            | {
                "claim": claim(answered),
                "word": judgment.word,
                "leaning": judgment.leaning,
                "stability": dict(judgment.stability),
            }
            | {"scale": answered.scale.name, "smallest": answered.smallest, "level": answered.level}
            | {"effect": None if pooled is None else answered.sign * float(pooled.estimate)}
            | {"low": low, "high": high, "confidence": judgment.confidence, "sign_of_claim": answered.sign}
            | {"p": judgment.p, "p_holm": judgment.p_holm}
            | {"predicted": sorted(answered.sign * end for end in judgment.predicted)}
            | {"tau": None if pooled is None else float(pooled.tau), "dropped": dict(judgment.dropped)}
            | {
                "moderators": [
                    {"name": each.name, "p_holm": each.p_holm, "depends": each.depends} for each in judgment.moderators
                ]
            }
            | {"conditions": conditions}
        )
    return plain(
        {
            "declared": dict(answer.declared),
            "hash": answer.hash,
            "assertions": assertions,
            "secondary": answer.secondary.to_dict("records"),
            "notes": answer.notes,
        }
    )


def write_files(answer: Answer) -> list[Path]:
    """Write tables, figures (SVG, PDF, PNG), the page, and `write_question`'s files into `<folder>/answer/`."""
    place = inner(answer.folder, "answer")
    place.mkdir(parents=True, exist_ok=True)
    drawn = figures(answer)
    text = "\n\n".join(findings(answer))
    for name, table in tables(answer).items():
        text += f"\n\n**{name}**\n\n{markdown(table)}"
    texts = {
        "secondary.csv": csv_text(answer.secondary, index=False),
        "answer.md": text,
        "answer.json": json.dumps(as_json(answer), indent=2) + "\n",
        "answer.html": page(answer, drawn),
    }
    for name, each in texts.items():
        unlinked(place / name).write_text(each, encoding="utf-8")
    paths = write_question(answer, place, findings(answer), command(answer)) + [place / name for name in texts]
    with layout.theme():
        return paths + [
            path for name, (figure, *_) in drawn.items() for path in layout.save_figure(figure, place / name)
        ]


def page(answer: Answer, drawn: dict[str, tuple[Figure, str, str]]) -> str:
    """Return one self-contained page; the template escapes all texts."""
    return template("question.html").render(
        title=answer.folder.resolve().name,
        light_marks=color_variables(is_dark=False),
        dark_marks=color_variables(is_dark=True),
        swatches={},
        findings=findings(answer),
        tables=tables(answer),
        figures=[
            {"heading": heading, "caption": caption, "svg": inline_svg(figure, name, f"{heading}. {caption}")}
            for name, (figure, heading, caption) in drawn.items()
        ],
        notes=answer.notes,
        hash=answer.hash,
        file=QUESTION_FILE,
        command=command(answer),
    )


def command(answer: Answer) -> str:
    """Return the command that goes on with the folder."""
    return shlex.join(["rlexp", "ask", "--folder", str(answer.folder)])
