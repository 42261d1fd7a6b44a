"""What Hydra makes of a study and of choices on its axes, without Hydra, which takes a fifth of a second."""

from functools import cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from small_runs import unresolved

from rlexp.config.choices import groups, text_of
from rlexp.config.schema import Config, read
from rlexp.config.study import Study


@cache
def file_of(group: str, choice: str) -> DictConfig:
    """A choice as it is written; a study of a claim without its name."""
    return OmegaConf.create(text_of(group, choice))


def bases(group: str, choice: str) -> list[str]:
    """The files of its group that a choice builds upon."""
    return [base for base in file_of(group, choice).get("defaults", []) if isinstance(base, str) and base != "_self_"]


def files(group: str, choice: str) -> list[DictConfig]:
    """A choice, after all that it builds upon."""
    return [*(file for base in bases(group, choice) for file in files(group, base)), file_of(group, choice)]


def swept(study: str) -> dict[str, list[str]]:
    """What the sweeper of a study is asked for; a list of texts a key."""
    params = OmegaConf.merge(*(OmegaConf.select(file, "hydra.sweeper.params") or {} for file in files("study", study)))
    return {key: values(key, value) for key, value in params.items()}


def values(key: str, value: object) -> list[str]:
    """`a,b` and `range(0,3)` as Hydra sweeps them."""
    override = OverridesParser.create().parse_override(f"{key}={value}")
    return [str(each) for each in override.sweep_string_iterator()] if override.is_sweep_override() else [str(value)]


def overrides_in(file: DictConfig) -> dict[str, str]:
    """The choices on other axes that a recipe makes."""
    entries = [entry for entry in file.get("defaults", []) if not isinstance(entry, str)]
    return {key.removeprefix("override /"): choice for entry in entries for key, choice in entry.items()}


def written(study: str) -> Study:
    """The study alone, which may need a sweep to be a config."""
    node = OmegaConf.merge(*files("study", study), {"study": {"name": study}}).study
    return Study.model_validate(OmegaConf.to_container(node))


@cache
def with_study(study: str, *overrides: str) -> Config:
    """`study={study}` and overrides: what is typed counts before the study, and the study before its preset."""
    typed = dict(override.split("=", 1) for override in overrides)
    recipe = files("study", study)
    chosen = {key: choice for file in recipe for key, choice in overrides_in(file).items()}
    chosen |= {key: choice for key, choice in typed.items() if key in groups()}
    preset = files("preset", chosen.get("preset", "none"))
    chosen = {key: choice for file in preset for key, choice in overrides_in(file).items()} | chosen
    tree = OmegaConf.create(unresolved())
    tree.update({key: OmegaConf.merge(*files(key, choice)) for key, choice in chosen.items() if key != "preset"})
    tree = OmegaConf.merge(tree, *preset, *recipe, {"study": {"name": study}})
    for node in (tree, *filter(OmegaConf.is_dict, tree.values())):
        node.pop("defaults", None)
    tree.pop("hydra")
    for key, value in typed.items():
        if key not in groups():
            OmegaConf.update(tree, key, OverridesParser.create().parse_override(f"{key}={value}").value())
    return read(OmegaConf.to_container(tree, resolve=True))
