"""Tasks: prompts counted exactly, scores against plain loops over lists, what ``combine`` leaves out."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest
import reference_tasks
import torch
from axis_choices import CONF
from omegaconf import OmegaConf
from policies import preference_task, prompts_of, sort_task
from pydantic import TypeAdapter
from torch.testing import assert_close

from rlexp.choose import choose, schema
from rlexp.tasks import TASKS, combine
from rlexp.tasks.scoring import NOTHING, pack
from rlexp.tasks.sort_lecture import POINTS, PROMPTS, SortLecture

# Rounding of float32 numbers of order one.
ROUNDED = dict(rtol=1e-6, atol=1e-6)
BELOW_ONE = 1 - 2**-24
SEEDS = (0, 1, 2)


def shipped(path):
    """Return the task of a YAML, made as training makes it."""
    settings = TypeAdapter(schema(TASKS)).validate_python(OmegaConf.to_container(OmegaConf.load(path)))
    return settings.name, choose(TASKS, settings)()


def lecture_task(**weights) -> SortLecture:
    return SortLecture(cap=3, weights=dict.fromkeys(POINTS, 1.0) | weights, metric="x", floor=0.0)


EVERY = {
    "filler": ("sort", sort_task()),
    "no_filler": ("sort", sort_task(filler=0, alphabet=3, cap=5)),
    "one_length": ("sort", sort_task(shortest=3, longest=3, cap=4)),
    "no_end": ("sort", sort_task(shortest=3, longest=3, cap=3)),
    "one_item": ("sort", sort_task(longest=1, cap=2)),
    "share": ("token_preference", preference_task(cap=10)),
    "points": ("sort_lecture", lecture_task()),
} | {f"conf/{path.stem}": shipped(path) for path in sorted((CONF / "task").glob("*.yaml"))}
every_task = pytest.mark.parametrize(("name", "task"), EVERY.values(), ids=EVERY.keys())
every_sort = pytest.mark.parametrize("task", [task for name, task in EVERY.values() if name == "sort"])


# ---- scores


@pytest.mark.parametrize("task", [task for _, task in EVERY.values() if hasattr(task, "oracle")])
def test_the_oracle_is_right_and_ends_where_it_should(task):
    prompts = prompts_of(task, SEEDS, 40)
    answers, mask = task.oracle(prompts)
    assert answers.shape == mask.shape == (len(SEEDS), 40, task.cap)
    places = torch.arange(task.cap)
    lengths = mask.sum(-1, keepdim=True)
    assert torch.equal(mask, places < lengths)
    if task.end >= 0:
        assert torch.equal(answers == task.end, places == lengths - 1)
        assert (answers[~mask] == task.pad).all()
    finished = torch.ones_like(mask[..., :1])
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), finished)
    assert scores.correct.all()
    best = {"ternary": 1, "distance": 3, "inclusion_ordering": 5, "multiset_ordering": 5}
    for component, values in scores.components.items():
        assert (values == best.get(component, 1)).all(), component


def written(name: str, task, prompt: list[int], rng: random.Random) -> list[int]:
    """Any tokens, or the sorted items with up to two tokens put in, left out or replaced; anything behind the end."""
    anything = [rng.randrange(task.vocabulary) for _ in range(2 * task.cap)]
    if rng.random() < 0.3:
        return anything[: task.cap]
    tokens = sorted(prompt)
    if name == "sort":
        tokens = sorted(x for x in prompt if x < task.alphabet) + [task.end]
    for token in anything[: rng.randrange(3)]:
        place = rng.randrange(len(tokens) + 1)
        tokens[place : place + rng.randrange(2)] = [token] * rng.randrange(2)
    return (tokens + anything)[: task.cap]


def answered(name: str, task, group: int = 40, prompts: int = 12):
    """Prompts ``[R P L]`` and completions ``[R P G T]`` with their mask and finished, as a rollout gives them."""
    rng, questions = random.Random(6), prompts_of(task, SEEDS, prompts)
    rows = [[[written(name, task, p, rng) for _ in range(group)] for p in ps] for ps in questions.tolist()]
    completions = torch.tensor(rows)
    masks = [reference_tasks.mask(c, task.end) for c in completions.flatten(0, 2).tolist()]
    finished = (completions == task.end).any(-1) if task.end >= 0 else torch.ones(completions.shape[:3]).bool()
    return questions, completions, torch.tensor(masks).view(completions.shape), finished


@every_task
def test_scores_equal_plain_loops(name, task):
    questions, completions, mask, finished = answered(name, task)
    scores = task.score(questions, completions, mask, finished)
    actual = scores.components | {"correct": scores.correct}
    cells = itertools.product(*map(range, completions.shape[:3]))
    expected = [reference_tasks.SCORES[name](task, questions[c[:2]].tolist(), completions[c].tolist()) for c in cells]
    assert actual.keys() == expected[0].keys()
    for key, numbers in actual.items():
        wanted = torch.tensor([row[key] for row in expected], dtype=numbers.dtype).view(numbers.shape)
        assert_close(numbers, wanted, **ROUNDED)
        assert wanted.unique().numel() > 1, f"{key} is the same for all completions of this test"


@every_task
def test_rewards_are_within_their_range(name, task):
    scores = task.score(*answered(name, task))
    least, most = task.reward_range
    rewards = combine(scores.components, task.weights)
    assert rewards.min() >= least - 1e-6 and rewards.max() <= most + 1e-6
    assert rewards[scores.correct].max() == pytest.approx(most)


@every_task
def test_what_is_behind_the_end_does_not_count(name, task):
    questions, completions, mask, finished = answered(name, task)
    one = task.score(questions, completions, mask, finished)
    other = task.score(questions, completions.where(mask, max(task.pad, 0)), mask, finished)
    assert torch.equal(one.correct, other.correct)
    assert all(torch.equal(numbers, other.components[key]) for key, numbers in one.components.items())


def judge(task, prompt, completion) -> dict[str, float]:
    """Score one completion of a sorting task, given without what follows its end."""
    tokens = torch.tensor(completion + [task.pad] * (task.cap - len(completion)))
    mask = torch.arange(task.cap) < len(completion)
    items = torch.tensor([task.pad] * (task.longest - len(prompt)) + prompt + [task.separator])
    finished = torch.tensor(completion[-1:] == [task.end]).view(1, 1, 1)
    scores = task.score(*(x.view(1, 1, -1) for x in [items]), *(x.view(1, 1, 1, -1) for x in [tokens, mask]), finished)
    return {key: numbers.item() for key, numbers in (scores.components | {"correct": scores.correct}).items()}


PAD, END, SEPARATOR, FILLER = 5, 6, 7, 8


@pytest.mark.parametrize(
    ("completion", "correct", "graded", "form"),
    [
        ([1, 2, 4, END], 1, 1, 1),
        ([1, 2, 4], 0, 1, 0),  # cut off
        ([FILLER, 1, FILLER, 2, 4, FILLER, END], 1, 1, 1),
        ([1, 4, 2, END], 0, 1 / 3, 1),
        ([1, 2, END], 0, 2 / 3, 0),
        ([1, 2, 4, 4, END], 0, 3 / 4, 0),
        ([1, 2, SEPARATOR, 4, END], 0, 2 / 4, 0),
        ([PAD, 1, 2, 4, END], 0, 0, 0),
        ([END], 0, 0, 0),
        ([FILLER] * 7, 0, 0, 0),
    ],
)
def test_sort_by_hand(completion, correct, graded, form):
    score = judge(sort_task(), [4, 1, 2], completion)
    assert (score["exact"], score["correct"], score["format"]) == (correct, correct, form)
    assert score["graded"] == pytest.approx(graded)


@pytest.mark.parametrize(("component", "hacked"), [("lecture", 1.0), ("multiset", 4 / 5)])
def test_1b_33_a_duplicate_in_place_of_another_pays_unless_counted(component, hacked):
    task = sort_task()
    assert judge(task, [1, 1, 2], [1, 2, 2, END])[component] == pytest.approx(hacked)
    assert judge(task, [1, 1, 2], [1, 1, 2, END])[component] == 1


@pytest.mark.parametrize("component", ["lecture", "multiset"])
def test_writing_on_in_order_is_not_paid(component):
    task = sort_task()
    assert judge(task, [1, 2], [0, 0, 0, 0, 0, END])[component] == pytest.approx(1 / 3)
    assert judge(task, [1, 2], [0, 0, 1, 2, END])[component] == pytest.approx(1 / 3)


def test_s2_10_points_of_a_repeated_symbol():
    """The local optimum of the lecture: [0, 0, 0] is in order whatever was asked (also 1B-33)."""
    completions = torch.zeros(1, 3, 1, 3, dtype=torch.long)
    mask = torch.ones_like(completions, dtype=torch.bool)
    scores = lecture_task().score(torch.tensor([PROMPTS]), completions, mask, mask.all(-1))
    assert scores.components["inclusion_ordering"].flatten().tolist() == [3, 2, 2]
    assert scores.components["distance"].flatten().tolist() == [1, 0, 0]


@pytest.mark.parametrize(("low", "ternary"), [(0, 1), (2, 1), (3, 0), (4, 0), (5, 0), (6, -1), (10, -1)])
def test_s1_20_thresholds_are_not_reached_at_equality(low, ternary):
    task = preference_task(cap=10)
    completions = torch.tensor([0] * low + [3] * (10 - low)).view(1, 1, 1, 10)
    mask = torch.ones_like(completions, dtype=torch.bool)
    scores = task.score(torch.zeros(1, 1, 3, dtype=torch.long), completions, mask, mask.all(-1))
    assert scores.components["ternary"].item() == ternary
    assert scores.correct.item() == (ternary == 1)


def test_pack_keeps_the_order():
    tokens = torch.tensor([[4, 3, 9, 1], [1, 2, 3, 4]])
    keep = torch.tensor([[False, True, False, True], [False] * 4])
    assert pack(tokens, keep).tolist() == [[3, 1, NOTHING, NOTHING], [NOTHING] * 4]


# ---- prompts


def counted(task, held_out: bool) -> dict[int, Counter]:
    """How often each prompt comes, by length, when every cell of the uniform numbers is met once."""
    lengths = task.longest - task.shortest + 1
    cells = [lengths, task.alphabet - 1, *[task.alphabet] * (task.longest - 1)]
    grid = torch.cartesian_prod(*((torch.arange(n) + 0.5) / n for n in cells)).view(1, -1, task.draws)
    found = {}
    for row in task.prompts(grid, held_out)[0].tolist():
        assert row[-1] == task.separator
        items = tuple(row[:-1])
        while items[0] == task.pad:
            items = items[1:]
        found.setdefault(len(items), Counter())[items] += 1
    return found


@pytest.mark.parametrize(("alphabet", "shortest", "longest"), [(3, 1, 3), (2, 2, 4), (4, 3, 3)])
def test_prompts_are_uniform_and_no_permutation_is_in_both_sets(alphabet, shortest, longest):
    task = sort_task(alphabet=alphabet, shortest=shortest, longest=longest)
    training, evaluation = counted(task, held_out=False), counted(task, held_out=True)
    assert set(training) == set(evaluation) == set(range(shortest, longest + 1))
    for length, prompts in training.items():
        every = set(itertools.product(range(alphabet), repeat=length))
        assert set(prompts) | set(evaluation[length]) == every
        assert len(set(prompts.values())) == len(set(evaluation[length].values())) == 1
        assert not {tuple(sorted(p)) for p in prompts} & {tuple(sorted(p)) for p in evaluation[length]}
    assert len({counts.total() for counts in training.values()}) == 1


@every_task
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("number", [0.0, 0.5, BELOW_ONE])
def test_prompts_are_tokens_even_at_the_ends_of_the_range(name, task, held_out, number):
    prompts = task.prompts(torch.full((2, 3, task.draws), number), held_out)
    assert prompts.shape == (2, 3, task.prompt_length)
    assert 0 <= prompts.min() and prompts.max() < task.vocabulary
    if name == "sort":
        shown = (prompts < task.alphabet).sum(-1)
        assert ((task.shortest <= shown) & (shown <= task.longest)).all()


@pytest.mark.parametrize("alphabet", range(2, 67))
def test_the_largest_number_below_one_is_not_rounded_up(alphabet):
    task = sort_task(alphabet=alphabet)
    uniforms = torch.full((1, 1, task.draws), BELOW_ONE)
    assert task.prompts(uniforms, False)[..., :-2].tolist() == [[[alphabet - 1] * 3]]
    assert task.prompts(uniforms, False)[..., :-1].sum() % alphabet == alphabet - 1


@every_sort
def test_separator_pad_end_and_filler_are_tokens_of_their_own(task):
    special = {task.pad, task.end, task.separator, task.vocabulary - 1} - {-1}
    assert len(special) == 2 + (task.end >= 0) + task.filler and min(special) == task.alphabet
    assert max(special) == task.vocabulary - 1


def test_lecture_prompts_come_in_turn():
    prompts = lecture_task().prompts(torch.rand(2, 7, 1), held_out=True)
    assert prompts.tolist() == [[list(PROMPTS[p % 3]) for p in range(7)]] * 2


# ---- settings


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (sort_task, dict(shortest=5), "shortest=5 must not exceed longest=4"),
        (sort_task, dict(cap=4), "cap=4 .* at least 5"),
        (sort_task, dict(weights={"exact": 1.0}), "weights must name exact, graded"),
        (sort_task, dict(weights=dict.fromkeys(sort_task().weights, 0.0)), "at least one of them above 0"),
        (preference_task, dict(low=9), "low=9 must be below vocabulary=9"),
        (preference_task, dict(good=0.6), "good=0.6 must not exceed bad=0.5"),
        (preference_task, dict(weights={"share": 1.0}), "weights must name ternary, share"),
        (lecture_task, dict(distanc=1.0), "weights must name distance"),
        (lecture_task, dict.fromkeys(POINTS, 0.0), "at least one of them above 0"),
    ],
)
def test_settings_that_make_no_task(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


# ---- combine

NAN = math.nan


@pytest.mark.parametrize(
    ("components", "weights", "expected"),
    [
        ([[1, 0.8], [1, 0.7], [0, -0.2]], [0.7, 0.3], [0.94, 0.91, -0.06]),  # S3.4
        ([[NAN, 0.8], [1, NAN], [NAN, NAN]], [0.7, 0.3], [0.24, 0.7, NAN]),
        ([[NAN, 0.8], [2, 0.8]], [0.7, 0.0], [NAN, 1.4]),
    ],
)
def test_combine_skips_what_does_not_apply(components, weights, expected):
    first, second = torch.tensor(components, dtype=torch.float64).unbind(-1)
    actual = combine({"b": second, "unused": first, "a": first}, dict(zip("ab", weights, strict=True)))
    assert_close(actual, torch.tensor(expected, dtype=torch.float64), equal_nan=True, rtol=1e-12, atol=1e-12)
