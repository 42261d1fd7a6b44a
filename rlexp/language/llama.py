"""``model=llama``: a small Llama with random weights, made here for the characters of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rlexp.core.streams import Purpose
from rlexp.core.types import Depth, Seed, Size
from rlexp.language.characters import character_tokenizer
from rlexp.language.extras import missing, need
from rlexp.language.generation import forked, stream_seed

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
