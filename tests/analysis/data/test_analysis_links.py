"""Nothing is read or written outside of the folder that was named, and a terminal is told nothing by its name."""

import json
from pathlib import Path

import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis import compare, load, transfer, watch
from rlexp.analysis.report.__main__ import main as report
from rlexp.analysis.report.page import write_report

SCORES = {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}
SECRET = "a secret of mine"


def transferred(words):
    again = write_sweep(Path(words[0]).parent / "again", SCORES, steps=10)
    return transfer.main([str(again), *words])


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path / "sweep", SCORES, steps=10)


@pytest.fixture
def other(tmp_path) -> Path:
    folder = write_sweep(tmp_path / "other", {"norm=none": [0.1, 0.2, 0.3]}, steps=10)
    (folder / "secret.yaml").write_text(f"task: {{name: sort, token: {SECRET}}}\n")
    (folder / "secret.jsonl").write_text(json.dumps({"prompt": SECRET, "completion": SECRET, "step": 1}) + "\n")
    return folder


@pytest.mark.parametrize(
    "name", ["{other}/norm=none,seed=0", "../other/norm=none,seed=0", "norm=local,seed=0/../../other"]
)
@pytest.mark.slow
def test_an_index_names_no_other_folder(sweep, other, name, capsys):
    name = name.format(other=other)
    with open(sweep / "jobs.jsonl", "a") as file:
        file.write(json.dumps({"name": name, "status": "completed", "seed": 0, "variant": "norm=none"}) + "\n")
    data = load(sweep)
    assert (name, "lies outside of the folder that was named: not read") in data.problems
    assert "norm=none" not in data.variants and len(data.runs) == 6
    assert compare.main([str(sweep)]) == 1 and "lies outside of the folder" in capsys.readouterr().out


def test_a_link_to_another_run_is_not_followed(sweep, other):
    (sweep / "norm=none,seed=0").symlink_to(other / "norm=none,seed=0")
    data = load(sweep)
    assert [problem.run for problem in data.problems] == ["norm=none,seed=0"] and len(data.runs) == 6
    (sweep.parent / "linked").symlink_to(sweep)
    assert len(load(sweep.parent / "linked").runs) == 6  # what is named itself is


@pytest.mark.parametrize(
    "name, target",
    [("config.yaml", "secret.yaml"), ("samples.jsonl", "secret.jsonl"), ("metrics.jsonl", "secret.jsonl")],
)
def test_a_page_shows_nothing_that_a_link_leads_to(sweep, other, name, target):
    for run in sweep.glob("norm=*"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(other / target)
    (sweep / "multirun.yaml").symlink_to(other / "secret.yaml")
    assert SECRET not in write_report(sweep).path.read_text()
    assert not load(sweep).metrics.astype(str).eq(SECRET).any(axis=None)


@pytest.mark.slow
def test_tables_and_pages_are_not_written_through_links(sweep, tmp_path):
    compare.main([str(sweep)])
    report([str(sweep)])
    (tmp_path / "mine").write_text("mine")
    written = sorted((sweep / "analysis").iterdir())
    for path in written:
        path.unlink()
        path.symlink_to(tmp_path / "mine")
    assert compare.main([str(sweep)]) == 0 and report([str(sweep)]) == 0
    assert (tmp_path / "mine").read_text() == "mine" and not any(path.is_symlink() for path in written)


@pytest.mark.parametrize("command", [compare.main, report, transferred])
def test_a_folder_of_results_that_is_a_link_is_one_line(sweep, tmp_path, command, capsys):
    (tmp_path / "mine").mkdir()
    (sweep / "analysis").symlink_to(tmp_path / "mine")
    assert command([str(sweep)]) == 2
    assert "leads out of" in capsys.readouterr().err and not [*(tmp_path / "mine").iterdir()]


@pytest.mark.slow
def test_a_list_of_written_files_removes_none_elsewhere(sweep, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (sweep / "analysis").mkdir()
    names = ["../../mine", str(tmp_path / "mine"), "..", ".", "", "a\0b", 5, None]
    (sweep / "analysis" / "comparison.json").write_text(json.dumps({"files": names}))
    assert compare.main([str(sweep)]) == 0 and (tmp_path / "mine").read_text() == "mine"


@pytest.mark.slow
def test_the_name_of_a_folder_is_printed_as_text(tmp_path, capsys):
    folder = write_sweep(tmp_path / "a\x1b]0;owned\x07\x1b[2J\nb", SCORES, steps=10)
    for command in (compare.main, report, watch.main):
        command([str(folder)])
    compare.main([str(folder / "nothing")])
    transferred([str(folder)])
    printed = capsys.readouterr()
    assert "owned" in printed.out + printed.err
    assert not [code for code in ("\x1b]", "\x1b[2J", "\x07") if code in printed.out + printed.err]
