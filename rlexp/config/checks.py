"""Contradictions between keys of a config that are each right by themselves, in one line each.

Those of one choice are declared beside its function; here are those of several axes, and of keys beside the axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function, declared
from rlexp.core.errors import format_value
from rlexp.core.registry import bind_choice, requested_names
from rlexp.loop.data import DATA
from rlexp.loop.start import STARTS
from rlexp.record import loggers, teachers
from rlexp.tasks import TASKS

EVALUATED = ("eval/greedy_accuracy", "eval/sampled_accuracy", "eval/reward", "eval/length")


def contradictions(config: Any) -> Iterator[str]:
    """Say what is wrong between keys that are each right by themselves."""
    yield from task_problems(config)
    yield from group_problems(config)
    yield from evaluation_problems(config)
    yield from declared(config, "problems")
    yield from refill_problems(config)
    yield from memory_problems(config)
    yield from model_problems(config)
    yield from start_problems(config)
    yield from data_problems(config)
    yield from teachers.problems(config)
    yield from loggers.problems(config)


def task_problems(config: Any) -> Iterator[str]:
    """Let the task itself say whether its knobs fit together."""
    try:
        bind_choice(TASKS, config.task)()
    except ValueError as error:
        first_word = re.match(r"\w*", str(error))[0]
        yield f"task.{error}" if first_word in type(config.task).model_fields else f"task={config.task.name}: {error}"


def group_problems(config: Any) -> Iterator[str]:
    """Whether groups and minibatches give ``norm`` something to compare."""
    completions, prompts = config.group_size.completions, config.group_size.prompts
    if prompts % config.minibatches:
        yield (
            f"minibatches={config.minibatches}: must divide the prompts of a step (group_size.prompts={prompts}), "
            "groups are never split"
        )
    compared = {"group": completions, "batch": completions * prompts}.get(chosen_facts(config, "norm").compares)
    if compared == 1:
        yield (
            f"norm={config.norm.name}: compares a completion with others, but group_size.completions={completions} "
            f"group_size.prompts={prompts} leave it none, so every advantage would be 0; "
            "take more completions or norm=none"
        )


def evaluated_metrics(config: Any) -> list[str]:
    """Return the names of the metrics of an evaluation."""
    return [*EVALUATED, *(f"eval/pass@{k}" for k in config.eval.ks)]


def evaluation_problems(config: Any) -> Iterator[str]:
    """Whether pass@k has enough samples, and whether what is the score is evaluated at all."""
    evaluated = evaluated_metrics(config)
    if config.score.metric not in evaluated:
        yield f"score.metric={config.score.metric}: is not evaluated; there are {', '.join(evaluated)}"
    largest = max(config.eval.ks, default=0)
    if largest > config.eval.samples:
        ks, samples = format_value(config.eval.ks), config.eval.samples
        yield f"eval.ks={ks}: pass@{largest} needs as many samples, and eval.samples={samples}"


def refill_problems(config: Any) -> Iterator[str]:
    """Whether groups are replaced in rounds of their own, or not at all."""
    refill, neutral = config.filter.refill, chosen_facts(config, "filter.refill").neutral
    if neutral != (refill.rounds == 1):
        needed = "is of 1 round" if neutral else "needs at least 2"
        yield f"filter.refill.rounds={refill.rounds}: filter.refill.name={refill.name} {needed}"


def model_problems(config: Any) -> Iterator[str]:
    """Whether heads share the width of a model that has them."""
    heads = getattr(config.model, "heads", 1)
    if getattr(config.model, "width", heads) % heads:
        yield f"model.heads={heads}: must divide model.width={config.model.width}"


def memory_problems(config: Any) -> Iterator[str]:
    """Whether two choices of a config remember different things under one name."""
    owners = {}
    for key, node, axis in axis_nodes(config):
        if node.name not in getattr(axis, "MEMORIES", {}):
            continue
        memory = axis.MEMORIES[node.name]
        first = owners.setdefault(memory.name, (key, node))
        if first[0].partition(".")[0] != key.partition(".")[0] or first[1] != node:
            yield f"{key}={node.name}: remembers `{memory.name}`, which {first[0]}={first[1].name} remembers otherwise"


def start_problems(config: Any) -> Iterator[str]:
    """Whether the start that is wanted can exist."""
    start, task = config.start, config.task.name
    if "task" in requested_names(STARTS[start.name]) and not hasattr(TASKS[task], "oracle"):
        yield f"start={start.name}: task={task} has no right answers to learn from; take start=random"
    if hasattr(start, "formed") and not hasattr(TASKS[task], "wrong_answers"):
        yield f"start={start.name}: task={task} has no wrong answers to learn from; take start=sft"
    if hasattr(start, "entropy") and not list(task_problems(config)):
        guess = math.log(bind_choice(TASKS, config.task)().vocabulary)
        if start.entropy >= guess:
            wanted = format_value(start.entropy)
            yield f"start.entropy={wanted}: must be below that of a guess, {guess:.3f} nats a token"


def data_problems(config: Any) -> Iterator[str]:
    """Whether the buffer can hold what a step draws from it, and whether old data have all that is asked for."""
    data, task, group_size = config.data, config.task.name, config.group_size
    if getattr(data, "oracle", 0) > group_size.completions:
        yield f"data.oracle={data.oracle}: must be at most group_size.completions={group_size.completions}"
    if getattr(data, "oracle", 0) and not hasattr(TASKS[task], "oracle"):
        yield f"data.oracle={data.oracle}: task={task} has no right answers; take data.oracle=0"
    if data.name == "replay":
        yield from replay_problems(config)
    asking = [f"{key}={node.name}" for key, node, _ in axis_nodes(config) if asks_who_sampled(config, key)]
    if data.name != "fresh" and asking:
        yield f"{asking[0]} data={data.name}: asks for distributions of the policy that sampled, which is gone by then"


def asks_who_sampled(config: Any, key: str) -> bool:
    """Whether a choice asks for more of the policy that sampled than the log-probabilities of its tokens."""
    return bool({"entropies", "sum_pi_squared"} & {*requested_names(chosen_function(config, key))})


def replay_problems(config: Any) -> Iterator[str]:
    """Whether there are new groups, old ones, and as many old ones as are drawn."""
    data, prompts = config.data, config.group_size.prompts
    new = bind_choice(DATA, data)().sampled(prompts)
    if not 0 < new < prompts:
        share = format_value(data.fresh)
        yield f"data.fresh={share}: is {new} of group_size.prompts={prompts}, and must leave new and old groups"
    elif data.capacity * new < prompts - new:
        held = f"data.capacity={data.capacity}: holds {data.capacity * new} groups"
        yield f"{held}, and a step draws {prompts - new}; take at least {math.ceil(prompts / new) - 1}"
