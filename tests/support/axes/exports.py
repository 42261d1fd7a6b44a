"""Configurations in the settings of the frameworks, for the tests of the export."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from axis_choices import CONF
from omegaconf import OmegaConf
from small_runs import BESIDE, compose, settings

from benchmarks.parts.yaml_files import chosen
from rlexp.config.schema import Config, read
from rlexp.export.rule import PARTS, Exported, export
from rlexp.export.tables import FRAMEWORKS

AXES = sorted({part.partition(".")[0] for part in PARTS})
PRESETS = sorted(f"preset={path.stem}" for path in CONF.glob("preset/*.yaml"))
CHOICES = sorted(f"{axis}={path.stem}" for axis in AXES for path in CONF.glob(f"{axis}/*.yaml"))
BUILT_ON_OTHERS = {"start"}  # axes with a YAML that is more than itself
# The critic that some norms cannot do without, and a norm for it.
CRITICAL = {choice: beside for choice, beside in BESIDE.items() if choice.startswith(("norm=", "critic="))}


@cache
def configured(*overrides: str) -> Config:
    """``compose(*overrides)``, without Hydra, which takes a fifth of a second, where the first is a choice or a preset.

    Those that follow it must not set what it chooses.
    """
    (axis, _, choice), *others = [override.partition("=") for override in overrides] or [("", "", "")]
    path = CONF / "preset" / f"{choice}.yaml"
    if axis == "preset" and not others and not BUILT_ON_OTHERS & {*chosen(path)}:
        return over_default(chosen(path), path)
    if axis in {*AXES, "group_size"} - BUILT_ON_OTHERS and not any("." in key for key, _, _ in others):
        return over_default({axis: choice}, None, *overrides[1:], *CRITICAL.get(overrides[0], []))
    return compose(*overrides)


def over_default(choices: Mapping[str, str], numbers: Path | None, *overrides: str) -> Config:
    """Return the default with some choices and with the numbers of a YAML over it."""
    tree = settings(*overrides)
    nodes = {axis: OmegaConf.load(CONF / axis / f"{label}.yaml") for axis, label in choices.items()}
    values = OmegaConf.load(numbers) if numbers else {}
    values.pop("defaults", None)
    merged = OmegaConf.merge({key: tree[key] for key in ("task", "entropy_coef")} | nodes, values)
    return read(tree | OmegaConf.to_container(merged, resolve=True))


def exported(to: str, *overrides: str) -> Exported:
    """Return what the configuration with these overrides is in a framework."""
    return export(configured(*overrides), FRAMEWORKS[to])


def shell_words(command: str) -> list[str]:
    """Return the words that a shell makes of an exported command, comments aside."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    return shlex.split("\n".join(lines).replace("\\\n", " "))
