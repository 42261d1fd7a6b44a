"""A small task of text, settings of models and starts, and configs as made.load reads them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from rlexp.config.schema import Config
from rlexp.core.registry import schema
from rlexp.core.streams import generator
from rlexp.language import LANGUAGE_MODELS
from rlexp.language.models import language_model
from rlexp.language.text_task import Example, Score
from rlexp.loop.start import STARTS

LARGEST = 6  # digits from 0 on


@dataclass(frozen=True)
class CopyDigits:
    """`251=` → `251`: write three digits again. Held out are those whose sum is a multiple of four."""

    solved: bool = True
    wrong: bool = True

    weights = {"exact": 1.0}
    reward_range = (0.0, 1.0)
    metric = "eval/greedy_accuracy"
    floor = 0.1
    characters = "012345="

    def examples(self, seed, purpose, step, count, held_out):
        numbers, found = generator(seed, purpose, step), []
        while len(found) < count:
            digits = numbers.integers(LARGEST, size=3).tolist()
            if (sum(digits) % 4 == 0) == held_out:
                found.append(Example("".join(map(str, digits)) + "=", digits))
        return found

    def score(self, examples, texts, finished):
        rows = zip(examples, texts, finished, strict=True)
        right = [done and text == "".join(map(str, example.entry)) for example, text, done in rows]
        return [Score({"exact": float(each)}, each) for each in right]

    def solution(self, example):
        return "".join(map(str, example.entry)) if self.solved else None

    def wrong_solution(self, example):
        return f"{(example.entry[0] + 1) % LARGEST}" + "".join(map(str, example.entry[1:])) if self.wrong else None


def node(choices, extra=(), **values):
    """Settings of one choice, as a config has them."""
    from pydantic import TypeAdapter

    return TypeAdapter(schema(choices, **dict(extra))).validate_python(values)


def tiny_llama():
    return language_model(node(LANGUAGE_MODELS, **LLAMA))


LLAMA = dict(name="llama", layers=1, width=32, heads=2, seed=0)
PRETRAINED = dict(name="pretrained", path=None, dtype="float32", lora=None, lora_alpha=32.0, lora_target="all-linear")
PRETRAINED |= dict(template="{prompt}", chat=False)
SFT = dict(name="sft", accuracy=0.1, lr=1e-2, prompts=64, every=2, checked=256, updates=300)
MIXTURE = dict(
    SFT, name="mixture", lr=4e-3, accuracy=0.2, tolerance=0.02, formed=0.6, checked=2048, every=20, updates=2000
)


RANDOM = {"name": "random"}


class Read(SimpleNamespace):
    """A config without what made.load does not read."""

    start_seed = Config.start_seed


def config(start=RANDOM, seed=0, length=8, **model):
    """What made.load reads of a config."""
    named = PRETRAINED if model.get("name") == "pretrained" or "path" in model else LLAMA
    return Read(
        task=node({"copy": CopySettings}, name="copy"),
        model=node(LANGUAGE_MODELS, **{**named, **model}),
        start=node(
            STARTS | {"scaled": scaled}, {"seed": int | None}, **{"seed": None, **(start or {"name": "random"})}
        ),
        backend=SimpleNamespace(max_completion_length=length),
        seed=seed,
        device="cpu",
    )


class CopySettings:
    """No hyperparameters."""

    def __init__(self):
        pass


def scaled(learner):
    """A start of the replicas only."""
