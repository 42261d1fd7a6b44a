"""Runs of language models: what they leave, that they go on where they stood, that they end in one line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from statistics import fmean

import pytest

pytest.importorskip("trl")

import trl_pairs  # noqa: E402
from small_runs import compose  # noqa: E402

from rlexp.backends.trl import rows as trl_rows  # noqa: E402
from rlexp.backends.trl.run import Session, train_job  # noqa: E402
from rlexp.backends.trl.trainer import grpo_config  # noqa: E402
from rlexp.core.errors import ConfigError  # noqa: E402
from rlexp.core.exits import RunFailed  # noqa: E402
from rlexp.export.__main__ import main as export  # noqa: E402
from rlexp.loop import evaluation as loop_evaluation  # noqa: E402
from rlexp.sweep.job import Job  # noqa: E402

TINY = "backend=trl model=llama model.layers=1 model.width=32 model.heads=2 backend.max_completion_length=8".split()
TINY += "group_size.completions=4 group_size.prompts=4 steps=4 log_every=1 eval.every=2 eval.prompts=6".split()
TINY += "eval.samples=2 eval.ks=[1,2] logger=none checkpoint_every=2 lr=1e-2".split()
OURS_ALONE = {"kl/ref_exact"}  # of distributions that TRL does not keep
OF_REFERENCE = {"kl/ref_k1", "kl/ref_k3"}


def job(folder: Path, *overrides: str) -> Job:
    """A job of a tiny model; the folder's name is its own."""
    return Job(compose(*TINY, *overrides), folder, folder.name, "variant")


