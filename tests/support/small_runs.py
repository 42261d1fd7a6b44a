"""Runs of two steps, their configs, and their rows."""

import json
from functools import cache
from importlib.util import find_spec

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from rlexp.config.compose import CONF, composed, plain
from rlexp.config.compose import compose as composed_anew
from rlexp.config.schema import Config, read
from rlexp.runfolder.rows import without_clock

SHORT = ["steps=2", "log_every=1", "eval.every=2", "eval.prompts=6", "eval.samples=2", "eval.ks=[1,2]", "logger=none"]
# What a choice cannot do without, or would take long without.
BESIDE = {
    "data=demonstrations": ["data.oracle=2"],  # groups are smaller in tests
    "critic=ppo": ["norm=gae"],
    "critic=value": ["norm=gae"],
    "norm=spo": ["task.prompt_set=8"],
    "norm=gae": ["critic=value"],
    "norm=gae_whitened": ["critic=value"],
    "norm=value_baseline": ["critic=value"],
    "kl_control=adaptive": ["kl=k1"],
    "kl_control=ziegler": ["kl=k1"],
    **{
        f"reward={judge}": ["reward.model.pairs=16", "reward.model.updates=2"]
        for judge in ("learned", "ensemble_mean", "ensemble_minimum", "ensemble_bound")
    },
    "start=sft": ["start.accuracy=0.01"],
    "reference=halfway": ["start=sft", "start.accuracy=0.02"],
    "start=mixture": ["start.formed=0.0", "start.accuracy=0.0"],
    "start=sharpened": ["start.accuracy=0.01"],
    "start=flattened": ["start.accuracy=0.01"],
    "model=tabular": ["task=bandit"],
    "preset=openrlhf": ["minibatches=4"],  # eight of them need as many prompts
    "preset=prorl_v2": ["minibatches=4"],
}
# They need the folder of a run, or a start: test_teacher and test_reference_begins train and refuse them.
TAUGHT = {"teacher=added", "teacher=alone", "reference=run", "reference=halfway"}
# They need a package that may not be here, or a language model: tests/language and tests/backends have them.
ABSENT = {"reference=run", "backend=trl", "model=llama", "model=pretrained", "task=jsonl", "task=reasoning_gym"} | {
    choice for choice, package in {"logger=trackio": "trackio"}.items() if find_spec(package) is None
}
# Of four completions they keep two.
FITTING = dict.fromkeys(("filter=gfpo", "filter=gfpo_efficiency"), {"statistics": {"number": 2}})
SMALL = ["group_size.completions=4", "group_size.prompts=4"]

compose = cache(composed_anew)  # Hydra takes a fifth of a second; no test changes a config


@cache
def settings(*overrides: str) -> dict:
    """What Hydra makes of overrides, as plain values."""
    return plain(composed(*overrides))


@cache
def with_choice(axis: str, choice: str, *overrides: str) -> Config:
    """``compose(f"{axis}={choice}", *overrides)`` without Hydra, for a choice that is nothing but its YAML."""
    node = OmegaConf.load(CONF / axis / f"{choice}.yaml")
    tree = settings(*overrides) | {axis: OmegaConf.merge(node, FITTING.get(f"{axis}={choice}", {}))}
    return read(OmegaConf.to_container(OmegaConf.create(tree), resolve=True))


@cache
def unresolved() -> DictConfig:
    """What Hydra makes of no overrides, interpolations as they stand there."""
    settings = composed()
    return OmegaConf.masked_copy(settings, [key for key in settings if key != "hydra"])


def values(*overrides: str) -> dict:
    """``settings`` without Hydra, for choices that are nothing but their YAML, and for values (``+``, ``~`` too)."""
    tree = OmegaConf.create(OmegaConf.to_container(unresolved()))
    for override in overrides:
        key, _, text = override.lstrip("+~").partition("=")
        if override.startswith("~"):
            parent, _, last = key.rpartition(".")
            del OmegaConf.select(tree, parent)[last]
        elif (CONF / key).is_dir():
            tree[key] = OmegaConf.load(CONF / key / f"{text}.yaml")
        else:
            value = OverridesParser.create().parse_override(f"{key}={text}").value()
            OmegaConf.update(tree, key, value, merge=False, force_add=True)
    return OmegaConf.to_container(tree, resolve=True)


def rows(folder):
    """Every metric of a run's file as it stands there, times aside."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [without_clock(json.loads(line)) for line in lines]
