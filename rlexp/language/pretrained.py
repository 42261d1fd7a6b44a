"""``model=pretrained``: a causal language model of a folder or of the Hugging Face hub, whole or with LoRA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from rlexp.core.exits import RunFailed
from rlexp.core.streams import Purpose
from rlexp.core.types import Positive, PositiveInt
from rlexp.language.extras import missing, need
from rlexp.language.generation import Prompt, forked, stream_seed

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
NO_CODE = {"trust_remote_code": False}  # without it transformers asks whoever sits at the terminal
MAKE = "make one with `python -m rlexp.make_model models/sort task=sort`, or take model=llama"


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """``AutoModelForCausalLM`` of ``path``, its weights in ``dtype``.

    With ``lora`` only adapters of that rank are trained: in the layers ``lora_target``, names as peft's
    ``target_modules``, with scale ``lora_alpha`` / rank; their first weights belong to the run's seed. Each prompt is
    put into ``template``, and with ``chat`` sent as a user's message through the tokenizer's own template.
    Source: LoRA (arXiv 2106.09685).
    """

    path: str | None
    dtype: Literal["float32", "bfloat16", "float16"]
    lora: PositiveInt | None
    lora_alpha: Positive
    lora_target: str | list[str]
    template: str
    chat: bool


def problem(settings: Any) -> str | None:
    """Say what is wrong with the settings, from what is known before anything is loaded; None if nothing is."""
    packages = ["transformers", *(["peft"] if settings.lora else [])]
    checks = (path_problem(settings.path), template_problem(settings.template), missing("model=pretrained", *packages))
    return next(filter(None, checks), None)


def path_problem(path: str | None) -> str | None:
    """Say that no model is named, or that what is named is no folder of one; a name of the hub is not looked up."""
    if not path:
        return f"model.path={'null' if path is None else ''}: needs a folder or a name of the hub; {MAKE}"
    folder = Path(path)
    if folder.is_dir():
        return None if (folder / "config.json").is_file() else f"model.path={path}: has no config.json, so is no model"
    if folder.exists() or not HUB_NAME.fullmatch(path):
        return f"model.path={path}: is no folder, and no name of the hub, as Qwen/Qwen2.5-0.5B; {MAKE}"
    if folder.parent.is_dir():  # the hub would be asked for a minute, where there is no network
        return f"model.path={path}: there is no such folder in {folder.parent}; {MAKE}"
    return None


def template_problem(template: str) -> str | None:
    """Say that a template cannot be filled with a prompt."""
    try:
        filled = template.format(prompt=(prompt := "a prompt"))
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        return (
            f"model.template={template}: cannot be filled ({type(error).__name__}: {error}); a brace is written twice"
        )
    return None if prompt in filled else f"model.template={template}: has no {{prompt}}"


def prompt_of(settings: Any, text: str) -> Prompt:
    """Return a prompt of a task as the model is asked: text, or a user's message where ``chat`` is set."""
    filled = settings.template.format(prompt=text) if hasattr(settings, "template") else text
    return [{"role": "user", "content": filled}] if getattr(settings, "chat", False) else filled


def read(path: str, dtype: str = "float32", chat: bool = False) -> tuple[Any, Any]:
    """Return model and tokenizer, on the CPU, the tokenizer as TRL has it; RunFailed in one line for what is none.

    No code of a model's own is run, and no pickle: transformers reads weights as safetensors, or as tensors alone.
    """
    need(f"model.path={path}", "transformers")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left", truncation_side="left", **NO_CODE)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), **NO_CODE)
    except Exception as error:  # of a dozen kinds: the hub's, safetensors', those of the model's own code
        where = "cannot be loaded" if Path(path).is_dir() else "is no folder here, and the hub does not give it"
        raise RunFailed(f"model.path={path}: {where}: {reason(error)}") from error
    if tokenizer.eos_token_id is None:
        raise RunFailed(f"model.path={path}: its tokenizer has no end token (eos_token), so no completion would end")
    if chat and not tokenizer.chat_template:
        raise RunFailed(f"model.chat=true: the tokenizer of {path} has no chat template; take model.template instead")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Context without transformers' progress bars: a small model is there before one can be read."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def reason(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def adapted(model: Any, settings: Any, seed: int) -> Any:
    """Return the model with fresh adapters, as it is where none are wanted; RunFailed where no layer has the names."""
    if settings.lora is None:
        return model
    need(f"model.lora={settings.lora}", "peft")
    from peft import LoraConfig, get_peft_model

    target = settings.lora_target
    target = target if isinstance(target, str) else list(target)
    wanted = LoraConfig(r=settings.lora, lora_alpha=settings.lora_alpha, target_modules=target, task_type="CAUSAL_LM")
    try:
        with forked(torch.device("cpu"), stream_seed(seed, Purpose.WEIGHTS)):
            return get_peft_model(model, wanted)
    except ValueError as error:
        typed = target if isinstance(target, str) else f"[{','.join(target)}]"
        raise RunFailed(f"model.lora_target={typed}: {reason(error)}") from error
