"""What the tests of tasks share: every task that is shipped, and others of small sizes."""

from __future__ import annotations

import pytest
from axis_choices import CONF
from omegaconf import OmegaConf
from policies import preference_task, sort_task
from pydantic import TypeAdapter

from rlexp.core.registry import bind_choice, schema
from rlexp.tasks import TASKS, TabularTask
from rlexp.tasks.addition import Addition, AdditionMix
from rlexp.tasks.countdown import Countdown
from rlexp.tasks.puzzles import Functions, MultiSolution, Parity
from rlexp.tasks.sort import DifficultyMix, Sort, SortLecture, SortPadded
from rlexp.tasks.tabular import Bandit, Categorical, Enumerable, LengthWorld
from rlexp.tasks.tool import Tool
from rlexp.tasks.two_habits import TwoHabits

SEEDS = (0, 1, 2)
NO_SET = dict(prompt_set=None, hint=None)
FILES = {path.stem: OmegaConf.to_container(OmegaConf.load(path)) for path in sorted((CONF / "task").glob("*.yaml"))}


def shipped(values):
    """Return the task of a YAML, made as training makes it."""
    settings = TypeAdapter(schema(TASKS)).validate_python(values)
    return settings.name, bind_choice(TASKS, settings)()


def lecture_task(**weights) -> SortLecture:
    return SortLecture(cap=3, weights=dict.fromkeys(SortLecture.components, 1.0) | weights, metric="x", floor=0.0)


def padded_task(**changes) -> SortPadded:
    sizes = dict(alphabet=5, shortest=1, longest=3, most_fillers=4, cap=9, prompt_set=None, metric="x", floor=0.0)
    return SortPadded(**(sizes | dict(weights=dict.fromkeys(Sort.components, 0.5)) | changes))


def bandit(**changes) -> Bandit:
    weights = dict(easy=0.5, hard=1.0, impossible=0.25)
    sizes = dict(cap=1, actions=7, easy=2, hard=3, impossible=2, easy_right=4, hard_right=1)
    return Bandit(**(sizes | dict(weights=weights, metric="x", floor=0.0) | changes))


def length_world(**changes) -> LengthWorld:
    weights = dict(right=0.5, exact=0.25)
    sizes = dict(cap=6, right=[0.25, 0.9, 0.5], hazard=0.3, hazard_wrong=0.2, learn_answer=False)
    return LengthWorld(**(sizes | dict(weights=weights, metric="x", floor=0.0) | changes))


def enumerable(**changes) -> Enumerable:
    weights = dict(gold=0.5, proxy=1.0)
    sizes = dict(symbols=3, cap=4, world=2, spread=0.7, features=2, good=0.5, weights=weights, metric="x", floor=0.0)
    return Enumerable(**(sizes | changes))


def categorical(**changes) -> Categorical:
    return Categorical(
        **(dict(cap=1, rewards=[0.5, -1.0, 2.0], weights={"worth": 0.5}, metric="x", floor=0.0) | changes)
    )


def difficulty_mix(**changes) -> DifficultyMix:
    items, shares = ((1, 3, 4, 2), (1.0, 2.0, 1.0, 1.0))
    named = {
        key: dict(zip(DifficultyMix.components, numbers, strict=True))
        for key, numbers in (("items", items), ("shares", shares))
    }
    weights = dict.fromkeys(DifficultyMix.components, 0.5) | {"hard": 2.0}
    return DifficultyMix(**(dict(alphabet=5, cap=6, weights=weights, metric="x", floor=0.0) | named | changes))


def multi_solution(**changes) -> MultiSolution:
    weights = dict(valid=2.0, first=0.0)
    sizes = dict(cap=3, numbers=8, items=5, solutions=2, weights=weights, metric="x", floor=0.0)
    return MultiSolution(**(sizes | changes))


def parity(**changes) -> Parity:
    weights = dict(right=1.0, chain=0.5)
    return Parity(**(dict(bits=6, chains=0.5, cap=8, weights=weights, metric="x", floor=0.0) | changes))


def functions(**changes) -> Functions:
    weights = dict(atom=1.0, composed=1.0, steps=0.5)
    sizes = dict(alphabet=4, cap=8, atoms=0.3, shown=1, weights=weights, metric="x", floor=0.0)
    return Functions(**(sizes | changes))


