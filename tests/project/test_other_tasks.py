"""Whether answers carry to other tasks: questions that ask the same, and the counts over their effects."""

from types import SimpleNamespace

import pytest
from scipy.stats import ttest_ind

from benchmarks.cards.asked import asked
from benchmarks.cards.forecasts import forecasts
from benchmarks.cards.other_tasks import pairs, section
from benchmarks.cards.texts import TASKS, Refused, read_cards
from benchmarks.stored.folders import QUESTIONS
from rlexp.question.declare import declaration
from rlexp.question.spec import named_conditions, read_question

ANSWERS, CARDS = asked(), read_cards()
ASKED = [file.stem for file in sorted(QUESTIONS.glob(f"*{TASKS}.yaml"))]
SPREAD = (-0.1, -0.02, 0.03, 0.09)


def declared(name):
    written = read_question(name)
    return declaration(written, written.shared, named_conditions(written.conditions))


@pytest.mark.parametrize("name", ASKED)
def test_the_same_is_asked_of_other_tasks_and_of_a_model_twice_as_wide(name):
    first, other = declared(name.removesuffix(TASKS)), declared(name)
    same = ("arm", "versus", "kind", "endpoint", "direction")
    said = [[[each[key] for key in same] for each in one["assertions"]] for one in (first, other)]
    assert said[0] == said[1]
    metrics = [[each["metric"] or "eval/greedy_accuracy" for each in one["assertions"]] for one in (first, other)]
    assert metrics[0] == metrics[1]  # that of sorting, where none is said
    levels = [each["levels"] for each in other["conditions"]]
    tasks = [
        {each.get("task", "") for each in levels} | {each[5:] for each in one["with"] if each.startswith("task=")}
        for one, levels in ((first, [each["levels"] for each in first["conditions"]]), (other, levels))
    ]
    assert len({each["model.width"] for each in levels}) == 2
    assert tasks[1] - {""} and not (tasks[0] & tasks[1]) - {""}
    assert not {*map(str, first["seeds"])} & {*map(str, other["seeds"])}
    assert name in {question for card in CARDS for question in card.questions}


def tasks_of(question):
    """The tasks that a question trains on; sort where none is said."""
    one = declared(question)
    shared = {each[5:] for each in one["with"] if each.startswith("task=")}
    return {each["levels"]["task"] for each in one["conditions"] if "task" in each["levels"]} or shared or {"sort"}


def test_each_claim_about_small_models_is_asked_of_two_tasks():
    small = [card for card in CARDS if any(ANSWERS[name].tier == "small" for name in card.questions if name in ANSWERS)]
    alone = {card.label for card in small if len(set().union(*map(tasks_of, card.questions))) < 2}
    assert len(small) > 20 and alone == {"C19"}  # one task alone rewards single tokens


def an_answer(name, **numbers):
    assertion = dict.fromkeys(("arm", "versus"), ["a=1"]) | dict.fromkeys(("metric", "endpoint", "budget"), "")
    assertion |= {"kind": "superior", "direction": "higher", "word": "supported", "leaning": "", "stability": {}}
    found = assertion | {"low": numbers["effect"] - 0.1, "high": numbers["effect"] + 0.1, "smallest": 0.2} | numbers
    settings = [numbers["effect"] + each for each in SPREAD]
    found["conditions"] = [{"effect": each, "error": 0.05, "fails": ""} for each in settings]
    show = lambda place, each: f"{each['effect']:+g}"  # noqa: E731
    return SimpleNamespace(name=name, tier="small", assertions=[found], show=show, number=lambda place: found["metric"])


def the_section(first, other, *more):
    card = SimpleNamespace(label="C5", number="c05", questions=[f"x{TASKS}"])
    answers = {one.name: one for one in (first, other, *more)}
    return [*section([card], answers)]


@pytest.mark.parametrize(
    ("effect", "word", "inside", "shown"),
    [(0.2, "supported", 1, 1), (0.05, "open", 1, 0), (-0.3, "contradicted", 0, 0)],
)
def test_what_carries_is_counted(effect, word, inside, shown):
    first = an_answer("x", effect=0.3, predicted=[0.0, 0.6])
    text, *_, row = the_section(first, an_answer(f"x{TASKS}", effect=effect, word=word))
    assert (
        text.startswith(f"**{inside} of 1 effects lie ")
        and f", and {int(word == 'supported')} have the same word" in text
    )
    assert f"Of the 1 that have a size that counts on the first task, {int(effect > 0)} have the same sign" in text
    assert f", and {shown} of them with an interval that leaves 0 out" in text
    assert f"+0.3: supported | {effect:+g}: {word} |" in row and ("**outside**" in row) == (not inside)


def test_an_effect_that_does_not_count_is_not_asked_for_its_sign():
    text, *_ = the_section(an_answer("x", effect=0.1, predicted=[0, 1]), an_answer(f"x{TASKS}", effect=0.5))
    assert "Of the 0 that have a size" in text


def test_a_replication_is_in_the_place_of_what_it_repeats():
    first, again = (
        an_answer("x", effect=0.3, predicted=[0, 1]),
        an_answer("x_replication", effect=0.4, predicted=[0, 1]),
    )
    assert "| +0.4: supported |" in the_section(first, an_answer(f"x{TASKS}", effect=0.5), again)[-1]


def test_what_cannot_answer_is_left_out_and_another_question_is_refused():
    first = an_answer("x", effect=0.3, predicted=[0, 1])
    assert len(the_section(first, an_answer(f"x{TASKS}", effect=0.5, word="cannot answer"))) == 2
    with pytest.raises(Refused, match="x_tasks: asks 0 times what is assertion 1 of x"):
        the_section(first, an_answer(f"x{TASKS}", effect=0.5, metric="other"))


def test_other_tasks_forecast_nothing_of_a_llama():
    assert not [*forecasts(an_answer(f"x{TASKS}", effect=0.5, predicted=[0, 1]))]


def test_each_answer_is_on_the_page():
    shown = {(pair.other.name, pair.place) for pair in pairs(CARDS, ANSWERS)}
    assert {name for name, _ in shown} <= {*ASKED} & {*ANSWERS}


def test_effects_that_differ_between_tasks_are_counted_without_settings_that_failed():
    """Errors are equal and settings spread more than by them: Student's t of two samples."""
    first, other = an_answer("x", effect=0.4, predicted=[0, 1]), an_answer(f"x{TASKS}", effect=0.25)
    other.assertions[0]["conditions"].append({"effect": 9.0, "error": 0.05, "fails": "no"})
    text, *_, row = the_section(first, other)
    p = ttest_ind(*([effect + each for each in SPREAD] for effect in (0.4, 0.25))).pvalue
    assert 0.01 < p < 0.05 and row.endswith(f" | {p:.3f} |")
    assert "1 of them differ between the first task and the others (p < .05), 1 of them after Holm's" in text
