"""Studies of claims: verdicts and levels of docs/claims/results; the scores of those that docs/transfer has, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.claims.texts import Claim, read_claims
from benchmarks.stored.study import CONTROL, EXPECTED, Finding, Study, level_rows, run_rows, without
from benchmarks.stored.sweeps import scored_runs
from benchmarks.stored.world import study_of


def claim_studies(docs: Path) -> Iterator[Study]:
    """Yield each study of a claim that has a record."""
    claims = read_claims(docs / "claims" / "texts")
    scores = json.loads((docs / "transfer" / "results.json").read_text(encoding="utf-8"))
    for file in sorted((docs / "claims" / "results").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        asked = [claim for claim in claims if record["study"] in claim.studies]
        yield claim_study(record, asked, scores.get(record["study"]))


def claim_study(record: Mapping[str, Any], claims: list[Claim], scored: Mapping[str, Any] | None) -> Study:
    """Return a study from its record, the claims that count it, and its runs' scores where they are stored."""
    name = record["study"]
    declared = study_of((f"study={name}",))
    tuned = record["best_of"][0] if record["best_of"] else ""
    levels = [
        {"condition": stratum, **{key: arm.get(key) for key in LEVEL if key in arm}, "arm": arm["variant"]}
        for stratum, arms in record["strata"].items()
        for arm in arms
    ]
    told = f" {claims[0].label}: {claims[0].title}." if claims else ""
    return Study(
        name=name,
        kind="claim",
        question=f"{declared.get('question') or ''}{told}".strip(),
        source=declared.get("source") or "",
        page=f"claims_explored.md#{claims[0].label.lower()}" if claims else "claims_explored.md",
        command=record["command"],
        overrides=(f"study={name}",),
        metric=record["metric"],
        findings=[finding(each, record["metric"]) for each in record["verdicts"]],
        runs=scored_runs(scored["scores"], (f"study={name}",), tuned) if scored else run_rows([]),
        levels=level_rows([] if scored else levels),
        tuned=tuned,
        facts={"commit": record["commit"], "machine": machine_of(record["machine"]), "trained": record["runs"]},
    )


LEVEL = ("n", "mean", "iqm", "iqm_low", "iqm_high", "collapsed", "failed")


def finding(verdict: Mapping[str, Any], metric: str) -> Finding:
    """Return a verdict as it stands in a record."""
    stratum = verdict.get("stratum") or ""
    return Finding(
        role=CONTROL if verdict["control"] or verdict["direction"] == "identical" else EXPECTED,
        condition=stratum,
        arm=without(verdict["variant"], stratum),
        versus=without(verdict["versus"], stratum) if "versus" in verdict else "",
        metric=verdict.get("metric") or metric,
        verdict=verdict["verdict"],
        expected=verdict["claim"],
        effect=verdict.get("estimate"),
        low=verdict.get("low"),
        high=verdict.get("high"),
        n=verdict["n"],
        p=verdict.get("p_holm"),
        smallest=verdict.get("minimum_effect"),
        said=verdict["reason"],
    )


def machine_of(facts: Mapping[str, Any]) -> str:
    """Return a stored machine in a line."""
    return f"{facts['processor']}, {facts['cores']} cores, torch {facts['torch']}"
