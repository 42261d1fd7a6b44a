"""A model of a folder is loaded as it was saved; what is none gets one line."""

import json
import os
import pickle
import shutil

import pytest
import torch
from text_tasks import PRETRAINED, CopyDigits, node, tiny_llama

pytest.importorskip("transformers")

from rlexp.core.exits import RunFailed  # noqa: E402
from rlexp.language import LANGUAGE_MODELS, models  # noqa: E402
from rlexp.language.generation import sample  # noqa: E402
from rlexp.language.models import language_model  # noqa: E402


def settings(**values):
    return language_model(node(LANGUAGE_MODELS, **{**PRETRAINED, **values}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "copy"
    for part in tiny_llama().build(CopyDigits.characters, 0):
        part.save_pretrained(place)
    return place


def test_it_is_what_was_saved(folder):
    model, tokenizer = models.read(str(folder))
    saved, _ = tiny_llama().build(CopyDigits.characters, 0)
    assert all(torch.equal(value, saved.state_dict()[name]) for name, value in model.state_dict().items())
    assert tokenizer.decode(tokenizer("25=")["input_ids"]) == "25="
    assert (tokenizer.padding_side, tokenizer.truncation_side) == ("left", "left")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_its_weights_have_the_dtype(folder, dtype):
    model, _ = models.read(str(folder), dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {getattr(torch, dtype)}


def test_padding_that_is_missing_is_the_end(folder, tmp_path):
    _, tokenizer = models.read(str(folder))
    copy = shutil.copytree(folder, tmp_path / "copy")
    tokenizer.pad_token = None
    tokenizer.save_pretrained(copy)
    model, tokenizer = models.read(str(copy))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == model.generation_config.pad_token_id


@pytest.mark.parametrize(
    "values, line",
    [
        ({}, "model.path=null: needs a folder or a name of the hub; make one with `python -m rlexp.make_model"),
        ({"path": "/not/here"}, "model.path=/not/here: is no folder, and no name of the hub"),
        ({"path": "tests/not_here"}, "model.path=tests/not_here: there is no such folder in tests; make one with"),
        ({"path": "."}, "model.path=.: has no config.json, so is no model"),
        ({"path": "a/b", "template": "Solve:"}, "model.template=Solve:: has no {prompt}"),
        ({"path": "a/b", "template": "{question}"}, "cannot be filled (KeyError: 'question')"),
        ({"path": "a/b", "template": "{prompt"}, "cannot be filled (ValueError"),
        ({"path": "a/b", "template": "{prompt.a}"}, "cannot be filled (AttributeError"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_loaded(values, line, tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    found = settings(**values).problem()
    assert line in found and "\n" not in found


def test_settings_that_can_be_are_not(folder):
    assert settings(path=str(folder), template="Q: {prompt}\nA: {{}}").problem() is None
    assert settings(path="Qwen/Qwen2.5-0.5B").problem() is None


def test_a_missing_package_names_the_extra(monkeypatch):
    there = models.find_spec
    monkeypatch.setattr(models, "find_spec", lambda name: None if name == "peft" else there(name))
    assert settings(path="a/b").problem() is None
    assert settings(path="a/b", lora=4).problem() == (
        "model=pretrained: needs the extra lora: pip install 'rlexp[lora]'"
    )
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    assert tiny_llama().problem() == "model=llama: needs the extra trl: pip install 'rlexp[trl]'"


def damage(folder):
    (folder / "model.safetensors").write_bytes(b"no weights")


def forget_weights(folder):
    (folder / "model.safetensors").unlink()


def forget_the_end(folder):
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


@pytest.mark.parametrize(
    "harm, line",
    [
        (damage, "cannot be loaded: "),
        (forget_weights, "cannot be loaded: "),
        (forget_the_end, "its tokenizer has no end token"),
    ],
)
def test_a_folder_that_is_no_model_fails_in_a_line(folder, tmp_path, harm, line):
    copy = shutil.copytree(folder, tmp_path / "copy")
    harm(copy)
    with pytest.raises(RunFailed, match=line) as found:
        models.read(str(copy))
    assert "\n" not in str(found.value) and str(copy) in str(found.value)


def test_chat_needs_a_template_of_the_tokenizer(folder, tmp_path):
    with pytest.raises(RunFailed, match="model.chat=true: the tokenizer of .* has no chat template"):
        models.read(str(folder), chat=True)
    copy = shutil.copytree(folder, tmp_path / "copy")
    _, tokenizer = models.read(str(folder))
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}={% endfor %}"
    tokenizer.save_pretrained(copy)
    model, tokenizer = models.read(str(copy), chat=True)
    asked = dict(max_completion_length=4, temperature=1.0, seed=1)
    messages = [settings(chat=True).prompt_of(text) for text in ("25", "1")]
    assert sample(model, tokenizer, messages, 9, **asked) == sample(model, tokenizer, ["25=", "1="], 9, **asked)


def test_a_prompt_is_put_into_the_template_and_into_a_message():
    assert tiny_llama().prompt_of("3 {1} =") == "3 {1} ="
    assert settings(template="Q: {prompt} A:").prompt_of("3 {1}") == "Q: 3 {1} A:"
    asked = settings(template="Q: {prompt}", chat=True).prompt_of("3")
    assert asked == [{"role": "user", "content": "Q: 3"}]


def test_adapters_alone_are_trained_and_belong_to_the_seed(folder):
    pytest.importorskip("peft")
    found = []
    for seed, drawn in (0, 1), (0, 2), (1, 1):
        torch.manual_seed(drawn)
        model = settings(lora=2).adapted(models.read(str(folder))[0], seed)
        found.append({name: value for name, value in model.named_parameters() if value.requires_grad})
    first, again, other = found
    assert first and all("lora_" in name and 2 in value.shape for name, value in first.items())
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())


def test_layers_that_are_not_there_are_refused_in_a_line(folder):
    pytest.importorskip("peft")
    with pytest.raises(RunFailed, match=r"^model.lora_target=\[nobody\]: \w+: .*$"):
        settings(lora=2, lora_target=["nobody"]).adapted(models.read(str(folder))[0], 0)


def test_a_model_with_adapters_samples_and_keeps_its_settings(folder):
    pytest.importorskip("peft")
    whole, tokenizer = models.read(str(folder))
    asked = dict(max_completion_length=4, temperature=1.0, seed=1)
    wanted = sample(whole, tokenizer, ["25="], 20, **asked)
    model = settings(lora=2).adapted(whole, 0)
    inner, outer = model.get_base_model().generation_config, model.generation_config
    assert sample(model, tokenizer, ["25="], 20, **asked) == wanted  # fresh adapters change nothing
    assert model.get_base_model().generation_config is inner and model.generation_config is outer


def test_code_and_pickles_of_a_model_s_folder_are_not_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asks"))
    (place := tmp_path / "theirs").mkdir()
    own = {name: f"own.{name}" for name in ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")}
    (place / "config.json").write_text(json.dumps({"model_type": "theirs", "auto_map": own}))
    (place / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": {"AutoTokenizer": ["own.AutoTokenizer", None]}})
    )
    (place / "own.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    with pytest.raises(RunFailed, match="model.path=.*cannot be loaded: "):
        models.read(str(place))
    pickled = shutil.copytree(folder, tmp_path / "pickled")
    (pickled / "model.safetensors").unlink()
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(tmp_path / "owned")))
    with pytest.raises(RunFailed, match="model.path=.*cannot be loaded: "):
        models.read(str(pickled))
    torch.save({"weight": Evil(tmp_path / "owned")}, pickled / "pytorch_model.bin")
    with pytest.raises(RunFailed, match="model.path=.*cannot be loaded: "):
        models.read(str(pickled))
    assert not (tmp_path / "owned").exists()


class Evil:
    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)
