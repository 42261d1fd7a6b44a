"""What keys of a config that are each right by themselves cannot be together, or seldom are on purpose, a line each.

The tables at the end have what a choice of an axis, as ``norm=gae``, cannot have beside it (``PROBLEMS``), or seldom
has on purpose (``REMARKS``). That one hyperparameter is at most another is declared beside the function
(``rlexp.core.facts.ordered``), and so are the checks of a choice from outside. The functions before have what is about
several axes, keys beside them, and the backend.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from string import Formatter
from typing import Any

from rlexp.axes import axis_of
from rlexp.axes.norm import TARGETS
from rlexp.axes.offered import EXPERIENCE, OF_VERIFIER, REWARDS
from rlexp.config.choices import SETTINGS, axis_nodes, chosen_facts, chosen_function
from rlexp.core.errors import format_value
from rlexp.core.registry import bind_choice, required_inputs
from rlexp.language import LANGUAGE_MODELS, TEXT_TASKS, text_task
from rlexp.language.backend import CAPABILITIES, Limit, NoOp
from rlexp.language.models import language_model, missing
from rlexp.loop.data import DATA
from rlexp.loop.population import asks_for_population
from rlexp.loop.start import STARTS
from rlexp.models import MODELS
from rlexp.models.scalar import cannot_judge
from rlexp.record import loggers, policies
from rlexp.runfolder.variants import IN_TURNS
from rlexp.tasks import TASKS

EVALUATED = ("eval/greedy_accuracy", "eval/sampled_accuracy", "eval/reward", "eval/length")
EXACT = ("accuracy", "reward", "kl", "entropy", "length", "length_correct", "length_wrong")
TAUGHT_HINTS = "start=pretrained_mixture start.hinted=0.3 teaches it to read them"
GONE = "asks for distributions of the policy that sampled, which is gone by then"
WITH_COMPLETIONS = EXPERIENCE.keys() - {"mask"} | {"rewards"}  # nothing of the kind is there of right answers
LARGEST_OF_ADAM = 5e-3  # a learning rate below it is meant for Adam
Condition = Callable[[Any, Any], bool]  # of a node and the whole config


def contradictions(config: Any) -> Iterator[str]:
    """Say what is wrong between keys that are each right by themselves; of a backend that lacks something only that."""
    if found := [*backend_problems(config)]:
        yield from found
        return
    yield from task_problems(config)
    yield from step_problems(config)
    yield from choice_lines("problems", PROBLEMS, config)
    of_axes = (
        shared_problems,
        sampler_problems,
        reward_model_problems,
        network_problems,
        start_problems,
        data_problems,
        prompts_problems,
        allocation_problems,
        population_problems,
    )
    for check in (turn_problems, *of_axes, teacher_problems, imitation_problems):
        yield from check(config)
    yield from policies.problems(config)
    yield from loggers.problems(config)


def backend_problems(config: Any) -> Iterator[str]:
    """Say what the backend of a config cannot have."""
    name = config.backend.name
    if name not in CAPABILITIES:
        yield f"backend={name}: nothing says what it can have; must be one of {', '.join(CAPABILITIES)}"
        return
    backend = CAPABILITIES[name]
    if backend.package and find_spec(backend.package) is None:
        yield f"backend={name}: needs the extra {backend.package}: pip install 'rlexp[{backend.package}]'"
    if not backend.batched and config.model.name in LANGUAGE_MODELS:
        yield from filter(None, [language_model(config.model).problem()])
    refused = {limit.key: line for limit in backend.limits if (line := beyond(limit, config))}
    yield from refused.values()
    for key, node, _ in axis_nodes(config):
        missing = sorted(backend.not_offered.keys() & {*required_inputs(chosen_function(config, key))})
        if missing and key not in refused:
            yield f"backend={name} {key}={node.name}: asks for {backend.not_offered[missing[0]]}, not there"


def beyond(limit: Limit, config: Any) -> str | None:
    """Return what is said of a config that is beyond a limit; None if it is not."""
    value, allowed = value_at(config, limit.key), limit.allowed
    if limit.when and not value_at(config, limit.when) or limit.unless and value_at(config, limit.unless):
        return None
    allowed = resolve_name(allowed) if isinstance(allowed, str) else allowed
    if chosen_facts(config, limit.key).is_noop if allowed is NoOp else value in allowed:
        return None
    names = [] if allowed is NoOp else [*map(str, allowed)]
    choices = " or ".join(f"{limit.key}={each}" for each in names)
    here = f"backend={config.backend.name}"
    return limit.message.format(here=here, key=limit.key, value=value, names=", ".join(names), choices=choices)


def value_at(config: Any, key: str) -> Any:
    """Return what a config has at a key, of a group the name of its choice; None where it has no such key."""
    for part in key.split("."):
        config = getattr(config, part, None)
    return getattr(config, "name", config)


def task_problems(config: Any) -> Iterator[str]:
    """Let the task say whether its hyperparameters fit together, and whether it can be text where that is wanted."""
    try:
        batched = CAPABILITIES[config.backend.name].batched
        bind_choice(TASKS | TEXT_TASKS, config.task)() if batched else text_task(config.task)
    except ValueError as error:
        first_word = re.match(r"\w*", str(error))[0]
        yield f"task.{error}" if first_word in type(config.task).model_fields else f"task={config.task.name}: {error}"


def step_problems(config: Any) -> Iterator[str]:
    """Refuse minibatches that split groups, a norm that has nothing to compare, and an evaluation of what is not there.

    That is pass@k of too few samples, or a score that is not evaluated.
    """
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
    evaluated = evaluated_metrics(config)
    if config.score.metric not in evaluated:
        yield f"score.metric={config.score.metric}: is not evaluated; there are {', '.join(evaluated)}"
    largest = max(config.eval.ks, default=0)
    if largest > config.eval.samples:
        ks, samples = format_value(config.eval.ks), config.eval.samples
        yield f"eval.ks={ks}: pass@{largest} needs as many samples, and eval.samples={samples}"


def evaluated_metrics(config: Any) -> list[str]:
    """Return the names of the metrics of an evaluation, which may list every completion."""
    passes = [f"pass@{k}" for k in config.eval.ks]
    batched = CAPABILITIES[config.backend.name].batched
    listed = batched and hasattr(TASKS[config.task.name], "every_completion")
    exact = [*EXACT, *config.task.weights, *passes] if listed else []
    corpus = ["corpus_loss"] if batched and hasattr(TASKS[config.task.name], "corpus") else []
    return [*EVALUATED, *(f"eval/{name}" for name in [*corpus, *passes]), *(f"eval/exact/{name}" for name in exact)]


def choice_lines(kind: str, rules: Mapping[str, list[tuple[Condition, str]]], config: Any) -> Iterator[str]:
    """Yield the problems, or remarks, about the choices of a config: of their functions' facts, and of ``rules``."""
    for key, node, axis in axis_nodes(config):
        for check in getattr(chosen_facts(config, key), kind):
            yield from check(key, node, config)
        for is_broken, line in rules.get(f"{axis.group}={node.name}", ()):
            if is_broken(node, config):
                yield Typed().format(line, key=key, node=node, config=config)


