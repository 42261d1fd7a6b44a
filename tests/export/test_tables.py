"""The tables as data: what they name is computed, what is computed they name."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from small_runs import compose

from rlexp.export import tables
from rlexp.export.computed import CONDITIONS, NOTES, VALUES

TEXT = "\n".join(path.read_text(encoding="utf-8") for path in Path(tables.__file__).parent.glob("*.yaml"))


def test_everything_that_is_computed_is_in_a_table():
    named = [*(f"${name}()" for name in VALUES), *(f"{name}: " for name in CONDITIONS), *(f"${name}" for name in NOTES)]
    lines = TEXT.replace(":\n", ": \n")
    assert not [name for name in named if name not in lines]


@pytest.mark.parametrize("notes", [["$no such note"], [{"no such condition": "text"}]], ids=str)
def test_a_note_that_names_what_is_not_there_is_an_error(notes):
    with pytest.raises(KeyError, match="no such"):
        list(tables.Rule({}, notes, {}).notes_of(None, compose()))


def test_a_setting_that_names_a_function_which_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="no_such_function"):
        tables.read_value("$no_such_function()", None, compose())


@pytest.mark.parametrize(
    ("written", "expected"),
    [(0.5, 0.5), ("token", "token"), ("$low", 0.1), ("$clip or 9", 9), ("$low or 9", 0.1), (["$low", 1], [0.1, 1])],
    ids=str,
)
def test_a_setting_is_a_value_or_a_hyperparameter_or_a_number_where_the_hyperparameter_is_null(written, expected):
    assert tables.read_value(written, SimpleNamespace(low=0.1, clip=None), compose()) == expected
