"""Runs of two steps, their configs, and their rows."""

import json
from functools import cache
from importlib.util import find_spec

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from rlexp.config.choices import groups, studies, text_of
from rlexp.config.compose import composed
from rlexp.config.schema import Config, read
from rlexp.runfolder.rows import without_clock

SHORT = ["steps=2", "log_every=1", "eval.every=2", "eval.prompts=6", "eval.samples=2", "eval.ks=[1,2]", "logger=none"]
# What a choice cannot do without, or would take long without.
BESIDE = {
    "data=demonstrations": ["data.oracle=2"],  # groups are smaller in tests
    "critic=ppo": ["norm=gae"],
    "critic=value": ["norm=gae"],
    "critic=vapo": ["norm=gae", "critic.critic_warmup=1"],
    "preset=vapo": ["critic.critic_warmup=1"],  # of two steps
    "norm=spo": ["task.prompt_set=8"],
    "norm=dbb": ["task.prompt_set=8"],
    "prompts=no_positive_resampling": ["task.prompt_set=8"],
    "prompts=difficulty_pools": ["task.prompt_set=8"],
    "prompts=pass_rate_target": ["task.prompt_set=8"],
    "prompts=easy_to_hard": ["task.prompt_set=8"],
    "allocation=vip": ["task.prompt_set=8", "allocation.average=3"],
    "allocation=vip_rloo": ["task.prompt_set=8", "allocation.average=3"],
    "teacher=self": ["teacher.hint=null"],
    "teacher=rlsd": ["teacher.hint=null"],
    **{
        f"distillation={name}": ["teacher.network=reference"]
        for name in (
            "jsd",
            "forward_kl",
            "forward_kl_top_k",
            "reverse_kl",
            "reverse_kl_top_k",
            "sampled",
            "sampled_masked",
            "sampled_gated",
            "jsd_clipped",
            "sdpo",
        )
    },
    "optimizer=evolution_strategies": ["minibatches=1"],
    "norm=gae": ["critic=value"],
    "norm=gae_whitened": ["critic=value"],
    "norm=gae_decoupled": ["critic=value"],
    "norm=gae_length_adaptive": ["critic=value"],
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
    "start=pretrained_mixture": ["task=two_habits", "start.accuracy=0.01", "start.checked=128", "start.every=5"],
    "start=sharpened": ["start.accuracy=0.01"],
    "start=flattened": ["start.accuracy=0.01"],
    **dict.fromkeys(("filter=gfpo", "filter=gfpo_efficiency"), ["filter.statistics.number=2"]),  # of four completions
    "model=tabular": ["task=bandit"],
    "preset=openrlhf": ["minibatches=4"],  # eight of them need as many prompts
    "preset=prorl_v2": ["minibatches=4"],
    **dict.fromkeys(("preset=sdpo", "preset=opsd"), ["task=two_habits", "task.hint=4"]),
}
# They need the folder of a run, or a start: test_teacher and test_reference_begins train and refuse them.
TAUGHT = {"start=pretrained", "reference=run", "reference=halfway"}
TAUGHT |= {"teacher=added", "teacher=alone", "teacher=importance_weighted"}
# They need a package that may not be here, or a language model: tests/language and tests/backends have them.
ABSENT = {"reference=run", "backend=trl", "model=pretrained", "task=jsonl", "task=reasoning_gym"} | {
    choice for choice, package in {"logger=trackio": "trackio"}.items() if find_spec(package) is None
}
SMALL = ["group_size.completions=4", "group_size.prompts=4"]


@cache
def compose(*overrides: str) -> Config:
    """``rlexp.config.compose.compose`` without Hydra, which takes a fifth of a second; no test changes a config."""
    return read(values(*overrides))


def values(*overrides: str) -> dict:
    """What Hydra makes of overrides (``+``, ``~`` too), as plain values.

    What is typed counts before a study, and that before its preset.
    """
    typed = [override.lstrip("+").partition("=") for override in overrides]
    chosen = {key: choice for key, _, choice in typed if key in groups()}
    study = files("study", chosen.pop("study")) if "study" in chosen else []
    chosen = {key: choice for file in study for key, choice in overrides_in(file).items()} | chosen
    preset = files("preset", chosen.pop("preset")) if "preset" in chosen else []
    chosen = {key: choice for file in preset for key, choice in overrides_in(file).items()} | chosen
    tree = OmegaConf.create(unresolved())
    tree.update({key: OmegaConf.merge(*files(key, choice)) for key, choice in chosen.items()})
    tree = OmegaConf.merge(tree, *preset, *study)
    for node in (tree, *filter(OmegaConf.is_dict, tree.values())):
        node.pop("defaults", None)
    tree.pop("hydra", None)
    for key, _, text in typed:
        if key.startswith("~"):
            parent, _, last = key[1:].rpartition(".")
            del OmegaConf.select(tree, parent)[last]
        elif key not in groups():
            OmegaConf.update(tree, key, value_of(f"{key}={text}"), force_add=True)
    return OmegaConf.to_container(tree, resolve=True)


@cache
def unresolved() -> DictConfig:
    """What Hydra makes of no overrides, interpolations as they stand there."""
    settings = composed()
    return OmegaConf.masked_copy(settings, [key for key in settings if key != "hydra"])


def files(group: str, choice: str) -> list[DictConfig]:
    """A choice, after all that it builds upon."""
    return [*(file for base in bases(group, choice) for file in files(group, base)), file_of(group, choice)]


def bases(group: str, choice: str) -> list[str]:
    """The files of its group that a choice builds upon."""
    return [base for base in file_of(group, choice).get("defaults", []) if isinstance(base, str) and base != "_self_"]


@cache
def file_of(group: str, choice: str) -> DictConfig:
    """A choice as it is written; a study of a claim with its name."""
    file = OmegaConf.create(text_of(group, choice))
    named = group == "study" and choice in studies()
    return OmegaConf.merge({"study": {"name": choice}}, file) if named else file


def overrides_in(file: DictConfig) -> dict[str, str]:
    """The choices on other axes that a recipe makes."""
    entries = [entry for entry in file.get("defaults", []) if not isinstance(entry, str)]
    return {key.removeprefix("override /"): choice for entry in entries for key, choice in entry.items()}


@cache
def value_of(override: str) -> object:
    """What Hydra reads in an override."""
    return OverridesParser.create().parse_override(override).value()


def rows(folder):
    """Every metric of a run's file as it stands there, times aside."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [without_clock(json.loads(line)) for line in lines]
