"""rlexp.make_model writes a folder that model=pretrained reads, and ends in a line where it cannot."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from rlexp import make_model  # noqa: E402
from rlexp.language import made  # noqa: E402

TINY = ["model.layers=1", "model.width=32", "model.heads=2", "start.prompts=16", "start.checked=64", "start.every=1"]


def ended(arguments, capsys):
    """The exit code and the line on stderr."""
    with pytest.raises(SystemExit) as end:
        make_model.main(arguments)
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("update ")]
    assert len(lines) == 1, lines
    return end.value.code, lines[0]


def test_what_it_makes_is_read_by_the_line_that_it_prints(tmp_path, capsys):
    folder = tmp_path / "sort"
    make_model.main([str(folder), "task=sort", "start=sft", "start.accuracy=0.01", "start.lr=1e-2", *TINY])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{folder}: 0.02 million parameters, sampled accuracy 0.0")
    assert second == f"take it with: model=pretrained model.path={folder}"
    note = json.loads((folder / made.NOTE).read_text())
    assert note["task"]["name"] == "sort" and note["start"]["accuracy"] == 0.01 <= note["accuracy"]

    from rlexp.config.compose import compose
    from rlexp.language import text_task

    config = compose("backend=trl", "task=sort", *second.partition(": ")[2].split())
    model, tokenizer = made.load(config, text_task(config.task), None)
    assert model.config.num_hidden_layers == 1 and tokenizer.decode(tokenizer("3 1 →")["input_ids"]) == "3 1 →"


@pytest.mark.parametrize(
    "arguments, line",
    [
        ([], "the first argument is the folder to make"),
        (["task=sort"], "the first argument is the folder to make"),
        (["{}", "sort"], "sort: is no override, as task=sort"),
        (["{}", "task=srt"], "task=srt: no such choice; did you mean sort?"),
        (["{}", "model.width=x"], "model.width=x: must be a whole number"),
        (["{}", "start=sharpened"], "start=scaled is of backend=replicas; take start=random, sft or mixture"),
        (["{}", "model=gru"], "backend=trl: trains language models; take model=llama or model=pretrained"),
        (["{}", "model=pretrained"], "model.path=null: needs a folder"),
        (["{}", "backend=replicas"], "model=llama: needs backend=trl"),
        pytest.param(
            ["{}", "model=pretrained", "model.path=a/b", "model.lora=4"],
            "model.lora=4: adapters are made with each run",
            marks=pytest.mark.skipif(find_spec("peft") is None, reason="needs the extra lora"),
        ),
    ],
)
def test_bad_input_is_a_line(arguments, line, tmp_path, capsys):
    code, said = ended([argument.format(tmp_path / "new") for argument in arguments], capsys)
    assert code == 2 and line in said and not (tmp_path / "new").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "file").touch()
    code, said = ended([str(tmp_path), "task=sort"], capsys)
    assert (code, said) == (2, f"{tmp_path}: is there already; name another folder, or remove it")
    code, said = ended([str(tmp_path / "file"), "task=sort"], capsys)
    assert (code, said) == (2, f"{tmp_path / 'file'}: is there already, and is no folder")


def test_a_start_that_is_not_reached_is_a_line_and_no_folder(tmp_path, capsys):
    wanted = ["task=sort", "start=sft", "start.accuracy=0.9", "start.updates=1", *TINY]
    code, said = ended([str(tmp_path / "sort"), *wanted], capsys)
    assert code == 1 and said.startswith("start: sampled accuracy 0.000 after 1 updates, wanted 0.9; ")
    assert not list(Path(tmp_path).iterdir())


def test_help_says_how(capsys):
    make_model.main(["--help"])
    assert "usage: python -m rlexp.make_model FOLDER" in capsys.readouterr().out
