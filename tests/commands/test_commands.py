"""What a few hundred command lines print and how they end, as tests/commands/*.txt have it; transcript.py says how."""

from pathlib import Path

import pytest

from tests.commands.transcript import printed, sessions

SESSIONS = {path.stem: sessions(path) for path in sorted(Path(__file__).parent.glob("*.txt"))}
EVERY = 12  # of so many, one is run by make test, the others by make test-all
CASES = [
    pytest.param(each, id=f"{stem}: {each.name}", marks=pytest.mark.rare if n % EVERY else pytest.mark.slow)
    for stem, found in SESSIONS.items()
    for n, each in enumerate(found)
]


@pytest.mark.parametrize("session", CASES)
def test_a_command_prints_what_it_did(session):
    assert printed(session) == session.lines, "if it is meant: python -m tests.commands.transcript"


def test_there_are_many():
    assert sum(len(each.commands) for found in SESSIONS.values() for each in found) >= 200
