"""Configurations in the settings of the frameworks, for the tests of the export."""

from __future__ import annotations

import shlex

from axis_choices import CONF
from small_runs import BESIDE, compose

from rlexp.config.schema import Config
from rlexp.export.tables import FRAMEWORKS, PARTS, Exported, export

AXES = sorted({part.partition(".")[0] for part in PARTS})
PRESETS = sorted(f"preset={path.stem}" for path in CONF.glob("preset/*.yaml"))
CHOICES = sorted(f"{axis}={path.stem}" for axis in AXES for path in CONF.glob(f"{axis}/*.yaml"))
OF_A_CORPUS = {"start=pretrained_mixture": ["task=addition"]}  # what choices need that only some tasks have
# The critic that some norms cannot do without, and a norm for it; a set of prompts; who teaches.
NEEDY = (
    "preset=opsd",
    "preset=sdpo",
    "norm=",
    "critic=",
    "prompts=",
    "allocation=",
    "teacher=",
    "distillation=",
    "optimizer=",
)
CRITICAL = {choice: beside for choice, beside in BESIDE.items() if choice.startswith(NEEDY)}


def configured(*overrides: str) -> Config:
    """Return a config, with what the first of its choices cannot do without."""
    return compose(*overrides, *(CRITICAL.get(overrides[0], []) if overrides else []))


def exported(to: str, *overrides: str) -> Exported:
    """Return what the configuration with these overrides is in a framework."""
    return export(configured(*overrides), FRAMEWORKS[to])


def shell_words(command: str) -> list[str]:
    """Return the words that a shell makes of an exported command, comments aside."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    return shlex.split("\n".join(lines).replace("\\\n", " "))
