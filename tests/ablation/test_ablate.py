"""An ablation is trained once, goes on where it stopped, and ends in a line where the question is wrong."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from engine_double import engine_of  # noqa: F401 (a fixture)
from scipy.integrate import trapezoid
from small_runs import SHORT, SMALL
from statsmodels.stats.multitest import multipletests

from rlexp.ablation import train
from rlexp.ablation.__main__ import main, read, seeds_of
from rlexp.ablation.train import ablate
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.report.ablation import command, write_files
from rlexp.analysis.stats.ablation import ABLATION_FILE, analyze
from rlexp.analysis.stats.rates import rate_grid
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.runfolder.variants import run_name

pytestmark = pytest.mark.slow  # whole sweeps
TINY = [*SHORT, *SMALL]
PARTS = "clip=higher,agg=sequence"


def test_what_a_start_decides_can_be_written_with_its_number(tmp_path):
    """`${start.seed}` is each run's own, from the first check on, and makes no other variant."""
    given = [*TINY, "warmup_steps=${start.seed}"]
    asked = dict(parts="agg=sequence", designs=["add-one"], starts=2, seeds=1, overrides=given, folder=tmp_path / "x")
    found = ablate(**asked)
    runs = [yaml.safe_load(path.read_text()) for path in (tmp_path / "x").glob("*/config.yaml")]
    assert sorted((run["start"]["seed"], run["warmup_steps"]) for run in runs) == [(0, 0)] * 2 + [(1, 1)] * 2
    assert len(found.data.variants) == 2 and {*found.effects["n"]} == {2}
    assert ablate(**asked).effects.equals(found.effects)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ablation") / "x"
    ablate(
        parts=PARTS, designs=["factorial", "add-one", "leave-one-out", "ladder"], seeds=3, overrides=TINY, folder=place
    )
    return place


def test_all_arms_are_trained_once_each_and_every_design_is_answered(folder):
    runs = [path.parent.name for path in folder.glob("*/summary.json")]
    assert len(runs) == 4 * 3
    found = analyze(folder)
    assert [found.label(arm) for arm in found.arms] == ["baseline", "clip=higher", "agg=sequence", "recipe"]
    kinds = found.effects.groupby("kind", sort=False).size().to_dict()
    each = dict.fromkeys(["main effect", "added first", "removed last", "step", "Shapley value"], 2)
    assert kinds == {"whole recipe": 1, "interaction": 1} | each
    assert json.loads((folder / ABLATION_FILE).read_text())["hash"]


def test_starts_are_counted_and_share_no_seed(tmp_path):
    """An arm's number from a start is the mean score of its runs; the command that goes on says how many there were."""
    found = ablate(parts="agg=sequence", designs=["add-one"], starts=3, seeds=2, overrides=TINY, folder=tmp_path / "x")
    read = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "x").glob("*/summary.json")}
    runs = [*read.values()]
    assert len(runs) == 2 * 3 * 2 and {run["variant"] for run in runs} == set(found.data.variants)
    by_arm = [sorted(run["seed"] for run in runs if run["variant"] == variant) for variant in found.data.variants]
    assert by_arm == [[0, 1, 2, 3, 4, 5]] * 2
    assert {*found.effects["n"]} == {3} and found.data.unit == "start"
    for arm, names in found.folders.items():
        for start, name in enumerate(names[0]):
            scores = [run["score"] for place, run in read.items() if place.startswith(f"{name},")]
            row = found.data.runs.set_index("name").loc[name]
            assert len(scores) == 2 and row["score"] == pytest.approx(np.mean(scores)) and row["seed"] == start, arm
    assert "--starts 3 --seeds 2" in command(found) and "the 3 starts" in found.notes[0]
    assert {path.suffix for path in write_files(found)} >= {".html", ".csv", ".svg"}


