"""The command line of rlexp.analysis.compare: its options, its files, its exit codes."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import METRIC, random_scores, write_sweep
from compare_command import no_figures, run  # noqa: F401 (a fixture that applies itself)

from rlexp.analysis.compare import main, parse
from rlexp.analysis.data.run_values import Budget
from rlexp.analysis.report.tables import TextTable, latex
from rlexp.analysis.stats.endpoints import Endpoint

SQUARE = [f"norm={norm},clip={clip}" for norm in ("local", "hybrid") for clip in ("symmetric", "higher")]


@pytest.fixture
def square(tmp_path):
    return write_sweep(tmp_path / "square", random_scores(SQUARE, 8), 10)


def test_the_options_are_read():
    given = parse("a b --where x=1,2 --where y=3 --by norm,clip --within none --best-of lr --choose-seeds 0,2".split())
    assert given["folders"] == ["a", "b"] and given["where"] == ["x=1,2", "y=3"]
    assert (given["by"], given["within"], given["best_of"]) == (("norm", "clip"), (), ("lr",))
    assert given["choose_seeds"] == (0, 2)
    assert parse("a --at tokens=5e3".split())["at"] == Budget("tokens", 5000)
    assert parse("a --endpoint matched:eval/x=0.9".split())["endpoint"] == Endpoint(
        "matched", metric="eval/x", value=0.9
    )
    assert parse(["a", "--at", "time"])["at"] == Budget("time")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--at", "money", "'money' is no budget; choose one of: steps  updates  rollouts  tokens  verdicts  time"),
        ("--at", "tokens=many", "'many' is no number"),
        (
            "--endpoint",
            "cost:accuracy",
            "--endpoint cost:accuracy: 'cost:accuracy' is no endpoint; allowed: final[:BUDGET]  auc",
        ),
        ("--endpoint", "cost:collapsed>=1", "collapsed is of a whole run: it has no curve, and so no cost"),
        ("--matched", "accuracy=0.9", "noise decides; say --endpoint 'cost:accuracy>=0.9:steps' for what it costs, or"),
        ("--choose-seeds", "0,a", "expected numbers, as 0,1,2"),
        ("--wide", "agg", "'agg' is not one of the two axes: norm  clip"),
        ("--endpoint", "matched:lunch=1", "no run logged 'lunch'; choose one of: reward/mean"),
        ("--by", "agg", "'agg' does not vary"),
    ],
)
def test_a_wrong_option_is_one_line_exit_2_and_writes_nothing(square, capsys, option, value, message):
    code, _, error = run(capsys, square, option, value)
    assert code == 2 and message in error and error.count("\n") == 1 and not (square / "analysis").exists()


def test_wide_needs_something_to_lay_out(square, capsys):
    code, _, error = run(capsys, square, "--by", "norm", "--wide", "norm")
    assert code == 2 and "nothing to lay out wide by 'norm'" in error


def test_two_axes_give_interactions_and_wide_tables(square, capsys):
    place = square / "analysis/wide=norm,baseline=norm=hybrid,clip=higher"
    code, text, _ = run(capsys, square, "--wide", "norm", "--baseline", "norm=hybrid,clip=higher")
    assert code == 0 and "interactions: difference of differences" in text and "clip \\ norm" in text
    names = {path.name for path in place.iterdir()}
    assert names >= {f"{table}.{ending}" for table in ("table", "interactions") for ending in ("csv", "md", "tex")}
    assert names >= {"wide.csv", "wide.md", "wide_iqm.tex", "wide_difference.tex", "runs.csv", "fewer_seeds.csv"}
    wide = pd.read_csv(place / "wide.csv", header=[0, 1], index_col=0)
    assert wide.loc["higher", ("difference", "hybrid")] == 0.0
    assert wide.loc["symmetric", ("difference", "local")] < 0
    text = (place / "wide_iqm.tex").read_text()
    assert "\\toprule\nclip \\textbackslash{} norm & local & hybrid" in text
    assert pd.read_csv(place / "interactions.csv")[["norm", "clip"]].to_numpy().tolist() == [["local", "symmetric"]]


def test_tasks_are_printed_apart_and_pooled(tmp_path, capsys):
    names = [f"norm={norm},task={task}" for task in ("sort", "copy") for norm in ("local", "hybrid")]
    folder = write_sweep(tmp_path, random_scores(names, 5), 4)
    code, text, _ = run(capsys, folder)
    title = f"{METRIC} (higher is better), "
    assert code == 0 and all(title + part in text for part in ("task=sort", "task=copy", "pooled"))
    assert "table puts 2 strata together" in text and "task=sort: With" not in text
    table = pd.read_csv(folder / "analysis/table.csv")
    assert table["stratum"].tolist() == ["task=sort"] * 2 + ["task=copy"] * 2 + ["pooled"] * 2
    assert table["n_pairs"].tolist() == [0, 5, 0, 5, 0, 10]
    assert (folder / "analysis/table.tex").read_text().count("task=copy") == 2
    assert (folder / "analysis/wide.csv").exists()


def test_two_sweeps_with_different_metrics_use_the_good_runs_and_exit_1(tmp_path, capsys):
    one = write_sweep(tmp_path / "one", random_scores(["norm=a"], 3), 4)
    two = write_sweep(tmp_path / "two", random_scores(["norm=b", "norm=a"], 3), 4)
    for path in two.glob("norm=b*/summary.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"score_metric": "eval/reward"}))
    code, text, _ = run(capsys, one, two)
    assert code == 1 and "scored by eval/reward, most others by eval/greedy_accuracy" in text
    assert "Not counted, as an earlier run has the same variant and seed: two/norm=a,seed=0" in text
    place = one / "analysis/with=two"
    table = pd.read_csv(place / "table.csv", index_col="variant")
    assert table["n"].tolist() == [3, 0] and not (one / "analysis/table.csv").exists()
    code, text, _ = run(capsys, one, two, "--metric", "eval/reward")
    place = one / "analysis/with=two,metric=eval_reward"
    assert code == 1 and pd.read_csv(place / "table.csv")["n"].tolist() == [3, 3]


def test_sweeps_can_be_compared_with_each_other(tmp_path, capsys):
    folders = [write_sweep(tmp_path / name, random_scores(["norm=a", "norm=b"], 4), 4) for name in ("one", "two")]
    code, _, _ = run(capsys, *folders, "--by", "sweep", "--out", tmp_path / "out")
    table = pd.read_csv(tmp_path / "out/table.csv", index_col="variant")
    assert code == 0 and table.index.tolist() == ["sweep=one", "sweep=two"]
    assert table.loc["sweep=two", ["difference", "p"]].tolist() == [0, 1]


def test_only_what_is_asked_for_is_parsed_and_it_makes_no_difference(square, capsys):
    options = ("--endpoint", "cost:accuracy>=0.4:tokens", "--where", "clip=higher")
    run(capsys, square, *options, "--out", square / "out")
    few = pd.read_csv(square / "out/table.csv")
    for path in square.glob("*/metrics.jsonl"):  # now every line names the metric
        path.write_text(path.read_text().replace('"reward/mean"', f'"{METRIC}/other"'))
    run(capsys, square, *options, "--out", square / "out")
    pd.testing.assert_frame_equal(few, pd.read_csv(square / "out/table.csv"))
    assert np.isfinite(few["mean"]).all()


def test_arms_at_an_equal_budget_are_told(square, capsys):
    code, text, error = run(capsys, square, "--by", "norm", "--at", "rollouts")
    assert (code, error) == (0, "") and "At equal rollouts: the rows up to 640 rollouts" in text


def test_every_ascii_character_survives_latex(tmp_path):
    if not (shutil.which("pdflatex") and shutil.which("pdftotext")):
        pytest.skip("pdflatex and pdftotext are missing (apt-get install texlive-latex-recommended poppler-utils)")
    names = ["a=!#$%&()*+./:;<=>?@[]^_{|}~", r"a=\begin{x}", "a='quoted'", "[1e-3,--,---]", "* a", '"']
    text = latex(TextTable(["a_b \\ c", "50 %"], [[name, "−0.1 ± ∞"] for name in names]))
    page = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + text + r"\end{document}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    command = ["pdftotext", "-raw", "page.pdf", "-"]
    shown = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    typeset = str.maketrans("^~_", "ˆ˜ ")  # as the standard font has them
    assert [name for name in names[:5] if name.translate(typeset) not in shown] == []


def test_a_row_that_starts_with_a_bracket_is_no_argument_of_latex():
    lines = latex(TextTable(["task.sizes", "≥ × b"], [["[1,2]", "a\nb"], ["*", "[x]"]])).split("\n")
    assert lines[2] == r"task.sizes & $\geq$ $\times$ b \\"
    assert lines[4:6] == [r"{}[1,2] & a b \\", r"{}* & {}[x] \\"]


def test_wrong_arguments_are_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: the following arguments are required: folder (rlexp compare --help)\n"
