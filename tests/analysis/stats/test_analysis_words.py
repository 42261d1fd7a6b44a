"""Words of assertions: each line of the rule, agreement with p, order, stability, checks, moderators; and the truth."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from benchmarks import words as benchmark
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.pooling import pool
from rlexp.analysis.stats.significance import ALPHA, holm
from rlexp.analysis.stats.words import (
    CANNOT,
    EQUIVALENT,
    KINDS,
    NOT_INFERIOR,
    OPEN,
    STABLE,
    SUPERIOR,
    WORDS,
    Assertion,
    Condition,
    holm_levels,
    judge,
    spread_text,
    stable_words,
    word_codes,
)

FOUND = json.loads((Path(__file__).parents[3] / "docs" / "statistics" / "words.json").read_text(encoding="utf-8"))


def conditions(effects, errors=0.1, degrees=9, **fields):
    errors = np.broadcast_to(errors, len(effects))
    return [
        Condition(f"c{place}", effect, error, degrees, **{key: value[place] for key, value in fields.items()})
        for place, (effect, error) in enumerate(zip(effects, errors.tolist(), strict=True))
    ]


def judged(kind, effects, errors=0.1, **fields):
    return judge([Assertion(kind, 1.0, conditions(effects, errors, **fields))])[0]


@pytest.mark.parametrize(
    ("kind", "low", "high", "word"),
    [
        (SUPERIOR, 0.1, 1.5, "supported"),
        (SUPERIOR, 1.2, 1.5, "supported"),
        (SUPERIOR, 0.1, 0.9, "smaller than claimed"),
        (SUPERIOR, -0.5, 0.9, "no material effect"),
        (SUPERIOR, -0.5, -0.1, "contradicted"),
        (SUPERIOR, 0.01, 0.09, "no material effect"),
        (SUPERIOR, -0.09, -0.01, "no material effect"),
        (SUPERIOR, 0.01, 0.11, "smaller than claimed"),
        (SUPERIOR, -0.11, -0.01, "contradicted"),
        (SUPERIOR, -1.5, 0.5, "open"),
        (SUPERIOR, -0.5, 1.5, "open"),
        (EQUIVALENT, -0.9, 0.9, "supported"),
        (EQUIVALENT, 0.2, 0.9, "supported"),
        (EQUIVALENT, 1.0, 1.9, "contradicted"),
        (EQUIVALENT, -1.9, -1.0, "contradicted"),
        (EQUIVALENT, 0.2, 1.2, "open"),
        (NOT_INFERIOR, -0.9, 3.0, "supported"),
        (NOT_INFERIOR, -3.0, -1.1, "contradicted"),
        (NOT_INFERIOR, -1.5, 1.5, "open"),
    ],
)
def test_each_line_of_the_rule(kind, low, high, word):
    assert WORDS[word_codes(low, high, kind, 1.0)] == word


def test_a_judgment_has_the_interval_that_says_its_word():
    found = judged(SUPERIOR, [0.8, 1.1, 1.3, 0.9])
    assert found.word == found.text == "supported" and found.confidence == 0.95
    assert (found.low, found.high) == pytest.approx(tuple(pool([0.8, 1.1, 1.3, 0.9], [0.1] * 4).interval()))
    assert found.p == found.p_holm == pytest.approx(pool([0.8, 1.1, 1.3, 0.9], [0.1] * 4).p())
    assert found.predicted.low <= found.low and found.predicted.high >= found.high
    equal = judged(EQUIVALENT, [0.1, -0.1, 0.2, 0.0])
    assert equal.word == "supported" and equal.confidence == 0.9
    assert judged(NOT_INFERIOR, [-0.1, 0.2]).word == "supported"


def test_equality_is_two_one_sided_tests_at_five_percent():
    for effect in np.linspace(0.5, 1.1, 25):
        found = judged(EQUIVALENT, [effect])
        one_sided = student.cdf((effect - 1) / 0.1, 9)
        assert found.p == pytest.approx(one_sided)
        assert (-1 < found.low and found.high < 1) == (one_sided < 0.05)


@pytest.mark.parametrize("kinds", list(product(KINDS, repeat=2)))
def test_corrected_p_and_interval_never_contradict_each_other(kinds):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(40):
        effects = rng.uniform(-1.5, 1.5, 2)
        found = judge([Assertion(kind, 1.0, conditions([e])) for kind, e in zip(kinds, effects, strict=True)])
        for kind, each in zip(kinds, found, strict=True):
            excluded = {
                SUPERIOR: each.low > 0 or each.high < 0,
                EQUIVALENT: each.low > -1 and each.high < 1,
                NOT_INFERIOR: each.low > -1 or each.high < -1,
            }[kind]
            assert excluded == (each.p_holm < ALPHA)
            seen.add(excluded)
        assert [each.p_holm for each in found] == pytest.approx(holm(np.array([each.p for each in found])))
    assert seen == {True, False}


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_levels_are_those_of_holm(m):
    rng = np.random.default_rng(m)
    for _ in range(500):
        p = np.round(rng.uniform(0, 0.1, m), 3)
        assert ((p <= holm_levels(p)) == (holm(p) <= ALPHA + 1e-12)).all(), p
    with_none = holm_levels(np.array([0.03, np.nan]))
    assert with_none[0] == ALPHA


def test_the_order_of_conditions_and_of_assertions_changes_nothing():
    rng = np.random.default_rng(1)
    asked = conditions(
        rng.normal(0.6, 0.5, 6).tolist(), rng.uniform(0.1, 0.4, 6), levels=[{"start": s} for s in "ababab"]
    )
    other = Assertion(EQUIVALENT, 1.0, conditions([0.1, 0.2, 0.3]))
    first = judge([Assertion(SUPERIOR, 1.0, asked, ["start"]), other])
    second = judge([other, Assertion(SUPERIOR, 1.0, asked[::-1], ["start"])])
    assert str(first) == str(second[::-1])


def test_stability_is_the_share_of_a_loop_of_redraws():
    effects, errors = np.array([0.1, 0.5, 0.9, 0.2]), np.array([0.2, 0.3, 0.3, 0.4])
    noise = np.random.default_rng(0).normal(size=(1000, 4))
    said = [WORDS[word_codes(*pool(effects + errors * each, errors).interval(), SUPERIOR, 1.0)] for each in noise]
    found = stable_words(effects, errors, 9, SUPERIOR, 1.0)
    assert found.shares == pytest.approx([said.count(word) / 1000 for word in WORDS])


def test_a_word_that_fresh_seeds_would_not_repeat_is_open():
    steps = {float(effect): judged(SUPERIOR, [effect], 0.5) for effect in np.arange(0.5, 3.0, 0.1)}
    assert {each.word for each in steps.values()} == {"open", "supported"}
    leaning = [each for each in steps.values() if each.leaning]
    assert leaning == []  # of one condition the word comes out in half of the redraws where it comes out at all
    found = judged(EQUIVALENT, [0.0], 0.5)
    assert found.low > -1 and found.high < 1 and found.stability["supported"] < STABLE
    assert (found.word, found.text) == (OPEN, "open (leaning supported)")
    assert sum(found.stability.values()) == pytest.approx(1)


def test_conditions_that_fail_are_dropped_and_named():
    fails = ["", "", "rate at the end of the grid", ""]
    found = judged(SUPERIOR, [2.0, 2.1, -5.0, 2.2], fails=fails)
    assert found.dropped == {"c2": "rate at the end of the grid"} and found.word == "supported"
    assert found.pooled.k == 3
    two = judged(SUPERIOR, [2.0, 2.1, -5.0, 2.2], fails=["no headroom", *fails[1:]])
    assert two.word == CANNOT and len(two.dropped) == 2 and two.pooled is None and np.isnan(two.p)
    third = judged(SUPERIOR, [2.0, 2.1, 2.2], fails=["", "", "a control moved"])
    assert third.word != CANNOT
    assert judged(SUPERIOR, [2.0], fails=["no headroom"]).word == CANNOT


def test_what_cannot_be_pooled_is_dropped_too():
    found = judged(SUPERIOR, [2.0, 2.1, 2.2, 0.0, np.nan, 2.0], [0.1, 0.1, 0.1, 0.0, 0.1, 0.1])
    assert found.dropped.keys() == {"c4"} and "no effect" in found.dropped["c4"]
    assert found.pooled.k == 5
    moved = judged(SUPERIOR, [2.0, 2.1, 2.2, 0.5], [0.1, 0.1, 0.1, 0.0])
    assert moved.dropped == {"c3": "the same difference on every seed, which says nothing of its error"}


@pytest.mark.parametrize("k", [1, 2, 3, 9])
@pytest.mark.parametrize(
    ("kind", "word"), [(SUPERIOR, "no material effect"), (EQUIVALENT, "supported"), (NOT_INFERIOR, "supported")]
)
def test_arms_that_are_the_same_bit_by_bit_are_an_answer(k, kind, word):
    found = judged(kind, [0.0] * k, 0.0)
    assert found.word == word and not found.dropped and found.stability == {word: 1.0}
    assert found.pooled.k == k and abs(found.low) < 1e-6 and abs(found.high) < 1e-6
    assert found.p == pytest.approx(1.0 if kind == SUPERIOR else 0.0)


def test_a_condition_that_is_the_same_on_every_seed_weighs_as_the_middle_one_of_the_others():
    same = judged(SUPERIOR, [1.0, 1.2, 0.0, 0.0, 0.0], [0.1, 0.3, 0.0, 0.0, 0.0])
    assert same[3:] == judged(SUPERIOR, [1.0, 1.2, 0.0, 0.0, 0.0], [0.1, 0.3, 0.2, 0.2, 0.2])[3:]
    one = judged(SUPERIOR, [0.0, 1.0], [0.0, 0.1])
    assert one.pooled.estimate == pytest.approx(0.5) and one.pooled.error == pytest.approx(0.1 / np.sqrt(2))
    starts = [{"start": each} for each in ["0", "0", "1", "1"]]
    asked = conditions([0.0, 0.0, 2.0, 2.1], [0.0, 0.0, 0.1, 0.1], levels=starts)
    assert judge([Assertion(SUPERIOR, 1.0, asked, ["start"])])[0].moderators[0].depends


def test_an_unanswered_assertion_costs_the_other_nothing():
    bad = Assertion(SUPERIOR, 1.0, conditions([1.0], fails=["no headroom"]))
    good = Assertion(SUPERIOR, 1.0, conditions([0.235]))
    assert judge([good])[0].p_holm == judge([bad, good])[1].p_holm < ALPHA


def test_an_effect_depends_on_a_moderator_by_its_effects():
    starts = [{"start": each, "seed": "1"} for each in ["0", "0", "0", "0.6", "0.6", "0.6"]]
    asked = conditions([2.0, 2.2, 2.1, 0.2, 0.1, 0.3], levels=starts)
    found = judge([Assertion(SUPERIOR, 1.0, asked, ["start", "seed"])])[0]
    assert [each.name for each in found.moderators] == ["start"] and found.moderators[0].depends
    assert "two at least" in found.untested["seed"]
    text = spread_text(found, 1.0)
    assert text.startswith("depends on start: +2.1 [") and text.endswith("] at 0.6")
    small = judge([Assertion(SUPERIOR, 3.0, asked, ["start"])])[0]  # p is small, and so is the difference
    assert not small.moderators[0].depends and small.moderators[0].p_holm < ALPHA


def test_two_moderators_are_corrected():
    levels = [{"a": x, "b": y} for x, y in zip("xxyyxxyy", "uvuvuvuv", strict=True)]
    asked = conditions(np.random.default_rng(2).normal(size=8).tolist(), levels=levels)
    both = judge([Assertion(SUPERIOR, 1.0, asked, ["a", "b"])])[0].moderators
    assert [each.p_holm for each in both] == pytest.approx(holm(np.array([each.test.p for each in both])))


def test_how_an_effect_varies_is_said():
    assert spread_text(judged(SUPERIOR, [0.5, 0.52, 0.51, 0.5]), 1.0) == "about the same in all 4 conditions"
    wide = spread_text(judged(SUPERIOR, [0.2, 3.0, 1.5, 2.8, 0.4, 1.9]), 1.0)
    assert wide.startswith("varies between settings: 95 % of them within [-")
    assert spread_text(judged(SUPERIOR, [0.5, 0.6]), 1.0) == ""


GOOD = conditions([1.0, 1.1])


@pytest.mark.parametrize(
    ("assertions", "said"),
    [
        ([], "one or two assertions"),
        ([Assertion(SUPERIOR, 1.0, GOOD)] * 3, "one or two assertions"),
        ([Assertion("better", 1.0, GOOD)], "choose one of: superior  equivalent  not inferior"),
        ([Assertion(SUPERIOR, 0.0, GOOD)], "above 0"),
        ([Assertion(EQUIVALENT, np.nan, GOOD)], "above 0"),
        ([Assertion(SUPERIOR, 1.0, [])], "at least one"),
        ([Assertion(SUPERIOR, 1.0, [GOOD[0], GOOD[0]])], "named once"),
        ([Assertion(SUPERIOR, 1.0, GOOD, ["a", "b", "c"])], "at most 2"),
        ([Assertion(SUPERIOR, 1.0, GOOD, ["start"])], "no level of the moderator start"),
    ],
)
def test_wrong_questions_are_refused_in_a_line(assertions, said):
    with pytest.raises(AnalysisError, match=said) as caught:
        judge(assertions)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "effect"), [(SUPERIOR, 0.0), (EQUIVALENT, 1.0), (NOT_INFERIOR, -1.0)])
@pytest.mark.parametrize(("k", "tau"), [(1, 0.0), (3, 1.0), (9, 0.5)])
def test_false_words_are_at_most_five_percent_at_the_boundary(kind, effect, k, tau):
    draws, rng = 2000, np.random.default_rng(4)
    found = benchmark.draw(effect + tau * rng.normal(size=(draws, k)), benchmark.spreads(k), 10, rng)
    said = stable_words(*found, 9.0, kind, 1.0, redraws=20)
    assert benchmark.is_false(kind, said.plain, effect).mean() < 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize(
    ("kind", "word", "false_at"),
    [
        (SUPERIOR, "supported", {-1.0, 0.0}),
        (SUPERIOR, "smaller than claimed", {-1.0, 0.0, 1.0, 2.0}),
        (SUPERIOR, "no material effect", {-1.0, 1.0, 2.0}),
        (SUPERIOR, "contradicted", {0.0, 0.5, 1.0, 2.0}),
        (EQUIVALENT, "supported", {-1.0, 1.0, 2.0}),
        (EQUIVALENT, "contradicted", {0.0, 0.5}),
        (NOT_INFERIOR, "supported", {-1.0}),
        (NOT_INFERIOR, "contradicted", {-1.0, 0.0, 0.5, 1.0, 2.0}),
        (SUPERIOR, "open", set()),
    ],
)
def test_where_a_word_is_false(kind, word, false_at):
    assert {each for each in benchmark.EFFECTS if benchmark.is_false(kind, np.array([word]), each)[0]} == false_at


RECORDS = {each["study"]: each for each in map(benchmark._read, sorted((benchmark.CLAIMS / "results").glob("*.json")))}


def test_the_stored_rows_are_those_that_were_pooled_before():
    counts = [benchmark.conditions_of(each, RECORDS).effects.size for each in benchmark.CONTRASTS]
    assert counts == [13, 14, 9, 9, 4, 9, 9, 5, 8, 8, 10, 7, 4, 4, 4, 4, 6, 5, 9, 5]
    signs = [benchmark.conditions_of(each, RECORDS).effects.mean() > 0 for each in benchmark.CONTRASTS]
    assert signs[5] and not signs[6] and not signs[11] and signs[12] and signs[16] and not signs[17]


@pytest.mark.slow
def test_the_old_rule_says_of_the_rows_as_they_are_what_is_on_record():
    """Single seeds are not on record: normal quantiles with the same mean and SD get the same verdict in most rows."""
    pairs = [
        (one["verdict"], other["verdict"])
        for record in RECORDS.values()
        for one, other in zip(record["verdicts"], benchmark._again(record, None)["verdicts"], strict=True)
    ]
    assert np.mean([one == other for one, other in pairs]) > 0.9


@pytest.mark.slow
def test_the_command_prints_and_writes_its_numbers(tmp_path, capsys):
    assert benchmark.main(["--quick", "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found.keys() == FOUND.keys() and found["summary"].keys() == FOUND["summary"].keys()
    for name in benchmark.TITLES:
        assert [row.keys() for row in found[name]] == [row.keys() for row in FOUND[name]]
    assert "headlines that stay, pooled rule" in capsys.readouterr().out
    assert benchmark.main(["--draws", "2"]) == 2


def test_what_must_hold_holds_in_the_numbers_on_file():
    noise = 3 * np.sqrt(0.05 * 0.95 / FOUND["draws"])
    assert max(row["false"] for row in FOUND["words"]) < 0.05 + noise
    assert FOUND["summary"]["headlines that stay, pooled rule"] >= 0.9
    assert min(row["pooled"] for row in FOUND["coverage"]) > 0.94 - noise


def test_the_numbers_on_file_are_those_that_were_printed():
    printed = (Path(__file__).parents[3] / "docs" / "statistics" / "words.txt").read_text(encoding="utf-8").splitlines()
    assert [f"{name}: {value:.3f}" for name, value in FOUND["summary"].items()] == printed[-len(FOUND["summary"]) :]
