"""Contradictions between keys of a config that are each right by themselves, in one line each.

Those of one choice are in ``compatibility``; here are those of several axes, and of keys beside the axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from rlexp.axes.norm import TARGETS
from rlexp.axes.offered import OF_VERIFIER
from rlexp.config.backend_checks import backend_problems
from rlexp.config.compatibility import problems_of_choices
from rlexp.config.nodes import axis_nodes, chosen_facts, chosen_function
from rlexp.core.errors import format_value
from rlexp.core.registry import bind_choice, requested_names
from rlexp.language import TEXT_TASKS, text_task
from rlexp.language.backend import CAPABILITIES
from rlexp.loop.data import DATA
from rlexp.loop.start import STARTS
from rlexp.models import MODELS
from rlexp.models.scalar import cannot_judge
from rlexp.record import loggers, policies
from rlexp.tasks import TASKS

EVALUATED = ("eval/greedy_accuracy", "eval/sampled_accuracy", "eval/reward", "eval/length")
EXACT = ("accuracy", "reward", "kl", "entropy", "length", "length_correct", "length_wrong")


def contradictions(config: Any) -> Iterator[str]:
    """Say what is wrong between keys that are each right by themselves; of a backend that lacks something only that."""
    if found := [*backend_problems(config)]:
        yield from found
        return
    for check in (
        task_problems,
        group_problems,
        evaluation_problems,
        problems_of_choices,
        refill_problems,
        memory_problems,
        judge_problems,
        reward_model_problems,
        model_problems,
        critic_problems,
        start_problems,
        data_problems,
        policies.problems,
        loggers.problems,
    ):
        yield from check(config)


def task_problems(config: Any) -> Iterator[str]:
    """Let the task itself say whether its knobs fit together, and whether it can be text where that is wanted."""
    try:
        batched = CAPABILITIES[config.backend.name].batched
        bind_choice(TASKS | TEXT_TASKS, config.task)() if batched else text_task(config.task)
    except ValueError as error:
        first_word = re.match(r"\w*", str(error))[0]
        yield f"task.{error}" if first_word in type(config.task).model_fields else f"task={config.task.name}: {error}"


def group_problems(config: Any) -> Iterator[str]:
    """Refuse minibatches that split groups, and a norm that has nothing to compare."""
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
    passes = [f"pass@{k}" for k in config.eval.ks]
    exact = [*EXACT, *config.task.weights, *passes] if is_listed(config) else []
    return [*EVALUATED, *(f"eval/{name}" for name in passes), *(f"eval/exact/{name}" for name in exact)]


def is_listed(config: Any) -> bool:
    """Whether an evaluation lists every completion."""
    return CAPABILITIES[config.backend.name].batched and hasattr(TASKS[config.task.name], "every_completion")


def evaluation_problems(config: Any) -> Iterator[str]:
    """Refuse pass@k of too few samples, and a score that is not evaluated."""
    evaluated = evaluated_metrics(config)
    if config.score.metric not in evaluated:
        yield f"score.metric={config.score.metric}: is not evaluated; there are {', '.join(evaluated)}"
    largest = max(config.eval.ks, default=0)
    if largest > config.eval.samples:
        ks, samples = format_value(config.eval.ks), config.eval.samples
        yield f"eval.ks={ks}: pass@{largest} needs as many samples, and eval.samples={samples}"


def refill_problems(config: Any) -> Iterator[str]:
    """Refuse rounds without a refill, and a refill without rounds."""
    refill, neutral = config.filter.refill, chosen_facts(config, "filter.refill").is_noop
    if neutral != (refill.rounds == 1):
        needed = "is of 1 round" if neutral else "needs at least 2"
        yield f"filter.refill.rounds={refill.rounds}: filter.refill.name={refill.name} {needed}"


def model_problems(config: Any) -> Iterator[str]:
    """Refuse heads that cannot share the width, and a table for a task that has no list of questions."""
    worlds = [name for name, task in TASKS.items() if hasattr(task, "every_completion")]
    if config.model.name == "tabular" and config.task.name not in worlds:
        yield f"model=tabular: task={config.task.name} has no table of questions; there is one for {', '.join(worlds)}"
    heads = getattr(config.model, "heads", 1)
    if config.model.name in MODELS and getattr(config.model, "width", heads) % heads:
        yield f"model.heads={heads}: must divide model.width={config.model.width}"


def critic_problems(config: Any) -> Iterator[str]:
    """Refuse a critic whose values no norm asks for, and one that the model cannot have."""
    if config.critic.name == "none":
        return
    if config.norm.name not in TARGETS:
        chosen, asking = f"critic={config.critic.name}: norm={config.norm.name}", ", ".join(sorted(TARGETS))
        yield f"{chosen} asks for no values; take critic=none or one that does: {asking}"
    yield from cannot_judge(config.model.name, "a critic")


def memory_problems(config: Any) -> Iterator[str]:
    """Refuse two choices that remember different things under one name."""
    owners = {}
    for key, node, axis in axis_nodes(config):
        if node.name not in axis.memories:
            continue
        memory = axis.memories[node.name]
        first = owners.setdefault(memory.name, (key, node))
        if first[0].partition(".")[0] != key.partition(".")[0] or first[1] != node:
            yield f"{key}={node.name}: remembers `{memory.name}`, which {first[0]}={first[1].name} remembers otherwise"


def judge_problems(config: Any) -> Iterator[str]:
    """Refuse a choice that learns from the task's own verdict where another reward judges."""
    if chosen_facts(config, "reward").is_noop:
        return
    for key, node, _ in axis_nodes(config):
        asked = sorted(OF_VERIFIER & {*requested_names(chosen_function(config, key))})
        if asked and key != "reward":
            yield (
                f"reward={config.reward.name} {key}={node.name}: asks the task for its `{asked[0]}`, which are not the "
                f"judge's; take reward=verifier or another {key}"
            )