def test_interactions_and_collapses_share_one_false_discovery_rate(folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "x")
    for path in place.glob("*/summary.json"):  # all runs with agg=sequence collapse, and no other
        summary = json.loads(path.read_text())
        kept = {key: value for key, value in summary.items() if key not in ("format", "checksum")}  # changed by hand
        path.write_text(json.dumps(kept | {"collapsed": "agg=sequence" in summary["variant"]}))
    found = analyze(place)
    counts = found.levels[["collapsed", "collapsed_of", "collapse_p"]].to_numpy()
    np.testing.assert_array_equal(counts, [[0, 3, np.nan], [0, 3, 1], [3, 3, 0.25], [3, 3, 0.25]])
    effects = found.effects.set_index("kind")
    p = [effects.loc["interaction", "p"], 1, 0.25, 0.25]
    q = [effects.loc["interaction", "q"], *found.levels["collapse_q"].iloc[1:]]
    np.testing.assert_allclose(q, multipletests(p, method="fdr_bh")[1])
    assert (effects["q"].isna() == effects["p_holm"].notna()).all() and effects["q"].notna().sum() == 1
    assert any("over all 4 (Benjamini" in note for note in found.notes)
    text = "".join(file.read_text() for file in write_files(found) if file.suffix in (".md", ".html"))
    assert "| part | difference [95 %] | q (BH) |  |" in text and "| 3/3 |" in text
    assert "collapsed" not in analyze(folder).levels  # where all runs did, or none, there is nothing to tell


def test_an_effect_is_that_of_the_runs_scores(folder):
    """By another way: scores from the summaries, log-odds with half a completion added, paired means."""
    found = analyze(folder)
    prompts = found.data.config["eval"]["prompts"]

    def scores(*overrides):
        files = [folder / run_name([*overrides, f"seed={seed}"]) / "summary.json" for seed in range(3)]
        right = np.array([json.loads(path.read_text())["score"] for path in files]) * prompts
        return np.log((right + 0.5) / (prompts - right + 0.5))

    part = found.effects.set_index(["kind", "parts"]).loc[("added first", "agg=sequence")]
    difference = scores(*TINY, "agg=sequence") - scores(*TINY)
    assert part["effect"] == pytest.approx(difference.mean())
    assert part["error"] == pytest.approx(difference.std(ddof=1) / np.sqrt(3))


def test_an_endpoint_is_the_number_of_a_run(folder, tmp_path):
    """The area under the curve, against trapezoids of the rows."""
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    written = json.loads((copied / ABLATION_FILE).read_text())
    written["declared"]["endpoint"] = "auc"
    del written["checksum"]
    (copied / ABLATION_FILE).write_text(json.dumps(written))
    found = analyze(copied)

    def areas(*overrides):
        heights = []
        for seed in range(3):
            text = (copied / run_name([*overrides, f"seed={seed}"]) / "metrics.jsonl").read_text()
            rows = [row for row in map(json.loads, text.splitlines()) if "eval/greedy_accuracy" in row]
            x, y = np.array([[row["step"], row["eval/greedy_accuracy"]] for row in rows]).T
            heights.append(trapezoid(y, x) / (x[-1] - x[0]))
        return found.scale.forward(np.array(heights))

    part = found.effects.set_index(["kind", "parts"]).loc[("added first", "clip=higher")]
    assert found.metric.metric == "eval/greedy_accuracy, auc"
    assert part["effect"] == pytest.approx((areas(*TINY, "clip=higher") - areas(*TINY)).mean())


