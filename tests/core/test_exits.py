"""Where nobody reads what is printed, the program goes on."""

import subprocess
import sys
from typing import NoReturn, get_type_hints

import pytest

from rlexp.core.exits import FAILED, exit_with

SAYS = """
import sys
from rlexp.core.exits import safe_stdio
with safe_stdio():
    for number in range(20000):
        print("a line", number)
        print("a line", number, file=sys.stderr)
open(sys.argv[1], "w").write("through")
"""
READERS = {
    "a reader who leaves": "2>&1 | head -1",
    "closed errors": "2>&- > /dev/null",
    "closed both": ">&- 2>&-",
    "all closed": "<&- >&- 2>&-",
    "a full terminal": "2> /dev/full > /dev/full",
    "a full file": "> /dev/full 2> /dev/null",
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_program_comes_to_its_end(tmp_path, reader):
    command = f'"{sys.executable}" -c "$0" "$1" {reader}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command, SAYS, tmp_path / "file"], capture_output=True, text=True)
    assert (done.returncode, (tmp_path / "file").read_text()) == (0, "through")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_file_is_not_taken_for_the_closed_terminal(tmp_path):
    """The first file that is opened would get its number, and whatever is printed."""
    says = SAYS.replace("    for", "    file = open(sys.argv[1] + '2', 'w'); assert file.fileno() > 2\n    for")
    command = f'"{sys.executable}" -c "$0" "$1" <&- >&- 2>&-'
    assert subprocess.run(["bash", "-c", command, says, tmp_path / "file"]).returncode == 0
    assert (tmp_path / "file2").read_text() == ""


def test_a_full_file_is_said_where_somebody_reads():
    command = f'"{sys.executable}" -c "$0" /dev/null > /dev/full'
    done = subprocess.run(["bash", "-c", command, SAYS.replace("20000", "2")], capture_output=True, text=True)
    said = "note: no more can be printed (No space left on device); everything else goes on"
    assert done.stderr.splitlines().count(said) == 1


def test_to_end_the_program_is_the_last_that_a_line_does(capsys):
    assert get_type_hints(exit_with)["return"] is NoReturn
    with pytest.raises(SystemExit):
        exit_with("over", FAILED)
    assert capsys.readouterr().err == "over\n"