def turn_problems(config: Any) -> Iterator[str]:
    """Refuse two rules of when a sweep adds no more seeds."""
    given = [f"{key}={format_value(value)}" for key in IN_TURNS if (value := getattr(config, key)) is not None]
    if len(given) > 1:
        yield f"{' '.join(given)}: only one of them can say when no more seeds are added"


def shared_problems(config: Any) -> Iterator[str]:
    """Refuse choices that cannot share what they have to share: rounds, memories, and who judges."""
    refill, neutral = config.filter.refill, chosen_facts(config, "filter.refill").is_noop
    if neutral != (refill.rounds == 1):
        needed = "is of 1 round" if neutral else "needs at least 2"
        yield f"filter.refill.rounds={refill.rounds}: filter.refill.name={refill.name} {needed}"
    # two choices must not remember different things under one name
    owners = {}
    for key, node, axis in axis_nodes(config):
        if (memory := axis.memories.get(node.name)) is None:
            continue
        first, other = owners.setdefault(memory.name, (key, node))
        if first.partition(".")[0] != key.partition(".")[0] or other != node:
            yield f"{key}={node.name}: remembers `{memory.name}`, which {first}={other.name} remembers otherwise"
    # where another reward judges, none learns from the task's own verdict
    for key, node, _ in axis_nodes(config) if not chosen_facts(config, "reward").is_noop else ():
        asked = sorted(OF_VERIFIER & {*required_inputs(chosen_function(config, key))})
        if asked and key != "reward":
            yield (
                f"reward={config.reward.name} {key}={node.name}: asks the task for its `{asked[0]}`, which are not the "
                f"judge's; take reward=verifier or another {key}"
            )
    if config.positive_nll_coef and not chosen_facts(config, "reward").is_noop:
        chosen = f"reward={config.reward.name} positive_nll_coef={format_value(config.positive_nll_coef)}"
        yield f"{chosen}: is of what the task calls correct, which does not judge; take reward=verifier or 0"


def reward_model_problems(config: Any) -> Iterator[str]:
    """Refuse a reward without its model, a model without its reward, and settings that teach it nothing."""
    name, training = config.reward.name, config.reward.model
    asked = "proxies" in required_inputs(chosen_function(config, "reward"))
    if asked != (training is not None):
        text = "needs one, its settings are in conf/reward/learned.yaml" if asked else "asks no model; take null"
        yield f"reward.model={'null' if asked else training.name}: reward={name} {text}"
    if not asked or training is None:
        return
    yield from cannot_judge((training.network or config.model).name, "a reward model")
    if training.largest_gap is not None and training.largest_gap <= training.smallest_gap:
        gaps = format_value(training.smallest_gap), format_value(training.largest_gap)
        yield f"reward.model.smallest_gap={gaps[0]}: must be below reward.model.largest_gap={gaps[1]}"
    if training.weights.keys() != config.task.weights.keys() or not any(training.weights.values()):
        yield f"reward.model.weights must name {', '.join(config.task.weights)}, at least one of them above 0"
    if 0 < config.steps < training.refresh:
        yield f"reward.model.refresh={training.refresh}: must be at most steps={config.steps}; 0 never refreshes"


