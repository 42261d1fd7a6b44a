"""Forecasts of a Llama: from decided answers, older than what they forecast, and scored."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from history import needs_history

from benchmarks.cards import forecasts as module
from benchmarks.cards.asked import asked, stays
from benchmarks.cards.declared import last_asked
from benchmarks.cards.forecasts import (
    LLAMA,
    NOT_WITH_TRL,
    OWN,
    Forecast,
    committed,
    forecasts,
    of_a_llama,
    read,
    scored,
    section,
)
from benchmarks.cards.texts import REPLICATION, Refused, read_cards
from benchmarks.stored.folders import QUESTIONS
from rlexp.analysis.stats.words import CANNOT, OPEN
from rlexp.question.declare import declaration
from rlexp.question.spec import named_conditions, read_question

ANSWERS, CARDS = asked(), read_cards()
ASKED = [file.stem for file in sorted(QUESTIONS.glob(f"*{LLAMA}.yaml"))]


def assertions(name):
    written = read_question(name)
    return declaration(written, written.shared, named_conditions(written.conditions))["assertions"]


def test_each_decided_answer_about_small_models_has_a_forecast():
    names = {name for card in CARDS for name in card.questions} & {*ANSWERS}
    made = {each for one in last_asked(ANSWERS[name] for name in names) for each in forecasts(one)}
    kept = read()
    assert {each for each in kept if of_a_llama(*each[:2]) not in ANSWERS} <= made
    later = {each for each in made if of_a_llama(*each[:2]) not in ANSWERS}  # of a Llama that is trained none is made
    assert {each[:2] for each in later} <= {each[:2] for each in kept}
    for each in made:
        found = ANSWERS[each.question].assertions[each.assertion - 1]
        assert ANSWERS[each.question].tier == "small" and found["word"] not in (OPEN, CANNOT) and stays(found) >= 0.8
        assert float(each.low) <= float(each.effect) <= float(each.high)


@pytest.mark.parametrize("name", ASKED)
def test_a_llama_is_asked_what_the_small_model_was(name):
    small = assertions({llama: question for (question, _), llama in OWN.items()}.get(name, name.removesuffix(LLAMA)))
    same = ("arm", "versus", "kind", "metric", "endpoint", "smallest")
    said = [{key: each[key] for key in same} for each in small]
    assert all({key: each[key] for key in same} in said for each in assertions(name))
    assert read_question(name).shared[0] == "backend=trl"
    assert name in {question for card in CARDS for question in card.questions}


def test_each_forecast_has_a_question_that_a_llama_can_be_asked_or_says_why_not():
    asked = [each[:2] for each in read() if each.question.removesuffix(REPLICATION) not in NOT_WITH_TRL]
    assert {of_a_llama(*each) for each in asked} <= {*ASKED}
    assert not {f"{name}{LLAMA}" for name in NOT_WITH_TRL} & {*ASKED}


@pytest.fixture
def llama(monkeypatch):
    """A double of clip_speed_llama's answer, whose effect is chosen; its forecast was committed an hour before."""
    small, since = ANSWERS["clip_speed"], datetime.fromisoformat("2026-11-28T01:00:00+00:00")

    def of(value, began=since + timedelta(hours=1), **more):
        found = small.assertions[0] | {"effect": value, "low": value - 0.01, "high": value + 0.01} | more
        return SimpleNamespace(
            name="clip_speed_llama", began=began, assertions=[found], show=small.show, number=small.number
        )

    monkeypatch.setattr(module, "committed", lambda forecast: since)
    monkeypatch.setattr(module, "read", lambda: [Forecast("clip_speed", 1, "as it is", "log-odds", "0.03", "0", "0.1")])
    return lambda *given, **more: {**ANSWERS, "clip_speed_llama": of(*given, **more)}


def test_what_lies_in_the_interval_is_counted_and_errors_are_averaged(llama):
    first, *_ = section(CARDS, llama(0.05))
    assert first.startswith("**1 of 1 lie in their interval.** Of those that forecast a size that counts, 0 of 0 have ")
    assert "The mean error is 0.020" in first and "no effect has 0.050" in first
    first, *_, row = section(CARDS, llama(-0.05))
    assert first.startswith("**0 of 1 ") and "is 0.080" in first and row.endswith("**outside** |")


def test_a_forecast_of_what_cannot_be_answered_is_not_scored(llama):
    first, *_, row = section(CARDS, llama(0.05, word="cannot answer", effect=None))
    assert first.startswith("| | claim") and row.endswith("cannot answer |") and "settings are not valid" in row


@pytest.mark.parametrize(("effect", "shown"), [(0.5, 1), (0.005, 0), (-0.5, 0)])
def test_a_sign_is_shown_where_the_interval_lies_on_the_side_that_was_forecast(llama, monkeypatch, effect, shown):
    monkeypatch.setattr(module, "read", lambda: [Forecast("clip_speed", 1, "as it is", "log-odds", "0.3", "0", "0.6")])
    assert f"Of those that forecast a size that counts, {shown} of 1 have" in next(iter(section(CARDS, llama(effect))))


def test_a_forecast_that_is_younger_than_the_first_run_is_refused(llama):
    answers = llama(0.05, datetime.fromisoformat("2026-11-28T00:59:59+00:00"))
    with pytest.raises(Refused, match="^clip_speed_llama: its forecast was committed at .*, after its first run"):
        list(scored(module.read(), answers))


def test_a_forecast_needs_the_assertion_that_it_is_of(llama):
    answers = llama(0.05)
    answers["clip_speed_llama"].assertions[0]["arm"] = ["clip=other"]
    with pytest.raises(Refused, match="asks 0 times what is assertion 1 of clip_speed"):
        list(scored(module.read(), answers))


@needs_history
def test_the_commit_since_which_a_forecast_stands_is_found():
    assert all(committed(each) for each in read())
    assert committed(read()[0]._replace(effect="9")) is None