def reward_model_problems(config: Any) -> Iterator[str]:
    """Refuse a reward without its model, a model without its reward, and settings that teach it nothing."""
    name, training = config.reward.name, config.reward.model
    asked = "proxies" in requested_names(chosen_function(config, "reward"))
    if asked != (training is not None):
        text = "needs one, its settings are in conf/reward/learned.yaml" if asked else "asks no model; take null"
        yield f"reward.model={'null' if asked else training.name}: reward={name} {text}"
        return
    if training is None:
        return
    yield from cannot_judge((training.network or config.model).name, "a reward model")
    if training.largest_gap is not None and training.largest_gap <= training.smallest_gap:
        gaps = format_value(training.smallest_gap), format_value(training.largest_gap)
        yield f"reward.model.smallest_gap={gaps[0]}: must be below reward.model.largest_gap={gaps[1]}"
    if training.weights.keys() != config.task.weights.keys() or not any(training.weights.values()):
        yield f"reward.model.weights must name {', '.join(config.task.weights)}, at least one of them above 0"
    if 0 < config.steps < training.refresh:
        yield f"reward.model.refresh={training.refresh}: must be at most steps={config.steps}; 0 never refreshes"


def start_problems(config: Any) -> Iterator[str]:
    """Refuse a start that cannot exist."""
    start, task = config.start, config.task.name
    right, wrong = ("oracle", "wrong_answers") if task in TASKS else ("solution", "wrong_solution")
    if "task" in requested_names(STARTS[start.name]) and not hasattr((TASKS | TEXT_TASKS)[task], right):
        yield f"start={start.name}: task={task} has no right answers to learn from; take start=random"
    if hasattr(start, "formed") and not hasattr((TASKS | TEXT_TASKS)[task], wrong):
        yield f"start={start.name}: task={task} has no wrong answers to learn from; take start=sft"
    if config.reference.begin == "halfway" and not hasattr(start, "accuracy"):
        yield f"reference.begin=halfway: start={start.name} is not trained; take start=sft"
    if hasattr(start, "entropy") and not list(task_problems(config)):
        guess = math.log(bind_choice(TASKS, config.task)().vocabulary)
        if start.entropy >= guess:
            wanted = format_value(start.entropy)
            yield f"start.entropy={wanted}: must be below that of a guess, {guess:.3f} nats a token"


def data_problems(config: Any) -> Iterator[str]:
    """Refuse a buffer smaller than what a step draws, and choices that ask for more than old data have."""
    data, task, group_size = config.data, config.task.name, config.group_size
    if getattr(data, "oracle", 0) > group_size.completions:
        yield f"data.oracle={data.oracle}: must be at most group_size.completions={group_size.completions}"
    if getattr(data, "oracle", 0) and not hasattr(TASKS[task], "oracle"):
        yield f"data.oracle={data.oracle}: task={task} has no right answers; take data.oracle=0"
    if data.name == "replay":
        yield from replay_problems(config)
    if data.name == "fresh":
        return
    for key, node, _ in axis_nodes(config):
        if {"entropies", "sum_pi_squared"} & {*requested_names(chosen_function(config, key))}:
            chosen = f"{key}={node.name} data={data.name}"
            yield f"{chosen}: asks for distributions of the policy that sampled, which is gone by then"
            return


def replay_problems(config: Any) -> Iterator[str]:
    """Refuse shares without new groups, without old ones, or with more old ones than are held."""
    data, prompts = config.data, config.group_size.prompts
    new = bind_choice(DATA, data)().sampled(prompts)
    if not 0 < new < prompts:
        share = format_value(data.fresh)
        yield f"data.fresh={share}: is {new} of group_size.prompts={prompts}, and must leave new and old groups"
    elif data.capacity * new < prompts - new:
        held = f"data.capacity={data.capacity}: holds {data.capacity * new} groups"
        yield f"{held}, and a step draws {prompts - new}; take at least {math.ceil(prompts / new) - 1}"