def network_problems(config: Any) -> Iterator[str]:
    """Refuse a model that cannot be built for the task, and a critic that it cannot have or that no norm asks for."""
    worlds = [name for name, task in TASKS.items() if hasattr(task, "every_completion")]
    if config.model.name == "tabular" and config.task.name not in worlds:
        yield f"model=tabular: task={config.task.name} has no table of questions; there is one for {', '.join(worlds)}"
    heads = getattr(config.model, "heads", 1)
    if config.model.name in MODELS and getattr(config.model, "width", heads) % heads:
        yield f"model.heads={heads}: must divide model.width={config.model.width}"
    elif config.model.name == "llama" and config.model.width // heads % 2:
        yield f"model.heads={heads}: each needs an even share of model.width={config.model.width}"
    if config.critic.name != "none":
        if config.norm.name not in TARGETS:
            chosen, asking = f"critic={config.critic.name}: norm={config.norm.name}", ", ".join(sorted(TARGETS))
            yield f"{chosen} asks for no values; take critic=none or one that does: {asking}"
        yield from cannot_judge(config.model.name, "a critic")
        alone = getattr(config.critic, "critic_warmup", None)
        if alone is not None and alone >= config.steps:
            yield f"critic.critic_warmup={alone}: must be below steps={config.steps}, or the policy is never updated"


def start_problems(config: Any) -> Iterator[str]:
    """Refuse a start that cannot exist."""
    start, task = config.start, config.task.name
    right, wrong = ("oracle", "wrong_answers") if task in TASKS else ("solution", "wrong_solution")
    if "task" in required_inputs(STARTS[start.name]) and not hasattr((TASKS | TEXT_TASKS)[task], right):
        yield f"start={start.name}: task={task} has no right answers to learn from; take start=random"
    if hasattr(start, "formed") and not hasattr((TASKS | TEXT_TASKS)[task], wrong):
        yield f"start={start.name}: task={task} has no wrong answers to learn from; take start=sft"
    if start.name == "pretrained_mixture" and not hasattr((TASKS | TEXT_TASKS)[task], "corpus"):
        there = ", ".join(name for name in TASKS if hasattr(TASKS[name], "corpus"))
        yield f"start=pretrained_mixture: task={task} has no corpus; take start=sft, or a task with one: {there}"
    if start.name == "pretrained":
        folder = Path(start.path or "")
        if config.model.name != "llama":
            yield f"start=pretrained: model={config.model.name} is no Llama; take model=llama or one of its sizes"
        elif not start.path or not (folder / "model.safetensors").is_file():
            there = "model.safetensors, as rlexp.make_model writes one of a run"
            yield f"start.path={format_value(start.path)}: must be a folder with {there}"
        elif line := missing("start=pretrained", "safetensors"):
            yield line
    if config.reference.begin == "halfway" and not hasattr(start, "accuracy"):
        yield f"reference.begin=halfway: start={start.name} is not trained; take start=sft"
    if hasattr(start, "entropy") and not list(task_problems(config)):
        guess = math.log(bind_choice(TASKS, config.task)().vocabulary)
        if start.entropy >= guess:
            wanted = format_value(start.entropy)
            yield f"start.entropy={wanted}: must be below that of a guess, {guess:.3f} nats a token"


def prompts_problems(config: Any) -> Iterator[str]:
    """Refuse a choice among prompts where none come again, where none are drawn, and for another number of them."""
    if chosen_facts(config, "prompts").is_noop:
        return
    chosen, known = f"prompts={config.prompts.name}", getattr(config.task, "prompt_set", None)
    if known is None:
        tasks = "task=sort, addition or token_preference with task.prompt_set=64 or the like"
        yield f"{chosen}: chooses among prompts that come again: take {tasks}"
    elif (size := getattr(config.prompts, "size", known)) != known:
        yield f"prompts.size={size}: must be task.prompt_set={known}"
    if config.data.name == "offline":
        yield f"{chosen} data=offline: no prompts are drawn during training; take prompts=uniform"


def allocation_problems(config: Any) -> Iterator[str]:
    """Refuse numbers of completions where no pass rates are known, where there is no room, or where none are drawn."""
    if chosen_facts(config, "allocation").is_noop:
        return
    node, completions = config.allocation, config.group_size.completions
    chosen, known = f"allocation={node.name}", getattr(config.task, "prompt_set", None)
    if known is None:
        tasks = "task=sort, addition or token_preference with task.prompt_set=64 or the like"
        yield f"{chosen}: remembers how often prompts are solved that come again: take {tasks}"
    elif (size := getattr(node, "size", known)) != known:
        yield f"allocation.size={size}: must be task.prompt_set={known}"
    if (most := getattr(node, "most", completions)) != completions:
        yield f"allocation.most={most}: must be group_size.completions={completions}"
    elif (average := getattr(node, "average", most)) > most:
        yield f"allocation.average={average}: must be at most group_size.completions={completions}"
    if config.data.name in ("offline", "pipeline"):
        yield f"{chosen} data={config.data.name}: needs steps that sample whole groups; take allocation=uniform"


