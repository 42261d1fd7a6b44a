"""What is allowed but seldom meant is said in one line on standard error, once, and then trained."""

import pytest
from command import command  # noqa: F401 (a fixture)

TINY = ["preset=tiny", "steps=1", "logger=none"]


@pytest.mark.parametrize(
    "arguments", [["clip=gspo"], ["-m", "seed=0,1", "clip=gspo,luspo,symmetric"]], ids=["run", "sweep"]
)
def test_a_remark_is_one_line_and_stops_nothing(command, arguments):
    result = command(*arguments, *TINY)
    notes = [line for line in result.err.splitlines() if line.startswith("note: ")]
    assert result.code == 0, result.err
    assert len(notes) == 1 and notes[0].startswith("note: clip=gspo agg=token: ")
