"""Train the studies of the claims and say what became of each: ``python -m benchmarks.claims``, hours.

``--quick`` takes minutes. Runs go to runs/claims, and the same command goes on with those that are there. What comes
out is compared with the records in docs/claims/results: the same verdicts, and on the same build for the same processor
the same bits. With ``--store`` it becomes those records, and docs/claims_explored.md is written anew. Names of claims
(c01) or of studies choose some; overrides that change no result, as hydra/launcher=ray, go to the training. Exit code 1
if a verdict is another one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims.page import write
from benchmarks.claims.texts import HOME, Claim, read_claims, studies_of
from benchmarks.claims.train import StudyFailed, lacks, record, train
from benchmarks.parts.common import ROOT
from rlexp.analysis.stats.verdicts import EXPLORATORY

RESULTS = HOME / "results"


def main() -> int:
    """Train, compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="claims or studies, all unless named, and overrides for the training")
    parser.add_argument("--quick", action="store_true", help="only the studies that take seconds")
    parser.add_argument(
        "--store", action="store_true", help="make what comes out the stored records, and write the page"
    )
    parser.add_argument("--trained", action="store_true", help="train nothing: read the runs that are there")
    parser.add_argument("--page", action="store_true", help="only write the page from the stored records")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "claims", help="where runs are kept")
    options = parser.parse_args()
    claims = read_claims()
    overrides = [name for name in options.names if "=" in name]
    same = True
    try:
        wanted = [] if options.page else chosen(claims, [n for n in options.names if n not in overrides], options.quick)
    except StudyFailed as error:
        print(error, file=sys.stderr)
        return 2
    if wanted:
        print(EXPLORATORY)
    for study in wanted:
        same &= compare_study(study, options.runs.resolve(), overrides, options.store, options.trained)
    if options.store or options.page:
        write(claims, stored(), HOME)
    return int(not same)


def chosen(claims: Sequence[Claim], names: Sequence[str], quick: bool) -> list[str]:
    """Return the studies that were asked for; StudyFailed for a name that is neither a claim nor a study of one."""
    there = studies_of(claims, quick)
    known = {claim.number: [name for name in there if name in claim.studies] for claim in claims}
    known |= {name: [name] for name in there}
    unknown = [name for name in names if name not in known]
    if unknown:
        numbers = ", ".join(claim.number for claim in claims)
        raise StudyFailed(f"{unknown[0]}: is neither a claim nor a study of one; there are {numbers} and their studies")
    return list(dict.fromkeys(study for name in names for study in known[name])) if names else there


def compare_study(study: str, runs: Path, overrides: Sequence[str], store: bool, trained: bool) -> bool:
    """Train a study and print what came out; return whether its verdicts are those that are stored."""
    if missing := lacks(study):
        print(f"{study}: left out, it needs {missing}", flush=True)
        return True
    try:
        found = record(study, runs / study) if trained else train(study, runs, overrides)
    except StudyFailed as error:
        print(error, flush=True)
        return False
    path = RESULTS / f"{study}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    print("\n".join(summary_lines(found, before)), flush=True)
    if store:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return store or before is None or verdicts_of(found) == verdicts_of(before)


def summary_lines(found: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Return the lines about a study: what came out, beside what is stored."""
    seconds = "" if found["seconds"] is None else f", {found['seconds']} s"
    compared = "nothing is stored"
    if before is not None:
        bits = "the same bits" if found["rows"] == before["rows"] else "other bits"
        compared = f"{'the same' if verdicts_of(found) == verdicts_of(before) else 'OTHER'} verdicts as stored, {bits}"
    lines = [f"{found['study']}: {found['runs']} runs{seconds}; {compared}"]
    earlier = dict(verdicts_of(before)) if before else {}
    for claim, word in verdicts_of(found):
        then = earlier.get(claim, word)
        lines.append(f"  {word}: {claim}" + (f" (stored: {then})" if then != word else ""))
    return lines + ([f"  {found['no_verdict']}"] if found["no_verdict"] else [])


def verdicts_of(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the expectations of a study and what became of each."""
    return [(each["claim"], each["verdict"]) for each in found["verdicts"]]


def stored() -> dict[str, Any]:
    """Return all records that are stored, by their study."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob("*.json"))}


if __name__ == "__main__":
    sys.exit(main())
