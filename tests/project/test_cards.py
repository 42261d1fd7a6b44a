"""The claims page and its cards: one order of parts, words that lean, and no headline that is younger than its runs."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
import yaml
from history import needs_history

from benchmarks.cards import __main__ as command
from benchmarks.cards.advice import advice_page
from benchmarks.cards.asked import DOCS, Asked, asked, composed_of, headline, stays, steps_of
from benchmarks.cards.card import card_page, declared
from benchmarks.cards.controls import contrast, nulls
from benchmarks.cards.declared import Committed, check_declared, committed
from benchmarks.cards.page import assertion_cells, declared_in, page, untrained
from benchmarks.cards.texts import Card, Refused, read_cards
from benchmarks.stored.folders import answer_folders
from benchmarks.stored.world import of
from rlexp.question.ask import checked, plan_text
from rlexp.question.declare import first_runs

ANSWERS, CARDS = asked(), read_cards()
WORDS = dict.fromkeys(("said", "source", "regime", "why", "objection", "known"), "In words.") | {"read": "abstract"}
TRUST = {"grade": "B", "reason": "one task"}
OLD = Committed("0" * 40, datetime(2026, 1, 1, tzinfo=UTC))


def card(*questions, **words):
    return Card(number="c05", claim="It pays", questions=questions, **WORDS | words)


@needs_history
@pytest.mark.slow
def test_the_pages_are_generated():
    made = command.pages(CARDS, ANSWERS)
    assert not [path for path, text in made.items() if (DOCS / path).read_text(encoding="utf-8") != text]
    assert {file.name for file in (DOCS / "claims").glob("*.md")} == {f"{each.number}.md" for each in CARDS}
    images = [(path, image) for path, text in made.items() for image in re.findall(r'<img src="([^"]+)"', text)]
    assert not [image for path, image in images if not ((DOCS / path).parent / image).is_file()]


@pytest.mark.slow
def test_a_claim_with_an_answer_says_it_in_words_and_one_without_says_nothing():
    for each in CARDS:
        words = [each.answer, each.practice, each.trust]
        there = {*each.questions} & {*answer_folders(DOCS)}
        assert all(words) if there else not any(words) or not each.questions, each.number


@needs_history
def test_a_card_has_its_parts_in_one_order():
    text = card_page(card("dynamic_sampling", answer="Yes.", practice="Do.", trust=TRUST, explored="c05"), ANSWERS)
    parts = (
        "Claim.",
        "Answer.",
        "Trust B",
        "Why.",
        "For practice.",
        "Strongest objection.",
        "What is known about it.",
    )
    parts += ("Every seed.", "Declared.", "Train it again.")
    assert re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE) == [*parts]
    figures = re.findall(r"/(\w+)\.svg", text)
    assert figures == ["assertion_1", "assertion_2", "curves_1", "rates"]
    assert "[What was tried before](../claims_explored.md#c5)" in text and "expectation" not in text
    assert text.index("## Does it pay to replace") < text.index("## What to make of it") < text.index("**Why.**")


def test_what_is_not_trained_has_its_command_and_its_runs():
    text = page([card("clip_speed")], {})
    assert "| `rlexp ask clip_speed --folder runs/clip_speed` | 288 |" in text
    assert "**0 of 1 published claims have an answer here**" in text
    assert "**Train it.** `rlexp ask clip_speed --folder runs/clip_speed`: 288 runs to begin with." in card_page(
        card("clip_speed"), {}
    )


@pytest.mark.slow  # a question is composed
@pytest.mark.parametrize("name", ["clip_speed", "verifier_sign", "norm_deviation"])
def test_runs_are_those_that_the_check_of_a_question_says(name):
    assert f": {first_runs(declared_in(name))} runs" in plan_text(checked(name))


def test_runs_are_those_that_were_trained_where_no_grid_grows():
    fixed = {name: len(one.runs) for name, one in ANSWERS.items() if not one.tuned}
    assert fixed and fixed == {name: first_runs(declared_in(name)) for name in fixed}


def test_runs_of_one_batch_took_their_time_together():
    """Batches of 162, 162, 54 and 18 runs took 628, 412, 114 and 68 s, over 80 steps; two of 162 were to begin with."""
    assert ANSWERS["covariance_clip"].core_seconds == pytest.approx(1222 / 324 / 80, rel=0.01)  # seconds are rounded
    llama = ANSWERS["norm_deviation_llama"]  # alone, one after the other
    assert llama.core_seconds == pytest.approx(llama.runs["wall_time_s"].mean() / 60)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("clip_higher", 400),
        ("group_size_equal_llama", 100),
        ("hardest_prompts", (50 + 150) / 2),
        ("allocation", 20480 / 128),
    ],
)
def test_steps_are_those_of_the_budget_or_of_the_conditions(name, steps):
    assert steps_of(declared_in(name)) == steps


@pytest.mark.slow  # two configurations are composed
def test_settings_that_a_preset_chooses_are_found_without_composing_all():
    given = ("preset=trl_rloo", "lr=0.01", "steps=7")
    found, every = composed_of(given, "minibatches", "steps"), of(given).settings
    assert found["minibatches"] == every["minibatches"] != of(()).settings["minibatches"]
    assert found["steps"] == every["steps"] == 7 and found["lr"] != every["lr"]


@pytest.mark.parametrize(
    ("word", "leaning", "stability", "said", "share"),
    [
        ("supported", "", {"supported": 0.8, "open": 0.2}, "supported", 0.8),
        ("supported", "", {"supported": 0.79, "open": 0.21}, "leaning supported", 0.79),
        ("open", "", {"open": 0.9, "contradicted": 0.1}, "open", 0.9),
        ("open", "", {"open": 0.7, "contradicted": 0.3}, "open, leaning contradicted", 0.7),
        ("open", "supported", {"open": 0.6, "supported": 0.4}, "open, leaning supported", 0.6),
        ("cannot answer", "", {}, "cannot answer", None),
    ],
)
def test_a_word_that_redraws_do_not_repeat_says_that_it_leans(word, leaning, stability, said, share):
    assertion = {"word": word, "leaning": leaning, "stability": stability}
    assert headline(assertion) == said
    assert np.isnan(stays(assertion)) if share is None else stays(assertion) == share


def test_a_replication_costs_what_its_first_pass_took():
    name, there = "errors_that_stay_replication", {"errors_that_stay": ANSWERS["errors_that_stay"]}
    (row,) = (line for line in untrained([card("errors_that_stay", name)], there) if name in line)
    asks = declared_in(name)
    minutes = first_runs(asks) * steps_of(asks) * ANSWERS["errors_that_stay"].core_seconds / 60
    assert row.endswith(f"| {first_runs(asks)} | {minutes:.0f} |")


def test_another_task_costs_as_many_times_the_first_as_those_that_are_answered():
    there = {
        name: ANSWERS[name]
        for name in ("overlong", "overlong_tasks", "clip_speed", "clip_speed_tasks", "norm_deviation")
    }
    name, asks = "norm_deviation_tasks", declared_in("norm_deviation_tasks")
    two = [there[f"{first}_tasks"].core_seconds / there[first].core_seconds for first in ("overlong", "clip_speed")]
    minutes = first_runs(asks) * steps_of(asks) * np.mean(two) * there["norm_deviation"].core_seconds / 60
    (row,) = (line for line in untrained([card(name)], there) if f" {name} " in line)
    assert row.endswith(f"| {first_runs(asks)} | {minutes:.0f} |")


@pytest.mark.parametrize("name", ["kl_gradient", "clip_speed", "shrinkage_training_llama"])
def test_a_question_costs_what_the_median_answer_of_its_tier_took(name):
    there = {other: one for other, one in ANSWERS.items() if other != name}
    (row,) = (line for line in untrained([card(name)], there) if f" {name} " in line)
    like = [one.core_seconds for one in there.values() if one.tier == ANSWERS[name].tier]
    asks = declared_in(name)
    assert row.endswith(f"| {first_runs(asks)} | {first_runs(asks) * steps_of(asks) * np.median(like) / 60:.0f} |")


def test_a_row_says_what_the_effect_depends_on():
    first, second = (assertion_cells(ANSWERS["staleness_drift"], place)[2] for place in (0, 1))
    assert first == "**open**, depends on `lr`" and second.endswith("**")


def test_the_words_of_a_replication_count_in_the_place_of_the_first_which_stay_on_the_card(monkeypatch):
    monkeypatch.setattr("benchmarks.cards.declared.check_declared", lambda one, since: None)
    first = ANSWERS["length_bias"]
    again = Asked("length_bias_replication", first.folder)
    again.answer = again.answer | {"assertions": [each | {"word": "contradicted"} for each in first.assertions]}
    names = ["length_bias", "length_bias_replication"]
    both, before = ({**ANSWERS, again.name: again}, {k: one for k, one in ANSWERS.items() if k != again.name})
    rows = [[line for line in page([card(*names)], answers).splitlines() if "`agg=sequence` " in line]
            for answers in (before, both)]  # fmt: skip
    assert [len(each) for each in rows] == [2, 2]
    assert all("contradicted**" in line for line in rows[1]) and "leaning supported**" in rows[0][1]
    assert "for 2 of 2 words" in page([card(*names)], before)
    text = card_page(card(*names), both)
    now, _, was = text.partition("\n\nBefore the replication, which counts in its place:\n\n")
    assert now.count("contradicted**") == 2 and "leaning supported**" in was
    assert "Before the replication" not in card_page(card(*names), before)


# ---- controls


def test_a_control_is_judged_over_its_conditions():
    (null,) = nulls(ANSWERS["dynamic_sampling"])
    assert (null.what, null.conditions) == ("filter=zero_variance against filter=none", 6)
    assert null.word == "no material effect" and not null.called and not null.moved


def test_an_effect_that_is_declared_as_a_control_is_called_something(monkeypatch):
    one = asked()["verifier_noise"]
    control = {side: one.declared["assertions"][0][side] for side in ("arm", "versus")}
    monkeypatch.setitem(one.declared, "controls", [control, {"arm": control["versus"], "versus": None}])
    two, alone = nulls(one)
    assert (two.moved, two.word) == (2, "open")  # of three starts; the strongest hardly minds
    assert (alone.moved, alone.word) == (2, "open")  # it learns, so it moves from where it began
    assert alone.what == "shaping=false_negatives+shaping.false_negatives=0.5 moves from its start"


def test_the_drift_of_an_arm_is_from_its_first_evaluation_to_its_last_ones():
    one, name = ANSWERS["verifier_sign"], "start.accuracy=0.3,lr=1e-4"
    found = contrast(one, name, "shaping=random", None)
    runs = pd.read_parquet(one.folder / "runs.parquet").query("condition == @name and arm == 'shaping=random'")
    scale, metric = one.scale(name, 0)[0], one.package["scales"][name][0]["metric"]
    curves = one.curves[one.curves["folder"].isin(runs["folder"])].sort_values("step").groupby("folder")[metric]
    moved = scale.forward(curves.last()) - scale.forward(curves.first())  # a tenth of its nine evaluations is the last
    assert found.value == pytest.approx(moved.mean()) and found.n == 8
    assert found.error == pytest.approx(moved.std(ddof=1) / np.sqrt(8))


# ---- when a question was declared


def test_a_question_that_is_younger_than_its_first_run_has_no_headline():
    one = asked()["verifier_noise"]
    check_declared(one, OLD)
    with pytest.raises(
        Refused, match=r"^verifier_noise: no headline: the question was committed \(00000000\) at .*, after"
    ):
        check_declared(one, OLD._replace(time=datetime(2026, 12, 1, tzinfo=UTC)))
    with pytest.raises(Refused, match="git has no commit of conf/study/questions/verifier_noise.yaml as it is"):
        check_declared(one, None)
    one.began = datetime(2026, 11, 27, 13, 44, tzinfo=UTC)
    with pytest.raises(
        Refused, match=r"the question was declared at 2026-11-27 13:44:17\+0000, after its first run, 2026-"
    ):
        check_declared(one, OLD)


def test_an_answer_to_another_question_than_the_shipped_one_has_no_headline(monkeypatch):
    one = asked()["verifier_noise"]
    monkeypatch.setitem(one.declared, "seeds", [0, 1])
    with pytest.raises(Refused, match="verifier_noise.yaml asks something else than what was answered"):
        check_declared(one, OLD)


def test_the_command_writes_nothing_and_says_so_in_a_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["cards"])
    monkeypatch.setattr(command, "DOCS", tmp_path)
    monkeypatch.setattr(command, "read_cards", lambda: [card("verifier_noise")])
    monkeypatch.setattr("benchmarks.cards.declared.committed_since", lambda name: None)
    assert command.main() == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and said.err.startswith("verifier_noise: no headline: ") and not said.out
    assert not [*tmp_path.iterdir()]


def test_figures_are_drawn_of_named_questions_alone(monkeypatch, tmp_path, capsys):
    drawn = []
    monkeypatch.setattr(command, "DOCS", tmp_path)
    monkeypatch.setattr(command, "pages", lambda cards, answers: {"claims.md": "all"})
    monkeypatch.setattr(command, "draw", lambda used: drawn.extend(one.name for one in used))
    monkeypatch.setattr("sys.argv", ["cards", "clip_higher"])
    assert command.main() == 0 and drawn == ["clip_higher"] and (tmp_path / "claims.md").read_text() == "all"
    monkeypatch.setattr("sys.argv", ["cards", "clip_highr"])
    assert command.main() == 2 and drawn == ["clip_higher"]
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("clip_highr: no answered question of a card; these are: ")


@needs_history
def test_a_card_says_which_processors_trained_it():
    assert declared(ANSWERS["verifier_noise"]).endswith(" Trained on Intel(R) Xeon(R) Processor AVX512.")


def test_a_question_is_as_old_as_the_commit_since_which_it_asks_the_same(tmp_path):
    file = tmp_path / "q.yaml"

    def commit(text, day):
        file.write_text(text)
        when = {
            "GIT_AUTHOR_DATE": f"2026-01-{day:02} 00:00:00 +0000",
            "GIT_COMMITTER_DATE": f"2026-02-{day:02}T00:00:00Z",
        }
        user = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], [*user, "commit", "-qm", "q"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True, env=os.environ | when)

    file.write_text("question: a\n")
    assert committed(file) is None
    commit("question: a\n", 1)
    commit("question: b\n", 2)
    commit("# a comment\nquestion: b\n", 3)
    assert committed(file).time == datetime(2026, 2, 2, tzinfo=UTC)  # when it was committed, not when it was written
    file.write_text("question: c\n")
    assert committed(file) is None


# ---- cards as they are written


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"read": "skimmed"}, "c05.yaml: read: Input should be 'full', 'excerpt', 'abstract' or 'second-hand'"),
        ({"trust": {"grade": "E", "reason": "x"}}, "c05.yaml: grade: Input should be 'A', 'B', 'C' or 'D'"),
        ({"questions": ["no_such"]}, "c05.yaml: no_such: is no question in conf/study/questions"),
        ({"questions": [*"abcdefg"]}, "c05.yaml: questions: List should have at most 6 items"),
        ({"verdict": "yes"}, "c05.yaml: verdict: Extra inputs are not permitted"),
    ],
)
def test_a_card_that_is_none_is_refused_in_a_line(tmp_path, change, said):
    words = WORDS | {"claim": "It pays", "questions": ["clip_speed"]} | change
    (tmp_path / "c05.yaml").write_text(yaml.safe_dump(words), encoding="utf-8")
    with pytest.raises(Refused) as caught:
        read_cards(tmp_path)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_no_kept_run_is_older_than_its_question():
    for file in (DOCS / "asked").glob("*/datapackage.json"):
        question = json.loads(file.read_text(encoding="utf-8"))["question"]
        declared = json.loads((file.parent / "question.json").read_text(encoding="utf-8"))["declared_at"]
        assert question["first_run"] > declared, file.parent.name


def test_each_card_has_one_line_of_advice(tmp_path):
    text = (DOCS / "advice.md").read_text(encoding="utf-8")
    for each in CARDS:
        (line,) = (line for line in text.splitlines() if f"[{each.label}](" in line)
        assert each.practice in line
    order = tmp_path / "advice.yaml"
    order.write_text("Before:\n- {when: Now, card: c05}\n- {when: Later, card: c05}\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"^advice.yaml: c05: must be in one line"):
        advice_page([card("clip_speed", explored="c05")], order)
    order.write_text("Before:\n- {when: Now, card: c05}\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"^advice.yaml: c05: says nothing for practice"):
        advice_page([card("clip_speed", explored="c05")], order)
    assert "- **Now:** Do. ([C5](claims/c05.md), B)" in advice_page(
        [card("clip_speed", practice="Do.", trust=TRUST)], order
    )