def test_the_same_call_trains_nothing_again_and_another_question_is_refused(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/metrics.jsonl")}
    asked = {"designs": ["factorial", "add-one", "leave-one-out", "ladder"], "overrides": TINY, "folder": folder}
    ablate(parts=PARTS, seeds=3, **asked)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/metrics.jsonl")} == before
    with pytest.raises(ConfigError, match=r"x: asks another question \(seeds was \[0, 1, 2\], not \[0, 1\]\)"):
        ablate(parts=PARTS, seeds=2, **asked)


def test_what_changes_no_number_is_no_part_of_the_question(folder):
    asked = {"designs": ["factorial", "add-one", "leave-one-out", "ladder"], "folder": folder}
    ablate(parts=PARTS, seeds=3, overrides=[*TINY, "resume=failed", "hydra.launcher.workers=1"], **asked)


def test_a_run_that_failed_is_no_run_of_score_0(tmp_path, engine_of):  # noqa: F811
    engine_of(lambda job: RunFailed("disk full") if job.config.seed == 1 else 0.5)
    with pytest.raises(RunFailed, match=r"2 runs in .* did not complete \(.*seed=1: disk full\); .* resume=failed"):
        ablate(parts="agg=sequence", designs=["add-one"], seeds=2, overrides=TINY, folder=tmp_path / "x")


def test_a_length_that_a_run_lacks_has_no_stand_in(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    written = json.loads((copied / ABLATION_FILE).read_text())
    written["declared"] |= {"metric": "eval/length"}
    del written["checksum"]
    (copied / ABLATION_FILE).write_text(json.dumps(written))
    shutil.rmtree(copied / run_name([*TINY, "agg=sequence", "seed=1"]))
    with pytest.raises(AnalysisError, match="agg=sequence: 1 of 3 runs have no eval/length, which cannot count as 0"):
        analyze(copied)


def test_a_damaged_declaration_ends_in_a_line(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    text = (copied / ABLATION_FILE).read_text()
    (copied / ABLATION_FILE).write_text(text.replace('"clip=higher"', '"clip=cispo"'))
    with pytest.raises(RunFailed, match="ablation.json is damaged"):
        analyze(copied)


def test_a_grid_grows_where_the_best_is_at_its_end(folder, tmp_path, monkeypatch):
    """Of two arms one is best at any rate, the other at 4: both are trained at all rates, so that neither has more."""
    trained, real = [], analyze(folder)

    def scored(file, hydra, wanted, *rest):
        trained.append(list(dict.fromkeys(arm for arm, _ in wanted)))

    def found(folder):
        written = json.loads((folder / ABLATION_FILE).read_text())
        values = written["values"]
        grids = {
            frozenset(arm["parts"]): rate_grid(values, np.outer(np.minimum(values, most), np.ones(3)))
            for arm, most in zip(written["arms"], (1.0, 4.0), strict=True)
        }
        return real._replace(grids=grids, smallest=0.1)

    monkeypatch.setattr(train, "train_arms", scored)
    monkeypatch.setattr(train, "analyze", found)
    ablate(parts="agg=sequence", designs=["add-one"], tune="lr=1,2", seeds=3, folder=tmp_path / "x")
    assert trained[0] == ["lr=1", "lr=2", "agg=sequence,lr=1", "agg=sequence,lr=2"]
    assert [each.rpartition("=")[2] for each in trained[-1]] == ["1", "2", "4", "8"] * 2
    assert len(trained) == 3, "one rate at a time, until the curve is flat at its end"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"parts": "clip=higer"}, "clip=higer: no such choice; did you mean higher?"),
        ({"parts": PARTS, "starts": 1}, "--starts 1: must be at least 2; a difference from one start has no interval"),
        ({"parts": PARTS, "seeds": 1}, "--seeds 1: must be at least 2; a difference of one seed has no interval"),
        (
            {"parts": PARTS, "tune": "norm"},
            "--tune norm: norm must be a number above 0 to have a geometric grid, as lr",
        ),
        ({"parts": PARTS, "tune": "lr=1e-3"}, "--tune lr=1e-3: must be at least two numbers above 0"),
        ({"parts": PARTS, "tune": "lr=a,b"}, "--tune lr=a,b: must be numbers, as lr=1e-4,3e-4,1e-3"),
        (
            {"parts": PARTS, "tune": "lr", "overrides": ["lr=1e-3"]},
            "--tune lr: lr=1e-3 fixes it; leave one of them out",
        ),
        ({"parts": PARTS, "budget": "days=2"}, "--budget days=2: must be steps=<number> or completions=<number>"),
        ({"parts": PARTS, "budget": "completions=5"}, "--budget completions=5: a step has 128 completions"),
        ({"parts": "norm=gae,agg=sequence", "designs": ["add-one"]}, "parts that need each other are joined with [+]"),
        (
            {"parts": PARTS, "designs": ["ladder"], "order": ["clip=higher"]},
            "--ladder clip=higher: must name each part once",
        ),
        (
            {"parts": PARTS, "designs": ["all"]},
            "all: no such design; there are add-one, leave-one-out, ladder, factorial",
        ),
        ({}, "name a recipe, as preset=dapo --against preset=grpo, or its --parts; one of the two"),
    ],
)
def test_a_wrong_question_ends_before_anything_is_written(tmp_path, asked, said):
    with pytest.raises(ConfigError, match=said):
        ablate(folder=tmp_path / "x", **asked)
    assert not [*tmp_path.iterdir()]


