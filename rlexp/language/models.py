"""Language models: a small Llama made here for a task, and one of a folder or of the hub, whole or with LoRA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from rlexp.core.exits import RunFailed
from rlexp.core.registry import bind_choice
from rlexp.core.streams import Purpose
from rlexp.core.types import Depth, Positive, PositiveInt, Seed, Size
from rlexp.language.generation import Prompt, forked, stream_seed

EXTRAS = {"transformers": "trl", "tokenizers": "trl", "safetensors": "trl", "peft": "lora"}  # which extra has a package
PAD, EOS = "<pad>", "<eos>"
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
POSITIONS = 4096  # tokens of a prompt and its completion; rotary embeddings have no parameters for them
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
NO_CODE = {"trust_remote_code": False}  # without it transformers asks whoever sits at the terminal
MAKE = "make one with `python -m rlexp.make_model models/sort task=sort`, or take model=llama"


@dataclass(frozen=True, kw_only=True)
class Llama:
    """``LlamaForCausalLM``, inner width 4 · ``width``, input and output tied; under backend=trl of single characters.

    Its weights before training, and those that the group ``start`` makes of them, belong to ``seed``: all runs share
    them, as they would share a model that was downloaded. null takes the seed of the run.
    """

    layers: Depth
    width: Size
    heads: Size
    seed: Seed | None

    dtype, chat = "float32", False

    def problem(self) -> str | None:
        """Say what is wrong with the settings, before anything is made; None if nothing is."""
        if self.width % (2 * self.heads):
            return f"model.heads={self.heads}: each needs an even share of model.width={self.width}"
        return missing("model=llama", "transformers", "tokenizers")

    def build(self, characters: str, seed: int, dtype: str = "float32") -> tuple[Any, Any]:
        """Return the model, on the CPU, and its tokenizer."""
        from transformers import LlamaConfig, LlamaForCausalLM

        tokenizer = character_tokenizer(characters)
        sizes = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=self.width,
            intermediate_size=4 * self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        with forked(torch.device("cpu"), stream_seed(seed, Purpose.WEIGHTS)):
            return LlamaForCausalLM(sizes), tokenizer

    def prompt_of(self, text: str) -> Prompt:
        """Return a prompt of a task as the model is asked."""
        return text

    def adapted(self, model: Any, seed: int) -> Any:
        return model


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

    def problem(self) -> str | None:
        """Say what is wrong with the settings, from what is known before anything is loaded; None if nothing is."""
        path, folder = self.path, Path(self.path or "")
        if not path:
            return f"model.path={'null' if path is None else ''}: needs a folder or a name of the hub; {MAKE}"
        if folder.is_dir():
            if not (folder / "config.json").is_file():
                return f"model.path={path}: has no config.json, so is no model"
        elif folder.exists() or not HUB_NAME.fullmatch(path):
            return f"model.path={path}: is no folder, and no name of the hub, as Qwen/Qwen2.5-0.5B; {MAKE}"
        elif folder.parent.is_dir():  # the hub would be asked for a minute, where there is no network
            return f"model.path={path}: there is no such folder in {folder.parent}; {MAKE}"
        try:
            filled = self.template.format(prompt=(prompt := "a prompt"))
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            said = f"cannot be filled ({type(error).__name__}: {error}); a brace is written twice"
            return f"model.template={self.template}: {said}"
        if prompt not in filled:
            return f"model.template={self.template}: has no {{prompt}}"
        return missing("model=pretrained", "transformers", *(["peft"] if self.lora else []))

    def build(self, characters: str, seed: int, dtype: str = "float32") -> tuple[Any, Any]:
        """Return model and tokenizer, on the CPU, as ``read`` does: the task and the seed count for nothing."""
        return read(self.path, dtype, self.chat)

    def prompt_of(self, text: str) -> Prompt:
        """Return a prompt of a task as the model is asked: text, or a user's message where ``chat`` is set."""
        filled = self.template.format(prompt=text)
        return [{"role": "user", "content": filled}] if self.chat else filled

    def adapted(self, model: Any, seed: int) -> Any:
        """Return the model with fresh adapters if they are wanted; RunFailed where no layer has the names."""
        if self.lora is None:
            return model
        from peft import LoraConfig, get_peft_model

        target = self.lora_target if isinstance(self.lora_target, str) else list(self.lora_target)
        wanted = LoraConfig(r=self.lora, lora_alpha=self.lora_alpha, target_modules=target, task_type="CAUSAL_LM")
        try:
            with forked(torch.device("cpu"), stream_seed(seed, Purpose.WEIGHTS)):
                return get_peft_model(model, wanted)
        except ValueError as error:
            typed = target if isinstance(target, str) else f"[{','.join(target)}]"
            raise RunFailed(f"model.lora_target={typed}: {reason(error)}") from error


LANGUAGE_MODELS = {"llama": Llama, "pretrained": Pretrained}


def language_model(settings: Any) -> Llama | Pretrained:
    return bind_choice(LANGUAGE_MODELS, settings)()


def read(path: str, dtype: str = "float32", chat: bool = False) -> tuple[Any, Any]:
    """Return model and tokenizer, on the CPU, the tokenizer as TRL has it; RunFailed in one line for what is none.

    No code of a model's own is run, and no pickle: transformers reads weights as safetensors, or as tensors alone.
    """
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


def missing(what: str, *packages: str) -> str | None:
    """Say which extra ``what``, as `model=llama`, needs because one of the packages is not installed; None if none."""
    extra = next((EXTRAS[package] for package in packages if find_spec(package) is None), None)
    return f"{what}: needs the extra {extra}: pip install 'rlexp[{extra}]'" if extra else None
