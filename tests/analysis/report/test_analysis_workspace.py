"""What Weights & Biases is given: a workspace as code, and a run with tables and figures, both without a server."""

import json
import re
from pathlib import Path

import pytest
import yaml
from analysis_fixtures import random_scores, write_sweep
from report_fixtures import CASES, write_report_sweep
from wandb_files import finished, no_account  # noqa: F401 (a fixture that applies itself)

from rlexp.analysis.data.load import load
from rlexp.analysis.report.page import write_report
from rlexp.analysis.report.wandb import log_aggregate, mirrored, tables
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.workspace import SECTIONS, main

pytestmark = pytest.mark.slow  # whole runs

workspaces = pytest.importorskip("wandb_workspaces.workspaces", reason="wandb-workspaces is not installed")
ROOT = Path(__file__).parents[3]
LOGGER = {"name": "wandb", "mode": "offline", "project": "ours", "entity": None, "tags": ["study"]}


@pytest.fixture
def sweep(tmp_path) -> Path:
    folder = write_report_sweep(tmp_path / "norms", CASES["3 variants"], 3)
    for file in folder.glob("*/config.yaml"):
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"logger": LOGGER}))
    return folder


def test_sections_by_kind_runs_by_variant_and_a_comparer(sweep, capsys):
    assert main([str(sweep)]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == sweep / "analysis" / "workspace.json"
    view = json.loads(path.read_text())
    assert (view["project"], view["displayName"]) == ("ours", "norms")
    sections = {each["name"]: each["panels"] for each in view["spec"]["section"]["panelBankConfig"]["sections"]}
    shown = {name for name in SECTIONS if name in sections}
    assert shown == {"Rewards", "KL", "Entropy", "Lengths", "Progress", "Time"}  # nothing else is logged in this sweep
    curves = {panel["config"]["metrics"][0]: panel["config"] for name in shown for panel in sections[name]}
    assert {"eval/greedy_accuracy", "kl/ref_exact", "policy/entropy", "length/wrong"} <= set(curves)
    assert {(curve["xAxis"], curve["groupBy"]) for curve in curves.values()} == {("step", "variant.value")}
    assert sections["What differs between runs"][0]["viewType"] == "Run Comparer"
    assert '"val": "completions"' in json.dumps(sections["Completions"])
    (runs,) = view["spec"]["section"]["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["variant.value"]
    (only,) = runs["filters"]["filters"]
    assert (only["key"]["name"], only["value"]) == ("sweep_name", "norms")


def test_every_metric_has_a_section():
    keys = re.findall(r"^\| `([^`]+/[^`]+)` \|", (ROOT / "docs/metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
    prefixes = tuple(prefix for section in SECTIONS.values() for prefix in section)
    assert len(keys) > 40 and [key for key in keys if not key.startswith(prefixes)] == []


def test_the_file_can_be_read_back_into_a_workspace(sweep):
    main([str(sweep)])
    from wandb_workspaces.workspaces.internal import View

    text = (sweep / "analysis" / "workspace.json").read_text()
    found = workspaces.Workspace._from_model(View.model_validate_json(text))
    assert found.name == "norms" and "KL" in [section.name for section in found.sections]


def test_pushing_without_a_login_is_one_line_and_the_file_is_there(sweep, capfd):
    assert main([str(sweep), "--push"]) == 2
    said = capfd.readouterr()
    assert "wandb login" in said.err and said.err.count("\n") == 1 and Path(said.out.strip()).exists()


def test_the_sweeps_tables_and_figures_are_a_run_of_their_own(sweep):
    page = write_report(sweep)
    assert mirrored(page.answer.data)
    log_aggregate(page.answer, page.figures)
    found = finished(sweep)
    run = found.run
    assert (run.project, run.display_name, run.job_type) == ("ours", "norms-comparison", "aggregate")
    assert list(run.tags) == ["study", "comparison"] and found.exit_code == 0
    (row,) = found.rows
    logged = {key.split("/")[1] for key in row if key.startswith("figures/")}
    assert logged == {figure.name for figure in page.figures}
    (file,) = sweep.glob("wandb/offline-run-*/files/media/table/comparison_*.json")
    table = json.loads(file.read_text())
    assert [line[0] for line in table["data"]] == ["local", "global", "hybrid"]
    assert table["data"][0][table["columns"].index("difference [95 %]")] == "baseline"


def test_pooled_rows_and_interactions_are_among_the_tables(tmp_path):
    names = [f"task={t},norm={n},clip={c}" for t in ("sort", "copy") for n in "ab" for c in "cd"]
    found = answer(load(write_sweep(tmp_path, random_scores(names, 3), 4)), Question())
    logged = tables(found)
    assert list(logged) == ["comparison", "interactions_task_sort", "interactions_task_copy"]
    assert [row[0] for row in logged["comparison"].rows] == ["task=sort"] * 4 + ["task=copy"] * 4 + ["pooled"] * 4
    assert logged["interactions_task_copy"].rows[0][0] == "norm=b × clip=d"


@pytest.mark.parametrize("logger", [{"name": "none"}, LOGGER | {"mode": "disabled"}, None])
def test_a_sweep_that_was_not_mirrored_is_not(sweep, logger):
    for file in sweep.glob("*/config.yaml"):
        file.write_text(yaml.safe_dump({"seed": 0, "logger": logger}))
    assert not mirrored(write_report(sweep).answer.data)
