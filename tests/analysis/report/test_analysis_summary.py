"""The plain-language summary: what was asked, what came out, how sure."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import write_lines, write_sweep
from report_fixtures import write_flat_sweep
from rich.console import Console

from rlexp.analysis.data.load import load
from rlexp.analysis.report.summary import Summary, summarize
from rlexp.analysis.report.tables import print_answer, print_files
from rlexp.analysis.stats.answer import Question, answer

RNG = np.random.default_rng(0)
LOCAL = (0.6 + RNG.normal(0, 0.02, 10)).round(4)
SHIFTS = (0, 0.1, 0.2, -0.2, 0.3, 0.4, 0.5)
SAME = LOCAL + RNG.normal(0, 0.02, 10).round(4)


def summary_of(folder: Path, **question) -> Summary:
    data = load(folder)
    return summarize(data, answer(data, Question(**question)))


def test_a_clear_win_is_named_with_its_size_and_the_rest_is_not_called_equal(tmp_path):
    folder = write_sweep(tmp_path, {"norm=local": LOCAL, "norm=hybrid": LOCAL + 0.1, "norm=global": SAME}, 4)
    asked, found, sure = summary_of(folder)
    assert asked.startswith("Which choice of norm is best by eval/greedy_accuracy (higher is better)?")
    assert "3 variants ran with 10 seeds each, and are compared with local, seed by seed." in asked
    assert found[0].startswith("hybrid is better than local: +0.100 on average (95 % interval +0.100 to +0.100).")
    assert "Not told apart from local: global." in found[0] and "local itself reaches 0.6" in found[0]
    assert sure[-1].startswith("That hybrid differs from local is hardly luck of the seeds: p (Holm) is 0.00")
    assert "“Not told apart” is not “equal”" in sure[-1] and "four times out of five" in sure[-1]


def test_several_claims_come_with_the_better_ones_first(tmp_path):
    scores = {f"norm={name}": LOCAL + shift for name, shift in zip("abcdefg", SHIFTS, strict=True)}
    _, found, sure = summary_of(write_sweep(tmp_path, scores, 4))
    better = "Better than a: g +0.50 [+0.50, +0.50], f +0.40 [+0.40, +0.40], e +0.30 [+0.30, +0.30], c "
    assert found[0].startswith(better) and "and 1 more. d is worse than a: −0.20 on average" in found[0]
    assert sure[-1].startswith(
        "That g, f, e, c and 2 more differ from a is hardly luck of the seeds: p (Holm) is at most"
    )


def test_no_difference_is_said_with_what_could_have_been_missed(tmp_path):
    _, found, sure = summary_of(write_sweep(tmp_path, {"norm=global": SAME, "norm=local": LOCAL}, 4))
    assert found[0].startswith(
        "No variant can be told apart from global. The largest difference is that of local, +0.00"
    )
    assert sure[-1].startswith("“Not told apart” is not “equal”: these seeds find a true difference of 0.0")


@pytest.mark.parametrize(("seeds", "first"), [(2, "A first look only"), (5, "Not sure")])
def test_too_few_seeds_say_how_many_it_takes(tmp_path, seeds, first):
    scores = {"norm=local": LOCAL[:seeds], "norm=hybrid": LOCAL[:seeds] + 0.3}
    _, found, sure = summary_of(write_sweep(tmp_path, scores, 4))
    assert found[0].startswith("No variant can be told apart from local, as there are too few seeds.")
    assert sure[-1].startswith(
        f"{first}: with {seeds} shared seeds no difference, however large, can be told from luck"
    )
    assert "a claim takes 6 seeds" in sure[-1]


def test_where_nothing_was_learned_nothing_is_said_of_the_variants(tmp_path):
    folder = write_flat_sweep(tmp_path / "flat")
    _, found, sure = summary_of(folder)
    assert found == ["Nothing was learned: every run ended below the floor of the score (the highest has 0.000)."]
    assert sure[-1].startswith("What the variants change is still open")
    for file in folder.glob("*/summary.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"score": 1.0, "collapsed": False}))
    assert summary_of(folder)[1] == ["No variant differs: every run ended with eval/greedy_accuracy at 1.000."]


def test_the_floor_of_the_score_says_nothing_of_another_metric(tmp_path):
    """Answers get longer while none is right: that is a difference, and no contradiction to its verdict."""
    folder = write_sweep(tmp_path / "flat", {"norm=a": 0 * LOCAL, "norm=b": 0 * LOCAL}, 4)
    for file in folder.glob("*/summary.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"collapsed": True}))
    for file in folder.glob("*/metrics.jsonl"):
        value = 7 + float(LOCAL[int(file.parent.name.rpartition("=")[2])]) + 5 * ("norm=b" in file.parent.name)
        write_lines(file, [{"step": 1, "eval/length": value, "eval/clipped": 0.0, "eval/greedy_accuracy": 0.0}])
    _, found, sure = summary_of(folder, metric="eval/length")
    assert found[0].startswith("b is higher than a: +5.0 on average") and "Nothing was learned" not in found[0]
    floor = "below the floor of its score (eval/greedy_accuracy): these are policies that have not learned the task."
    assert found[0].endswith(f"Every run ended {floor}")
    assert sure[-1].startswith("That b differs from a is hardly luck of the seeds")
    notes = answer(load(folder), Question(metric="eval/length")).notes
    assert found[0].endswith(notes[0]) and not [note for note in notes if "nothing was learned" in note]
    assert summary_of(folder, metric="eval/clipped")[1][0].startswith("No variant differs: every run ended")
    assert summary_of(folder)[1] == [
        "Nothing was learned: every run ended below the floor of the score (the highest has 0.000)."
    ]


def test_a_cost_is_better_low_and_a_description_has_no_better_end(tmp_path):
    folder = write_sweep(tmp_path, {"norm=a": LOCAL, "norm=b": LOCAL}, 4)
    for file in folder.glob("*/metrics.jsonl"):
        value = float(LOCAL[int(file.parent.name.rpartition("=")[2])]) + ("norm=b" in file.parent.name)
        write_lines(file, [{"step": 1, "kl/ref_exact": value, "policy/entropy": value}])
    asked, found, _ = summary_of(folder, metric="kl/ref_exact")
    assert "best by kl/ref_exact (lower is better)" in asked and found[0].startswith("b is worse than a: +1.00")
    asked, found, _ = summary_of(folder, metric="policy/entropy")
    assert asked.startswith("What does norm change in policy/entropy?") and found[0].startswith("b is higher than a")


def test_strata_have_a_line_each_and_lost_runs_one_of_their_own(tmp_path):
    scores = {f"norm={n},task={t}": LOCAL[:7] + (n == "b" and t == "sort") for t in ("sort", "copy") for n in "ab"}
    folder = write_sweep(tmp_path, scores, 4)
    lost = folder / "norm=b,task=copy,seed=1/summary.json"
    lost.write_text(json.dumps(json.loads(lost.read_text()) | {"status": "diverged", "score": None}))
    asked, found, sure = summary_of(folder)
    assert "apart for task=sort and task=copy?" in asked and len(found) == 3 and len(sure) == 3
    assert found[0].startswith("task=sort: b is better than a: +1.00") and found[1].startswith("task=copy: No variant")
    assert found[2] == "1 of 28 runs did not complete (1 diverged), and counts nowhere."
    assert sure[0].startswith("Two single runs must differ by 0.0") and sure[1].startswith("task=sort: ")


def test_confidence_begins_with_the_luck_of_the_seeds_once(tmp_path):
    """Arms that rise and fall together have one SD, with n − 1 degrees of freedom: t(9) = 2.262, t(5) = 2.571."""
    _, _, sure = summary_of(write_sweep(tmp_path / "a", {"norm=local": LOCAL, "norm=hybrid": LOCAL + 0.1}, 4))
    bound = 2.262157 * LOCAL.std(ddof=1) * np.sqrt(2)
    said = "Two single runs must differ by {} in eval/greedy_accuracy to be told apart from luck of the seed (95 %), "
    assert sure[0] == said.format(f"{bound:.4f}") + "means of the same 10 seeds by 0.0000." and len(sure) == 2
    scores = {f"norm={n},task={t}": LOCAL[:6] * (t == "copy") + LOCAL[6:9].repeat(2) * (t == "sort") + 0.1 * (n == "b")
              for t in ("sort", "copy") for n in "ab"}  # fmt: skip
    _, _, sure = summary_of(write_sweep(tmp_path / "b", scores, 4))
    ends = sorted(2.570582 * np.sqrt(2) * np.std(each, ddof=1) for each in (LOCAL[:6], LOCAL[6:9].repeat(2)))
    assert sure[0].startswith(said.format(f"{ends[0]:.4f} to {ends[1]:.4f}") + "means of the same 6 seeds by 0.0000")
    assert len(sure) == 2 and sure[1].startswith("Not sure"), "both strata say the same"


def test_the_terminal_begins_with_it_and_leaves_notes_to_a_page_and_files_to_a_line(tmp_path):
    data = load(write_sweep(tmp_path, {"norm=local": LOCAL, "norm=[red]": SAME}, 4))
    console = Console(file=StringIO(), width=200)
    found = answer(data, Question())
    print_answer(console, data, found, page="analysis/report.html")
    print_files(console, [Path("a/table.csv"), Path("a/table.md"), Path("a/effects.svg")], "a")
    text = console.file.getvalue()
    assert text.startswith("What was asked: Which choice of norm") and "[red]" in text
    assert f"{len(found.notes)} notes on how" in text and "analysis/report.html" in text and found.notes[0] not in text
    assert text.endswith("a: table (csv md)  effects (svg)\n")


def test_an_arm_that_collapses_more_often_is_named(tmp_path):
    scores = {"norm=local": LOCAL, "norm=hybrid": LOCAL - 0.55}
    _, found, _ = summary_of(write_sweep(tmp_path, scores, 4))
    assert "hybrid collapses more often: 10/10 runs, local 0/10, q (BH) = 0.002." in found
