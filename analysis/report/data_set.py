"""A data set of sweeps: tables with what each column is, comparisons that a notebook computes again, and a card."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import unlinked
from rlexp.analysis.data.runs import origin_note
from rlexp.analysis.report.croissant import croissant
from rlexp.analysis.report.kept_files import (
    CURVE_COLUMNS,
    NOTEBOOK_FILE,
    PACKAGE_FILE,
    Column,
    Table,
    card_text,
    write_kept,
)
from rlexp.analysis.report.page import TEMPLATES
from rlexp.analysis.stats.ablation import ABLATION_FILE
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.question import QUESTION_FILE

CROISSANT_FILE, SUMS_FILE = "croissant.json", "SHA256SUMS"
NOTEBOOK = TEMPLATES / "recompute_sweeps.ipynb"
MOST_FAULTS = 20  # that the card names
RUN_COLUMNS = {
    "sweep": Column("string", "folder of the sweep", required=True),
    "run": Column("string", "folder of the run, with that of its sweep where there are several", required=True),
    "variant": Column("string", "what the run varies, as overrides", required=True),
    "seed": Column("integer", "runs of one sweep with one seed are compared with each other"),
    "status": Column("string", "how the run ended, as completed or diverged", required=True),
    "reason": Column("string", "why it did not complete"),
    "score": Column("number", "late mean of the score's metric; empty where the run did not complete"),
    "score_metric": Column("string", "which metric that is"),
    "collapsed": Column("boolean", "whether the score ended below its floor"),
    "completions": Column("number", "that the run sampled"),
    "tokens": Column("number", "that the run sampled"),
    "wall_time_s": Column("number", "seconds that it took; runs that trained as one batch share a clock"),
    "config": Column("string", "hash of the part of the run's config that results depend on, its seed included"),
    "code": Column("string", "hash of the code that trained it; of several, in their order, joined by +"),
    "commit": Column("string", "of that code; + at its end: with changes"),
    "machine": Column("string", "what else its bits depend on"),
}
COMPARISON_COLUMNS = {
    "sweep": RUN_COLUMNS["sweep"],
    "stratum": Column("string", "of which part of the runs; empty: of all"),
    "metric": Column("string", "what is compared", required=True),
    "baseline": Column("string", "the variant that others are compared with", required=True),
    "variant": Column("string", "what is compared with it", required=True),
    "test": Column("string", "where p is from", required=True, allowed=("sign flips", "ranks", "bets on signs")),
    "n": Column("integer", "runs with a number", required=True),
    "iqm": Column("number", "interquartile mean of their numbers"),
    "iqm_low": Column("number", "lower end of its 95 % interval (bootstrap)"),
    "iqm_high": Column("number", "upper end of it"),
    "n_pairs": Column("integer", "seeds that both have", required=True),
    "difference": Column("number", "mean of the paired differences to the baseline"),
    "difference_low": Column("number", "lower end of its 95 % interval"),
    "difference_high": Column("number", "upper end of it"),
    "p": Column("number", "two-sided, of no difference"),
    "p_holm": Column("number", "p by Holm over the variants of the sweep"),
}
SEED = (
    "A seed draws whatever is random in a run: the start, unless `start.seed` names one for all, the prompts, the "
    "completions, and what a choice draws besides. Runs of one seed share these draws as far as their settings allow, "
    "so differences are taken seed by seed."
)

SEED_OF_OTHERS = "The files do not say what a seed draws. Whoever publishes them knows, and should write it here."


def write_data_set(
    place: Path, name: str, data: SweepData, parts: Mapping[Path, SweepData], about: str, url: str | None
) -> list[Path]:
    """Write a data set.

    Args:
        place: its folder, which is made.
        name: of the data set.
        data: all runs together.
        parts: those of each sweep, by folder.
        about: what the runs are about; may be empty.
        url: where it will be found; None where nobody knows yet.

    Returns:
        The files.
    """
    tables = {"runs.parquet": run_table(data), "curves.parquet": curve_table(data)}
    compared, left_out = comparison_table(parts)
    if len(compared.rows):
        tables["comparisons.csv"] = compared
    by = f"read as {data.origin.kind}; rlexp did not train them" if data.origin else "trained with rlexp"
    text = f"{len(data.runs)} runs of {len(parts)} sweep{'s' * (len(parts) > 1)}, {by}."
    notebook = NOTEBOOK.read_text(encoding="utf-8") if len(compared.rows) else None
    computes = "computes comparisons.csv from runs.parquet, without rlexp"
    description = f"{about} {text}".strip()
    return write_described(place, name, tables, description, card_sections(data, left_out), notebook, computes, url)


def write_described(
    place: Path,
    name: str,
    tables: Mapping[str, Table],
    description: str,
    sections: Mapping[str, Sequence[str]],
    notebook: str | None,
    computes: str,
    url: str | None = None,
) -> list[Path]:
    """Write tables with a card, Croissant metadata, a data package and checksums into a folder, which is made.

    Args:
        place: the folder.
        name: of the data set.
        tables: by file name.
        description: of the data set, in a sentence or more.
        sections: paragraphs of the card, by heading.
        notebook: text of a notebook that computes a table from others; None for none.
        computes: what it computes, in a line.
        url: where the data set will be found; None where nobody knows yet.

    Returns:
        The files.
    """
    described = {file: table.about for file, table in tables.items()} | {
        PACKAGE_FILE: "what each column is (datapackage.org)",
        CROISSANT_FILE: "the same for data loaders (mlcommons.org/croissant)",
        SUMS_FILE: "checksums: `sha256sum -c SHA256SUMS`",
    }
    described |= {NOTEBOOK_FILE: computes} if notebook else {}
    card = card_text(name, described, {"": [description]} | dict(sections))
    facts = {"name": name, "title": name, "description": description} | ({"homepage": url} if url else {})
    place.mkdir(parents=True, exist_ok=True)
    files = write_kept(place, tables, facts, card, notebook)
    contents = {file: (place / file).read_bytes() for file in tables}
    published = datetime.now(UTC).date().isoformat()
    metadata = croissant(name, description, tables, contents, published, url)
    files.append(unlinked(place / CROISSANT_FILE))
    files[-1].write_text(json.dumps(metadata, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sums = "".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))
    files.append(unlinked(place / SUMS_FILE))
    files[-1].write_text(sums, encoding="utf-8")
    return files


def run_table(data: SweepData) -> Table:
    """Return a row a run: what it varies, how it ended, its score, and what trained it; no path of this machine."""
    rows = data.runs.rename(columns={"name": "run"})
    axes = [axis for axis in data.axes if axis in rows]
    varied = {axis: Column(kind_of(rows[axis]), f"the override {axis}") for axis in axes}
    rows = rows.astype({axis: str for axis, column in varied.items() if column.type == "string"})
    return Table(rows[[*RUN_COLUMNS, *axes]], "a row a run", RUN_COLUMNS | varied, ("run",))


def kind_of(values: pd.Series) -> str:
    """Return the type of an override's column."""
    if pd.api.types.is_bool_dtype(values):
        return "boolean"
    return "number" if pd.api.types.is_numeric_dtype(values) else "string"


