"""What the report says in numbers, read from the files under docs/."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from benchmarks.cards import changes, one_rate, other_tasks
from benchmarks.cards.asked import DOCS, Asked, asked, depends, effect, headline, settings, sign
from benchmarks.cards.declared import answered, last_asked
from benchmarks.cards.texts import Card, read_cards
from benchmarks.parts.common import ROOT

TITLE = "Which Post-Training Tricks Matter? Questions Declared Before Their Runs, Tuned Rates, and Scored Forecasts"
ENDS = {"": "value", "_low": "low", "_high": "high"}


class Answer(NamedTuple):
    """An assertion of a claim's question that was answered."""

    card: Card
    question: Asked
    place: int

    @property
    def found(self) -> Mapping[str, Any]:
        return self.question.assertions[self.place]

    @property
    def sides(self) -> dict[str, str]:
        """What each arm has that the other has not, the sign between them that says what is claimed, what both have."""
        parts = {side: self.found[side] for side in ("arm", "versus")}
        shared = [part for part in parts["arm"] if part in parts["versus"]]
        own = {side: "+".join(part for part in some if part not in shared) or "default" for side, some in parts.items()}
        return own | {"sign": sign(self.found), "both": "+".join(shared)}


def answers() -> Iterator[Answer]:
    """Yield all assertions of answered questions, in the order of the claims."""
    there = asked()
    for card in read_cards():
        for one in last_asked(answered(card, there)):
            for place in range(len(one.assertions)):
                yield Answer(card, one, place)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def row(each: Answer) -> dict[str, str]:
    """Return an assertion as a row of the table."""
    found = each.sides | {"claim": each.card.label, "number": each.question.number(each.place)}
    found["effect"] = effect(each.question, each.place)
    word = ", ".join(filter(None, [headline(each.found), depends(each.found).replace("`", "")]))
    return found | {"word": word, "size": settings(each.question, each.place).removesuffix(" seeds")}


def studies() -> Iterator[dict[str, str]]:
    """Yield what each part of a study of several tricks is worth over all settings, by the kind of endpoint."""
    for file in sorted((DOCS / "ablations").glob("*/effects.csv")):
        found = pd.read_csv(file)
        found = found[(found["condition"] == "all") & found["kind"].isin(("main effect", "added first"))]
        for part, rows in found.groupby("part", sort=False):
            cells = {row["number"].partition(":")[0]: pooled(row) for _, row in rows.iterrows()}
            yield {"study": file.parent.name, "part": str(part), **cells}


def pooled(row: Mapping[str, Any]) -> str:
    return f"{row['effect']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]".replace("-", "−")


def medians(moved: Sequence[changes.Change]) -> list[float]:
    """Return the median size of changes of the loss alone, and of the others."""
    return [float(np.median([each.size for each in some])) for some in changes.kinds(moved).values()]


def numbers(rows: Sequence[Answer]) -> dict[str, Any]:
    """Return all numbers of the report."""
    told, statistics = read_cards(), DOCS / "statistics"
    again = [*other_tasks.pairs(told, asked())]
    questions = {each.question.name: each.question for each in rows}
    words, calibration = read(statistics / "words.json"), read(statistics / "calibration.json")
    simulated = pd.json_normalize(read(statistics / "rates.json")["cases"])
    covered = simulated.groupby(["curve", "baseline", "rates", "seeds"])["difference.used"].mean()  # 600 sweeps each
    ladder, score = (read(DOCS / "transfer" / "ladder" / f"{name}.json") for name in ("transfer", "score"))
    language = read(DOCS / "transfer" / "language" / "score.json")
    nulls = {(each["of"], each["words"]): each for each in calibration["false"]}
    power = {each["size"]: f"{each['all'] * each['cases']:.0f} of {each['cases']}" for each in calibration["power"]}
    conditions = [each for answer in rows for each in answer.found["conditions"]]
    moved = [*changes.changes(questions.values())]
    version = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "title": TITLE,
        "author": version["authors"][0]["name"],
        "version": f"rlexp {version['version']}",
        "claims": len({each.card.number for each in rows}),
        "questions": len(questions),
        "assertions": len(rows),
        "runs": f"{sum(len(one.runs) for one in questions.values()):,}",
        "words": Counter(each.found["word"] for each in rows),
        "leaning": sum(headline(each.found).startswith("leaning") for each in rows),
        "conditions": len(conditions),
        "dropped": sum(bool(each["fails"]) for each in conditions),
        "rows": [row(each) for each in rows],
        "cards": [
            {"id": card.label, "claim": card.claim, "answer": card.answer.replace("`", "")}
            for card in told
            if card.answer
        ],
        "changes": {"summary": changes.summary(moved), "medians": medians(moved)},
        "one_rate": one_rate.summary([*one_rate.compared(questions.values())]),
        "tasks": {"count": len({pair.other.name for pair in again}), "summary": other_tasks.summary(again)},
        "studies": [*studies()],
        "waiting": [card.label for card in told if card.questions and not questions.keys() & {*card.questions}],
        "read": {"total": len(told), **Counter(card.read for card in told)},
        "stability": {
            "counted": np.mean([each["stays"] for each in words["counted"]]),
            "pooled": np.mean([each["stays"] for each in words["pooled"]]),
            "false": max(value for name, value in words["summary"].items() if name.startswith("largest share of")),
        },
        "calibration": {
            "each": nulls["all nulls", "each condition"],
            "pooled": nulls["all nulls", "all conditions"],
            "equal": sum(nulls[of, "all conditions"]["of_words"] for of in ("rounding", "identical")),
            "power1": power[1.0],
            "power2": power[2.0],
        },
        "sizes": int(np.median([len(each.found["conditions"]) for each in rows])),
        "rates": {"cases": len(simulated), "mean": covered.mean(), "lowest": covered.min()},
        "ladder": [
            {key: each[key] for key in ("sweep", "accuracy", "low", "high")}
            | {f"slope{end}": each["effects"]["slope"][key] for end, key in ENDS.items()}
            for each in ladder["decisions"]
        ],
        "largest": ladder["sweeps"][-1],
        "score": {each["forecast"].removeprefix("no effect") or "none": each for each in score["scores"]},
        "language": language["scores"][0] | {"pairs": language["pairs"]},
    }
