"""``model=llama``: a small Llama with random weights, made here for the characters of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rlexp.core.streams import Purpose
from rlexp.core.types import Depth, Seed, Size
from rlexp.language.extras import missing, need
from rlexp.language.generation import forked, stream_seed

PAD, EOS = "<pad>", "<eos>"
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
POSITIONS = 4096  # tokens of a prompt and its completion; rotary embeddings have no parameters for them


@dataclass(frozen=True, kw_only=True)
class Llama:
    """Hugging Face's ``LlamaForCausalLM`` over single characters; inner width 4 · ``width``, input and output tied.

    Its weights before training, and those that the group ``start`` makes of them, belong to ``seed``: all runs share
    them, as they would share a model that was downloaded. null takes the seed of the run.
    """

    layers: Depth
    width: Size
    heads: Size
    seed: Seed | None


def problem(settings: Any) -> str | None:
    """Say what is wrong with the settings, before anything is made; None if nothing is."""
    if settings.width % (2 * settings.heads):
        return f"model.heads={settings.heads}: each needs an even share of model.width={settings.width}"
    return missing("model=llama", "transformers", "tokenizers")


def build(settings: Any, characters: str, seed: int) -> tuple[Any, Any]:
    """Return the model, in float32 on the CPU, and its tokenizer. ConfigError where a package is missing."""
    need("model=llama", "transformers", "tokenizers")
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = character_tokenizer(characters)
    sizes = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        intermediate_size=4 * settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with forked(torch.device("cpu"), stream_seed(seed, Purpose.WEIGHTS)):
        return LlamaForCausalLM(sizes), tokenizer


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
