"""What docs/add_variant.md says about adding a variant, done literally in a copy of the project."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from project_copy import ROOT, Copy
from small_runs import SHORT, SMALL

pytestmark = pytest.mark.slow
FACTS = '@NormFacts(compares="group", laws=("scale", "zero sum"))\n'
# What stands in the files of tests about every variant.
OF_CHOICES = re.compile(r"\((norm|any)_choice|\bCHOICES\b|\bchoices\(|page_is_up_to_date")
# Other names for the function, with wrong facts beside it, and what the tests say of them.
WRONG = {
    "modest": (
        '@NormFacts(compares="group", laws=("scale",))\n',
        'norm=modest obeys "zero sum" (the advantages of a group',
    ),
    "boasts": (
        '@NormFacts(compares="group", laws=("scale", "zero sum", "linear"))\n',
        'norm=boasts does not obey "linear" (advantages are',
    ),
    "unstated": (
        '@NormFacts(laws=("group shift", "equal", "equal group", "faint", "scale", "zero sum"))\n',
        'must have compares="group"',
    ),
}


class Block(NamedTuple):
    """A code block, and the file that the text before it names last."""

    language: str
    path: str
    text: str


def blocks() -> list[Block]:
    """Return the code blocks of the section in their order."""
    section = (ROOT / "docs" / "add_variant.md").read_text(encoding="utf-8")
    found, before = [], ""
    for text, language, code in re.findall(r"(.*?)```(\w+)\n(.*?)```\n", section, re.DOTALL):
        before += text
        found.append(Block(language, re.findall(r"`([\w/]+\.(?:py|yaml))`", before)[-1], code))
    return found


def renamed(block: Block, name: str) -> Block:
    """Return a block about a variant of another name."""
    path, text = (re.sub(r"(?<![a-z])mad(?![a-z])", name, each) for each in (block.path, block.text))
    return block._replace(path=path, text=text)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    """Return a copy with the function and the YAML."""
    copy = Copy(tmp_path_factory.mktemp("project"))
    for block in blocks()[:2]:
        copy.append(block.path, block.text)
    return copy


def test_the_section_has_a_function_a_yaml_a_reference_and_commands():
    shown = [(block.language, block.path.partition("/")[0]) for block in blocks()]
    assert shown == [("python", "rlexp"), ("yaml", "conf"), ("python", "tests"), ("sh", "tests")]


def test_a_function_and_a_yaml_are_a_variant(copy):
    sweep = copy.run("rlexp.train", "-m", "norm=local,mad", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep")
    assert sweep.returncode == 0 and "mad" in sweep.stdout, sweep.stderr
    assert len(list(copy.folder.glob("sweep/norm=mad,*/summary.json"))) == 2
    refused = copy.run("rlexp.train", "norm=mad", "norm.eps=-1")
    assert refused.returncode == 2 and "norm.eps=-1: must be above 0" in refused.stderr
    refused = copy.run("rlexp.train", "norm=mad", "group_size.completions=1")
    assert refused.returncode == 2 and "norm=mad: compares a completion with others" in refused.stderr


def test_a_name_that_is_not_offered_is_refused_before_anything_is_trained(copy):
    asks = ("def mad(rewards: PerCompletion,", "def mad(rewards: PerCompletion, foo: PerCompletion,")
    with copy.replaced(blocks()[0].path, asks):
        refused = copy.run("rlexp.train", "norm=local")
    assert refused.returncode == 2
    assert "norm=mad asks for `foo`, which norm is not offered; there are adjustments" in refused.stderr


@pytest.mark.rare  # runs the tests of choices in a copy, twice
def test_the_tests_fail_until_everything_is_there_and_say_what_to_write_where(copy):
    """Of the command that the page prints only what a variant can change: all of it takes minutes.

    Beside mad stand variants that are complete but for their facts, which are wrong.
    """
    function, yaml, reference, commands = blocks()
    command, tests = commands.text.splitlines()
    for name, (facts, _) in WRONG.items():
        for block in (function._replace(text=function.text.replace(FACTS, facts)), yaml, reference):
            other = renamed(block, name)
            copy.append(other.path, other.text)
    folders = [copy.folder / place for place in tests.split() if place.startswith("tests/")]
    every = [file for folder in folders for file in folder.rglob("test_[!a]*.py")]
    files = [str(file) for file in every if OF_CHOICES.search(file.read_text())]
    always = "page_is_up_to_date or every_function"
    without = pytest_in(copy, *files, "-k", f"mad or promised and ({' or '.join(WRONG)}) or {always}")
    assert "norm=mad: write norm_mad in tests/references/reference_norm.py from its source" in without
    assert "make it anew: python -m benchmarks.catalogue > docs/variants.md" in without
    for _, said in WRONG.values():
        assert said in without
    copy.append(reference.path, reference.text)
    assert copy.shell(command).returncode == 0
    assert "`norm=mad`: `eps` 1e-06" in (copy.folder / "docs/variants.md").read_text(encoding="utf-8")
    after = pytest_in(copy, *files, "-k", f"mad or {always}")
    assert re.search(r"\d+ passed", after) and not re.search(r"\d+ (failed|error)", after), after


def pytest_in(copy: Copy, *arguments: str) -> str:
    return copy.run("pytest", "-q", "-n0", "-p", "no:cacheprovider", *arguments).stdout
