"""Whatever is wrong with what was typed ends in one line and exit code 2, and nothing is written."""

import os
import re
import subprocess
import sys

import pytest
from command import CONF, command  # noqa: F401 (a fixture)

from rlexp.axes import norm
from rlexp.config.compose import CONF as CHOICES
from rlexp.sweep import engine

pytestmark = pytest.mark.slow  # whole commands

NORMS = "there are " + ", ".join(sorted(file.stem for file in (CHOICES / "norm").glob("*.yaml")))
COUNT = NORMS.count(",") + 1
MISTAKES = [
    (["norm=typo"], f"norm=typo: no such choice; {NORMS}"),
    (["norm=locl"], f"norm=locl: no such choice; did you mean local? (rlexp explain norm has all {COUNT})"),
    (["norm=null"], f"norm=null: no such choice; {NORMS}"),
    (["nrm=local"], "nrm=local: no such key; did you mean norm?"),
    (["+nrm=local"], "nrm=local: no such key; did you mean norm?"),
    (["+norm=local"], "norm: is chosen already; to replace the choice write norm=... without a plus"),
    (["~norm.eps"], "~norm.eps: a default cannot be deleted; write norm.eps=... for another value"),
    (["~norm"], "~norm: a default cannot be deleted; write norm=... for another choice"),
    (["clip.hgh=2"], "clip.hgh=2: no such key; did you mean high?"),
    (
        ["group_size=10"],
        "group_size=10: no such choice; there are 2, 4, 8, 16, 32, 64; any other by value: "
        "group_size.completions=10 group_size.prompts=12",
    ),
    (["seed=1.5"], "seed=1.5: must be a whole number"),
    (["clip.high=-1"], "clip.high=-1: must be at least 0"),
    (
        ["clip=dpo", "norm=none", "group_size.completions=1"],
        "clip=dpo: prefers a completion to others of its group, and group_size.completions=1 leaves it none; take at "
        "least 2",
    ),
    (
        ["norm=rwr", "group_size.completions=1"],
        "norm=rwr: chooses among the completions of a group, and group_size.completions=1 leaves it no choice; take at "
        "least 2",
    ),
    (["task.cap=3"], "task.cap=3 leaves no room for 4 items and an end token: at least 5"),
    (["norm=local,global"], "norm=local,global: a sweep over several values needs -m"),
    (["eval.ks=1,2"], "eval.ks=1,2: a list is written eval.ks=[1,2]"),
    (["foo"], "foo: cannot be read as key=value, as norm=local"),
    (["agg=token", "agg=bnpo"], "agg=token agg=bnpo: agg is given 2 times; to compare them write -m agg=token,bnpo"),
    (
        ["-m", "hydra.run.dir=x"],
        "hydra.run.dir=x: is the folder of a single run, and this is a sweep; write hydra.sweep.dir=x",
    ),
    (
        ["hydra.sweep.dir=x"],
        "hydra.sweep.dir=x: is the folder of a sweep (-m), and this is a single run; write hydra.run.dir=x",
    ),
    (
        ["--config-name", "typo"],
        "--config-name: no other config is read; rlexp --from <folder> repeats the run of a folder",
    ),
    (["hydra/launcher=typo"], "hydra/launcher=typo: no such choice; there are basic, fused, processes, ray, slurm"),
    (["-m", "nrm=local"], "nrm=local: no such key; did you mean norm?"),
    (["-m", "seed=range(1,0)"], "seed=range(1,0): a sweep over nothing"),
    (["-m", "seed=0,1", "lr=-1"], "lr=-1: must be above 0"),
    (["-m", "norm=local,typo"], f"job 1 (norm=typo,seed=0) and 9 more: norm=typo: no such choice; {NORMS}"),
    (["-m", "clip.high=0.2,-1", "seed=4"], "job 1 (clip.high=-1,seed=4): clip.high=-1: must be at least 0"),
    (
        ["-m", "hydra.launcher.max_replicas=0"],
        "hydra.launcher.max_replicas=0: must be at least 1, or null for what fits memory",
    ),
    (
        ["-m", "hydra.job.chdir=true"],
        "hydra.job.chdir=true: jobs that train in one process share its folder; take hydra/launcher=basic",
    ),
]  # fmt: skip
EVERY = 4  # of so many, one is among the quick tests


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Make a mistake that is not found fail at once, not after a whole run."""
    monkeypatch.setattr(engine, "train_jobs", lambda jobs: pytest.fail("training started"))


CASES = [
    pytest.param(*case, id=" ".join(case[0]), marks=[pytest.mark.slow] * (n % EVERY > 0))
    for n, case in enumerate(MISTAKES)
]


@pytest.mark.parametrize(("arguments", "line"), CASES)
def test_a_mistake_is_one_line_and_writes_nothing(command, tmp_path, arguments, line):
    result = command(*arguments)
    assert (result.code, result.out, result.err) == (2, "", line + "\n")
    assert not any(tmp_path.iterdir())


def test_each_bad_job_is_named(command, tmp_path):
    result = command("-m", "clip.high=0.3,-1", "lr=-2,1", "seed=0")
    assert result.code == 2
    assert result.err.splitlines() == [
        "job 0 (clip.high=0.3,lr=-2,seed=0) and 1 more: lr=-2: must be above 0",
        "job 2 (clip.high=-1,lr=-2,seed=0) and 1 more: clip.high=-1: must be at least 0",
    ]
    assert not any(tmp_path.iterdir())


def test_two_jobs_never_share_a_folder(command):
    result = command("-m", "norm=local,global", "seed=0", "hydra.sweep.subdir=one")
    assert result.code == 2
    assert result.err.startswith("job 1 (norm=global,seed=0): would write to the folder of job 0 (norm=local,seed=0): ")


def test_jobs_of_a_sweep_agree_on_what_hydra_does(command, tmp_path):
    """Hydra refuses sweeps over its own node; a choice that is swept may still hold a part of it."""
    (tmp_path / "conf/norm").mkdir(parents=True)
    text = "# @package _global_\nnorm: {name: none}\nhydra: {sweeper: {max_batch_size: 2}}\n"
    (tmp_path / "conf/norm/mine.yaml").write_text(text)
    result = command("-m", "--config-dir", str(tmp_path / "conf"), "norm=none,mine", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 2 and not (tmp_path / "x").exists()
    ours, of_hydra_14 = "differs in its hydra node from the first job; ", "'hydra.sweeper' must be configured before"
    assert result.err.startswith(tuple(f"job 1 (norm=mine,seed=0): {line}" for line in (ours, of_hydra_14)))


@pytest.mark.parametrize("arguments", [["hydra.run.dir=file/x"], ["-m", "hydra.sweep.dir=file/x"]])
def test_a_folder_that_cannot_be_made(command, tmp_path, arguments):
    (tmp_path / "file").touch()
    result = command(*arguments)
    assert result.code == 2
    assert result.err == f"cannot write to {tmp_path}/file/x: {tmp_path}/file is not a folder\n"


@pytest.mark.parametrize("arguments", [["hydra.run.dir=old"], ["-m", "hydra.sweep.dir=.", "hydra.sweep.subdir=old"]])
def test_a_run_is_never_overwritten(command, tmp_path, arguments):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "metrics.jsonl").write_text("{}\n")
    result = command(*arguments, "seed=0")
    assert result.code == 2
    assert "old holds a run whose config.yaml is gone or damaged" in result.err
    assert (tmp_path / "old" / "metrics.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: local\nesp: 1e-6\nddof: 1\n", "norm.esp=1e-06: no such key; did you mean eps?\nnorm.eps: is missing\n"),
        ("name: locl\n", f"norm.name=locl: must be one of {', '.join(norm.FUNCTIONS)}\n"),
    ],
    ids=["hyperparameter", "name"],
)
def test_a_mistake_in_a_yaml_file(command, tmp_path, text, line):
    result = command("--config-dir", with_norm(tmp_path, text), "norm=mine")
    assert result.code == 2
    assert sorted(result.err.splitlines()) == sorted(line.splitlines())


def test_a_yaml_file_that_cannot_be_read(command, tmp_path):
    result = command("--config-dir", with_norm(tmp_path, "name: [local\n"), "norm=mine")
    assert result.code == 2
    # the parser differs with OmegaConf's version
    assert re.search(r"^\S*mine\.yaml, line 2: (did not find )?expected ',' or '\]'[^\n]*\n$", result.err)


def with_norm(tmp_path, text):
    folder = tmp_path / "conf" / "norm"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    return str(tmp_path / "conf")


def run(*arguments, **environment):
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


@pytest.mark.slow
def test_the_program_itself_ends_in_one_line(tmp_path):
    result = run("-m", f"hydra.sweep.dir={tmp_path}/x", "norm=local", "lr=-1", "seed=0")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "lr=-1: must be above 0\n"
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_the_traceback_is_there_for_those_who_ask():
    result = run("norm=typo", HYDRA_FULL_ERROR="1")
    assert result.returncode == 2
    assert "Traceback" in result.stderr and "MissingConfigException" in result.stderr


@pytest.mark.slow
def test_a_wrong_name_is_found_before_torch_is_imported():
    script = (
        "import sys; sys.argv = ['rlexp', 'nrm=local']\n"
        "from rlexp.train import main\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"
