"""A policy of this project's loop as a Hugging Face folder, so that TRL goes on with it and others serve it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlexp.core.errors import ConfigError
from rlexp.language.made import NOTE
from rlexp.language.models import missing, quiet
from rlexp.models.llama import Llama, named_as_transformers
from rlexp.models.policy import Policy
from rlexp.record.policies import TrainedPolicy
from rlexp.tasks import Task


def problem(network: Policy, task: Task) -> str | None:
    """Say why a policy cannot be a language model, if so."""
    if not isinstance(network, Llama):
        return "its model is no Llama; train with model=llama, or one of its sizes as model=llama_300k"
    if min(task.pad, task.end) < 0:
        return "its task has no padding or no end token, which a language model needs; take another task"
    words = [task.render([token]) for token in range(task.vocabulary)]
    if len({*words}) < len(words) or any(len(word.split()) != 1 for word in words):
        return "its task writes a token as no word of its own, so there is no tokenizer for it; take another task"
    return missing("a Hugging Face folder", "transformers", "tokenizers")


def write_policy(policy: TrainedPolicy, origin: Mapping[str, Any], folder: Path) -> None:
    """Write a policy as ``LlamaForCausalLM`` with a tokenizer of its task's words, and a note of its ``origin``.

    A word of the task is the token that it is here, so prompts and completions are the same numbers on both sides.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    network, task, tokenizer = policy.network, policy.task, word_tokenizer(policy.task)
    positions = task.prompt_length + task.cap
    special = dict(bos_token_id=None, eos_token_id=task.end, pad_token_id=task.pad)
    config = LlamaConfig(**network.transformers_config(), max_position_embeddings=positions, **special)
    model = LlamaForCausalLM(config)
    model.load_state_dict(named_as_transformers(network, 0), strict=False)
    model.tie_weights()
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    parameters = sum(parameter[0].numel() for parameter in network.parameters())
    note = {**origin, "step": policy.step, "seed": policy.seed, "parameters": parameters}
    (folder / NOTE).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def word_tokenizer(task: Task) -> Any:
    """Return a fast tokenizer, padding on the left, whose tokens are the words of a task, a space between them.

    A word that the task does not know becomes padding.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {task.render([token]): token for token in range(task.vocabulary)}
    pad, end = (task.render([token]) for token in (task.pad, task.end))
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=pad))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        eos_token=end,
        padding_side="left",
        truncation_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def read_run(run: str) -> TrainedPolicy:
    """Return the last policy of a run; ConfigError, one line, where it cannot be a language model."""
    from rlexp.record.policies import load_policy

    policy = load_policy(run)
    if line := problem(policy.network, policy.task):
        raise ConfigError([f"run={run}: {line}"])
    return policy
