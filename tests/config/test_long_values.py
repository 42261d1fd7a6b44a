"""A message repeats the ends of a long value, not all of it, whoever complains."""

import sys

import pytest
from command import command  # noqa: F401 (a fixture)

from rlexp import __main__ as program
from rlexp.analysis.compare import main as compare
from rlexp.analysis.plan import main as plan
from rlexp.config.compose import compose
from rlexp.core.errors import ConfigError
from rlexp.core.exits import LONGEST_VALUE, ends_of, shortened
from rlexp.launch import hooks

WORD, WORDS, LIST = "a" * 3000, "a b " * 750, f"[{', '.join(map(str, range(800)))}]"
TYPED = [
    [f"lr={WORD}"],
    [f"lr='{WORDS}'"],
    [f"eval.ks='{WORDS}'"],
    [f"lr={LIST}"],
    [f"norm={WORD}"],
    [f"norm='{WORDS}'"],
    [f"{WORD}=1"],
    [f"norm.{WORD}=1"],
    [f"lr=${{{WORD}}}"],
    [WORD],
    [f"-{WORD}"],
    [f"norm=[local,{WORD}]"],
    ["-m", f"lr=1,{WORD}", "seed=0"],
    ["-m", f"norm=local,{WORD}", "seed=0"],
    [f"norm=local,{WORD}"],
    [f"hydra.run.dir={WORD}"],
    ["--from", WORD],
    [f"+a={'[' * 3000}{']' * 3000}"],
]


def short(text):
    """Whether there is something, and no long value in it."""
    return 0 < len(text) < 2000 and "a" * 300 not in text and "a b " * 75 not in text and "500, 501" not in text


@pytest.mark.slow  # much is composed
@pytest.mark.parametrize("arguments", TYPED, ids=lambda words: " ".join(words)[:30])
def test_the_command_line_repeats_its_ends(command, arguments):  # noqa: F811
    result = command(*arguments)
    assert result.code == 2 and short(result.err), result.err


@pytest.mark.parametrize("arguments", [[WORD], [".", "--metric", WORDS], [".", f"--{WORD}"]], ids=["0", "1", "2"])
@pytest.mark.parametrize("main", [compare, plan])
def test_the_commands_of_the_analysis_do_too(main, arguments, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rlexp", *arguments])
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    found = capsys.readouterr().err
    assert code == 2 and short(found), found


def test_so_does_a_complaint_after_training(capsys):
    hooks.complain([], f"no comparison: {WORD} is not a variant")
    assert short(capsys.readouterr().err)


def test_a_command_that_there_is_not(capsys):
    assert program.refuse(WORD) == 2 and short(capsys.readouterr().err)


def test_a_python_program_is_told_in_short_too():
    for value in (WORD, WORDS):
        with pytest.raises(ConfigError) as refused:
            compose(f"lr='{value}'")
        assert short(str(refused.value))


def test_what_is_not_long_stays():
    text = f"{'/folder' * 40}/metrics.jsonl is damaged; there are {', '.join(['choice'] * 300)}"
    assert shortened(text, ["lr=1", "x" * LONGEST_VALUE, ""]) == text
    assert shortened(f"lr={WORD}: must be", [f"lr={WORD}"]) == f"{ends_of(f'lr={WORD}')}: must be"
    assert ends_of(WORD) == f"{'a' * 90}…[2880 more characters]…{'a' * 30}"
