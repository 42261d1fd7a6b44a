"""The tokenizer of single characters loses nothing, before and after it was saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from rlexp.language.models import EOS, PAD, UNKNOWN, character_tokenizer  # noqa: E402

CHARACTERS = " 0123abdeops<>→ü\n\t😀."
tokenizer = character_tokenizer(CHARACTERS)


@pytest.fixture(scope="module", params=["made", "saved"])
def either(request, tmp_path_factory):
    if request.param == "made":
        return tokenizer
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", ["", " ", "3 1 →", "  a  . ", "\n\t\n", "<pad>", "a<eos>b", "ü😀", " ."])
@pytest.mark.parametrize("skipped", [True, False])
def test_what_is_encoded_is_decoded(either, text, skipped):
    ids = either(text)["input_ids"]
    assert len(ids) == len(text)
    assert either.decode(ids, skip_special_tokens=skipped) == text


@given(st.text(alphabet=CHARACTERS))
def test_any_text_of_the_characters_is_decoded(text):
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_padding_is_on_the_left_and_left_out_of_texts(either):
    batch = either(["3", "3 1"], padding=True)
    assert batch.keys() == {"input_ids", "attention_mask"}
    assert batch["attention_mask"] == [[0, 0, 1], [1, 1, 1]]
    assert batch["input_ids"][0][:2] == [either.pad_token_id] * 2
    assert either.batch_decode(batch["input_ids"], skip_special_tokens=True) == ["3", "3 1"]


def test_the_end_is_a_token_of_its_own_that_no_text_contains(either):
    assert (either.pad_token, either.eos_token) == (PAD, EOS)
    assert len({either.pad_token_id, either.eos_token_id, either.convert_tokens_to_ids(UNKNOWN)}) == 3
    ids = either(f"a{EOS}{PAD}")["input_ids"]
    assert not {either.pad_token_id, either.eos_token_id} & {*ids}
    assert either.decode([*either("a")["input_ids"], either.eos_token_id], skip_special_tokens=True) == "a"


def test_another_character_is_seen_to_be_one(either):
    assert either.decode(either("3x 1")["input_ids"], skip_special_tokens=True) == f"3{UNKNOWN} 1"