def sampler_problems(config: Any) -> Iterator[str]:
    """Refuse to round what is not there, and tokens that the policy that is trained may not have."""
    products, head = config.sampler.products, config.sampler.head
    if products is not None and config.model.name == "tabular":
        yield f"sampler.products={products} model=tabular: a table multiplies nothing; take sampler.products=null"
    if head is not None and products is None:
        yield f"sampler.head={head} sampler.products=null: all products are in float32; take null, or products to round"
    if config.sampler.training is None:
        return
    chosen = f"sampler.training={config.sampler.training}"
    for key, node, _ in axis_nodes(config):
        if "distributions" in required_inputs(chosen_function(config, key)):
            yield f"{key}={node.name} {chosen}: compares all tokens, which the policy lacks; take sampler.training=null"
    if getattr(config.data, "oracle", 0):
        yield f"data.oracle={config.data.oracle} {chosen}: the policy may not have their tokens; take data.oracle=0"
    if getattr(config.task, "train_on_environment", False):
        yield f"task.train_on_environment=true {chosen}: the policy may not have its tokens; take sampler.training=null"


def samples_exactly(config: Any) -> bool:
    """Whether tokens are drawn from the policy itself, as the trainer computes it."""
    whole = config.sampler.products is None and config.sampler.top_k is None and config.sampler.top_p is None
    return whole and chosen_facts(config, "sampler").is_noop and CAPABILITIES[config.backend.name].batched


def teacher_problems(config: Any) -> Iterator[str]:
    """Refuse teachers that there cannot be, and hints that have no room or that say what the judge does not."""
    teacher, distillation = config.teacher, config.distillation
    if distillation.name == "none" and distillation.weight:
        yield f"distillation=none distillation.weight={format_value(distillation.weight)}: has no loss; take 0"
    if teacher.run is not None and teacher.network is not None:
        yield f"teacher.run={teacher.run} teacher.network={teacher.network}: only one of them can teach; leave one null"
    if teacher.network == "policy" and teacher.hint is None and policies.is_taught(config):
        yield "teacher.network=policy teacher.hint=null: it teaches itself nothing; take teacher.hint=answer or success"
    hinted = {"start.hinted": getattr(config.start, "hinted", None), "teacher.hint": teacher.hint}
    for key, value in hinted.items():
        if value and getattr(config.task, "hint", None) is None:
            tasks = ", ".join(name for name, task in TASKS.items() if hasattr(task, "hinted"))
            room = "task.hint=4 or the like" if hasattr(config.task, "hint") else f"a task with task.hint: {tasks}"
            yield f"{key}={format_value(value)}: the prompt has no room for it; take {room}"
    if teacher.hint != "success":
        return
    if not chosen_facts(config, "reward").is_noop:
        yield f"teacher.hint=success reward={config.reward.name}: success is what the task says, which does not judge"
    if config.group_size.completions == 1:
        yield "teacher.hint=success group_size.completions=1: there is no other completion to show; take at least 2"


def imitation_problems(config: Any) -> Iterator[str]:
    """Refuse right answers that there are not, that nothing imitates, or that the loss or the policy cannot take."""
    node = config.imitation
    if chosen_facts(config, "imitation").is_noop:
        given = [f"imitation.{key}" for key in SETTINGS["imitation"] if getattr(node, key)]
        if given:
            chosen = f"imitation={node.name} {given[0]}={format_value(value_at(config, given[0]))}"
            yield f"{chosen}: has no loss; take 0, or imitation=sft or the like"
        return
    chosen, task = f"imitation={node.name}", config.task.name
    if not hasattr(TASKS[task], "oracle"):
        yield f"{chosen} task={task}: has no right answers; take imitation=none"
    asked = sorted(WITH_COMPLETIONS & {*required_inputs(chosen_function(config, "agg"))})
    if asked:
        yield f"{chosen} agg={config.agg.name}: asks for `{asked[0]}`, and right answers have none; take another agg"
    if config.sampler.training is not None:
        training = f"sampler.training={config.sampler.training}"
        yield f"{chosen} {training}: the policy may not have their tokens; take sampler.training=null"


