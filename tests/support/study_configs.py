"""What a study compares and asks, read from its files."""

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from small_runs import files

from rlexp.config.settings import Study


def swept(study: str) -> dict[str, list[str]]:
    """What the sweeper of a study is asked for; a list of texts a key."""
    params = OmegaConf.merge(*(OmegaConf.select(file, "hydra.sweeper.params") or {} for file in files("study", study)))
    return {key: values(key, value) for key, value in params.items()}


def values(key: str, value: object) -> list[str]:
    """`a,b` and `range(0,3)` as Hydra sweeps them."""
    override = OverridesParser.create().parse_override(f"{key}={value}")
    return [str(each) for each in override.sweep_string_iterator()] if override.is_sweep_override() else [str(value)]


def written(study: str) -> Study:
    """The study alone, which may need a sweep to be a config."""
    node = OmegaConf.merge(*files("study", study), {"study": {"name": study}}).study
    return Study.model_validate(OmegaConf.to_container(node))
