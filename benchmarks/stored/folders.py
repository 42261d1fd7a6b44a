"""Questions and ablations that are stored with a table of their runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from benchmarks.ladder import LADDERS
from benchmarks.stored import printed
from benchmarks.stored.study import (
    CONDITION,
    LOG_ODDS,
    PART,
    POOLED,
    RUN_COLUMNS,
    SECONDARY,
    Finding,
    Study,
    level_rows,
)
from benchmarks.stored.world import score_metric
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.config.choices import CONF

QUESTIONS = CONF / "study" / "questions"
RUN_FACTS = ("commit", "machine")
FINAL = "final"  # the endpoint that is the metric at the end of training


# ---- questions


def question_studies(docs: Path) -> Iterator[Study]:
    """Yield each question that has an answer."""
    cards = carded(docs)
    for name, folder in answer_folders(docs).items():
        answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        page = "asked.md" if folder.parent.name == "asked" else f"{folder.name}.md"
        yield question_study(folder, answer, name, cards.get(name, page))


def answer_folders(docs: Path) -> dict[str, Path]:
    """Return the folders of kept answers by the names of their questions."""
    names = questions()
    files = {file: json.loads(file.read_text(encoding="utf-8")) for file in sorted(docs.glob("**/answer.json"))}
    return {names[answer["declared"]["question"]]: file.parent for file, answer in files.items()}


@cache
def questions() -> dict[str, str]:
    """Return the names of the questions that come with the program, by what they ask."""
    return {yaml.safe_load(file.read_text("utf-8"))["question"]: file.stem for file in sorted(QUESTIONS.glob("*.yaml"))}


def carded(docs: Path) -> dict[str, str]:
    """Return the page of the first card that names a question, by the names of questions."""
    found: dict[str, str] = {}
    for file in sorted((docs / "claims" / "cards").glob("*.yaml")):
        for name in yaml.safe_load(file.read_text(encoding="utf-8"))["questions"]:
            found.setdefault(name, f"claims/{file.stem}.md")
    return found


def question_study(folder: Path, answer: Mapping[str, Any], name: str, page: str) -> Study:
    """Return a question from the folder of its answer."""
    declared = answer["declared"]
    shared = tuple(declared["with"])
    scales = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))["scales"]
    scores = [*dict.fromkeys(each[0]["metric"].partition(", ")[0] for each in scales.values())]
    endpoint = parse_endpoint(declared["endpoint"])
    metric = declared["metric"] or (endpoint.metric if endpoint.kind == "cost" else scores[0])
    number = metric if declared["endpoint"] == FINAL else declared["endpoint"]
    numbers = [number] if len(scores) == 1 else []  # of conditions with different scores assertions alone have one
    runs, tuned = pd.read_parquet(folder / "runs.parquet"), (declared["tune"] or {}).get("key", "")
    findings = [each for assertion in answer["assertions"] for each in assertion_findings(assertion, metric)]
    sides = {side.partition(" at ")[0]: side for each in findings for side in (each.arm, each.versus)}
    findings += [secondary_finding(each, sides) for each in answer["secondary"]]
    return Study(
        name=name,
        kind="question",
        question=declared["question"],
        source=declared["source"] or "",
        page=page,
        command=f"rlexp ask {name}",
        overrides=shared,
        metric=metric,
        findings=findings,
        runs=pd.concat(
            [*(kept_runs(runs, each, tuned) for each in numbers), *asserted_runs(runs, answer, metric, numbers, tuned)]
        ),
        levels=level_rows([]),
        curves=curves_of(folder),
        tuned=tuned,
        facts=facts_of(runs),
    )


def asserted_runs(
    runs: pd.DataFrame, answer: Mapping[str, Any], metric: str, numbers: Iterable[str], tuned: str
) -> Iterator[pd.DataFrame]:
    """Yield the numbers of assertions that are about another one than the question's, each once."""
    seen = {*numbers}
    for place, assertion in enumerate(answer["assertions"], 1):
        if (own := number_of(assertion, metric)) not in seen:
            seen.add(own)
            told = runs.assign(number=runs[f"assertion_{place}"], on_scale=None).dropna(subset="number")
            yield kept_runs(told, own, tuned)


