"""A record that somebody else has written is data: what it holds is checked, and its recipe names no code."""

import json

import pytest
from speedruns import TINY, invented

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.speedrun.recipe import WORLDS, read_recipe
from rlexp.speedrun.records import records_of, write


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"recipe": ["lr=0.1\x1b[2J"]}, "holds characters"),
        ({"date": "\u202e2026"}, "holds characters"),
        ({"build": {"cpu": "\x07"}}, "holds characters"),
        ({"recipe": ["a` | <script>"]}, "holds characters"),
        ({"recipe": "lr=0.1"}, "recipe"),
        ({"completions": 5}, "completions=5: must be a list"),
        ({"completions": ["x"]}, r"completions\[0\]=x: must be a whole number"),
        ({"seeds": [True]}, r"seeds\[0\]"),
        ({"p": []}, "p=.*: must be a number"),
        ({"config": []}, "config.*: must be a set of keys"),
    ],
)
def test_a_record_of_other_values_is_one_line(tmp_path, values, line):
    file = write(invented("lr=0.1"), tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(RunFailed, match=f"tiny-1.json: is no record: .*{line}") as refused:
        records_of(TINY, tmp_path)
    assert str(refused.value).isprintable()


def test_a_record_of_endless_brackets_is_one_line(tmp_path):
    (tmp_path / "tiny-1.json").write_text("[" * 100_000)
    with pytest.raises(RunFailed, match="is no record: it is not JSON"):
        records_of(TINY, tmp_path)


CODE = [
    "task.reward=os:system",
    "backend.accelerate=x",
    "norm._target_=os.system",
    "+norm._target_=os.system",
    "--trust",
]
CODE += ["hydra.callbacks.x._target_=os.system", "+hydra.searchpath=[there]", "hydra/launcher=basic", "+hydra/env=x"]
CODE += [
    "preset=../there",
    "preset=/there",
    "+norm@_global_=../../there",
    "norm@hydra.callbacks=local",
    "lr=${oc.env:A}",
]


@pytest.mark.parametrize("override", CODE)
@pytest.mark.slow
def test_a_recipe_names_no_code_and_no_other_file(override):
    with pytest.raises(ConfigError) as refused:
        read_recipe(WORLDS["sort"], [override])
    assert len(refused.value.problems) == 1
    assert "recipe" in str(refused.value) or not {"@", "/"} & {*override.partition("=")[0]}
