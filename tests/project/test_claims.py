"""The claims: one word from many verdicts, and a page that says what the records say."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from study_configs import written

from benchmarks.claims.__main__ import chosen, stored, verdicts_of
from benchmarks.claims.figure import drawn, signed_effect
from benchmarks.claims.outcome import findings, outcome
from benchmarks.claims.page import page, verdict_table
from benchmarks.claims.texts import HOME, Claim, read_claims, studies_of
from benchmarks.claims.train import StudyFailed, in_one, rows_hash, share_starts
from benchmarks.parts.common import ROOT

pytestmark = pytest.mark.slow  # all records of all studies

CLAIMS = read_claims()
WORDS = {"title": "t", "says": "s", "source": "x", "read": "full", "mechanism": "m", "limits": "l"}


def verdict(word, stratum="", claim="norm=rloo higher than norm=local, by at least 0.03", **more):
    for part in filter(None, [stratum]):
        claim = claim.replace(" higher", f",{part} higher").replace(", by", f",{part}, by")
    return {"claim": claim, "stratum": stratum, "verdict": word, "reason": "r", "direction": "higher", **more}


def record(study, *verdicts):
    return {"study": study, "verdicts": list(verdicts), "runs": 10, "no_verdict": "", "rows": "0", "seconds": 1}


def word(*records):
    return outcome(findings(records)).word


START = "start.accuracy={}".format


def test_a_page_says_of_each_source_how_much_was_read():
    claim = Claim(number="c01", **WORDS, needs="time", further={"another": "abstract"})
    assert "Source: x (read whole); another (only its abstract was read)." in page([claim], {})


def test_the_documents_that_the_tour_walks_through_were_read():
    read = {name: each for claim in CLAIMS for name, each in {claim.source: claim.read, **claim.further}.items()}
    own = [name for name in read if re.search("GRPO-TCR|CS336|four pillars", name)]
    assert len(own) == 2 and {read[name] for name in own} == {"full"}


def test_expectations_that_agree_are_the_claims_word_and_the_undecided_decide_nothing():
    same = record("c01", verdict("reproduced"), verdict("reproduced", START(0.2)), verdict("underpowered", START(0)))
    assert word(same) == "reproduced"
    assert outcome(findings([same])).text == "reproduced 2, underpowered 1"
    assert word(record("c01", verdict("underpowered"), verdict("not judged"))) == "underpowered"
    assert word(record("c01", verdict("not judged"))) == "not judged" and word() == "not run"
    open_ones = [verdict("underpowered", START(value)) for value in (0, 0.02)]
    assert word(record("c01", verdict("reproduced"), *open_ones)) == "mostly underpowered"


def test_one_expectation_that_turns_with_the_start_depends_on_it():
    found = findings([record("c01", verdict("reproduced", START(0.2)), verdict("practically equal", START(0.6)))])
    result = outcome(found)
    assert result.word == "depends on the start"
    assert result.boundaries == [
        "`norm=rloo higher than norm=local, by at least 0.03`: reproduced at 0.2; practically equal at 0.6"
    ]
    assert [each.place for each in found] == ["the start 0.2", "the start 0.6"]


def test_a_twin_with_another_optimiser_or_model_is_the_same_expectation():
    one, other = verdict("reproduced", START(0.2)), verdict("reversed", START(0.2))
    assert word(record("c01_x", one), record("c01_x_sgd", other)) == "depends on the optimiser"
    assert word(record("c01_x", one), record("c01_x_llama", other)) == "depends on the model"
    assert word(record("c01_x", one), record("c01_y", other)) == "in part"  # another study: not the same question
    elsewhere = verdict("reversed", START(0.6))  # start and optimiser both differ: neither is shown to turn it
    assert word(record("c01_x", one), record("c01_x_sgd", elsewhere)) == "in part"
    from_one_start = record("c01_x_sgd", verdict("reversed")) | {"in_one": {"start.accuracy": "0.2"}}
    assert word(record("c01_x", one, verdict("reproduced", START(0.6))), from_one_start) == "depends on the optimiser"


def test_what_was_asked_again_counts_in_place_of_the_first_answer_and_both_are_shown():
    first = record("c01_x", verdict("underpowered", START(0)), verdict("practically equal", START(0.2)))
    again = record("c01_x_more", verdict("reproduced")) | {"in_one": {"start.accuracy": "0"}}
    result = outcome(findings([first, again]))
    assert result.word == "depends on the start" and result.text == "reproduced 1, practically equal 1"
    elsewhere = again | {"in_one": {"start.accuracy": "0.6"}}
    assert outcome(findings([first, elsewhere])).text == "reproduced 1, practically equal 1, underpowered 1"
    twin = record("c01_x_sgd_more", verdict("reproduced"))
    assert outcome(findings([record("c01_x_sgd", verdict("underpowered")), twin])).text == "reproduced 1"
    rows = verdict_table(findings([first, again])).splitlines()
    assert rows[2].endswith("| underpowered, asked again below |")
    assert "| the start 0, other seeds | c01_x_more | r |" in rows[4]


def test_different_expectations_that_differ_hold_in_part():
    other = verdict("reversed", claim="norm=none higher than norm=local, by at least 0.03")
    assert word(record("c01", verdict("reproduced"), other)) == "in part"


def test_a_claim_of_which_nothing_is_reproduced_does_not_hold_in_part():
    starts = [verdict(each, START(value)) for value, each in ((0, "reversed"), (0.2, "not reproduced"))]
    assert word(record("c01", *starts)) == "not reproduced"
    assert word(record("c01", *starts, verdict("practically equal", START(0.6)))) == "depends on the start"
    assert word(record("c01", *starts, verdict("reproduced", START(0.6)))) == "depends on the start"
    other = verdict("practically equal", claim="norm=none higher than norm=local, by at least 0.03")
    assert word(record("c01", verdict("reversed"), other)) == "not reproduced"


def test_controls_and_identities_are_no_claims():
    given = record("c01", verdict("reproduced"), verdict("not reproduced", control=True))
    given["verdicts"].append(verdict("reproduced") | {"direction": "identical"})
    assert word(given) == "reproduced" and len(findings([given], checks=True)) == 2


def test_a_difference_is_drawn_towards_its_claim():
    sizes = {"estimate": -0.06, "low": -0.09, "high": -0.03, "minimum_effect": 0.03}
    assert signed_effect(verdict("x") | sizes) == pytest.approx((-2, -3, -1))
    assert signed_effect(verdict("x") | sizes | {"direction": "lower"}) == pytest.approx((2, 1, 3))
    assert signed_effect(verdict("x") | sizes | {"minimum_effect": 0}) is None
    assert signed_effect(verdict("x") | sizes | {"high": "inf"}) is None
    assert signed_effect(verdict("x") | sizes | {"direction": "above"}) is None
    words = ("reproduced", "not judged")
    assert [each.word for each, _ in drawn(findings([record("c", *(verdict(word) | sizes for word in words))]))] == [
        "reproduced"
    ]


def test_the_page_says_what_was_found_and_what_was_not_asked():
    asked = Claim(number="c01", **WORDS, studies=["norms"], practice="Do it.")
    other = Claim(number="d12", **WORDS, needs="Another universe.")
    text = page([asked, other], {"norms": record("norms", verdict("reproduced"))})
    assert "| [C1](#c1) | t | **reproduced** | reproduced 1 |" in text
    assert "| [D12](#d12) | t | not asked here | – |" in text and "Another universe." in text
    assert "Of the 1 that can be asked here: 1 reproduced" in " ".join(text.split())
    assert "Without a learning rate chosen for each arm: norms." in text
    tuned = record("norms", verdict("reproduced")) | {"best_of": ["lr"]}
    assert "Without a learning rate" not in page([asked], {"norms": tuned})
    assert "**For practice.** Do it." in text and "`rlexp study=norms`" in text
    assert "not run yet: `study=norms`" in page([asked], {})


@pytest.mark.parametrize(
    "change",
    [{"studies": ["no_such"]}, {}, {"studies": ["norms"], "quick": ["critic"]}],
    ids=["unknown", "none", "quick"],
)
def test_a_claim_without_a_study_or_a_reason_is_refused(change):
    with pytest.raises(ValueError, match="c01"):
        Claim(number="c01", **WORDS, **change)


def test_studies_are_chosen_by_claim_or_by_name():
    claims = [Claim(number="c01", **WORDS, studies=["norms", "critic"], quick=["critic"])]
    assert chosen(claims, ["c01"], quick=False) == ["critic", "norms"] and chosen(claims, [], quick=True) == ["critic"]
    assert chosen(claims, ["norms"], quick=False) == ["norms"]
    with pytest.raises(StudyFailed, match="nroms: is neither a claim nor a study of one; there are c01 and"):
        chosen(claims, ["nroms"], quick=False)


def test_starts_are_shared_and_the_clock_is_no_part_of_the_rows(tmp_path):
    share_starts(tmp_path / "one", tmp_path / "starts")
    (tmp_path / "starts" / "a.pt").write_text("weights")
    assert (tmp_path / "one" / "starts" / "a.pt").read_text() == "weights"
    hashes = []
    for clock, reward in ((1.0, 0.5), (2.0, 0.5), (1.0, 0.25)):
        run = tmp_path / "sweep" / "seed=1"
        run.mkdir(parents=True, exist_ok=True)
        row = {"step": 0, "reward": reward, "time/step": clock}
        (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        hashes.append(rows_hash(tmp_path / "sweep"))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_record_says_what_all_runs_share_of_what_the_study_would_compare_apart():
    study = {"within": ["start.accuracy", "start.entropy", "group_size"]}
    config = {"start": {"accuracy": 0.2, "entropy": 0.0}, "group_size": 16, "study": study}
    assert in_one(config, [""]) == {"start.accuracy": "0.2", "start.entropy": "0", "group_size": "16"}
    assert in_one(config, ["start.accuracy=0.2", "start.accuracy=0.6"]) == {"start.entropy": "0", "group_size": "16"}


def test_every_claim_of_the_issue_is_there_and_every_record_is_of_a_claim():
    assert [claim.label for claim in CLAIMS] == [f"C{n}" for n in range(1, 21)] + [f"D{n}" for n in range(1, 13)]
    assert set(stored()) <= set(studies_of(CLAIMS))


@pytest.mark.parametrize("name", sorted(stored()))
def test_a_record_is_of_the_study_as_it_is_written(name):
    """A study whose text was changed after it ran has to run again, or to be kept under its old name."""
    found = stored()[name]
    study = written(name)
    assert found["study_hash"] == study.hash
    assert verdicts_of(found) or found["no_verdict"]
    if name.endswith("_more"):  # what was left open, of twenty seeds that were never used
        first = stored()[name.removesuffix("_more")]
        left_open = {each.key for each in findings([first]) if each.word == "underpowered"}
        assert {each.key for each in findings([found])} <= left_open
        reported = {*found["seeds"]} - {*(study.choose_seeds or [])}
        assert len(reported) == 20 and not reported & {*first["seeds"]}


def test_the_page_is_generated():
    assert (ROOT / "docs" / "claims_explored.md").read_text(encoding="utf-8") == page(CLAIMS, stored())
    for claim in CLAIMS:
        raw = yaml.safe_load((HOME / "texts" / f"{claim.number}.yaml").read_text(encoding="utf-8"))
        assert raw["title"] == claim.title