def population_problems(config: Any) -> Iterator[str]:
    """Refuse a population that is none, or whose members do not all complete the prompts of an update."""
    chosen = f"optimizer={config.optimizer.name}"
    if not asks_for_population(chosen_function(config, "optimizer")):
        return
    if not hasattr(config.optimizer, "sigma"):
        yield f"{chosen}: asks for a population, so it must have a hyperparameter sigma, the deviation of its noise"
    if config.group_size.completions == 1:
        yield f"{chosen} group_size.completions=1: compares the members of a population, and one is none; take more"
    if config.inner_steps * config.minibatches > 1:
        updates = f"inner_steps={config.inner_steps} minibatches={config.minibatches}"
        yield f"{chosen} {updates}: a population is rewarded for one update; take inner_steps=1 minibatches=1"
    for key, other in ("data", "fresh"), ("allocation", "uniform"), ("critic", "none"), ("sampler", "exact"):
        if (name := getattr(config, key).name) != other:
            yield f"{chosen} {key}={name}: members of a population complete every prompt themselves; take {key}={other}"
    if config.sampler.name == "exact" and not samples_exactly(config):
        yield f"{chosen}: members draw from all tokens; take null for sampler.products, sampler.top_k and sampler.top_p"


def population_remarks(config: Any) -> Iterator[str]:
    """Say what is of a loss, which has no gradient where a population moves the weights."""
    if not asks_for_population(chosen_function(config, "optimizer")):
        return
    neutral = {key: "none" for key in ("norm", "filter.loss", "teacher", "distillation", "imitation", "mismatch")}
    neutral |= {"clip": "naive", "anchor": "old", "grad_clip": None, "kl_stop": None, "advantage_clip": None}
    neutral |= {"entropy_coef": 0, "positive_nll_coef": 0, "advantage_entropy_weight": 0, "whiten_advantages": False}
    neutral |= {"kl": "none"} if config.kl.place == "loss" else {}
    idle = [f"{key}={format_value(value)}" for key in neutral if (value := value_at(config, key)) != neutral[key]]
    if idle:
        yield f"optimizer={config.optimizer.name}: no loss has a gradient, so {', '.join(idle)} are idle"


def data_problems(config: Any) -> Iterator[str]:
    """Refuse shares without new groups, a buffer smaller than what a step draws, and choices that ask for too much."""
    data, task, group_size = config.data, config.task.name, config.group_size
    if getattr(data, "oracle", 0) > group_size.completions:
        yield f"data.oracle={data.oracle}: must be at most group_size.completions={group_size.completions}"
    if getattr(data, "oracle", 0) and not hasattr(TASKS[task], "oracle"):
        yield f"data.oracle={data.oracle}: task={task} has no right answers; take data.oracle=0"
    if data.name == "pipeline" and not chosen_facts(config, "filter.refill").is_noop:
        refill = config.filter.refill.name
        yield f"filter.refill={refill} data=pipeline: a step waits for no other groups; take filter.refill=none"
    if data.name == "replay":
        prompts = group_size.prompts
        new = bind_choice(DATA, data)().sampled(prompts)
        if not 0 < new < prompts:
            share = format_value(data.fresh)
            yield f"data.fresh={share}: is {new} of group_size.prompts={prompts}, and must leave new and old groups"
        elif data.capacity * new < prompts - new:
            held = f"data.capacity={data.capacity}: holds {data.capacity * new} groups"
            yield f"{held}, and a step draws {prompts - new}; take at least {math.ceil(prompts / new) - 1}"
    if data.name == "fresh":
        return
    for key, node, _ in axis_nodes(config):
        if {"entropies", "sum_pi_squared"} & {*required_inputs(chosen_function(config, key))}:
            yield f"{key}={node.name} data={data.name}: {GONE}"
            return
    if config.advantage_entropy_weight:
        weight = format_value(config.advantage_entropy_weight)
        yield f"advantage_entropy_weight={weight} data={data.name}: {GONE}"


def remarks(config: Any) -> Iterator[str]:
    """Say what is allowed but seldom meant."""
    yield from loss_remarks(config)
    yield from population_remarks(config)
    yield from choice_lines("remarks", REMARKS, config)
    if not chosen_facts(config, "kl").is_noop and config.kl.coef == 0:
        yield f"kl={config.kl.name} kl.coef=0: the penalty weighs nothing, and it trains as kl=none does"
    if not chosen_facts(config, "imitation").is_noop and not config.imitation.mu_peak + config.imitation.mu_valley:
        yield f"imitation={config.imitation.name} imitation.mu_peak=0 imitation.mu_valley=0: it weighs nothing"
    asked = REWARDS | {"advantages"}
    axes = [axis for axis in ("norm", "teacher") if not asked & {*required_inputs(chosen_function(config, axis))}]
    blind = [f"{axis}={getattr(config, axis).name}" for axis in axes]
    axes = [axis for axis in ("reward", "shaping") if not chosen_facts(config, axis).is_noop]
    changed = [f"{axis}={getattr(config, axis).name}" for axis in axes]
    changed += ["kl.place=reward"] if kl_in_reward(config) else []
    if blind and changed:
        yield f"{blind[0]} {changed[0]}: advantages do not depend on rewards, which it changes"
    if (config.teacher.network or config.teacher.hint) and not policies.is_taught(config):
        chosen = f"teacher.network={format_value(config.teacher.network)} distillation={config.distillation.name}"
        yield f"{chosen}: nothing asks the teacher"
    elif config.teacher.hint and not getattr(config.start, "hinted", None) and config.start.name != "pretrained":
        yield f"teacher.hint={config.teacher.hint} start={config.start.name}: it has never seen a hint; {TAUGHT_HINTS}"
    remembers = config.prompts.name in axis_of("prompts").memories
    if remembers and not chosen_facts(config, "filter.refill").is_noop:
        chosen = f"prompts={config.prompts.name} filter.refill={config.filter.refill.name}"
        yield f"{chosen}: groups that are dropped are not remembered, so solved prompts among them come again"
    backend = CAPABILITIES[config.backend.name]
    if backend.package and not (here := version(backend.package)).startswith(backend.tested):
        yield f"backend={config.backend.name}: tested with {backend.package.upper()} {backend.tested}x, here is {here}"


