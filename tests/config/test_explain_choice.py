"""`rlexp --help` and `rlexp explain`: every choice is there, in order, with what it is."""

import re
from pathlib import Path

import pytest
from command import command  # noqa: F401 (a fixture)
from schemas import check_schema

from rlexp import __version__, train
from rlexp.config import choices, explain_choice
from rlexp.config.choices import claims

CLAIMED = {study: claim for claim in claims() for study in claims()[claim]}

ROOT = Path(__file__).parents[2]


def explained(capsys, *names):
    explain_choice.main(list(names))
    return capsys.readouterr().out


def test_every_group_has_a_line_in_the_config_and_every_key_a_text():
    folders = {file.parent.name for file in choices.CONF.glob("*/*.yaml")}
    assert {*choices.groups()} == folders
    assert all(group.default in choices.choices_of(name) for name, group in choices.groups().items())
    plain_keys = {key for key in choices.keys() if "." not in key}
    assert {"seed", "steps", "lr", "eval", "score", "baseline"} <= plain_keys
    assert [key for key in plain_keys if not choices.keys()[key].text] == []
    assert choices.keys()["resume"].text.endswith("never refuses such a folder")


def test_help_lists_numbers_in_their_order_and_marks_the_default():
    text = explain_choice.axes_help()
    lines = text.splitlines()
    assert any(line.strip() == "2, 4, 8*, 16, 32, 64" for line in lines)
    assert any(line.startswith("  norm         rewards to advantages") for line in lines)
    assert "$${task.metric}" in text  # as the template of Hydra's help wants it


def test_help_is_ours(command):
    result = command("--help")
    assert result.code == 0 and "group_size   completions a prompt, and prompts a step" in result.out
    config = (ROOT / "conf" / "config.yaml").read_text(encoding="utf-8")
    assert "\n".join(explain_choice.key_lines()) in config  # the comments there are the help
    assert "  floor: ${task.floor} # below it the run has collapsed" in result.out


def test_the_comments_of_config_yaml_are_the_texts_of_the_groups():
    config = (ROOT / "conf" / "config.yaml").read_text(encoding="utf-8")
    for name, group in choices.groups().items():
        assert re.search(rf'^  - {name}: "?{group.default}"? +# {re.escape(group.text)}$', config, re.MULTILINE), name


def test_the_version_is_ours(command):
    assert re.fullmatch(rf"rlexp {re.escape(__version__)}, torch \S+, hydra-core \S+\n", command("--version").out)


@pytest.mark.parametrize("group", choices.groups())
def test_every_choice_has_a_line_that_says_what_it_is(capsys, group):
    rows = dict(re.findall(r"^  (\w+) +(\S.*)$", explained(capsys, group), re.MULTILINE))
    listed = [choice for choice in choices.choices_of(group) if choice not in CLAIMED]
    assert {*listed} <= {*rows}
    assert all(len(rows[choice]) > 10 for choice in listed)


def test_a_study_of_a_claim_is_listed_behind_the_claim(capsys):
    rows = dict(re.findall(r"^  (\w+) +(\S.*)$", explained(capsys, "study"), re.MULTILINE))
    assert [study for study, claim in CLAIMED.items() if not re.search(rf"[ ,]{study}(,|$)", rows[claim])] == []


def test_a_claim_lists_its_studies_with_what_they_are(capsys):
    lines = explained(capsys, "study=c05").splitlines()
    assert lines[0] == "C5: Replacing groups whose rewards are all equal pays."
    assert [line.split()[0] for line in lines[2:]] == [f"study={study}" for study in claims()["c05"]]
    assert "  study=c05_dynamic_sort_sgd  The study c05_dynamic_sort with plain gradient descent." in lines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("norm", "  local                  A = (r − mean_group) / (std_group + eps). (eps=1e-06 ddof=1)"),
        ("group_size", "  16  completions=16 prompts=8"),
        ("filter", "  dynamic                   Dynamic sampling (DAPO): groups of equal rewards"),
        ("norm=local", "  norm.eps=1e-06 norm.ddof=1"),
        ("local", "norm=local\n"),
        ("filter=dynamic", "\n  filter.refill.name=zero_variance\n"),
        ("preset=dr_grpo", "norm=center clip=symmetric agg=dr_grpo kl=none"),
        ("start=flattened", "start.accuracy="),
        ("agg=dr_grpo", "agg.length=task.cap"),
        ("clip.delta", "clip=two_sided  4"),
        ("aggregation", "\n\nstudy=aggregation\n"),
        ("eval.ks", "pass@k, from those samples\n  by default eval.ks=[1, 8]"),
    ],
)
def test_what_is_explained(capsys, name, text):
    assert text in explained(capsys, name)


def test_without_a_name_every_axis_is_listed(capsys):
    out = explained(capsys)
    assert all(f"  {group} " in out for group in choices.groups())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nrm", "nrm: no such axis or key; did you mean norm?"),
        ("norm=locl", "norm=locl: no such choice; did you mean norm=local?"),
        ("normalization=locl", "norm=locl: no such choice; did you mean norm=local?"),
        ("zzz=1", "zzz=1: no such axis or key; there are task, model,"),
    ],
)
def test_an_unknown_name_is_one_line(capsys, name, line):
    with pytest.raises(SystemExit) as end:
        explained(capsys, "norm=local", name)
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.startswith(line)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("normalization", "norm"),
        ("clipping", "clip"),
        ("aggregation", "agg"),
        ("filtering", "filter"),
        ("group", "group_size"),
        ("aggregation=token", "agg=token"),
        ("learning_rate", "lr"),
    ],
)
def test_the_words_of_the_field_find_the_axes(capsys, word, name):
    found = explained(capsys, word)
    group, _, _ = word.partition("=")
    assert found.startswith(f"{group} is {name.partition('=')[0]} here\n\n") and explained(capsys, name) in found


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_it_has_help(capsys, option):
    with pytest.raises(SystemExit) as end:
        explained(capsys, option)
    assert end.value.code == 0 and "usage: rlexp explain [-h] [--json] [name ...]" in capsys.readouterr().out


def test_the_command_line_knows_it(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rlexp", "explain", "norm=center"])
    train.main()
    assert "A = r − mean_group" in capsys.readouterr().out


@pytest.mark.parametrize(
    "names", [[], ["norm=local", "clip.high"], ["local"], ["aggregation"], ["study=c01"], ["steps"]]
)
def test_json_is_as_its_schema_says(capsys, names):
    found = check_schema("explain", explained(capsys, *names, "--json"))
    overrides = {choice["override"] for axis in found["axes"] for choice in axis["choices"]}
    if not names:
        assert overrides == {f"{axis}={each}" for axis in choices.groups() for each in choices.choices_of(axis)}
        assert {key["name"] for key in found["keys"]} == {*choices.keys()}
    elif names == ["norm=local", "clip.high"]:
        assert {"norm=local", "clip=symmetric"} < overrides and "clip=naive" not in overrides
        (local,) = next(axis for axis in found["axes"] if axis["name"] == "norm")["choices"]
        assert local["functions"][0]["text"].startswith("A = (r − mean_group)") and local["values"]["ddof"] == 1
    elif names == ["steps"]:
        assert found["axes"] == [] and found["keys"][0]["name"] == "steps"
    else:
        assert overrides


def test_json_refuses_a_wrong_name_in_a_line(capsys):
    with pytest.raises(SystemExit) as end:
        explain_choice.main(["norm=lcal", "--json"])
    assert end.value.code == 2 and "did you mean norm=local" in capsys.readouterr().err
