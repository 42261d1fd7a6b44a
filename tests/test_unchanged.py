"""Whether two revisions leave the same bits: the comparison finds each kind of change, and everything is trained."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from benchmarks import unchanged
from benchmarks.parts.unchanged_compare import Comparison
from benchmarks.parts.unchanged_runs import (
    BASE,
    ELSEWHERE,
    MORE,
    NEEDS,
    NEEDS_PACKAGE,
    OF_LANGUAGE,
    choices,
    parsed,
    sweeps,
)

ROOT = Path(__file__).parents[1]
METRICS = [{"step": step, "loss": 0.1 + step, "clip/low": None, "time/step": 0.5} for step in (1, 2, 3)]
SAMPLES = [{"step": 0, "completion": "a b"}, {"step": 3, "completion": "a"}]
SUMMARY = {"status": "completed", "reason": None, "score": 0.25, "wall_time_s": 3.0}


def write_run(folder, overrides, metrics=METRICS, samples=SAMPLES, summary=SUMMARY):
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/overrides.yaml").write_text(yaml.safe_dump([*BASE.split(), *overrides]))
    for name, rows in {"metrics": metrics, "samples": samples}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "summary.json").write_text(json.dumps(summary))


def compared(tmp_path, **changes):
    """Compare two runs with two that are the same but for what is written otherwise in the second of them."""
    for side in ("old", "new"):
        for number, norm in enumerate(("local", "ema")):
            changed = changes if side == "new" and norm == "ema" else {}
            write_run(tmp_path / side / "norm" / str(number), [f"norm={norm}"], **changed)
    return Comparison.of(tmp_path / "old", tmp_path / "new", ["norm"])


def edited(rows, place, **values):
    return [row | values if number == place else row for number, row in enumerate(rows)]


def test_runs_that_differ_in_their_times_are_the_same(tmp_path):
    slower = edited(METRICS, 1, **{"time/step": 0.7, "time/total": 1.0})
    comparison = compared(tmp_path, metrics=slower, summary=SUMMARY | {"wall_time_s": 4.0})
    assert not comparison.problems
    assert comparison.summary(0) == "2 runs, 6 lines of metrics, 4 lines of samples: no bit differs"


NEXT = 1.1 + 2**-52  # the double after 1.1


@pytest.mark.parametrize(
    "changes, problem",
    [
        ({"metrics": edited(METRICS, 0, loss=NEXT)}, f"metrics.jsonl, line 1 (step 1): loss 1.1 → {NEXT!r}; 1 of 3"),
        ({"metrics": edited(METRICS, 2, **{"clip/low": float("nan")})}, "line 3 (step 3): clip/low None → nan; 1 of 3"),
        ({"metrics": METRICS[:2]}, "metrics.jsonl, line 3 only in old: 3 lines in old, 2 in new"),
        ({"metrics": edited(METRICS, 1, extra=-0.0)}, "line 2 (step 2): extra '(absent)' → -0.0; 1 of 3 lines differ"),
        ({"samples": edited(SAMPLES, 1, completion="b")}, "samples.jsonl, line 2 (step 3): completion 'a' → 'b'; 1 of"),
        ({"summary": SUMMARY | {"score": None}}, "summary.json, line 1: score 0.25 → None; 1 of 1 lines differ"),
        ({"summary": SUMMARY | {"status": "failed", "reason": "no luck"}}, "new: failed: no luck"),
    ],
)
def test_a_change_is_found_and_named(tmp_path, changes, problem):
    (line,) = compared(tmp_path, **changes).problems
    assert line.startswith("norm: norm=ema: ") and problem in line


def test_a_run_that_is_missing_is_found(tmp_path):
    compared(tmp_path)
    shutil.rmtree(tmp_path / "new/norm/1")
    assert Comparison.of(tmp_path / "old", tmp_path / "new", ["norm"]).problems == ["norm: norm=ema: only in old"]
    assert Comparison.of(tmp_path / "old", tmp_path / "new", ["clip"]).problems == ["old: clip: left no runs"]


def test_every_choice_is_trained():
    overrides = [item for sweep in sweeps(choices(ROOT), 3) for item in sweep.overrides.items()]
    trained = {f"{key}={value}" for key, values in overrides for value in values}
    defaults = yaml.safe_load((ROOT / "conf/config.yaml").read_text())["defaults"]
    trained |= {f"{axis}={name}" for each in defaults if each != "_self_" for axis, name in each.items()}
    there = {f"{path.parent.name}={path.stem}" for path in ROOT.glob("conf/*/*.yaml")}
    absent = {choice for choice, package in NEEDS_PACKAGE.items() if not find_spec(package)}
    assert there - OF_LANGUAGE - absent <= trained


def test_the_table_of_needs_names_what_there_is():
    known = choices(ROOT)
    for entry in [*NEEDS, *ELSEWHERE]:
        axis, _, name = entry.partition("=")
        assert axis in known and (not name or name in known[axis]), entry
    for words in [*NEEDS.values(), *MORE.values()]:
        for axis, names in parsed(words).items():
            assert axis not in known or set(names) <= {*known[axis], "*"}, words


def test_only_what_was_asked_for_is_trained():
    names = {sweep.name: sweep for sweep in sweeps(choices(ROOT), 5, only="teacher=a")}
    assert list(names) == ["taught", "teacher"]
    assert names["teacher"].overrides["teacher"] == ["added", "alone"]
    assert "steps=5" in names["taught"].arguments() and "-m" not in names["taught"].arguments()
    assert {"-m", "teacher.coef=choice(0.7)"} <= set(names["teacher"].arguments())
    _, alone = sweeps(choices(ROOT), 3, only="teacher=alone")  # choice() is for what is swept
    assert "-m" not in alone.arguments() and "teacher.coef=0.7" in alone.arguments()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with two norms, whose training writes what the tree says."""
    root = tmp_path / "project"
    (root / "conf/norm").mkdir(parents=True)
    for name in ("local", "ema"):
        (root / f"conf/norm/{name}.yaml").write_text(f"name: {name}\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)

    def train(tree, folder, sweep, reuse):
        for number, norm in enumerate(sweep.overrides.get("norm", [])):
            content = (tree / f"conf/norm/{norm}.yaml").read_text()
            write_run(folder / sweep.name / str(number), [f"norm={norm}"], metrics=[{"step": 1, "loss": content}])
        return ""

    monkeypatch.setattr(unchanged, "ROOT", root)
    monkeypatch.setattr(unchanged, "train", train)
    return root


def ended(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["unchanged", *arguments])
    with pytest.raises(SystemExit) as end:
        unchanged.main()
    return end.value.code, *capsys.readouterr()


def test_a_command_says_what_a_change_of_the_working_tree_does(project, monkeypatch, capsys):
    code, out, _ = ended(monkeypatch, capsys, "--only", "norm=")
    assert (code, out) == (0, "2 runs, 2 lines of metrics, 4 lines of samples: no bit differs\n")
    (project / "conf/norm/ema.yaml").write_text("name: other\n")
    (project / "conf/norm/new.yaml").write_text("name: new\n")
    code, out, _ = ended(monkeypatch, capsys, "--only", "norm=")
    assert code == 1 and out.splitlines()[0] == "only in new: norm=new"
    assert "norm: norm=ema: metrics.jsonl, line 1 (step 1): loss 'name: ema\\n' → 'name: other\\n'" in out
    assert out.endswith("4 lines of samples; problems: 1\n")
    (project / "conf/norm/ema.yaml").unlink()
    code, out, _ = ended(monkeypatch, capsys, "--only", "norm=")
    assert code == 1 and "norm=ema: missing in new" in out
    worktrees = subprocess.run(["git", "-C", str(project), "worktree", "list"], capture_output=True, text=True)
    assert len(worktrees.stdout.splitlines()) == 1


def test_a_command_that_fails_is_a_problem(project, monkeypatch, capsys):
    monkeypatch.setattr(unchanged, "train", lambda *_, reuse: "exit code 2: no such choice")
    code, out, _ = ended(monkeypatch, capsys, "--only", "norm=")
    assert code == 1 and "old: norm: exit code 2: no such choice\nnew: norm: exit code 2" in out


def test_a_command_sees_the_code_of_its_tree_only(tmp_path):
    """Not what is installed beside it, though plugins of all folders are one package."""
    tree, folder = tmp_path / "tree", tmp_path / "runs"
    for path in (tree / "rlexp/__init__.py", tree / "hydra_plugins/one/__init__.py", folder / "here"):
        path.parent.mkdir(parents=True)
        path.touch()
    says = "import sys, yaml, hydra_plugins\nsys.exit(f'{sys.argv[-1]} {list(hydra_plugins.__path__)}')"
    (tree / "rlexp/train.py").write_text(says)
    sweep = sweeps(choices(ROOT), 3, only="everything")[0]
    reason = unchanged.train(tree, folder, sweep)
    assert reason == f"exit code 1: {sweep.arguments()[-1]} [{str(tree / 'hydra_plugins')!r}]"
    log = folder / "everything.log"
    assert log.read_text().startswith("failed: ") and log.read_text().endswith("/hydra_plugins']\n")
    (tree / "rlexp/train.py").write_text("open('calls', 'a').write('x')")
    for reuse in (True, False, True):  # what failed is done again, what is there is used when that is allowed
        assert unchanged.train(tree, folder, sweep, reuse) == ""
    assert (folder / "calls").read_text() == "xx"


def test_bad_input_ends_in_one_line(project, tmp_path, monkeypatch, capsys):
    def line(*arguments):
        code, _, err = ended(monkeypatch, capsys, *arguments)
        assert code == 2
        return err

    assert line("--old", "nothing") == "nothing: no such revision\n"
    assert line("--new=-x") == "-x: no such revision\n"
    assert line("--workers", "0") == "--steps and --workers must be at least 1\n"
    assert line("--only", "nothing") == "--only nothing: nothing that is trained has this in its name\n"
    monkeypatch.setattr(unchanged, "ROOT", tmp_path)
    assert line() == f"{tmp_path}: not a git checkout\n"
