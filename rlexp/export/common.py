"""What holds in every framework: rewards are the user's function, samplers are real, policies come trained."""

from __future__ import annotations

from typing import Any

from rlexp.axes import reward, shaping
from rlexp.config.schema import Config
from rlexp.core.errors import format_value
from rlexp.export.rule import NOTHING, Rule, Table, when

CLAMPED = when(lambda node, config: config.log_ratio_bound != 20, "log-ratios are bounded at ±20 there")
UNBOUNDED = when(lambda node, config: config.log_ratio_bound is not None, "log-ratios have no bound there")
POINTLESS = "its gradient is zero in expectation, there as here"
SIMULATED = "a simulation of this project; there the sampler is the inference engine"
SHUFFLED = when(
    lambda node, config: config.minibatches > 1,
    "completions are shuffled over the updates of a rollout there; here groups stay whole",
)
WARM_UP = when(
    lambda node, config: config.warmup_steps > 0,
    "the warm-up begins at a learning rate of 0 there, here at lr / warmup_steps: its rates come one update later",
)
ENDED = [
    when(
        lambda node, config: node.bootstrap != 0,
        "a cut-off completion is taken for one that has ended there, as bootstrap=0",
    )
]
NO_BOUND = when(lambda node, config: config.advantage_clip is not None, "advantages have no bound there")
OTHER_OPTIMIZER = when(
    lambda node, config: not config.optimizer.name.startswith("adam"),
    "the critic has an optimizer of its own there, AdamW; here it has that of the policy",
)
NO_STOP = when(lambda node, config: config.kl_stop is not None, "updates on a rollout are never stopped there")
OF_UPDATES = (SHUFFLED, NO_STOP)
CHECKPOINT = Rule(notes=("start from a checkpoint that was trained so",))


def rounding(most: str) -> str:
    """Return the note about groups of equal rewards, whose advantages are exactly 0 here."""
    return f"a group of equal rewards is not looked for there: rounding can leave it {most}, unless rewards are 0 and 1"


def in_the_reward(node: Any, config: Config) -> str:
    """Return what a judge or a shaping does, for frameworks that leave it to the reward function."""
    first = (reward.FUNCTIONS | shaping.FUNCTIONS)[node.name].__doc__.partition("\n")[0]
    knobs = ", ".join(f"{name}={format_value(value)}" for name, value in node if name not in ("name", "model"))
    trained = ", a model that you train" if getattr(node, "model", None) else ""
    return f"is for your reward function to do ({knobs}{trained}): {first}".replace("(, ", "(").replace(" ()", "")


BEGINS_ELSEWHERE = when(
    lambda node, config: node.begin != "start",
    "the reference is another policy than the one that training starts from: give its checkpoint as the reference's",
)
COMMON: Table = {
    "reward": dict.fromkeys(reward.FUNCTIONS, Rule(notes=(in_the_reward,))) | {"verifier": NOTHING},
    "shaping": dict.fromkeys(shaping.FUNCTIONS, Rule(notes=(in_the_reward,))) | {"none": NOTHING},
    "filter.refill": {"none": NOTHING},
    "filter.loss": {"none": NOTHING},
    "filter.statistics": {"none": NOTHING},
    "critic": {"none": NOTHING},
    "teacher": {"none": NOTHING},
    "kl_control": {"fixed": NOTHING},
    "reference": {"frozen": Rule(notes=[BEGINS_ELSEWHERE])},
    "entropy_control": {"fixed": NOTHING},
    "sampler": {"exact": NOTHING, "noisy": SIMULATED, "bf16": SIMULATED},
    "start": {"random": NOTHING, "sft": CHECKPOINT, "mixture": CHECKPOINT, "scaled": CHECKPOINT},
    "data": {"fresh": NOTHING},
}


def over_common(table: Table) -> Table:
    """Return the common rules, those of a framework put over them."""
    return {part: {**COMMON.get(part, {}), **table.get(part, {})} for part in {**COMMON, **table}}


def stepwise(command: str, *arguments: str) -> str:
    """Return a shell command with each argument on a line of its own."""
    return " \\\n    ".join([command, *arguments])
