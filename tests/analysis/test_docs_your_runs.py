"""docs/your_runs.md shows what its commands print, as tests/commands/your_runs.txt has it."""

import re
from pathlib import Path

import pytest

from tests.commands.transcript import sessions

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs/your_runs.md").read_text(encoding="utf-8")
BLOCKS = [block.rstrip() for block in re.findall(r"^```\n(\$ rlexp .*?)```", DOC, re.MULTILINE | re.DOTALL)]
PRINTED = {
    "\n".join(re.sub(r"^[|!] ?", "", line) for line in session.lines if not re.fullmatch(r"\[\d+\]", line))
    for session in sessions(ROOT / "tests/commands/your_runs.txt")
}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_what_it_shows_is_what_is_printed(block):
    assert block in PRINTED


def test_it_shows_some():
    assert len(BLOCKS) >= 5


def test_it_names_every_format():
    from rlexp.analysis.data.readers.detect import READERS

    for name in ("csv", "parquet", ".wandb", "tfevents", "trainer_state.json", ".db", ".jsonl", "wandb://"):
        assert name in DOC
    assert len(READERS) == 7
