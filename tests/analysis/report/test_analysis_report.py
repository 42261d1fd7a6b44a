"""The page of a sweep: complete, escaped, and in a browser without an error or a request."""

import json
import re
import shlex

import pytest
from analysis_fixtures import write_lines
from command import command  # noqa: F401 (a fixture)
from figure_checks import check
from report_fixtures import ALL_CASES, CASES, SCRIPT, Page, fail, reports, write_case, write_report_sweep  # noqa: F401
from small_runs import SHORT
from wandb_files import finished, no_account  # noqa: F401 (a fixture that applies itself)

from rlexp.analysis.figures.gallery import FIGURES
from rlexp.analysis.report import page as page_module
from rlexp.analysis.report.__main__ import main
from rlexp.analysis.report.page import write_report

pytestmark = pytest.mark.slow  # whole runs


def page_of(folder, **choices):
    return Page(write_report(folder, **choices).path.read_text(encoding="utf-8"))


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes most of the time of a page."""
    monkeypatch.setattr("rlexp.analysis.figures.gallery.FIGURES", {})


RARE = {"8 variants", "20 variants", "group sizes"}


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.rare] * (case in RARE)) for case in ALL_CASES])
def test_every_figure_is_on_the_page_or_left_out_with_a_reason_and_nothing_overlaps(reports, case):
    written = reports(case)
    said = [each.title.split(",")[0] for each in (*written.figures, *written.omitted)]
    assert set(said) == {entry.title for entry in FIGURES.values()}
    page = Page(written.path.read_text(encoding="utf-8"))
    pictures = page.all("svg")
    assert len(pictures) >= len(written.figures) and all(picture["role"] == "img" for picture in pictures)
    alternatives = [picture["aria-label"] for picture in pictures]
    for drawn in written.figures:
        assert f"{drawn.title}. {drawn.caption} {drawn.alt_text}" in alternatives
        assert len(drawn.alt_text) > 5
        check(drawn.figure)
    for absent in written.omitted:
        assert f"{absent.title}: {absent.reason}." in page.text


def test_the_weights_of_losses_are_found_where_variants_are_arms_within_tasks(reports):
    (figure,) = [rendered for rendered in reports("tasks").figures if rendered.name == "clip"]
    assert figure.alt_text == "weights of ppo,low=0.2,high=0.2; ppo,low=0.2,high=0.28"


@pytest.mark.rare  # draws the page of twenty variants
def test_a_page_of_a_hundred_runs_is_below_five_megabytes(reports):
    written = reports("20 variants")
    assert len(written.answer.data.runs) >= 100 and written.path.stat().st_size < 5e6


def test_ids_are_unique_and_every_reference_has_its_target(reports):
    html = reports("8 variants").path.read_text()
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', html)) <= set(ids)


def test_text_from_names_and_completions_is_escaped(tmp_path):
    folder = write_case(tmp_path / "sweep", "markup")
    samples = folder / "norm=local,seed=0" / "samples.jsonl"
    samples.write_text(samples.read_text().replace("0 & 3", "0 & 3\\u0000\\u202e", 1))
    html = write_report(folder, baseline=SCRIPT).path.read_text()
    page = Page(html)
    assert len(page.all("script")) == 1 and html.count("<script") == 1
    assert page.all("b") == [] and "<b>0 & 3</b>" in page.text
    assert "<b>0 & 3\\u0000\\u202e</b>" in page.text and "\0" not in html
    assert "<script>alert(1)" in page.text.replace("< script", "<script")


@pytest.mark.usefixtures("no_figures")
def test_failed_collapsed_and_damaged_runs_are_listed_with_the_reason(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 4)
    fail(folder, "norm=global,seed=2")
    (folder / "norm=hybrid,seed=1" / "metrics.jsonl").open("a").write('{"step": 40, "rew')
    summary = folder / "norm=local,seed=0" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"score": 0.01, "collapsed": True}))
    text = page_of(folder).text
    assert "norm=global,seed=2 failed or damaged diverged: diverged by step 7: loss/total is nan" in text
    assert "norm=hybrid,seed=1 failed or damaged metrics.jsonl: 1 damaged line skipped" in text
    assert "norm=local,seed=0 collapsed score 0.01 is below the floor" in text


@pytest.mark.usefixtures("no_figures")
def test_what_differs_between_the_variants_is_shown_and_what_does_not_is_folded_away(tmp_path):
    text = page_of(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)).text
    assert "norm clip.high norm.name local 0.2 local global 0.28 global hybrid 0.2 hybrid" in text
    assert "clip.low 0.2" in text and "seed 0" not in text.split("The same in all variants")[1].split("Failed")[0]


@pytest.mark.usefixtures("no_figures")
def test_of_twenty_variants_only_the_answer_is_unfolded(tmp_path):
    page = page_of(write_report_sweep(tmp_path / "sweep", CASES["20 variants"], 2, 4))
    assert page.text.index("What was asked") < page.text.index("How sure") < page.text.index("Comparison")
    assert [tag for tag in page.all("details") if "open" in tag] == []
    assert len([tag for tag in page.all("details") if tag.get("class") == "variant"]) == 20


@pytest.mark.usefixtures("no_figures")
def test_a_metric_with_one_value_is_text_and_no_curve(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"][:2], 1, 4)
    for file in folder.glob("*/metrics.jsonl"):
        write_lines(file, [json.loads(line) | {"length/mean": 4} for line in file.read_text().splitlines()])
    page = page_of(folder)
    assert page.text.count("The same at every step: length/mean 4.") == 2
    assert not [svg for svg in page.all("svg") if svg["aria-label"].startswith("length/mean")]


@pytest.mark.usefixtures("no_figures")
def test_samples_of_three_moments_are_shown_for_each_run(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"][:2], 2)
    page = page_of(folder)
    for step in (0, 20, 40):
        assert page.text.count(f"After {step} steps") == 4
    line = json.loads((folder / "norm=local,seed=1" / "samples.jsonl").read_text().splitlines()[-1])
    assert f"{line['prompt']} {line['completion']}" in page.text
    assert f"{line['reward']:.2f} {line['advantage']:+.2f}".replace("-", "−") in page.text


@pytest.mark.usefixtures("no_figures")
def test_long_completions_are_cut(tmp_path):
    page = page_of(write_report_sweep(tmp_path / "sweep", CASES["3 variants"][:2], 1, text="7 " * 5000))
    assert len(page.text) < 100_000 and "…" in page.text


@pytest.mark.usefixtures("no_figures")
def test_the_command_is_hydras_without_the_folder(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)
    overrides = {"task": ["norm=local,global,hybrid", "seed=range(0,3)"]}
    overrides |= {"hydra": ["hydra.sweep.dir=/x", "hydra.mode=MULTIRUN"]}
    (folder / "multirun.yaml").write_text(json.dumps({"hydra": {"overrides": overrides}}))
    (command,) = [text for text in page_of(folder).words if text.startswith("python -m rlexp.train -m")]
    assert shlex.split(command)[3:] == ["-m", "norm=local,global,hybrid", "seed=range(0,3)"]


@pytest.mark.usefixtures("no_figures")
def test_of_many_runs_the_odd_ones_come_first_and_the_page_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MAX_RUN_SECTIONS", 20)
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 9, 20)
    fail(folder, "norm=hybrid,seed=8")
    page = page_of(folder)
    assert len([tag for tag in page.all("details") if tag.get("class") == "run"]) == 20
    assert "norm=hybrid,seed=8: diverged" in page.text and "for 20 of 27 runs" in page.text


def test_the_command_line_says_where_the_page_is_and_what_is_missing(tmp_path, capsys, monkeypatch):
    few = {name: FIGURES[name] for name in ("entropy", "heatmap")}
    monkeypatch.setattr("rlexp.analysis.figures.gallery.FIGURES", few)
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)
    assert main([str(folder), "--figures", str(tmp_path / "figures")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == str(folder / "analysis" / "report.html")
    assert "left out: Two axes together: needs a sweep over exactly two axes" in "\n".join(out)
    assert {path.suffix for path in (tmp_path / "figures").glob("entropy.*")} == {".svg", ".pdf", ".png"}
    fail(folder, "norm=global,seed=2")
    assert main([str(folder)]) == 1
    assert main([str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_same_data_give_the_same_page(tmp_path):
    folder = write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3)
    assert write_report(folder).path.read_bytes() == write_report(folder).path.read_bytes()


@pytest.mark.slow
def test_a_sweep_ends_with_its_page_and_its_mirror_is_what_its_files_say(command, tmp_path):  # noqa: F811 (the fixture)
    quick = ["task=sort_lecture", "model=positional", "group_size.prompts=3", "minibatches=1", "eval.prompts=3"]
    given = [option for option in SHORT if not option.startswith(("eval.prompts", "logger"))]
    result = command("-m", "norm=none,center", "seed=0,1", *given, *quick, "logger=wandb")
    (line,) = [line for line in result.out.splitlines() if line.startswith("page: ")]
    assert result.code == 0 and result.out.index(line) < result.out.index("What was asked: ")
    assert "notes on how the numbers were made" in result.out and "The score of a run is" not in result.out
    path = tmp_path / line.removeprefix("page: ")
    page = Page(path.read_text())
    assert page.text.count("After 1 steps") == 4 and "norm=none,center" in page.text
    runs = [file.parent for file in path.parents[1].glob("*/metrics.jsonl")]
    assert len(runs) == 4
    for run in runs:
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        sent = [each for each in finished(run).rows if "completions/_type" not in each]  # a table beside the metrics
        mirrored = [{key: each[key] for key in each if key[0] != "_"} for each in sent]
        assert mirrored == rows and len(rows) == 3
        assert any(None in each.values() for each in rows)  # what does not exist is null in both
    (row,) = finished(path.parents[1]).rows
    logged = {"comparison/_type", "runs/_type", "figures/intervals/_type"}
    assert {key for key in row if key.endswith("/_type")} >= logged
