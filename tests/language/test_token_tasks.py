"""Tasks of tokens as text: the same prompts, the same scores, and nothing to gain by what cannot be read."""

from __future__ import annotations

import math
import random

import pytest
import torch
from policies import preference_task, sort_task
from small_runs import SHORT, SMALL, compose
from task_choices import CHOICES, bandit, functions, length_world, parity
from toy_state import Toy

from rlexp.core.streams import Purpose
from rlexp.language import text_task
from rlexp.language.text_task import TextTask, as_text
from rlexp.loop.sampling import draw_prompts
from rlexp.sweep.build import build
from rlexp.tasks import TASKS
from rlexp.tasks.countdown import Countdown

pytestmark = pytest.mark.slow  # every task

NO_TEXT = {"token_preference_dense", "tool"}
AS_TEXT = {key: task for key, (name, task) in CHOICES.items() if name not in NO_TEXT}
every_task = pytest.mark.parametrize("task", AS_TEXT.values(), ids=AS_TEXT.keys())
# Tasks of which nothing is held out, or other streams only.
NOT_HELD_OUT = {"sort_lecture", "token_preference", "bandit", "length_world", "enumerable", "categorical"}


def examples_of(text, count=20, step=1, held_out=False, seed=3):
    purpose = Purpose.EVALUATION_PROMPTS if held_out else Purpose.PROMPTS
    return text.examples(seed, purpose, step, count, held_out)


def token_lists(task, count, rng):
    """Completions of any words, of any length up to the cap; of exactly the cap where nothing ends them."""
    words = [token for token in range(task.vocabulary) if token not in (task.pad, task.end)]
    lengths = [task.cap if task.end < 0 else rng.randrange(task.cap + 1) for _ in range(count)]
    return [[rng.choice(words) for _ in range(length)] for length in lengths]


def score_of_tokens(task, prompt, tokens, finished):
    """Ask the task about one completion, made by hand of its tokens, with its end where there is room for it."""
    row = [*tokens, task.end] if task.end >= 0 and finished and len(tokens) < task.cap else list(tokens)
    ended = task.end < 0 or (finished and len(tokens) < task.cap)
    padded = torch.tensor(row + [max(task.pad, 0)] * (task.cap - len(row)), dtype=torch.long)
    mask = torch.arange(task.cap) < len(row)
    scores = task.score(
        torch.tensor([[prompt]]), padded[None, None, None], mask[None, None, None], torch.tensor([[[ended]]])
    )
    return {name: values.item() for name, values in scores.components.items()}, scores.correct.item()


def same(a: dict[str, float], b: dict[str, float]) -> bool:
    return a.keys() == b.keys() and all(a[n] == b[n] or (math.isnan(a[n]) and math.isnan(b[n])) for n in a)


@every_task
def test_every_task_can_be_text(task):
    text = as_text(task)
    assert isinstance(text, TextTask)
    assert (text.weights, text.reward_range, text.metric) == (task.weights, task.reward_range, task.metric)
    assert text.characters == "".join(sorted(set(text.characters)))
    for example in examples_of(text):
        assert set(example.prompt) <= set(text.characters)
        assert example.prompt and "pad" not in example.prompt


@every_task
def test_what_is_written_is_read_back(task):
    text, rng = as_text(task), random.Random(1)
    for tokens in token_lists(task, 50, rng):
        written = text.write(tokens)
        assert written == task.render(tokens) or isinstance(task, Countdown)  # which is better read in another order
        assert text.read(written) == text.read(f"  {written}\n".replace(" ", "  ")) == tokens
    for example in examples_of(text):
        assert text.read(example.prompt) == [token for token in example.entry if token != task.pad]


@every_task
def test_text_is_judged_as_its_tokens_are(task):
    text, rng = as_text(task), random.Random(2)
    examples = examples_of(text, count=60)
    lists = token_lists(task, 60, rng)
    finished = [rng.random() < 0.6 for _ in lists]
    found = text.score(examples, [text.write(tokens) for tokens in lists], finished)
    for example, tokens, done, score in zip(examples, lists, finished, found, strict=True):
        components, correct = score_of_tokens(task, example.entry, tokens, done)
        assert same(score.components, components) and score.correct is correct


@every_task
def test_solutions_are_right_and_wrong_ones_are_not(task):
    text = as_text(task)
    for example in examples_of(text, count=40):
        right, wrong = text.solution(example), text.wrong_solution(example)
        assert right is None or text.score([example], [right], [True])[0].correct
        assert wrong is None or not text.score([example], [wrong], [True])[0].correct
        assert (wrong is None) == (not hasattr(task, "wrong_answers"))
        _, mask = task.oracle(torch.tensor([[example.entry]]))
        assert (right is None) == (not mask.any())


