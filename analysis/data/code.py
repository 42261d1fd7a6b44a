"""The code and the machine that trained the runs, by their summaries, and a note where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = ("MKL_CBWR", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")
SHORT = 8  # characters of a hash
UNKNOWN = "unknown"  # code of steps of which code.jsonl was lost


def code_facts(summary: Mapping[str, Any]) -> dict[str, str | None]:
    """`code`: the hash of the package's files, those of a run that other code went on with joined by "+"; `commit`.

    A commit ends in "+" where the files were not as committed. `machine`: what else the bits depend on, as
    `Intel … AVX2, MKL_CBWR=AUTO,STRICT`. None where the summary does not say; "unknown" where it says of later steps
    only.
    """
    listed = summary.get("code")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    hashes = [UNKNOWN] if entries and entries[0].get("step", 0) != 0 else []
    commits, machines = [], []
    for entry in entries:
        hashes.append(str(entry.get("files"))[:SHORT])
        if entry.get("commit"):
            commits.append(str(entry["commit"])[:SHORT] + "+" * bool(entry.get("dirty")))
        if entry.get("cpu"):
            processor = " ".join(str(entry.get(key) or "") for key in ("cpu", "vectors"))
            machines.append(", ".join([processor, *(f"{key}={entry[key]}" for key in SETTINGS if entry.get(key))]))
    return {
        "code": "+".join(files for files, _ in groupby(hashes)) or None,
        "commit": ", ".join(commits) or None,
        "machine": ", then ".join(dict.fromkeys(machines)) or None,
    }


def machine_note(runs: pd.DataFrame) -> str:
    """Say that completed runs were trained on different machines, or settings; "" if they were not, or do not say."""
    known = runs[(runs["status"] == "completed") & runs["machine"].notna()]
    if known["machine"].nunique() < 2 and not known["machine"].str.contains(", then ", regex=False).any():
        return ""
    texts = [f"{machine}: {n} run{'s' * (n > 1)}" for machine, n in known.groupby("machine", sort=False).size().items()]
    return f"The runs were trained on different machines, so their bits may differ: {'; '.join(texts)}."


def code_note(runs: pd.DataFrame) -> str:
    """Say that completed runs were trained by different code; "" if they were not, or if they do not say."""
    known = runs[(runs["status"] == "completed") & runs["code"].notna()]
    if known["code"].nunique() < 2 and not known["code"].str.contains("+", regex=False).any():
        return ""
    texts = []
    for code, n, commit in known.groupby("code", sort=False)["commit"].agg(["size", "first"]).itertuples():
        files = f"files {code.replace('+', ', then ')}"
        named = f"commit {commit} ({files})" if isinstance(commit, str) else files
        texts.append(f"{named}: {n} run{'s' * (n > 1)}")
    return f"The runs were trained by different code: {'; '.join(texts)}. Each summary.json has the diff to its commit."