def test_the_command_prints_the_tables_and_writes_the_page(folder, capsys):
    main(
        [
            *"--factorial --add-one --leave-one-out --ladder --seeds 3".split(),
            "--parts",
            PARTS,
            "--with",
            *TINY,
            "--folder",
            str(folder),
        ]
    )
    out = capsys.readouterr().out
    assert "What was asked: what are 2 parts worth, added to the default run?" in out and "main effect:" in out
    names = {path.name for path in (folder / "ablation").iterdir()}
    assert names == {f"parts.{kind}" for kind in ("svg", "pdf", "png")} | {
        *("effects.csv", "arms.csv", "runs.parquet", "curves.parquet", "datapackage.json", "README.md"),
        *("ablation.md", "ablation.json", "ablation.html", "recompute.ipynb"),
    }
    assert len(pd.read_parquet(folder / "ablation" / "runs.parquet")) == 4 * 3


@pytest.mark.parametrize("named", [["--folder", "runs/x"], []])
def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch, named):
    monkeypatch.chdir(tmp_path)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train_arms", stopped)
    with pytest.raises(SystemExit) as end:
        main(["--parts", "clip=higher", *named, "--with", *TINY])
    (folder,) = (tmp_path / "runs").iterdir()
    said = capsys.readouterr().err.strip().removeprefix("interrupted; go on with: rlexp ablate ")
    assert end.value.code == 130 and read(shlex.split(said)).folder == f"runs/{folder.name}"


def test_seeds_are_counted_or_listed():
    assert (seeds_of("8"), seeds_of("100,101")) == (8, [100, 101])
    with pytest.raises(ConfigError, match="--seeds 1-3: must be a whole number, or several, as 100,101,102"):
        seeds_of("1-3")


def test_the_command_ends_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["preset=dapo", "--against", "preset=dapo"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "preset=dapo: is the same run as preset=dapo\n"
    assert not [*tmp_path.iterdir()]


def test_a_declared_smallest_effect_serves_a_scale_that_has_none_of_its_own(tmp_path):
    found = ablate(
        parts="clip=higher",
        designs=["add-one"],
        tune="lr=1e-3,2e-3",
        seeds=2,
        metric="reward/mean",
        smallest=10.0,
        overrides=TINY,
        folder=tmp_path / "x",
    )
    assert found.scale.name == "identity" and found.smallest == 10.0
    assert set(found.effects["word"]) == {"no material effect"} and set(found.levels["edge"]) == {""}


def test_what_all_arms_share_may_be_written_in_any_way(tmp_path):
    """Hydra's sweeper would write True, None and 0.1 instead, and no run would be found under its name."""
    shared = [*TINY, "filter.refill.rounds=1", "grad_clip=null", "lr_final=1e-1", "compile=false"]
    found = ablate(parts="clip=higher", designs=["add-one"], seeds=2, overrides=shared, folder=tmp_path / "x")
    assert found.levels["n"].tolist() == [2, 2] and not [note for note in found.notes if "no number" in note]
    assert found.levels.loc["baseline", "mean"] == pytest.approx(found.data.runs["score"].iloc[:2].mean())
    written = json.loads((tmp_path / "x" / ABLATION_FILE).read_text())
    written["arms"][1]["overrides"][0][-1] = "clip=other"
    (tmp_path / "x" / ABLATION_FILE).write_text(json.dumps(written))
    with pytest.raises(AnalysisError, match="no run of recipe is there"):
        analyze(tmp_path / "x")
