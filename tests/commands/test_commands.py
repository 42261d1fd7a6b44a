"""What a few hundred command lines print and how they end, as tests/commands/*.txt have it; transcript.py says how."""

from pathlib import Path

import pytest

from tests.commands.transcript import printed, sessions

pytestmark = pytest.mark.slow  # whole commands

SESSIONS = {path.stem: sessions(path) for path in sorted(Path(__file__).parent.glob("*.txt"))}
EVERY = 16  # of so many, one is among the quick tests
CASES = [
    pytest.param(each, id=f"{stem}: {each.name}", marks=[pytest.mark.slow] * (each.scene == "trained" or n % EVERY > 0))
    for stem, found in SESSIONS.items()
    for n, each in enumerate(found)
]


@pytest.mark.parametrize("session", CASES)
def test_a_command_prints_what_it_did(session):
    assert printed(session) == session.lines, "if it is meant: python -m tests.commands.transcript"


def test_there_are_many():
    assert sum(len(each.commands) for found in SESSIONS.values() for each in found) >= 200