def loss_remarks(config: Any) -> Iterator[str]:
    """Losses that weigh completions otherwise than meant, and corrections of what is equal."""
    loss, clip, agg = chosen_facts(config, "clip"), config.clip.name, config.agg.name
    if loss.unit == "completion" and chosen_facts(config, "agg").unit != "completion":
        yield (
            f"clip={clip} agg={agg}: the loss of a completion counts once for each token, so long completions weigh "
            "more; meant is agg=sequence (with agg=luspo they weigh more on purpose)"
        )
    one_update = config.inner_steps * config.minibatches == 1
    if config.data.name == "fresh" and one_update and loss.idle_on_policy:
        yield (
            f"clip={clip} inner_steps=1 minibatches=1: with one update on each rollout every ratio is 1, nothing is "
            "clipped, and it trains as clip=naive does"
        )
    unused = [] if "advantages" in required_inputs(chosen_function(config, "clip")) else ("norm", "teacher")
    for axis, name in ((axis, getattr(config, axis).name) for axis in unused):
        if name != "none":
            yield f"clip={clip} {axis}={name}: this loss ranks rewards and uses no advantages; {axis}=none says so"
    taken = [f"clip={clip}"] if unused else []
    if "advantages" not in required_inputs(chosen_function(config, "teacher")):
        taken.append(f"teacher={config.teacher.name}")
    if taken and config.advantage_entropy_weight:
        weight = format_value(config.advantage_entropy_weight)
        yield f"{taken[0]} advantage_entropy_weight={weight}: does not look at the advantages that it weighs"
    if one_update and config.kl_stop is not None:
        stop = f"kl_stop={format_value(config.kl_stop)} inner_steps=1 minibatches=1"
        yield f"{stop}: with one update on each rollout there is nothing to stop"
    yield from anchor_remarks(config)
    yield from sampler_remarks(config)


def sampler_remarks(config: Any) -> Iterator[str]:
    """Say where nothing is truncated."""
    top_k, top_p, training = config.sampler.top_k, config.sampler.top_p, config.sampler.training
    if training is not None and top_k is None and top_p is None:
        yield f"sampler.training={training} sampler.top_k=null sampler.top_p=null: nothing is truncated"
    if top_p == 1:
        yield "sampler.top_p=1: leaves no token out; null says so"
    if top_k is not None and config.task.name in TASKS and not [*task_problems(config)]:
        tokens = bind_choice(TASKS, config.task)().vocabulary
        if top_k >= tokens:
            yield f"sampler.top_k={top_k} task={config.task.name}: it has {tokens} tokens, and none is left out"


def anchor_remarks(config: Any) -> Iterator[str]:
    """Anchors that are the policy that sampled, and corrections of what is equal."""
    anchor, data, sampler, mismatch = (getattr(config, key).name for key in ("anchor", "data", "sampler", "mismatch"))
    same = samples_exactly(config)
    asked = {*required_inputs(chosen_function(config, "anchor"))}
    of_age, as_reported = bool(asked & {"proximal_log_probs", "ages"}), "sampler_log_probs" in asked
    if of_age and data == "fresh":
        yield f"anchor={anchor} data=fresh: nothing has an age, and it trains as anchor=old does"
    if as_reported and same:
        yield f"anchor={anchor} sampler={sampler}: reports what the trainer computes, and it trains as anchor=old does"
    if chosen_facts(config, "mismatch").is_noop:
        return
    if chosen_facts(config, "mismatch").of_turns and not hasattr(TASKS.get(config.task.name), "environment"):
        yield f"mismatch={mismatch} task={config.task.name}: no environment writes, so that a completion is one segment"
    if as_reported and not same:
        yield f"mismatch={mismatch} anchor={anchor}: ratios hold the disagreement already, every weight is 1"
    elif same and not (of_age and data != "fresh"):
        yield f"mismatch={mismatch}: sampler={sampler} leaves nothing to correct, every weight is 1"


