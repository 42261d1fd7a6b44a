"""Everything that is stored under docs/ about trained runs, read into studies of one form."""

from __future__ import annotations

from pathlib import Path

from benchmarks.parts.common import ROOT
from benchmarks.stored.claims import claim_studies
from benchmarks.stored.folders import ablation_studies, question_studies
from benchmarks.stored.several_tricks import several_tricks_studies
from benchmarks.stored.speedruns import speedrun_studies
from benchmarks.stored.study import Study
from benchmarks.stored.sweeps import dynamics_studies, sweep_studies

KINDS = (
    claim_studies,
    question_studies,
    ablation_studies,
    several_tricks_studies,
    sweep_studies,
    dynamics_studies,
    speedrun_studies,
)


def studies(docs: Path = ROOT / "docs") -> list[Study]:
    """Return all stored studies, by kind."""
    return [study for read in KINDS for study in read(docs)]
