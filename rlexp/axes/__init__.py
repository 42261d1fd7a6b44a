"""The axes: every place of a training step where one of several functions is called, in one table.

Config, help, variant, checks and documents follow from ``AXES``. The module of an axis, imported when it is first asked
for, holds pure functions and nothing else: its choices by name (``FUNCTIONS``), what they may ask for by name
(``INPUTS``, made of ``offered``), and what choices remember from step to step (``MEMORIES``, see
``rlexp.core.memory``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from rlexp.core.facts import AggregationFacts, ControlFacts, Facts, LossFacts, NormFacts, RewardFacts

if TYPE_CHECKING:
    from rlexp.core.memory import Memory
    from rlexp.core.registry import Offer


@dataclass(frozen=True)
class Axis:
    """A place of the training step where one of several functions is called.

    Attributes:
        key: the config key of its choice, as ``norm``; ``filter.loss`` where a group has several.
        text: what it decides, in a line, for the help.
        stage: the part of the step that calls it: ``sampling``, ``reward``, ``advantages``, ``loss`` or ``after``. What
            functions of ``advantages`` and ``loss`` ask for is made when one of them asks.
        returns: what its functions return, as a shape.
        table, inputs_table: where in its module the choices are, and what they may ask for.
        facts: the class of what can be declared beside its functions.
    """

    key: str
    text: str
    stage: str
    returns: str
    table: str = "FUNCTIONS"
    inputs_table: str = "INPUTS"
    facts: type[Facts] = Facts

    @property
    def group(self) -> str:
        """The config group, a folder of ``conf/``."""
        return self.key.partition(".")[0]

    @property
    def place(self) -> str:
        """The part of the group that this is; empty where the group has one."""
        return self.key.partition(".")[2]

    @property
    def attribute(self) -> str:
        """What the chosen function is called in a ``Variant``: ``norm``, ``filter_loss``."""
        return self.key.replace(".", "_")

    @property
    def module(self) -> ModuleType:
        return import_module(f"rlexp.axes.{self.group}")

    @property
    def functions(self) -> dict[str, Callable]:
        """Its choices by name; ``rlexp.register`` adds to them."""
        return getattr(self.module, self.table)

    @property
    def inputs(self) -> dict[str, Offer]:
        """What its functions may ask for by name."""
        return getattr(self.module, self.inputs_table)

    @property
    def memories(self) -> dict[str, Memory]:
        """What its choices remember from step to step, by the name of the choice."""
        return vars(self.module).setdefault("MEMORIES", {})


PER_COMPLETION, PER_TOKEN, EITHER = "[R P G]", "[R P G T]", "[R P G] or [R P G T]"
AXES: dict[str, Axis] = {
    axis.key: axis
    for axis in (
        Axis("prompts", "which prompts come, where they come again", "sampling", "[R N]"),
        Axis("allocation", "how many completions each prompt of a step has", "sampling", "[R P]"),
        Axis("reward", "who judges: the task, or a judge who errs", "reward", PER_COMPLETION, facts=RewardFacts),
        Axis("shaping", "rewards to rewards, before anything else looks at them", "advantages", PER_COMPLETION),
        Axis("filter.refill", "groups kept as they are", "sampling", PER_COMPLETION, "GROUPS", "OFFERED_TO_REFILL"),
        Axis("filter.loss", "which completions or tokens enter the loss", "advantages", EITHER),
        Axis("filter.statistics", "which completions the statistics see", "advantages", PER_COMPLETION, "COMPLETIONS"),
        Axis("norm", "rewards to advantages", "advantages", EITHER, facts=NormFacts),
        Axis("teacher", "a policy that advises, beside the rewards or in their place", "advantages", PER_TOKEN),
        Axis("anchor", "which policy ratios are taken against, where several sampled", "loss", PER_TOKEN),
        Axis("clip", "the policy loss: advantages and ratios to a loss a token", "loss", PER_TOKEN, facts=LossFacts),
        Axis("agg", "losses of tokens to one loss", "loss", "[R]", facts=AggregationFacts),
        Axis("distillation", "a loss against the teacher, beside the policy loss or in its place", "loss", PER_TOKEN),
        Axis("imitation", "a loss on right answers, beside the policy loss", "loss", PER_TOKEN),
        Axis("kl", "penalty for leaving the reference policy", "loss", PER_TOKEN),
        Axis("kl_control", "the weight of that penalty over time", "after", "[R]"),
        Axis("reference", "how the reference policy follows the policy", "after", "a parameter"),
        Axis("entropy_control", "the weight of the entropy bonus over time", "loss", "[R]", facts=ControlFacts),
        Axis("sampler", "what samples: the policy itself, or one that differs a little", "sampling", "[R P G V]"),
        Axis("mismatch", "correction of what policy and sampler disagree about", "loss", PER_TOKEN),
        Axis("optimizer", "what a gradient does to the weights", "after", "[R N]"),
    )
}  # fmt: skip


def axis_of(group: str) -> Axis:
    """Return the axis of a config group; of ``filter``, which has three, the one that knows all its functions."""
    return AXES.get(group) or AXES[f"{group}.loss"]
