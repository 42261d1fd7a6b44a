"""What the report says in numbers, read from the files under docs/."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from benchmarks.parts.common import ROOT
from rlexp.analysis.stats.scales import Scale

DOCS = ROOT / "docs"
TITLE = "Which Post-Training Tricks Matter? Questions Declared Before Their Runs, Tuned Rates, and Scored Forecasts"


class Asked(NamedTuple):
    """A question that was answered."""

    answer: Mapping[str, Any]
    runs: pd.DataFrame


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def asked(docs: Path = DOCS) -> dict[str, Asked]:
    """Return the answered questions by name."""
    names = {
        yaml.safe_load(path.read_text(encoding="utf-8"))["question"]: path.stem
        for path in sorted((ROOT / "conf" / "study" / "questions").glob("*.yaml"))
    }
    folders = [path.parent for path in sorted(docs.glob("**/answer.json"))]
    found = [Asked(read(folder / "answer.json"), pd.read_parquet(folder / "runs.parquet")) for folder in folders]
    return {names[each.answer["declared"]["question"]]: each for each in found}


def cards(docs: Path = DOCS) -> dict[str, dict[str, Any]]:
    """Return the cards of claims by their ids, as `C3`."""
    files = sorted(docs.glob("claims/cards/*.yaml"))
    return {f"{path.stem[0].upper()}{int(path.stem[1:])}": yaml.safe_load(path.read_text("utf-8")) for path in files}


def pooled(questions: Mapping[str, Asked], told: Mapping[str, Mapping]) -> Iterator[tuple[str, str, Mapping, Asked]]:
    """Yield claim, question, assertion and what it is of, in the order of the claims."""
    claims = {name: claim for claim, card in told.items() for name in card.get("questions", ())}
    order = [*told, ""]
    for name, each in sorted(questions.items(), key=lambda item: order.index(claims.get(item[0], ""))):
        for assertion in each.answer["assertions"]:
            yield claims.get(name, ""), name, assertion, each


NUMBER = re.compile(r"(?:higher|lower|fewer|more|the same) (.+?)(?:, within .*| than .*)$")


def sides(assertion: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return the arms of an assertion with a sign between them, and the number that is compared."""
    arm, versus = ("+".join(assertion[side]) or "default" for side in ("arm", "versus"))
    sign = {"equivalent": "≈", "not inferior": "≥"}.get(assertion["kind"]) or {"higher": ">", "lower": "<"}[
        assertion["direction"]
    ]
    return arm, sign, versus, NUMBER.search(assertion["claim"])[1]


def row(claim: str, assertion: Mapping[str, Any], question: Asked) -> dict[str, str]:
    """Return an assertion as a row of the table."""
    valid = [each for each in assertion["conditions"] if not each["fails"]]
    leaning = f", leaning {assertion['leaning']}" if assertion["leaning"] else ""
    effect = "–"
    if assertion["effect"] is not None:
        scale = Scale(assertion["scale"], attainable=question.answer["declared"]["attainable"])
        effect = scale.show(*(assertion[key] for key in ("effect", "low", "high", "level")))
    return {
        "claim": claim,
        **dict(zip(("arm", "sign", "versus", "number"), sides(assertion), strict=True)),
        "word": assertion["word"] + leaning,
        "effect": effect,
        "size": f"{len(valid)} × {min((each['n'] for each in valid), default=0)}",
    }


def numbers(docs: Path = DOCS) -> dict[str, Any]:
    """Return all numbers of the report."""
    questions, told, statistics = asked(docs), cards(docs), docs / "statistics"
    assertions = [*pooled(questions, told)]
    words, calibration = read(statistics / "words.json"), read(statistics / "calibration.json")
    simulated = pd.json_normalize(read(statistics / "rates.json")["cases"])
    covered = simulated.groupby(["curve", "baseline", "rates", "seeds"])["difference.used"].mean()  # 600 sweeps each
    ladder, score = read(docs / "transfer/ladder/transfer.json"), read(docs / "transfer/ladder/score.json")
    nulls = {each["words"]: each for each in calibration["false"] if each["of"] == "all nulls"}
    power = {each["size"]: each["all"] for each in calibration["power"]}
    conditions = [each for _, _, assertion, _ in assertions for each in assertion["conditions"]]
    version = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "title": TITLE,
        "author": version["authors"][0]["name"],
        "version": f"rlexp {version['version']}",
        "claims": len(told),
        "questions": len(questions),
        "assertions": len(assertions),
        "runs": f"{sum(len(each.runs) for each in questions.values()):,}",
        "words": Counter(assertion["word"] for _, _, assertion, _ in assertions),
        "conditions": len(conditions),
        "dropped": sum(bool(each["fails"]) for each in conditions),
        "rows": [row(claim, assertion, each) for claim, _, assertion, each in assertions],
        "cards": [
            {"id": name, "claim": card["claim"], "answer": card["answer"]}
            for name, card in told.items()
            if "answer" in card
        ],
        "waiting": [name for name, card in told.items() if card.get("questions") and "answer" not in card],
        "read": {"total": len(told), **Counter(card["read"] for card in told.values())},
        "stability": {
            "counted": words["summary"]["headlines that stay, old rule, claims of the pooled contrasts"],
            "pooled": words["summary"]["headlines that stay, pooled rule"],
            "false": max(value for name, value in words["summary"].items() if name.startswith("largest share of")),
        },
        "calibration": {
            "each": nulls["each condition"],
            "pooled": nulls["all conditions"],
            "power1": power[1.0],
            "power2": power[2.0],
        },
        "rates": {"cases": len(simulated), "mean": covered.mean(), "lowest": covered.min()},
        "ladder": [
            {"sweep": each["sweep"], "accuracy": each["accuracy"]}
            | {f"slope{end}": each["effects"]["slope"][key] for end, key in _ENDS.items()}
            for each in ladder["decisions"]
        ],
        "largest": ladder["sweeps"][-1],
        "score": {each["forecast"].removeprefix("no effect") or "none": each["error"] for each in score["scores"]},
        "budget": bool(budgets(assertions)),
    }


_ENDS = {"": "value", "_low": "low", "_high": "high"}


def budgets(assertions: list[tuple[str, str, Mapping, Asked]]) -> dict[str, Mapping]:
    """Return the assertions whose conditions differ in their budget, by their claim and arm."""
    return {}
