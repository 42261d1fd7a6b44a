"""The data sets of reasoning-gym as a task; skipped where the extra `reasoning` is not installed."""

from __future__ import annotations

import importlib.util
import time

import pytest
from pydantic import TypeAdapter
from task_choices import FILES

from rlexp.core.exits import RunFailed
from rlexp.core.registry import schema
from rlexp.core.streams import Purpose
from rlexp.language import TEXT_TASKS, TextTask, text_task
from rlexp.language import reasoning_gym as module

installed = pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is None, reason="needs the extra reasoning")
DATASETS = ["chain_sum", "acre", "figlet_font", "propositional_logic", "prime_factorization", "letter_counting", "gcd"]


def make(**changes):
    return text_task(TypeAdapter(schema(TEXT_TASKS)).validate_python(FILES["reasoning_gym"] | changes))


def examples_of(task, count=12, seed=3, step=1, held_out=False):
    return task.examples(seed, Purpose.EVALUATION_PROMPTS if held_out else Purpose.PROMPTS, step, count, held_out)


def forget():
    for cache in (module.drawn_items, module.item, module.dataset_of):
        cache.cache_clear()


@installed
@pytest.mark.parametrize("dataset", DATASETS)
def test_a_stream_gives_the_same_items_twice(dataset):
    task = make(dataset=dataset)
    assert isinstance(task, TextTask)
    first = examples_of(task)
    forget()
    assert examples_of(task) == first and examples_of(task, count=5) == first[:5]
    assert examples_of(task, seed=4) != first and examples_of(task, step=2) != first
    assert len({example.prompt for example in first}) > 6


@installed
@pytest.mark.parametrize("dataset", ["chain_sum", "gcd", "letter_counting"])
def test_training_and_held_out_share_no_prompt_whatever_the_seed(dataset):
    """Small numbers, so that the same prompts come again and again."""
    settings = {"chain_sum": {"min_terms": 2, "max_terms": 2, "max_digits": 1}}.get(dataset)
    task = make(dataset=dataset, settings=settings)
    trained, held = (
        {example.prompt for seed in range(4) for example in examples_of(task, 60, seed, held_out=side)}
        for side in (False, True)
    )
    assert trained and held and not trained & held


@installed
@pytest.mark.parametrize("dataset", DATASETS)
def test_right_answers_are_right_and_altered_ones_are_not(dataset):
    task = make(dataset=dataset)
    for example in examples_of(task):
        right, wrong = task.solution(example), task.wrong_solution(example)
        if dataset == "propositional_logic":  # many answers are right, and the data set names none
            assert right is wrong is None
            continue
        assert right == example.entry["answer"]
        forms = [right, f" {right}\n", f"Hm. <answer>no</answer> Rather\n<answer>\n{right}</answer>."]
        for form in forms:
            assert task.score([example], [form], [True])[0] == ({"exact": 1.0, "score": 1.0}, True)
        (cut_off, tagged) = task.score([example] * 2, [right, forms[2]], [False] * 2)
        assert not cut_off.correct and tagged.correct
        if wrong is not None:
            (score,) = task.score([example], [wrong], [True])
            assert not score.correct and score.components["exact"] == 0


@installed
def test_the_score_is_that_of_the_data_set():
    """It pays a longer text that has the answer in it by its share of the text."""
    task = make(dataset="chain_sum")
    for example in examples_of(task):
        text = "it may be " + example.entry["answer"]
        (score,) = task.score([example], [text], [True])
        theirs = module.dataset_of(*task.source, example.entry["seed"])
        expected = theirs.score_answer(text, theirs[example.entry["index"]])
        assert score.components == {"exact": 0.0, "score": expected} and 0 <= expected < 1


@installed
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("text", ["", "zzz", "1", "{", "[1]", "<answer></answer>", "\x00", "9" * 5000])
def test_no_text_breaks_a_verifier(dataset, text):
    task = make(dataset=dataset)
    for score in task.score(examples_of(task, 3), [text] * 3, [True] * 3):
        assert 0 <= score.components["score"] <= 1


@installed
def test_settings_reach_the_data_set_and_lists_may_stand_for_tuples():
    task = make(settings={"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1})
    terms = [example.prompt.split(": ")[-1].split("=")[0].split() for example in examples_of(task)]
    assert {len(each) for each in terms} == {3} and {len(each[0]) for each in terms} == {1}
    config = module.dataset_of("basic_arithmetic", '{"operators": ["+", "-"]}', 0).config
    assert list(config.operators) == ["+", "-"]


@installed
def test_characters_are_those_of_the_first_items_at_least():
    assert set("aZ09 \n") <= set(make().characters) and "→" in make(dataset="acre").characters


@installed
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "chain_sums"}, "dataset=chain_sums: no such data set of reasoning-gym; did you mean chain_sum, "),
        ({"dataset": "qqqqqq"}, "dataset=qqqqqq: no such data set of reasoning-gym; there are ab, acre, "),
        (
            {"settings": {"min_term": 2}},
            "settings.min_term=2: no such setting; chain_sum has allow_negation, max_digits, max_terms, ",
        ),
        ({"settings": {"seed": 2}}, "settings.seed=2: no such setting; chain_sum has"),
        ({"settings": {"min_terms": 0}}, r'settings={"min_terms": 0}: chain_sum says: min_terms must be positive'),
        ({"settings": {"min_terms": "many"}}, r'settings={"min_terms": "many"}: chain_sum says: '),
        ({"dataset": "composite"}, "composite says: Must specify at least one dataset"),
        ({"weights": {"exact": 1.0}}, "weights must name exact, score"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message) as refused:
        make(**changes)
    assert "\n" not in str(refused.value)


@installed
def test_few_items_are_made_for_few_prompts():
    task = make(dataset="chain_sum")
    forget()
    examples_of(task, 16)
    assert module.item.cache_info().misses < 16 * 3
    began = time.perf_counter()
    examples_of(task, 128, held_out=True)
    assert module.item.cache_info().misses < 128 * 8 and time.perf_counter() - began < 5


@installed
def test_a_side_with_too_few_prompts_ends_the_run_in_a_line(monkeypatch):
    monkeypatch.setattr(module, "TRIES", 0.02)
    with pytest.raises(RunFailed, match="task.dataset=chain_sum: only . of 41 prompts are held out, and 20 are wanted"):
        examples_of(make(held_out_share=0.01), 20, held_out=True)


def test_a_missing_package_is_said_in_a_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym", None)
    with pytest.raises(ValueError, match=r"^needs the extra reasoning: pip install 'rlexp\[reasoning\]'$"):
        make()
