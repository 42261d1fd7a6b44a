"""docs/variants.md is what the command prints, and has every choice of every axis."""

import re
from pathlib import Path

import pytest
from axis_choices import CONF

from benchmarks import catalogue
from benchmarks.parts import yaml_files
from benchmarks.parts.versions import VERSIONS
from rlexp.export.tables import kind

pytestmark = pytest.mark.slow  # a page of all choices

DOC = Path(__file__).parents[2] / "docs" / "variants.md"
GROUPS = (*catalogue.SECTIONS, "preset")


@pytest.fixture(scope="module")
def page():
    return catalogue.page()


def test_the_page_is_up_to_date(page):
    if DOC.read_text(encoding="utf-8") != page:
        pytest.fail("docs/variants.md is old; make it anew: python -m benchmarks.catalogue > docs/variants.md")


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_has_a_row_and_its_hyperparameters(page, group):
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith(f"| `{group}=")]
    assert rows == [f"`{group}={path.stem}`" for path in sorted((CONF / group).glob("*.yaml"))]


@pytest.mark.parametrize("axis", catalogue.SECTIONS)
def test_every_choice_is_described_below_its_function(page, axis):
    text = page[page.index(f"## {axis}\n") :]
    for one in yaml_files.choices(axis):
        for node in one.active.values():
            below = text[text.index(f"### {axis}: {node.name}\n") :].partition("\n### ")[0]
            assert f"\n- `{axis}={one.label}`" in below
            assert all(f"`{hyperparameter}` " in below for hyperparameter in vars(node) if hyperparameter != "name")
            assert one.comment in below


@pytest.mark.parametrize("axis", catalogue.SECTIONS)
def test_every_function_begins_with_a_sentence_of_its_own(axis):
    """The first paragraph is the formula; what the page says about a function must not be empty."""
    for name, function in catalogue.functions(axis).items():
        sentence = next(catalogue.paragraphs(function)).partition("**Source:**")[0].strip()
        place = f"`{function.__name__}` in {function.__module__.replace('.', '/')}.py"
        message = f"{axis}={name}: begin the docstring of {place} with a formula and a full stop"
        assert sentence.endswith((".", ":", "?")), message


def test_names_elsewhere_are_of_choices_that_exist():
    every = [one for axis in catalogue.SECTIONS for one in yaml_files.choices(axis)]
    nodes = [pair for one in every for pair in one.nodes.items()]
    existing = {(part, kind(part, node)) for part, node in nodes}
    in_other_places = {
        ("kl", f"{name} in the {place}") for name in catalogue.functions("kl") for place in ("loss", "reward")
    }
    named = [(part, name, *cells) for part, row in catalogue.NAMES.items() for name, cells in row.items()]
    assert {(part, name) for part, name, *_ in named} <= existing | in_other_places
    assert {framework for _, _, *frameworks in named for framework in frameworks} <= set(catalogue.NAMED)


def test_a_new_choice_appears(tmp_path, monkeypatch):
    path = tmp_path / "norm" / "narrow.yaml"
    path.parent.mkdir()
    path.write_text("# a text of its own\nname: local\neps: 0.5\nddof: 0\n", encoding="utf-8")
    monkeypatch.setattr(yaml_files, "CONF", tmp_path)
    lines = catalogue.section("norm", catalogue.compose())
    assert "- `norm=narrow`: `eps` 0.5, `ddof` 0; a text of its own" in lines
    assert any(line.startswith("| `norm=narrow` | `scale_rewards=group` | ") for line in lines)


def test_every_framework_says_which_version_was_read_and_when(page):
    """Those with a table or names here, and the commits that the docstrings and the YAML files speak of."""
    assert {*catalogue.TABLES, *catalogue.NAMED} <= {each.name for each in VERSIONS}
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", each.dated) and each.dated[:7] <= each.read for each in VERSIONS)
    body = page.partition("## shaping")[2]
    commits = {commit for commit in re.findall(r"\b[0-9a-f]{7,8}\b", body) if re.search("[a-f]", commit)}
    listed = " ".join(each.version for each in VERSIONS)
    assert commits and not [commit for commit in commits if commit not in listed]
