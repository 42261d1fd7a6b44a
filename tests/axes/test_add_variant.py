"""What README says about adding a variant, done literally in a copy of the project: its code blocks, its commands."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from project_copy import ROOT, Copy
from small_runs import SHORT, SMALL

pytestmark = pytest.mark.slow
FACTS = '@facts(compares="group", laws=("scale", "zero sum"))\ndef mad('
LAWS = ("tests/axes/test_norm_laws.py", "-k", "mad and (states or state or alone)")


class Block(NamedTuple):
    """A code block, and the file that the text before it names last."""

    language: str
    path: str
    text: str


def blocks() -> list[Block]:
    """Return the code blocks of the section in their order."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Add a variant\n")[2].partition("\n## ")[0]
    found, before = [], ""
    for text, language, code in re.findall(r"(.*?)```(\w+)\n(.*?)```\n", section, re.DOTALL):
        before += text
        found.append(Block(language, re.findall(r"`([\w/]+\.(?:py|yaml))`", before)[-1], code))
    return found


def pytest_in(copy: Copy, *arguments: str) -> str:
    result = copy.run("pytest", "-q", "-p", "no:cacheprovider", *arguments)
    return result.stdout


@pytest.fixture
def copy(tmp_path) -> Copy:
    """Return a copy with the function and the YAML."""
    copy = Copy(tmp_path)
    for block in blocks()[:2]:
        copy.append(block.path, block.text)
    return copy


def test_the_section_has_a_function_a_yaml_a_reference_and_commands():
    shown = [(block.language, block.path.partition("/")[0]) for block in blocks()]
    assert shown == [("python", "rlexp"), ("yaml", "conf"), ("python", "tests"), ("sh", "tests")]


def test_a_function_and_a_yaml_are_a_variant(copy, tmp_path):
    sweep = copy.run("rlexp.train", "-m", "norm=local,mad", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0 and "mad" in sweep.stdout, sweep.stderr
    assert len(list(tmp_path.glob("sweep/norm=mad,*/summary.json"))) == 2
    refused = copy.run("rlexp.train", "norm=mad", "norm.eps=-1")
    assert refused.returncode == 2 and "norm.eps=-1: must be above 0" in refused.stderr
    refused = copy.run("rlexp.train", "norm=mad", "group_size.completions=1")
    assert refused.returncode == 2 and "norm=mad: compares a completion with others" in refused.stderr


def test_the_tests_fail_until_everything_is_there_and_say_what_to_write_where(copy):
    """Of the command that README prints only what a variant named mad can change: all of it takes minutes."""
    _, _, reference, commands = blocks()
    command, tests = commands.text.splitlines()
    places = [place for place in tests.split() if place.startswith("tests/")]
    selected = [*places, "-k", "mad and not add_variant or page_is_up_to_date or every_function"]
    without = pytest_in(copy, *selected)
    assert "norm=mad: write norm_mad in tests/references/reference_norm.py from its source" in without
    assert "make it anew: python -m rlexp.export.catalogue > docs/variants.md" in without
    copy.append(reference.path, reference.text)
    assert copy.shell(command).returncode == 0
    assert "`norm=mad`: `eps` 1e-06" in (copy.folder / "docs/variants.md").read_text(encoding="utf-8")
    after = pytest_in(copy, *selected)
    assert re.search(r"\d+ passed", after) and not re.search(r"\d+ (failed|error)", after), after


WRONG = {
    '@facts(compares="group", laws=("scale",))': 'norm=mad obeys "zero sum" (the advantages of a group add up to 0)',
    '@facts(compares="group", laws=("scale", "zero sum", "linear"))': 'norm=mad does not obey "linear" (advantages are',
    '@facts(laws=("group shift", "equal", "equal group", "faint", "scale", "zero sum"))': 'must have compares="group"',
}


@pytest.mark.parametrize("facts", WRONG)
def test_wrong_facts_are_found(copy, facts):
    copy.replace(blocks()[0].path, FACTS, f"{facts}\ndef mad(")
    assert WRONG[facts] in pytest_in(copy, *LAWS)


def test_a_name_that_is_not_offered_is_refused_before_anything_is_trained(copy):
    copy.replace(blocks()[0].path, "def mad(rewards: PerCompletion,", "def mad(rewards: PerCompletion, foo: PerToken,")
    refused = copy.run("rlexp.train", "norm=local")
    assert refused.returncode == 2
    assert "norm=mad asks for `foo`, which norm is not offered; there are adjustments" in refused.stderr