def number_of(assertion: Mapping[str, Any], metric: str) -> str:
    """Return what an assertion is about: a metric at the end of training, or its endpoint, with a metric of its own."""
    own = assertion["metric"] or metric
    if assertion["endpoint"] == FINAL:
        return own
    return assertion["endpoint"] if own == metric else f"{own}, {assertion['endpoint']}"


def assertion_findings(assertion: Mapping[str, Any], metric: str) -> Iterator[Finding]:
    """Yield the pooled effect of an assertion, with its word, and its effect in each condition."""
    budget = f" at {assertion['budget']}" if assertion["budget"] else ""
    pooled = Finding(
        role=POOLED,
        condition="",
        arm=("+".join(assertion["arm"]) or "default") + budget,
        versus=("+".join(assertion["versus"]) or "default") + budget,
        metric=number_of(assertion, metric),
        verdict=assertion["word"],
        expected=assertion["claim"],
        effect=assertion["effect"],
        low=assertion["low"],
        high=assertion["high"],
        units=LOG_ODDS if assertion["scale"] == LOG_ODDS else f"{assertion['scale']} of the metric",
        n=len(assertion["conditions"]),
        p=assertion["p_holm"],
        smallest=assertion["smallest"],
        said=f"n counts conditions; the interval is one of {100 * assertion['confidence']:g} %"
        if assertion["confidence"]
        else "",
    )
    yield pooled
    for each in assertion["conditions"]:
        yield pooled._replace(
            role=CONDITION,
            condition=each["condition"],
            verdict="",
            n=each["n"],
            p=None,
            said=f"left out of the pooled effect: {each['fails']}" if each["fails"] else "",
            **{key: each[key] for key in ("effect", "low", "high")},
        )


def secondary_finding(row: Mapping[str, Any], sides: Mapping[str, str]) -> Finding:
    """Return what an answer says of another metric; ``sides`` are the arms with their budgets, by what they choose."""
    numbers = {key: row[key] for key in ("effect", "low", "high")}
    arm, versus = (sides.get(row[side], row[side]) for side in ("arm", "versus"))
    return Finding(SECONDARY, "", arm, versus, row["metric"], p=row["q"], n=row["k"], said=row["shown"],
                   units="on its scale", **numbers)  # fmt: skip


# ---- ablations


PAGES = {  # of the folders whose page has the command, and what tells the command from others there
    "ablate": ("ablate/README.md", "--folder runs/recipe"),
    "curves/bandit": ("curves.md", "--folder runs/bandit"),
    "curves/lecture": ("curves.md", "--folder runs/lecture"),
    "curves/sort": ("curves.md", "--folder runs/sort"),
    "two_habits": ("two_habits.md", "--add-one --seeds 10"),
}


class Ablation(NamedTuple):
    """Where an ablation is stored, and what trained it."""

    name: str
    folder: Path
    command: str
    page: str
    overrides: tuple[str, ...]
    worlds: tuple[str, ...] = ()
    weights: int | None = None


def ablation_studies(docs: Path) -> Iterator[Study]:
    """Yield each ablation."""
    for each in ablations(docs):
        runs, parts = pd.read_parquet(each.folder / "runs.parquet"), []
        for column in runs:  # a column a part, as `clip=higher`
            if "=" in column:
                parts.append(column)
        tuned = next((key for key in ("lr",) if key in runs), "")
        metric = metric_of(each)
        yield Study(
            name=each.name,
            kind="ablation",
            question=f"What is each part worth: {', '.join(parts)}?",
            source="",
            page=each.page,
            command=each.command,
            overrides=each.overrides,
            metric=metric,
            findings=list(ablation_findings(each.folder, parts, metric, runs["seed"].nunique())),
            runs=kept_runs(runs.assign(condition=""), metric, tuned),
            levels=level_rows([]),
            curves=curves_of(each.folder),
            tuned=tuned,
            facts=facts_of(runs),
            worlds=each.worlds,
            weights=each.weights,
        )