class Typed(Formatter):
    """Writes values as one types them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_value(value)


def rules(*rows: tuple[str, Condition, str]) -> dict[str, list[tuple[Condition, str]]]:
    """Return the rules of each choice; a row has choices, when they break the rule, and the line that says so."""
    found = {choice: [] for choices, _, _ in rows for choice in choices.split()}
    for choices, is_broken, line in rows:
        for choice in choices.split():
            found[choice].append((is_broken, line))
    return found


def group_of_one(node: Any, config: Any) -> bool:
    return config.group_size.completions == 1


def corrected_for_mismatch(node: Any, config: Any) -> bool:
    return config.mismatch.name != "none"


def kl_in_reward(config: Any) -> bool:
    return config.kl.place == "reward" and config.kl.coef > 0


def all_as_long(_: Any, config: Any) -> bool:
    """Return whether the task has no end token, so that every completion has task.cap tokens."""
    return config.task.name in TASKS and not [*task_problems(config)] and bind_choice(TASKS, config.task)().end < 0


CHOICE = "{key}={node.name}"
OVER_ROOM = ("sequence", "sequence_sum", "dr_grpo", "delta_l")  # they divide by P · G
AS_LONG = "every completion has task.cap={config.task.cap} tokens"
ALONE = "and group_size.completions=1 leaves it"
NO_REFERENCE = "it is about the reference, and the penalty is about the sampler"
NO_GRADIENT = f"{CHOICE} {{key}}.place=reward: penalties in the reward have no gradient, so it is {{key}}="

# fmt: off
PROBLEMS = rules(
    ("reward=learned", lambda node, _: node.model and node.model.members > 1,
     "{key}.model.members={node.model.members}: {key}={node.name} has one model; take {key}=ensemble_mean"),
    ("reward=ensemble_mean reward=ensemble_minimum reward=ensemble_bound",
     lambda node, _: node.model and node.model.members < 2,
     "{key}.model.members={node.model.members}: {key}={node.name} needs at least 2; take {key}=learned"),
    ("reward=majority", group_of_one, f"{CHOICE}: compares the completions of a group, {ALONE} one; take at least 2"),
    ("norm=remax", lambda _, config: config.reward.name == "majority",
     f"{CHOICE} reward=majority: a greedy completion is alone, so always the majority; take another {{key}}"),
    ("filter=shortest filter=most_efficient", lambda node, config: node.number >= config.group_size.completions,
     "{key}.number={node.number}: must be below group_size.completions={config.group_size.completions}; to keep few "
     "of many is what the choice is for"),
    ("norm=pass_at_k", lambda node, config: node.k > config.group_size.completions,
     "{key}.k={node.k}: must be at most group_size.completions={config.group_size.completions}"),
    ("norm=gae norm=gae_whitened norm=gae_decoupled norm=gae_length_adaptive norm=value_baseline",
     lambda _, config: config.critic.name == "none",
     "{key}={node.name}: asks for values, and critic=none has none; choose critic=value"),
    ("norm=spo norm=dbb", lambda _, config: getattr(config.task, "prompt_set", None) is None,
     "{key}={node.name}: remembers the value of each prompt, so they must come again: take task=sort or "
     "token_preference with task.prompt_set=64 or the like"),
    ("norm=spo norm=dbb", lambda node, config: getattr(config.task, "prompt_set", None) not in (None, node.prompts),
     "{key}.prompts={node.prompts}: must be task.prompt_set={config.task.prompt_set}"),
    ("norm=dbb", lambda _, config: config.reward_range[0] < 0 or config.reward_range[1] > 1 or kl_in_reward(config),
     "{key}={node.name}: takes rewards for shares of a success, so they must be from 0 to 1; those of "
     "task={config.task.name} reward={config.reward.name} kl.place={config.kl.place} are not"),
    ("prompts=difficulty_pools", lambda node, _: node.hard > node.easy,
     "{key}.hard={node.hard}: must be at most {key}.easy={node.easy}"),
    ("norm=rwr norm=best_of_n", group_of_one,
     f"{CHOICE}: chooses among the completions of a group, {ALONE} no choice; take at least 2"),
    ("clip=gvpo clip=tpo clip=real clip=flowrl", group_of_one,
     f"{CHOICE}: compares the completions of a group, {ALONE} one; take at least 2"),
    ("clip=dpo clip=ipo", group_of_one,
     f"{CHOICE}: prefers a completion to others of its group, {ALONE} none; take at least 2"),
    ("clip=two_sided", lambda node, _: node.delta < 1 + node.high,
     "{key}.delta={node.delta}: must be at least 1 + {key}.high, which it would cut off"),
    ("clip=ipo_prime_rl", corrected_for_mismatch,
     "{key}={node.name} mismatch={config.mismatch.name}: its ratio is to the sampler already, which would be "
     "corrected twice; take mismatch=none"),
    ("kl=none", lambda node, _: node.coef > 0,
     "{key}.coef={node.coef}: {key}={node.name} has no penalty to weigh; choose kl=k1, k2, k3, ..."),
    ("kl_control=adaptive kl_control=ziegler", lambda _, config: config.kl.coef == 0,
     "{key}={node.name}: kl.coef=0 stays 0; choose a kl with a coefficient to begin with"),
)
REMARKS = rules(
    ("shaping=overlong shaping=overlong_quadratic", lambda node, config: node.cap - node.cache >= config.task.cap,
     "{key}.cap={node.cap} {key}.cache={node.cache}: no completion is longer than task.cap={config.task.cap}, so "
     "none is punished"),
    ("shaping=overlong shaping=overlong_quadratic",
     lambda node, config: all_as_long(node, config) and node.cap - node.cache < config.task.cap,
     f"{CHOICE} task={{config.task.name}}: {AS_LONG}, so all rewards of a group change alike, which a norm that "
     "compares them takes away"),
    ("shaping=truncated filter=overlong", all_as_long,
     f"{CHOICE} task={{config.task.name}}: {AS_LONG} and ends there, so none was cut off"),
    ("filter=zero_variance filter=difficulty",
     lambda node, config: node is not config.filter.refill and kl_in_reward(config),
     "{key}={node.name} kl.place=reward: judges rewards less penalties, which are hardly ever equal"),
    ("norm=local norm=batch_mean_group_std norm=gdpo norm=quantile", lambda _, config: kl_in_reward(config),
     "{key}={node.name} kl.place=reward: where only the penalties differ in a group, dividing by their deviation "
     "takes kl.coef={config.kl.coef} out; norm=hybrid and kl.place=loss do not"),
    ("norm=gae_length_adaptive", lambda node, config: node.alpha * config.task.cap <= 1,
     "{key}.alpha={node.alpha}: no completion is longer than task.cap={config.task.cap}, so λ is 0 in all of them; "
     "above 1 / task.cap it grows with their lengths"),
    ("norm=dbb", lambda _, config: not chosen_facts(config, "shaping").is_noop,
     "{key}={node.name} shaping={config.shaping.name}: takes rewards for shares of a success, which are from 0 to 1; "
     "those that shaping moves beyond have no deviation"),
    ("norm=maxrl", lambda _, config: config.reward_range[0] < 0,
     "{key}={node.name}: divides by the mean reward of a group, but rewards of task={config.task.name} "
     "reward={config.reward.name} go down to {config.reward_range[0]}; where the mean is not positive advantages "
     "are 0"),
    ("norm=a2po", lambda _, config: config.shaping.name != "none",
     "{key}={node.name} shaping={config.shaping.name}: rewards are shaped, but not those of the reference, of which V* "
     "is made"),
    ("norm=a2po", lambda _, config: kl_in_reward(config),
     "{key}={node.name} kl.place=reward: the penalty is taken off rewards, not off those of which V* is made; "
     "clip=a2po has the KL already"),
    ("clip=ppo clip=scheduled clip=dual clip=two_sided clip=gspo clip=gspo_token clip=opsm clip=clip_cov "
     "clip=mu_grpo",
     lambda node, _: node.low >= 1,
     "{key}.low={node.low}: no ratio is below 1 − {node.low}, so nothing is clipped on that side"),
    ("clip=gvpo clip=tpo clip=real", corrected_for_mismatch,
     "{key}={node.name} mismatch={config.mismatch.name}: the loss is the group's, which the mean of the weights "
     "multiplies; no completion is weighed against another"),
    ("kl=none", lambda node, _: node.place == "reward",
     "{key}.place=reward: {key}={node.name} has no penalty to place; choose kl=k1, k2, k3, ..."),
    ("kl=k1", lambda node, _: node.coef > 0 and node.place == "loss",
     "{key}={node.name} {key}.place=loss: its gradient is zero in expectation; kl.place=reward and kl=k2 follow the "
     "KL"),
    ("kl=k1_plus kl=k1_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k1"),
    ("kl=k2_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k2"),
    ("kl=k3_plus kl=k3_corrected", lambda node, _: node.place == "reward", NO_GRADIENT + "k3"),
    ("kl=k2_sampler", lambda _, config: config.kl_control.name != "fixed",
     f"{CHOICE} kl_control={{config.kl_control.name}}: {NO_REFERENCE}"),
    ("kl=k2_sampler", lambda _, config: config.reference.name != "frozen",
     f"{CHOICE} reference={{config.reference.name}}: {NO_REFERENCE}"),
    ("allocation=vip allocation=vip_rloo", lambda node, _: node.average == node.most,
     "{key}.average={node.average}: every prompt has group_size.completions, as with {key}=uniform"),
    ("allocation=vip allocation=vip_rloo",
     lambda node, config: node.average != node.most and config.agg.name in OVER_ROOM,
     "{key}={node.name} agg={config.agg.name}: divides by all group_size.completions={config.group_size.completions}, "
     "of which {key}.average={node.average} are there, so that every loss is that much smaller"),
    ("reference=follow",
     lambda _, config: config.kl.coef == 0 and config.teacher.network != "reference"
     and "ref_log_probs" not in required_inputs(chosen_function(config, "clip")),
     "{key}={node.name}: without a kl nothing is trained against it"),
    ("optimizer=sgd optimizer=momentum", lambda _, config: config.lr < LARGEST_OF_ADAM,
     "{key}={node.name} lr={config.lr}: such a rate is Adam's, whose moves are about lr whatever the gradient; here "
     "they are lr · gradient, try 0.1 to 1"),
)
# fmt: on
