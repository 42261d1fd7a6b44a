"""Samples are those of the model's whole distribution, and taking them leaves no trace."""

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from text_tasks import CopyDigits, tiny_llama

pytest.importorskip("transformers")

from rlexp.language import generation  # noqa: E402
from rlexp.language.generation import sample  # noqa: E402

WANTED = dict(max_completion_length=3, temperature=1.0, seed=5)


@pytest.fixture(scope="module")
def made():
    model, tokenizer = tiny_llama().build(CopyDigits.characters, 0)
    with torch.no_grad():
        model.lm_head.weight.mul_(6)  # tied: away from uniform
    return model, tokenizer


def token_log_probs(model, ids):
    return model(torch.tensor([ids])).logits[0].log_softmax(-1)


@torch.no_grad()
def exact(model, tokenizer, prompt, temperature):
    """The probability of every completion of at most two tokens, from one forward pass each."""
    start, end, found = tokenizer(prompt)["input_ids"], tokenizer.eos_token_id, {}
    for first, second in product(range(len(tokenizer)), repeat=2):
        logits = model(torch.tensor([[*start, first]])).logits[0] / temperature
        steps = logits.log_softmax(-1)
        both = (first,) if first == end else (first, second)
        chance = steps[len(start) - 1, first] + (0 if first == end else steps[len(start), second])
        found[both] = chance.exp().item()
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_samples_have_the_frequencies_of_the_model(made, temperature):
    chances = exact(*made, "3=", temperature)
    n, wanted = 20000, dict(WANTED, max_completion_length=2, temperature=temperature)
    groups = sample(*made, ["3=", "0125="], n, **wanted)  # the first is padded beside the second
    counts = dict.fromkeys(chances, 0)
    for each in groups[0]:
        counts[tuple(each.tokens)] += 1
    assert abs(sum(chances.values()) - 1) < 1e-4
    for tokens, chance in chances.items():
        assert abs(counts[tokens] / n - chance) < 5 * (chance * (1 - chance) / n) ** 0.5 + 2 / n


def test_without_temperature_each_token_is_the_most_likely(made):
    model, tokenizer = made
    (each,), _ = sample(model, tokenizer, ["3=", "0125="], 1, **dict(WANTED, temperature=None))
    ids = tokenizer("3=")["input_ids"]
    for token in each.tokens:
        assert token == token_log_probs(model, ids)[-1].argmax()
        ids = [*ids, token]


def test_finished_are_those_with_an_end(made):
    model, tokenizer = made
    rows = [row for group in sample(model, tokenizer, ["3=", "12="], 300, **WANTED) for row in group]
    assert {row.finished for row in rows} == {True, False}
    for row in rows:
        assert (tokenizer.eos_token_id in row.tokens) == row.finished == (row.tokens[-1] == tokenizer.eos_token_id)
        assert row.finished or len(row.tokens) == 3
        assert row.text == tokenizer.decode(row.tokens, skip_special_tokens=True)


def test_every_end_that_the_model_declares_ends(made):
    model, tokenizer = made
    other = tokenizer.convert_tokens_to_ids("=")
    model.generation_config.eos_token_id = [other]
    try:
        rows = sample(model, tokenizer, ["3="], 1000, **WANTED)[0]
    finally:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
    assert {row.tokens[-1] for row in rows if row.finished} == {other, tokenizer.eos_token_id}


def test_the_models_own_settings_for_generation_do_not_enter(made):
    model, tokenizer = made
    before, usual = model.generation_config, sample(*made, ["3="], 50, **WANTED)
    model.generation_config = type(before)(
        do_sample=True, top_k=1, repetition_penalty=5.0, temperature=0.1, max_length=5, num_beams=1,
        eos_token_id=tokenizer.eos_token_id, min_new_tokens=3,
    )  # fmt: skip
    try:
        own = model.generation_config
        assert sample(*made, ["3="], 50, **WANTED) == usual
        assert model.generation_config is own
    finally:
        model.generation_config = before


@pytest.mark.parametrize("training", [True, False])
def test_it_leaves_no_trace(made, training):
    model, tokenizer = made
    model.train(training)
    torch.manual_seed(3)
    wanted = torch.rand(3)
    torch.manual_seed(3)
    first = sample(model, tokenizer, ["3=", "12="], 5, **WANTED)
    assert torch.equal(torch.rand(3), wanted) and model.training is training
    torch.manual_seed(4)
    assert sample(model, tokenizer, ["3=", "12="], 5, **WANTED) == first
    assert sample(model, tokenizer, ["3=", "12="], 5, **dict(WANTED, seed=6)) != first


def test_samples_stand_with_their_prompts_whatever_the_size_of_a_batch(made, monkeypatch):
    monkeypatch.setattr(generation, "MOST_ROWS", 2)
    model, tokenizer = made
    prompts = ["3=", "12=", "0="]
    groups = sample(model, tokenizer, prompts, 3, **dict(WANTED, temperature=None))
    assert [len(group) for group in groups] == [3, 3, 3]
    for prompt, group in zip(prompts, groups, strict=True):
        ids = tokenizer(prompt)["input_ids"]
        assert {row.tokens[0] for row in group} == {token_log_probs(model, ids)[-1].argmax().item()}


def test_nothing_asked_is_nothing_sampled(made):
    assert sample(*made, [], 3, **WANTED) == []
    assert sample(*made, ["3="], 0, **WANTED) == [[]]


def test_a_larger_model_goes_through_in_smaller_batches():
    class Model:
        """Sizes of a model of seven billion parameters."""

        sizes = SimpleNamespace(num_hidden_layers=32, num_attention_heads=32, hidden_size=4096, vocab_size=32000)
        config = SimpleNamespace(get_text_config=lambda: Model.sizes)

        def parameters(self):
            return iter([torch.zeros(1, dtype=torch.bfloat16)])

    kept = 2 * 32 * 4096 * (1024 + 1024) * 2  # bytes of keys and values alone: a gibibyte
    assert 1 <= generation.max_batch_size(Model(), 1024, 1024) <= generation.MOST_BYTES / kept
    assert generation.max_batch_size(Model(), 16, 16) > 30
