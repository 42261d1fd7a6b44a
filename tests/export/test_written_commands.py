"""What is printed, read as the framework reads it: by a shell and Hydra, a shell and argparse, or Python.

The values that come out are those that were meant, and names and values are ones that the version named takes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from functools import cache
from typing import Any

import pytest
from exports import CHOICES, FRAMEWORKS, OF_A_CORPUS, PRESETS, configured, shell_words
from framework_facts import OF_THE_LEGACY_TRAINER, OPENRLHF, VERL, VERL_ADDED
from hydra.core.override_parser.overrides_parser import OverridesParser
from small_runs import TAUGHT

from rlexp.export.tables import export, hydra_value, text

pytestmark = pytest.mark.slow  # every preset

NEEDED = {**dict.fromkeys(["kl_control=adaptive", "kl_control=ziegler"], ["kl=k3"]), **OF_A_CORPUS}
TRIED = [(choice, *NEEDED.get(choice, [])) for choice in PRESETS + CHOICES if choice not in TAUGHT]
# Values at the edges of what is allowed.
TRIED += [
    ("mismatch=token_mask", "mismatch.low=0", "mismatch.high=2"),
    ("mismatch=sequence_mask", "mismatch.high=1e16"),
    ("filter=dynamic_difficulty", "filter.refill.low=-1", "filter.refill.high=0.5"),
    ("grad_clip=null", "minibatches=8", "warmup_steps=5", "lr_final=0.25"),
]


@cache
def read_by_hydra(argument: str) -> tuple[bool, str, Any]:
    """Return whether an argument adds a key, the key and its value."""
    override = OverridesParser.create().parse_override(argument)
    return override.is_add(), override.key_or_group, override.value()


def takes(allowed: Any, value: Any) -> bool:
    """Whether a value is of a type, among others, or passes a test."""
    if isinstance(allowed, list):
        return value in allowed
    if allowed is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is allowed if isinstance(allowed, type) else allowed(value)


def written(overrides, to):
    """Return the settings, and the words that a shell makes of the command."""
    config = configured(*overrides)
    return export(config, FRAMEWORKS[to]).settings, shell_words(text(overrides, config, FRAMEWORKS[to]))


@pytest.mark.parametrize("overrides", TRIED, ids=" ".join)
def test_what_is_written_is_read_as_it_is_meant(overrides):
    hydra_reads_the_command_for_verl(overrides)
    argparse_reads_the_command_for_openrlhf(overrides)
    python_reads_the_arguments_for_trl(overrides)


def hydra_reads_the_command_for_verl(overrides):
    settings, words = written(overrides, "verl")
    assert words[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    read = [read_by_hydra(word) for word in words[3:]]
    assert {("+" if added else "") + key: value for added, key, value in read} == settings
    for added, key, value in read:
        assert takes((VERL_ADDED if added else VERL)[key], value), f"{key}={value}"
    legacy = settings.get("algorithm.adv_estimator") in OF_THE_LEGACY_TRAINER
    assert settings.get("trainer.use_v1", True) != legacy


@cache
def parser() -> ArgumentParser:
    """Return a parser with the arguments of OpenRLHF, which abbreviates none."""
    made = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for flag, facts in OPENRLHF.items():
        made.add_argument(flag, **facts)
    return made


def argparse_reads_the_command_for_openrlhf(overrides):
    settings, words = written(overrides, "openrlhf")
    assert words[:3] == ["python3", "-m", "openrlhf.cli.train_ppo_ray"]
    read = vars(parser().parse_args(words[3:]))
    assert {name: read[name.removeprefix("--")] for name in settings} == settings


def python_reads_the_arguments_for_trl(overrides):
    config = configured(*overrides)
    lines = text(overrides, config, FRAMEWORKS["trl"]).splitlines()
    code = "\n".join(line for line in lines if not line.startswith("#"))
    assert eval(code, {"GRPOConfig": dict}) == export(config, FRAMEWORKS["trl"]).settings


@pytest.mark.parametrize(
    ("value", "text"),
    [("0.5_5", "'0.5_5'"), ("0.5_5.0", "0.5_5.0"), ("1", "'1'"), ("null", "'null'"), (["a", "true"], "[a,'true']")],
)
def test_a_text_that_looks_like_something_else_is_quoted(value, text):
    assert hydra_value(value) == text
    assert read_by_hydra(f"key={text}") == (False, "key", value)


@pytest.mark.parametrize(
    ("framework", "known"),
    [("verl", {*VERL, *(f"+{name}" for name in VERL_ADDED)}), ("openrlhf", set(OPENRLHF))],
)
def test_the_facts_are_about_the_settings_of_the_tables(framework, known):
    _, table, run, _ = FRAMEWORKS[framework]
    rules = [rule for part in table.values() for rule in part.values() if not isinstance(rule, str)]
    assert {name for rule in [run, *rules] for name in rule.settings} == known
