"""The tests of the same bits (``-m bits``) under every instruction set and mode of MKL that changes kernels here.

python -m tests.faults.instruction_sets

PyTorch takes its kernels by ``ATEN_CPU_CAPABILITY``, MKL by ``MKL_ENABLE_INSTRUCTIONS`` and ``MKL_CBWR``. What the
processor does not have is left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from rlexp.record.provenance import code, cpu
from tests.faults.common import ROOT, options, store

SETTINGS = [
    {},
    {"ATEN_CPU_CAPABILITY": "avx2"},
    {"ATEN_CPU_CAPABILITY": "default"},
    {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2"},  # where nine failed at first
    {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    {"MKL_CBWR": "AVX2,STRICT"},
    {"MKL_CBWR": "COMPATIBLE"},
    {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    {"MKL_CBWR": "AUTO"},
    {"MKL_CBWR": "AVX2"},
]
VECTORS = ["DEFAULT", "AVX2", "AVX512"]
VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS")
COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped)")
MOST_SECONDS = 3 * 3600


def here(settings: Mapping[str, str]) -> bool:
    """Whether the processor has what the settings name."""
    wanted = settings.get("ATEN_CPU_CAPABILITY", "default").upper()
    return VECTORS.index(wanted) <= VECTORS.index(torch.backends.cpu.get_cpu_capability())


def bits(settings: Mapping[str, str], workers: int) -> dict[str, Any]:
    """Run the tests in a process with the settings; return how many passed, and what failed."""
    variables = {key: value for key, value in os.environ.items() if key not in VARIABLES} | settings
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "bits", "-n", str(workers), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=MOST_SECONDS)
    lines = done.stdout.splitlines() or [done.stderr]
    counts = {kind: int(number) for number, kind in COUNTS.findall(lines[-1])}
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        failed = [f"exit code {done.returncode}: {lines[-1]}"]
    return {**counts, "wrong": failed, "seconds": round(time.perf_counter() - started)}


def main() -> None:
    """Run all settings, print and store what each came to; exit with 1 if anything failed.

    Goes on where it stopped: what the same code has passed on the same processor is not run again. What other
    processors came to stays.
    """
    arguments = options(__doc__, workers=2)
    processor, files = f"{cpu()}, {torch.backends.cpu.get_cpu_capability()}", code()["files"]
    stored = arguments.results / "instruction_sets.json"
    processors = json.loads(stored.read_text(encoding="utf-8"))["processors"] if stored.is_file() else {}
    if processors.get(processor, {}).get("code") != files:
        processors[processor] = {"code": files, "scenes": {}}
    scenes = processors[processor]["scenes"]
    for settings in filter(here, SETTINGS):
        name = " ".join(f"{key}={value}" for key, value in settings.items()) or "as usual"
        if name not in scenes or scenes[name]["wrong"]:
            scenes[name] = bits(settings, arguments.workers)
        print(name, scenes[name], flush=True)
        wrong = [f"{name}: {each}" for name, scene in scenes.items() for each in scene["wrong"]]
        findings = sum(len(scene["wrong"]) for each in processors.values() for scene in each["scenes"].values())
        store("instruction_sets", {"processors": processors, "findings": findings}, arguments.results)
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