def ablations(docs: Path) -> Iterator[Ablation]:
    """Yield the folders of ablations, with the command that trains each as its page has it."""
    for folder, (page, mark) in PAGES.items():
        command = command_in((docs / page).read_text(encoding="utf-8"), mark)
        yield Ablation(folder, docs / folder, command, page, shared_of(command))
    for ladder, (folder, stored) in {name: (each.results.name, each) for name, each in LADDERS.items()}.items():
        transfer = json.loads((docs / "transfer" / folder / "transfer.json").read_text(encoding="utf-8"))
        weights = dict(zip(transfer["sweeps"], transfer["weights"], strict=True))
        for size, told in stored.sizes.items():
            yield Ablation(
                name=f"transfer/{folder}/{size}",
                folder=docs / "transfer" / folder / size,
                command=f"python -m benchmarks.ladder {ladder} --runs runs/{folder} --only {size}",
                page="transfer.md",
                overrides=(*stored.world, *told.overrides),
                worlds=tuple(told.starts),
                weights=int(weights[size]) if weights[size] else None,
            )


def command_in(text: str, mark: str) -> str:
    """Return the `rlexp ablate` command of a page that has a mark in it, on one line."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    (found,) = (line.strip() for line in joined.splitlines() if line.startswith("rlexp ablate") and mark in line)
    return found


def shared_of(command: str) -> tuple[str, ...]:
    """Return the overrides of all runs of an `rlexp ablate` command: its baseline's, and those after --with."""
    words = command.split()
    found = [words[place + 1] for place, word in enumerate(words) if word == "--against"]
    if "--with" in words:
        after = words[words.index("--with") + 1 :]
        stop = next((place for place, word in enumerate(after) if word.startswith("--")), len(after))
        found += after[:stop]
    return tuple(found)


def metric_of(ablation: Ablation) -> str:
    """Return the metric that an ablation compares."""
    package = ablation.folder / "datapackage.json"
    if package.is_file():
        return json.loads(package.read_text(encoding="utf-8"))["metric"]["name"]
    shared = tuple(each for each in ablation.overrides if not each.startswith(("start.path", "model.path")))
    return score_metric(shared)


def ablation_findings(folder: Path, parts: list[str], metric: str, seeds: int) -> Iterator[Finding]:
    """Yield what each part is worth: from the table of effects where it is stored, else from what was printed."""
    if (folder / "effects.csv").is_file():
        for row in (
            pd.read_csv(folder / "effects.csv").astype(object).where(lambda table: table.notna(), None).itertuples()
        ):
            arm, versus = SIDES[row.kind](row.parts)
            smallest = max(abs(row.margin_low), abs(row.margin_high))
            yield Finding(PART, "", arm, versus, metric, row.word, row.kind, row.difference, row.low, row.high, n=row.n,
                          p=row.p_holm, smallest=smallest, said=f"{row.kind}: {row.parts}")  # fmt: skip
        return
    name = next(each for each in ("ablation.txt", "printed.txt", "elicitation.txt") if (folder / each).is_file())
    yield from printed.parts((folder / name).read_text(encoding="utf-8"), parts, metric, seeds)


SIDES = {
    "whole recipe": lambda parts: ("recipe", "baseline"),
    "added first": lambda part: (part, "baseline"),
    "removed last": lambda part: ("recipe", f"recipe without {part}"),
}


# ---- both


def kept_runs(runs: pd.DataFrame, metric: str, tuned: str) -> pd.DataFrame:
    """Return the table of runs of an answer or an ablation in the form of all studies."""
    value = runs[tuned] if tuned else None
    known = runs.assign(metric=metric, value=value).rename(columns={"number": "score", "folder": "run"})
    return known[[*RUN_COLUMNS]].assign(condition=known["condition"].fillna(""))


def curves_of(folder: Path) -> pd.DataFrame | None:
    """Return the curves that are stored beside the runs, None where there are none."""
    file = folder / "curves.parquet"
    return pd.read_parquet(file).rename(columns={"folder": "run"}) if file.is_file() else None


def facts_of(runs: pd.DataFrame) -> dict[str, Any]:
    """Return the commits and machines that runs name."""
    return {name: ", ".join(sorted({*runs[name].dropna()})) for name in RUN_FACTS}