def curve_table(data: SweepData) -> Table:
    """Return a row a run and logged step, with all metrics."""
    rows = data.metrics.drop(columns="variant").rename(columns={"name": "run"})
    own = {"run": RUN_COLUMNS["run"]} | {name: CURVE_COLUMNS[name] for name in ("seed", "step")}
    metrics = {name: Column("number", f"the metric {name}") for name in rows if name not in own}
    return Table(rows, "a row a run and logged step", own | metrics, ("run", "step"), ("run", "runs"))


def comparison_table(parts: Mapping[Path, SweepData]) -> tuple[Table, list[str]]:
    """Return what `rlexp compare` says of the score of each sweep, and of which sweeps it says nothing, with why."""
    rows, left_out = [], []
    for folder, part in parts.items():
        sweep = part.runs["sweep"].iloc[0]
        if answered := next((file for file in (QUESTION_FILE, ABLATION_FILE) if (folder / file).is_file()), None):
            left_out.append(f"`{sweep}`: its {Path(answered).stem} has a data set of its own, with its effects")
            continue
        try:
            found = answer(part, Question()).comparisons
        except AnalysisError as error:
            left_out.append(f"`{sweep}`: {error}")
            continue
        for comparison in found:
            test = "bets on signs" if comparison.sequential else "ranks" if comparison.ranked else "sign flips"
            same = {"sweep": sweep, "stratum": comparison.stratum or None, "metric": comparison.metric, "test": test}
            table = comparison.table.reset_index().assign(**same, baseline=comparison.baseline)
            rows.append(table[[*COMPARISON_COLUMNS]])
    table = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=[*COMPARISON_COLUMNS])
    return Table(table, "a row a sweep and variant", COMPARISON_COLUMNS, ("sweep", "stratum", "variant")), left_out


def card_sections(data: SweepData, left_out: list[str]) -> dict[str, list[str]]:
    """Return what the card says of seeds, of the choice of runs, of faults, and of machines."""
    status = ", ".join(f"{count} {name}" for name, count in data.runs["status"].value_counts().items())
    turns = f"Seeds were added by the rule `{data.in_turns.key}={data.in_turns.value:g}`." if data.in_turns else ""
    faults = [f"`{run}`: {reason}" for run, reason in data.problems]
    more = [f"and {len(faults) - MOST_FAULTS} more, in `runs.parquet`"] if len(faults) > MOST_FAULTS else []
    listed = "\n".join(f"- {fault}" for fault in [*faults[:MOST_FAULTS], *more])
    read_as = {"How the runs were read": [f"{data.origin.said} A score: {data.origin.rule}."]} if data.origin else {}
    noted = [] if data.origin else [origin_note(data.runs)]
    machines = data.runs["machine"].dropna().unique()
    apart = {"Comparisons that are left out": ["\n".join(f"- {each}" for each in left_out)]} if left_out else {}
    return {
        "What a seed randomizes": [SEED_OF_OTHERS if data.origin else SEED],
        "Which runs": [f"All runs that were read are here, whatever became of them: {status}.", turns],
        **read_as,
        **apart,
        "Known faults": [listed or ("None was found in the files." if data.origin else "None is known."), *noted],
        "Machine": ["; ".join(machines) or "The runs do not say."],
    }
