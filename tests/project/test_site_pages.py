"""Pages of the docs site that are made: every command is one that trains, every key and every type is there."""

import json
import re

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)

from benchmarks.parts.common import ROOT
from benchmarks.site import keys, papers, schemas
from benchmarks.site.__main__ import HERE, api
from rlexp import MODULES, PUBLIC
from rlexp.config.choices import CONF, choices_of
from rlexp.launch import hooks


@pytest.fixture(scope="module")
def rows():
    return list(papers.rows())


@pytest.fixture(scope="module")
def commands(rows):
    return sorted({line.strip("`") for _, line, *_ in rows})


def flat(values, above=""):
    for name, value in values.items():
        yield f"{above}{name}"
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}.")


def test_a_paper_has_a_row_and_only_one(rows):
    numbers = [re.search(r"abs/(\d{4}\.\d{5})", title)[1] for title, *_ in rows]
    assert len(numbers) == len(set(numbers)) > 100
    assert {"2402.03300", "2503.14476", "2503.20783", "2507.18071", "1707.06347"} <= set(numbers)
    assert not [title for title, *_ in rows if re.match(r"(after|with|against|as|of|for|from|the|in|and) ", title)]


def test_what_a_command_asks_for_was_declared(commands):
    asked = [line.split()[-1] for line in commands if line.startswith("rlexp ask ")]
    studied = [line.partition("study=")[2] for line in commands if "study=" in line]
    assert asked and not [name for name in asked if not (CONF / f"study/questions/{name}.yaml").is_file()]
    assert studied and set(studied) <= set(choices_of("study"))


@pytest.mark.rare
def test_the_commands_of_papers_pass_all_checks(command, commands, monkeypatch):  # noqa: F811
    """With two seeds in place of ten, as far as the first batch."""
    checked = hooks.check_or_exit

    def check_and_end(check, config):
        checked(check, config)
        raise SystemExit(0)

    monkeypatch.setattr(hooks, "check_or_exit", check_and_end)
    for line in (line for line in commands if " ask " not in line and "study=" not in line):
        result = command(*line.split()[1:], *(["seed=0,1"] if " -m " in line else []))
        assert result.code == 0, (line, result.err)


def test_what_came_out_is_what_the_page_of_claims_says(rows):
    page = (ROOT / "docs/claims_explored.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| \[(\w+)\]\(#\w+\) \|.*?\| \*\*(.*?)\*\* \|", page, re.MULTILINE))
    found = {pair for row in rows for pair in re.findall(r"\[([CD]\d+)\]\(\S+\): ([^<]+)", row[-1])}
    assert len(found) > 20 and not [pair for pair in found if said[pair[0]] != pair[1]]


def test_every_key_of_the_config_is_on_its_page():
    page = keys.page()
    base = yaml.safe_load((CONF / "config.yaml").read_text(encoding="utf-8"))
    groups = [name for entry in base.pop("defaults") if isinstance(entry, dict) for name in entry if " " not in name]
    base.pop("hydra")
    assert [name for name in flat(base) if f"| `{name}` |" not in page] == []
    assert [name for name in groups if f"| [`{name}`](" not in page] == []
    assert [name for name in choices_of("task") if f"### task={name}\n" not in page] == []
    assert "| `minibatches` | `2` | optimizer updates in a pass; groups are never split. With 1" in page


def test_every_type_of_a_schema_is_on_its_page():
    page = schemas.page()
    for path in ROOT.glob("analysis/**/*.schema.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        assert [name for name in schema.get("$defs", ()) if f"### {name}\n" not in page] == []
        assert [name for name in schema.get("items", schema)["properties"] if f"| `{name}` |" not in page] == []


def test_every_public_name_is_on_the_page_of_the_api():
    page = api((HERE / "api.md").read_text(encoding="utf-8"))
    assert [name for name in PUBLIC if f"heading: rlexp.{name}," not in page and name != "main"] == []
    assert [name for name in MODULES if f"rlexp.{name}" not in page] == []
