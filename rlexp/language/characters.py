"""A tokenizer of single characters: the vocabulary of a model that is made for a task of text."""

from __future__ import annotations

from typing import Any

PAD, EOS = "<pad>", "<eos>"
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def character_tokenizer(characters: str) -> Any:
    """Return a fast tokenizer, padding on the left, with a token for each of the characters and three more.

    ``decode(encode(text)) == text`` for every text of these characters, also for one that spells the pad or the end
    token. Any other character becomes one ``UNKNOWN``, a plain token: a model that writes it is seen to have done so,
    where a special token would be left out of the text.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = dict.fromkeys([PAD, EOS, UNKNOWN, *characters])
    tokenizer = Tokenizer(models.WordLevel({token: place for place, token in enumerate(tokens)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        truncation_side="left",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