@every_task
@pytest.mark.parametrize("nonsense", ["zzz", "pad", "end", "0 1 zzz"])
def test_what_cannot_be_read_earns_the_least_of_everything(task, nonsense):
    text, rng = as_text(task), random.Random(4)
    examples = examples_of(text, count=60)
    others = text.score(examples, [text.write(tokens) for tokens in token_lists(task, 60, rng)], [True] * 60)
    for score, other in zip(text.score(examples, [nonsense] * 60, [True] * 60), others, strict=True):
        assert not score.correct
        for name, value in score.components.items():
            assert not value > other.components[name]


@every_task
def test_a_stream_gives_the_same_prompts_twice_and_beginnings_of_each_other(task):
    text = as_text(task)
    assert examples_of(text, 12) == examples_of(text, 12)
    assert examples_of(text, 12)[:5] == examples_of(text, 5)
    if task.draws > 1:
        assert examples_of(text, 12, seed=3) != examples_of(text, 12, seed=4)
        assert examples_of(text, 12, step=1) != examples_of(text, 12, step=2)


@pytest.mark.parametrize("key", [key for key in AS_TEXT if CHOICES[key][0] not in NOT_HELD_OUT])
def test_training_and_held_out_share_no_prompt(key):
    text = as_text(AS_TEXT[key])
    trained, held = (
        {each.prompt for seed in (0, 1, 2) for each in examples_of(text, 200, held_out=side, seed=seed)}
        for side in (False, True)
    )
    assert trained and held and not trained & held


@pytest.mark.parametrize(
    "overrides",
    [*([f"task={name}"] for name in TASKS if name not in NO_TEXT), ["task=sort", "task.prompt_set=5"]],
    ids=" ".join,
)
def test_step_s_has_the_prompts_of_step_s_of_the_replicas(overrides):
    configs = [compose(*overrides, *SHORT, *SMALL, f"seed={seed}") for seed in (3, 8)]
    state, text = build(configs), text_task(configs[0].task)
    for step in (1, 2, 7):
        expected = draw_prompts(state, step, 0)
        for replica, seed in enumerate(state.seeds):
            found = text.examples(seed, Purpose.PROMPTS, step, state.prompts, held_out=False)
            assert [example.entry for example in found] == expected[replica].tolist()


def test_a_completion_that_has_no_room_for_its_end_is_cut_off():
    task = sort_task()
    text = as_text(task)
    example = examples_of(text, 1)[0]
    right = text.solution(example)
    fitting = " ".join(["·"] * (task.cap - 1 - len(right.split())) + [right])
    (done,) = text.score([example], [fitting], [True])
    (full,) = text.score([example], ["· " + fitting], [True])
    (longer,) = text.score([example], ["· · · · · · · · " + right], [True])
    (unfinished,) = text.score([example], [right], [False])
    assert done.correct and done.components["exact"] == 1
    assert not full.correct and full.components["graded"] == 1
    assert not longer.correct and longer.components["graded"] == 0
    assert not unfinished.correct and unfinished.components["graded"] == 1


def test_an_answer_of_fixed_length_is_not_read_unless_it_has_that_length():
    text = as_text(preference_task())
    example = examples_of(text, 1)[0]
    scores = text.score([example] * 4, ["8 8 8 8 8", "", "8 8 8 8 8 8", "8 8 8 8 8 8 0 0"], [True] * 4)
    assert [each.correct for each in scores] == [False, False, True, True]
    assert [each.components["ternary"] for each in scores] == [-1, -1, 1, 1]


def test_nothing_is_judged_of_nothing():
    assert as_text(parity()).score([], [], []) == []


def test_words_of_several_pieces_are_words():
    task = bandit()
    text = as_text(task)
    assert text.read("action 3 question 1 action 0") == [3, task.first_question + 1, 0]
    assert text.read("action") is None and text.read("3") is None and text.read("action 7") is None
    assert as_text(length_world()).read("right · · wrong") == [0, 2, 2, 1]


class Crowded(Toy):
    """A task whose words run into one another."""

    def __init__(self, words):
        self.words, self.vocabulary = words, len(words)

    def render(self, tokens):
        return " ".join(self.words[token] for token in tokens)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Crowded(["a", "a b", "b", "c"]), "cannot be text: 'a b' begins with 'a', another token"),
        (Crowded(["a", "b", "a", "c"]), "cannot be text: 'a' is the word of several tokens"),
        (Crowded(["a", "b", "", "c"]), "cannot be text: '' is a token and no word"),
        (functions(alphabet=31), r"cannot be text: '\\x7f' is a token and no word"),
        (CHOICES["conf/token_preference_dense"][1], "cannot be text: pays each token when it is written"),
        (CHOICES["asks"][1], "cannot be text: its environment writes into completions; take backend=replicas"),
    ],
)
def test_tasks_that_cannot_be_text_are_refused_in_a_line(task, message):
    with pytest.raises(ValueError, match=message) as refused:
        as_text(task)
    assert "\n" not in str(refused.value)


def test_nonsense_is_wrong_even_where_every_completion_is_right():
    text = as_text(preference_task(good=2.0, bad=2.0))
    example = examples_of(text, 1)[0]
    assert [each.correct for each in text.score([example] * 2, ["0 0 0 0 0 0", "zzz"], [True] * 2)] == [True, False]
