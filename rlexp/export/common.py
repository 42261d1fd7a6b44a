"""What holds in every framework: rewards are the user's own function there, samplers are real, policies come trained."""

from __future__ import annotations

from collections.abc import Mapping

from rlexp import shaping
from rlexp.export.rule import NOTHING, Rule, Table

GROUP_TOO_SMALL = "no advantage of a group of one"
SIMULATED = "a simulation of this project; there the sampler is the inference engine"
CHECKPOINT = Rule(notes=("start from a checkpoint that was trained so",))


def in_the_reward(name: str) -> Rule:
    """Return the rule of a shaping that a framework leaves to the reward function."""
    first = shaping.FUNCTIONS[name].__doc__.partition("\n")[0]
    return Rule(notes=(f"is for your reward function to do: {first}",))


COMMON: Table = {
    "shaping": {name: in_the_reward(name) for name in shaping.FUNCTIONS} | {"none": NOTHING},
    "filter.refill": {"none": NOTHING},
    "filter.loss": {"none": NOTHING},
    "filter.statistics": {"none": NOTHING},
    "kl_control": {"fixed": NOTHING},
    "reference": {"frozen": NOTHING},
    "sampler": {"exact": NOTHING, "noisy": SIMULATED, "bf16": SIMULATED},
    "start": {"random": NOTHING, "sft": CHECKPOINT, "scaled": CHECKPOINT},
}


def over_common(table: Table) -> Table:
    """Return the common rules, those of a framework put over them."""
    return {part: {**COMMON.get(part, {}), **table.get(part, {})} for part in {**COMMON, **table}}


def stepwise(items: Mapping[str, str], join: str) -> str:
    """Return a shell command's arguments, one on each line."""
    return " \\\n    ".join(f"{name}{join}{value}".strip() for name, value in items.items())
