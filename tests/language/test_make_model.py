"""rlexp.make_model writes a folder that model=pretrained reads, and ends in a line where it cannot."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from rlexp import make_model  # noqa: E402
from rlexp.language import made  # noqa: E402

TINY = ["model.layers=1", "model.width=32", "model.heads=2", "start.prompts=16", "start.checked=64", "start.every=1"]

TINY_RUN = ["task=sort", "steps=2", "eval.every=2", "eval.prompts=8", "eval.samples=2", "eval.ks=[1]", "logger=none"]
TINY_RUN += ["group_size=2", "group_size.prompts=4"]


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


def test_a_run_goes_to_a_folder_and_on_under_trl_and_back(tmp_path, capsys):
    """Logits of the folder are those of the run; TRL trains it further; a run here begins where that ended."""
    import torch
    from torch.testing import assert_close
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rlexp.api import load, train
    from rlexp.core.errors import ConfigError
    from rlexp.core.exits import RunFailed
    from rlexp.record.policies import load_policy

    def trained(name, *overrides):
        return train(*TINY_RUN, *overrides, folder=tmp_path / name)

    run, folder = trained("run", "model=llama_10k", "lr=1e-2"), tmp_path / "models" / "a"
    make_model.main([str(folder), f"run={run}"])
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith(f"{folder}: 0.01 million parameters, as {run} left them")
    policy, tokenizer = load_policy(run), AutoTokenizer.from_pretrained(folder, padding_side="left")
    prompts = policy.held_out_prompts(5)
    texts = [policy.task.render([t for t in row.tolist() if t != policy.task.pad]) for row in prompts]
    given = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(given["input_ids"], prompts[:, -given["input_ids"].shape[1] :])
    model = AutoModelForCausalLM.from_pretrained(folder)
    theirs = model(**given).logits[:, -1]
    ours = policy.network.prefill(prompts.unsqueeze(0), 1)[0][0, :, 0]
    assert_close(ours, theirs, rtol=1e-4, atol=1e-4)  # float32 of another order, as in tests/models/test_llama.py

    further = trained("trl", "backend=trl", "backend.max_completion_length=6", *second.partition(": ")[2].split())
    assert load(further).runs["status"].tolist() == ["completed"]
    back = trained("back", "model=llama_10k", "start=pretrained", f"start.path={folder}", "steps=1", "lr=1e-9")
    for name, parameter in load_policy(back).network.named_parameters():
        assert_close(parameter, dict(policy.network.named_parameters())[name], rtol=1e-3, atol=1e-6)
    of_folder = ["start=pretrained", f"start.path={folder}"]
    for wrong, error, line in (
        (["model=gru", *of_folder], ConfigError, "start=pretrained: model=gru is no Llama; take model=llama or one of"),
        (["model=llama_10k", *of_folder, "start.path=x"], ConfigError, "start.path=x: must be a folder with model.saf"),
        (
            ["model=llama_70k", *of_folder],
            RunFailed,
            "another model (gain is [1, 16] there and [1, 48] here",
        ),
    ):
        with pytest.raises(error, match=re.escape(line)):
            trained("wrong", *wrong)
    other = trained("gru", "model=gru", "steps=1")
    capsys.readouterr()
    code, line = ended([str(tmp_path / "b"), f"run={other}"], capsys)
    assert code == 2 and "its model is no Llama" in line


def test_a_start_of_this_loop_is_where_its_own_runs_begin(tmp_path, capsys):
    """A run that makes the start, and one that reads the folder, end at the same bits."""
    import torch

    from rlexp.api import train
    from rlexp.record.policies import load_policy

    model, made_here = ["model=llama_10k"], ["start=sft", "start.accuracy=0.01", "start.lr=1e-2"]
    folder = tmp_path / "sort"
    make_model.main([str(folder), "backend=replicas", "task=sort", *model, *made_here, "start.seed=3"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{folder}: 0.01 million parameters, at start=sft, ")
    assert second == f"take it with: model=pretrained model.path={folder}"
    note = json.loads((folder / made.NOTE).read_text())
    assert (note["start"]["name"], note["start"]["seed"], note["step"]) == ("sft", 3, 0)
    starts = {"made": [*made_here, "start.seed=3"], "read": ["start=pretrained", f"start.path={folder}"]}
    ends = [load_policy(train(*TINY_RUN, *model, *start, folder=tmp_path / name)) for name, start in starts.items()]
    for one, other in zip(*(end.network.parameters() for end in ends), strict=True):
        assert torch.equal(one, other)


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
        (["{}", "backend=replicas", "model=gru"], "model=gru task=sort: its model is no Llama; train with model=llama"),
        (["{}", "backend=replicas", "task=bandit"], "model=llama task=bandit: its task has no padding or no end token"),
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