def addition(**changes) -> Addition:
    weights = dict(exact=1.0, digits=0.5, format=0.25, scratchpad=0.125)
    sizes = dict(shortest=1, longest=2, cap=25, mistakes=0.5, weights=weights, **NO_SET, metric="x", floor=0.0)
    return Addition(**(sizes | dict(procedures=dict(full=1.0, carries=2.0, direct=1.0)) | changes))


def addition_mix(**changes) -> AdditionMix:
    named = {
        key: dict(zip(AdditionMix.components, numbers, strict=True))
        for key, numbers in (("digits", (1, 2, 4, 3)), ("shares", (1.0, 2.0, 1.0, 1.0)))
    }
    weights = dict.fromkeys(AdditionMix.components, 0.5) | {"hard": 2.0}
    sizes = dict(cap=25, mistakes=0.5, procedures=dict(full=0.0, carries=2.0, direct=1.0), metric="x", floor=0.0)
    return AdditionMix(**(sizes | dict(weights=weights) | named | changes))


def tool(**changes) -> Tool:
    weights = dict(exact=1.0, called=0.5, format=0.25)
    sizes = dict(symbols=3, table=3, keys=2, value=2, operations=4, cap=10, train_on_environment=False)
    return Tool(**(sizes | dict(weights=weights, metric="x", floor=0.0) | changes))


def countdown(**changes) -> Countdown:
    weights = dict(exact=1.0, format=0.25, close=0.5)
    sizes = dict(numbers=3, largest=5, target=12, cap=7, mistakes=0.3, times=0.4, weights=weights, **NO_SET)
    return Countdown(**(sizes | dict(metric="x", floor=0.0) | changes))


def two_habits(**changes) -> TwoHabits:
    weights = dict(right=1.0, format=0.25, habit_a=0.5)
    shares = dict(right_a=0.7, right_b=0.4, share_a=0.6)
    sizes = dict(items=4, alphabet=5, cap=7, weights=weights, **NO_SET, metric="x", floor=0.0)
    return TwoHabits(**(sizes | shares | changes))


CHOICES = {
    "filler": ("sort", sort_task()),
    "no_filler": ("sort", sort_task(filler=0, alphabet=3, cap=5)),
    "one_length": ("sort", sort_task(shortest=3, longest=3, cap=4)),
    "no_end": ("sort", sort_task(shortest=3, longest=3, cap=3)),
    "one_item": ("sort", sort_task(longest=1, cap=2)),
    "padded": ("sort_padded", padded_task()),
    "share": ("token_preference", preference_task(cap=10)),
    "points": ("sort_lecture", lecture_task()),
    "mix": ("difficulty_mix", difficulty_mix()),
    "sums_mix": ("addition_mix", addition_mix()),
    "progressions": ("multi_solution", multi_solution()),
    "chains": ("parity", parity()),
    "composed": ("functions", functions()),
    "all_shown": ("functions", functions(shown=2, alphabet=3, cap=10)),
    "sums": ("addition", addition()),
    "short_sums": ("addition", addition(cap=15, longest=3, procedures=dict(full=0.0, carries=1.0, direct=1.0))),
    "asks": ("tool", tool()),
    "asks_alone": ("tool", tool(symbols=2, table=1, keys=1, value=1, operations=1, cap=6)),
    "expressions": ("countdown", countdown()),
    "two_numbers": ("countdown", countdown(numbers=2, largest=9, target=6, cap=4)),
    "habits": ("two_habits", two_habits()),
    "hinted_expressions": ("countdown", countdown(hint=2)),
    "lengths": ("length_world", length_world()),
    "strings": ("enumerable", enumerable()),
    "gold": ("enumerable", enumerable(features=3, symbols=2, cap=6, weights=dict(gold=1.0, proxy=0.0))),
    "numbers": ("categorical", categorical()),
    "arms": ("bandit", bandit()),
    "all_right": ("bandit", bandit(easy=0, impossible=0, hard_right=7)),
} | {f"conf/{stem}": shipped(values) for stem, values in FILES.items() if values["name"] in TASKS}
every_task = pytest.mark.parametrize(("name", "task"), CHOICES.values(), ids=CHOICES.keys())
every_sort = pytest.mark.parametrize("task", [task for name, task in CHOICES.values() if name == "sort"])
WORLDS = {key: task for key, (_, task) in CHOICES.items() if isinstance(task, TabularTask)}
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