def rows(folder: Path) -> list[dict]:
    """The rows of a run without times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def summary(folder: Path) -> dict:
    """What a run says at its end."""
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run from its beginning to its end, with a memory and a reference that moves."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    result = train_job(job(folder, *EVERYTHING))
    assert isinstance(result, float), result
    return folder


EVERYTHING = "norm=ema kl=k2 kl.coef=0.1 kl_control=adaptive reference=polyak reference.every=1 minibatches=2".split()


def test_a_run_leaves_what_every_run_leaves(whole):
    found = summary(whole)
    assert (found["status"], found["steps"], found["completions"]) == ("completed", 4, 64)
    assert [row["step"] for row in rows(whole)] == [0, 1, 2, 3, 4]
    samples = [json.loads(line) for line in (whole / "samples.jsonl").read_text().splitlines()]
    assert {row["step"] for row in samples} == {0, 2, 3} and all(row["prompt"].endswith("→") for row in samples)


def test_metrics_have_the_names_of_the_document(whole):
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = {re.sub(r"reward/\w+/", "reward/<component>/", name) for row in rows(whole) for name in row}
    names = {re.sub(r"pass@\d+", "pass@<k>", name) for name in names} - {"step"}
    assert not [name for name in names if f"`{name}`" not in page]
    assert OF_REFERENCE <= rows(whole)[-1].keys() and not OURS_ALONE & rows(whole)[-1].keys()


def test_a_run_that_was_stopped_goes_on_to_the_same_rows(whole, tmp_path, monkeypatch):
    folder = tmp_path / "stopped"
    on_step = Session.on_step

    def interrupted(self, step, *found):
        self.interrupt.requested = step == 3
        on_step(self, step, *found)

    monkeypatch.setattr(Session, "on_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_job(job(folder, *EVERYTHING))
    assert summary(folder)["status"] == "interrupted" and rows(folder)[-1]["step"] == 3
    monkeypatch.undo()
    assert train_job(job(folder, *EVERYTHING)) == summary(whole)["score"]
    assert rows(folder) == rows(whole)


def test_a_damaged_model_gives_way_to_the_one_before_it(whole, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    (folder / "summary.json").unlink()
    latest = max((folder / "model").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    weights = bytearray((latest / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (latest / "model.safetensors").write_bytes(weights)
    train_job(job(folder, *EVERYTHING))
    assert rows(folder) == rows(whole)


def test_another_choice_is_another_run_with_the_same_prompts_and_noise(whole, tmp_path):
    folder = tmp_path / "other"
    train_job(job(folder, *EVERYTHING, "norm=center"))
    first, other = rows(whole), rows(folder)
    assert other[0] == first[0] and other[1]["reward/mean"] == first[1]["reward/mean"] and other[-1] != first[-1]


def test_a_minibatch_that_cannot_be_shared_ends_in_one_line(tmp_path):
    error = train_job(job(tmp_path / "x", "backend.micro_batch=3"))
    assert isinstance(error, RunFailed) and str(error).startswith("backend.micro_batch=3: must divide the 2 groups")


@pytest.mark.slow
def test_adapters_are_trained_and_the_reference_is_the_model_without_them(tmp_path):
    pytest.importorskip("peft")
    made = ["model=pretrained", f"model.path={trl_pairs.model_folder()}", "model.lora=4", "kl=k3", "kl.coef=0.1"]
    words = [each for each in TINY if not each.startswith("model")]
    one = Job(compose(*words, *made, "minibatches=1"), tmp_path / "lora", "lora", "variant")
    result = train_job(one)
    assert isinstance(result, float), result
    found = rows(one.folder)
    assert abs(found[1]["kl/ref_k3"]) < 1e-9 < found[-1]["kl/ref_k3"]
    saved = [path.name for path in (one.folder / "model").rglob("*.safetensors")]
    assert "adapter_model.safetensors" in saved and "model.safetensors" not in saved


def test_generation_has_the_samplers_numbers(tmp_path):
    given = compose(*TINY, "sampler=top_p", "sampler.top_k=3", "temperature=0.7")
    settings = [grpo_config(each, tmp_path, 1, [1.0], False) for each in (given, compose(*TINY))]
    assert [(each.top_p, each.top_k, each.temperature) for each in settings] == [(0.9, 3, 0.7), (1.0, 0, 1.0)]


@pytest.mark.slow
def test_two_processes_train_one_run(tmp_path):
    result = train_job(job(tmp_path / "two", *EVERYTHING, "backend.accelerate=2"))
    assert isinstance(result, float), result
    assert summary(tmp_path / "two")["completions"] == 64
    assert [row["step"] for row in rows(tmp_path / "two")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["norm=remax"], "backend=trl norm=remax: asks for a greedy completion of each prompt, not there"),
        (["filter=dynamic"], "backend=trl: has no filter.refill but the neutral one; take backend=replicas, or"),
        (["sampler=noisy"], "backend=trl: has no sampler but the neutral one"),
        (["temperature_final=0.5"], "backend=trl: temperature_final=0.5 is of backend=replicas"),
        (["sampler=fp8"], "backend=trl: sampler.products=float8_channel is of backend=replicas"),
        (["sampler=top_p_trained"], "backend=trl: sampler.training=truncated is of backend=replicas"),
        (["prompts=easy_to_hard"], "backend=trl: has no prompts but the neutral one"),
        (["distillation=jsd"], "backend=trl: has no distillation but the neutral one"),
        (["data=stale"], "backend=trl: data=stale is of backend=replicas; take data=fresh"),
        (["compile=true"], "backend=trl: compile=True is of backend=replicas"),
        (["mismatch=token_mask"], "mismatch=token_mask: without backend.vllm=true the policy itself samples"),
        (["model=transformer"], "backend=trl: trains language models; take model=llama or model=pretrained"),
        (["task.prompt_set=4"], "backend=trl: task.prompt_set is of backend=replicas; take null"),
        (["reference=random", "kl=k3"], "backend=trl: reference.begin=random is of backend=replicas"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(overrides, line):
    kept = [each for each in TINY if not (overrides[0].startswith("model=") and each.startswith("model"))]
    with pytest.raises(ConfigError) as refused:
        compose(*kept, *overrides)
    assert str(refused.value).startswith(line)


def test_pass_at_k_of_texts_is_the_function_of_the_replicas():
    evaluated = [trl_rows.Evaluated(True, hits, [0.0], [1]) for hits in range(5)]
    found = trl_rows.averages(evaluated, 4, [2])["eval/pass@2"]
    assert trl_rows.pass_at_k is loop_evaluation.pass_at_k
    assert found == fmean(loop_evaluation.pass_at_k(2, hits, 4) for hits in range(5))


def test_a_language_model_is_refused_by_the_replicas():
    with pytest.raises(ConfigError, match="model=pretrained: needs backend=trl"):
        compose("model=pretrained", "model.path=x/y")


def test_an_export_is_of_the_choices_alone(capsys):
    with pytest.raises(SystemExit) as ended:
        export(["backend=trl", "model=llama", "to=trl"])
    line = "backend=trl: trains by itself; leave it out, with its model and task\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, line)
