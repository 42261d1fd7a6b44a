"""Completions of prompts, sampled as TRL samples them, without a trace in the caller's random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from rlexp.core.streams import Purpose, generator

Prompt = str | list[dict[str, str]]  # a text, or messages for a chat template
MOST_BYTES, MOST_ROWS = 2 * 2**30, 512  # of a batch: what it keeps in memory beside the model, and its completions


class Sampled(NamedTuple):
    """A completion: its text without special tokens, whether it was ended by an end token, its tokens, that included.

    The tokens are the model's ids; those behind the end are cut off.
    """

    text: str
    finished: bool
    tokens: list[int]


def stream_seed(seed: int, purpose: Purpose, step: int = 0, round: int = 0) -> int:
    """Return a seed for torch's generator that belongs to a run's seed, a purpose, a step and a round within it."""
    return int(generator(seed, purpose, step, round).integers(2**63))


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    samples: int,
    *,
    max_completion_length: int,
    temperature: float | None,
    seed: int,
) -> list[list[Sampled]]:
    """Sample so many completions of each prompt, or with no ``temperature`` take the most likely token each time.

    They come from the whole distribution: no top-k, no top-p, no penalty, whatever the model's own settings for
    generation say. The same seed, weights and prompts give the same completions; torch's random state, the mode of the
    model and its settings are afterwards what they were. ``seed`` is one for torch, as of ``stream_seed``.
    """
    ids = [row for row in tokenize(tokenizer, prompts) for _ in range(samples)]
    if not ids:
        return [[] for _ in prompts]
    from transformers import GenerationConfig

    # as TRL does: the tokenizer's end token and all that the model declares end a completion
    declared = model.generation_config.eos_token_id
    declared = [declared] if isinstance(declared, int) else declared or []
    ends = list(dict.fromkeys([tokenizer.eos_token_id, *declared]))
    sampling = {} if temperature is None else {"temperature": temperature, "top_k": 0, "top_p": 1.0}
    settings = GenerationConfig(
        max_new_tokens=max_completion_length,
        do_sample=temperature is not None,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=ends,
        bos_token_id=tokenizer.bos_token_id,
        disable_compile=True,
        **sampling,
    )
    device = next(model.parameters()).device
    size = max_batch_size(model, max(map(len, ids)), max_completion_length)
    found = []
    with torch.no_grad(), forked(device, seed), generating(model, settings):
        for first in range(0, len(ids), size):
            batch = ids[first : first + size]
            inputs = padded(batch, tokenizer.pad_token_id, "left").to(device)
            mask = padded([[1] * len(row) for row in batch], 0, "left").to(device)
            made = model.generate(input_ids=inputs, attention_mask=mask, generation_config=settings)
            tokens = []
            for row in made[:, inputs.shape[1] :].tolist():
                length = next((place for place, token in enumerate(row, 1) if token in ends), len(row))
                tokens.append(row[:length])
            texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
            found += [Sampled(text, row[-1] in ends, row) for text, row in zip(texts, tokens, strict=True)]
    return [found[first : first + samples] for first in range(0, len(found), samples)]


def tokenize(tokenizer: Any, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Return the ids of prompts as TRL makes them: special tokens as the tokenizer adds them, or its chat template."""
    if not prompts:
        return []
    if isinstance(prompts[0], str):
        return tokenizer(text=list(prompts))["input_ids"]
    return tokenizer.apply_chat_template(
        conversation=list(prompts), add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]


def padded(rows: Sequence[list[int]], filler: int, side: str) -> torch.Tensor:
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=filler, padding_side=side)


def max_batch_size(model: Any, prompt_length: int, max_completion_length: int) -> int:
    """Return how many completions fit into ``MOST_BYTES``: keys and values of all tokens, activations of the prompt.

    A rule of thumb from the sizes in the model's config, the same on every machine: so are then the samples.
    """
    sizes = model.config.get_text_config()
    heads = sizes.num_attention_heads
    head = getattr(sizes, "head_dim", None) or sizes.hidden_size // heads
    kept = 2 * sizes.num_hidden_layers * (getattr(sizes, "num_key_value_heads", None) or heads) * head
    inner = getattr(sizes, "intermediate_size", None) or 4 * sizes.hidden_size
    passing = 8 * sizes.hidden_size + 3 * inner
    numbers = kept * (prompt_length + max_completion_length) + passing * prompt_length + 4 * sizes.vocab_size
    return max(1, min(MOST_ROWS, MOST_BYTES // (numbers * next(model.parameters()).element_size())))


@contextmanager
def forked(device: torch.device, seed: int) -> Iterator[None]:
    """Context with random numbers of its own, on the CPU and on a GPU; those of other GPUs are left alone."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def generating(model: Any, settings: Any) -> Iterator[None]:
    """Context in which the model is in its mode for evaluation and has no settings for generation but these.

    ``generate`` takes what its own argument leaves open from the model, and a PEFT model hands its own down.
    """
    owners = {id(owner): owner for owner in (model, getattr(model, "get_base_model", lambda: model)())}.values()
    before, training = [owner.generation_config for owner in owners], model.training
    for owner in owners:
        owner.generation_config = settings
    model.eval()
    try:
        yield
    finally:
        model.train(training)
        for owner, own in zip(owners, before, strict=True):
            owner.generation_config = own
