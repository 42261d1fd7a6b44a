"""A warmed-up model is made once for all who share it, and is what its settings say."""

import errno
import fcntl
import json
import threading

import pytest
import torch
from text_tasks import SFT, CopyDigits, config

pytest.importorskip("transformers")

from rlexp.core.errors import ConfigError  # noqa: E402
from rlexp.core.exits import RunFailed  # noqa: E402
from rlexp.language import made  # noqa: E402
from rlexp.language.made import made_once  # noqa: E402

TASK = CopyDigits()
QUICK = dict(SFT, accuracy=0.01, every=5, prompts=16, checked=64)


def weights(loaded):
    return {name: value.clone() for name, value in loaded[0].state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_start_is_the_same_kept_or_not_and_is_made_once(tmp_path, monkeypatch):
    alone = weights(made.load(config(QUICK), TASK, None))
    first = weights(made.load(config(QUICK, seed=1), TASK, tmp_path / "starts"))
    monkeypatch.setattr(made, "make", None)  # not called again
    again = made.load(config(QUICK, seed=2), TASK, tmp_path / "starts")
    assert same(alone, first) and same(first, weights(again))
    assert again[1].decode(again[1]("25=")["input_ids"]) == "25="
    (place,) = (tmp_path / "starts").iterdir()
    note = json.loads((place / made.NOTE).read_text())
    assert note["seed"] == 0 and note["accuracy"] >= 0.01 and note["start"]["name"] == "sft"


def test_random_weights_are_not_kept_and_belong_to_the_models_seed_or_the_runs(tmp_path):
    model, _ = made.load(config(), TASK, tmp_path)
    assert not list(tmp_path.iterdir())
    assert same(weights((model,)), weights(made.load(config(seed=3), TASK, None)))
    own = [config(seed=seed) for seed in (3, 3, 4)]
    for each in own:
        each.model = each.model.model_copy(update={"seed": None})
    first, again, other = (weights(made.load(each, TASK, None)) for each in own)
    assert same(first, again) and not same(first, other) and not same(first, weights((model,)))


@pytest.mark.parametrize(
    "others",
    [
        dict(start=dict(QUICK, accuracy=0.02)),
        dict(start=dict(QUICK, lr=2e-2)),
        dict(length=9),
        dict(width=64),
    ],
    ids=str,
)
def test_a_key_is_that_of_all_that_counts(others):
    usual = made.key(config(QUICK), TASK)
    assert usual == made.key(config(QUICK, seed=5), TASK)
    assert usual != made.key(config(**{"start": QUICK, **others}), TASK)


def test_a_key_is_that_of_the_examples_the_seed_and_the_code(monkeypatch):
    usual = made.key(config(QUICK), TASK)
    assert usual != made.key(config(QUICK), CopyDigits(wrong=False))
    own, other = config(QUICK, seed=0), config(QUICK, seed=1)
    for each in own, other:
        each.model = each.model.model_copy(update={"seed": None})
    assert usual == made.key(own, TASK) != made.key(other, TASK)
    monkeypatch.setattr(made, "ROOMS", ("core",))
    assert usual != made.key(config(QUICK), TASK)


def test_a_start_that_was_not_reached_fails_in_a_line_and_leaves_nothing(tmp_path):
    with pytest.raises(RunFailed, match="^start: sampled accuracy .* after 2 updates, wanted 1; .*$"):
        made.load(config(dict(QUICK, accuracy=1.0, updates=2)), TASK, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_start_is_named(tmp_path):
    place = tmp_path / made.key(config(QUICK), TASK)
    place.mkdir()
    (place / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunFailed, match=f"^{place}: is damaged; remove it, then it is made again .*$"):
        made.load(config(QUICK), TASK, tmp_path)


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, caplog):
    (tmp_path / "file").touch()
    model, _ = made.load(config(QUICK), TASK, tmp_path / "file")
    assert same(weights((model,)), weights(made.load(config(QUICK), TASK, None)))
    assert "the start is not kept" in caplog.text


@pytest.mark.parametrize(
    "values, line",
    [
        (dict(start=dict(name="scaled")), "start=scaled: is not of language models; take one of random, sft, mixture"),
        (dict(heads=3), "model.heads=3: each needs an even share of model.width=32"),
        (dict(name="pretrained"), "model.path=null: needs a folder"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_made(values, line):
    with pytest.raises(ConfigError, match=line) as found:
        made.load(config(**values), TASK, None)
    assert len(found.value.problems) == 1


def test_a_model_that_was_made_is_warmed_up_further_and_has_its_dtype(tmp_path):
    made.write(config(), TASK, tmp_path / "begun")
    wanted = config(QUICK, path=str(tmp_path / "begun"), dtype="bfloat16", template="{prompt}")
    model, _ = made.load(wanted, TASK, tmp_path / "starts")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert same(weights((model,)), weights(made.load(wanted, TASK, None)))
    whole = weights(made.load(config(path=str(tmp_path / "begun")), TASK, None))
    assert not same({name: value.to(torch.bfloat16) for name, value in whole.items()}, weights((model,)))


def test_adapters_are_put_on_the_start(tmp_path):
    pytest.importorskip("peft")
    made.write(config(), TASK, tmp_path / "begun")
    path = dict(path=str(tmp_path / "begun"))
    model, _ = made.load(config(QUICK, lora=2, **path), TASK, tmp_path / "starts")
    whole, _ = made.load(config(QUICK, **path), TASK, tmp_path / "starts")
    assert len(list((tmp_path / "starts").iterdir())) == 1
    below = weights((model.get_base_model(),))
    base = {name.replace(".base_layer", ""): value for name, value in below.items() if "lora_" not in name}
    assert same(base, weights((whole,)))


def test_who_comes_second_waits_and_makes_nothing(tmp_path):
    made_by, began = [], threading.Event()

    def make(folder):
        made_by.append(threading.get_ident())
        began.set()
        threading.Event().wait(0.2)
        (folder / "file").touch()

    threads = [threading.Thread(target=made_once, args=(tmp_path / "place", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made_by) == 1 and [path.name for path in tmp_path.iterdir()] == ["place"]


def test_without_locks_the_first_to_end_wins(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)

    def second(folder):
        made_once(tmp_path / "place", lambda folder: (folder / "first").touch())
        (folder / "second").touch()

    made_once(tmp_path / "place", second)
    assert [path.name for path in (tmp_path / "place").iterdir()] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_what_a_killed_process_left_is_removed_and_a_failure_leaves_nothing(tmp_path):
    (tmp_path / ".place-abc").mkdir()

    def fail(folder):
        raise RunFailed("no")

    with pytest.raises(RunFailed):
        made_once(tmp_path / "place", fail)
    assert not list(tmp_path.iterdir())
