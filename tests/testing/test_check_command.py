"""``rlexp check``: a line a property, exit code 1 with what fails, 2 where there is nothing to check."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from schemas import check_schema

from rlexp.__main__ import COMMANDS
from rlexp.core.registry import Registration
from rlexp.core.types import PerCompletion, Positive
from rlexp.testing.__main__ import main


def unchanged(rewards: PerCompletion, *, factor: Positive) -> PerCompletion:
    return factor * rewards


def broken(rewards: PerCompletion) -> PerCompletion:
    return rewards / rewards.std(-1, keepdim=True)


def registration(group, name, function, **defaults):
    return Registration(group, name, function, {"name": name, **defaults})


def test_json_has_a_row_for_each_property(plugin, capsys):
    code, out = checked([*plugin, registration("norm", "broken", broken)], "a_plugin", "--json", capsys=capsys)
    found = check_schema("check", out)
    assert code == 1 and found["failed"] == sum(bool(row["problem"]) and not row["hint"] for row in found["checked"])
    assert found["failed"] > 0 and {row["choice"] for row in found["checked"]} == {"norm=broken"}


@pytest.fixture
def plugin(monkeypatch):
    """A module that can be imported, and the list of what is registered before and after."""
    monkeypatch.setitem(sys.modules, "a_plugin", ModuleType("a_plugin"))
    return [registration("norm", "of_others", broken)]


def checked(found, *arguments, capsys):
    """Check ``a_plugin``, whose import registers what ``found`` has beside its first entry."""
    calls = iter([found[:1]])
    code = main(arguments, lambda: next(calls, found))
    return code, capsys.readouterr().out


def test_a_function_of_a_module_is_checked_with_its_defaults(plugin, capsys):
    code, text = checked([*plugin, registration("norm", "scaled", unchanged, factor=2.0)], "a_plugin", capsys=capsys)
    assert code == 0 and text.startswith("norm=scaled\n  signature ") and "of_others" not in text
    assert "masked tokens" in text and 'hint: norm=scaled obeys "linear"' in text
    assert text.endswith("every property holds\n")


def test_what_fails_is_named_and_the_exit_code_says_so(plugin, capsys):
    code, text = checked([*plugin, registration("norm", "broken", broken)], "a_plugin", capsys=capsys)
    assert code == 1 and "FAILED: groups of one: " in text and "do not hold" in text


def test_a_group_without_checks_is_said_to_have_none(plugin, capsys):
    code, text = checked([*plugin, registration("figure", "bars", broken)], "a_plugin", capsys=capsys)
    assert code == 0 and "figure=bars\n  no check" in text


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("a_plugin", 'a_plugin: registers nothing; rlexp.register("norm", function) does'),
        ("no_such_plugin", "no_such_plugin: cannot be imported: ModuleNotFoundError: No module named 'no_such_plugin'"),
        ("norm=nix", "norm=nix: no such choice; there are a2po, asymre"),
        ("nurm=local", "nurm=local: no such axis; there are prompts, allocation, reward, shaping"),
    ],
)
def test_what_cannot_be_checked_is_one_line(plugin, word, line, capsys):
    with pytest.raises(SystemExit) as end:
        main([word], lambda: plugin)
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.startswith(line) and said.count("\n") == 1


def test_one_of_ours_by_its_name(capsys):
    assert main(["filter=overlong", "agg=token"], list) == 0
    text = capsys.readouterr().out
    assert "agg=token\n" in text and "filter=overlong.loss\n" in text and "FAILED" not in text


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 2), (["--nix"], 2)])
def test_usage(arguments, code, capsys):
    assert main(arguments, list) == code
    said = capsys.readouterr()
    assert (said.err if code else said.out).startswith("usage: rlexp check") and COMMANDS["check"] == "rlexp.testing"
