"""Input that nobody means: it ends in one line too, before anything is written or a machine is filled."""

import re

import pytest
from command import command  # noqa: F401 (a fixture)

from rlexp.config import parse
from rlexp.config.compose import compose
from rlexp.core.errors import ConfigError
from rlexp.launch.checks import planning_notes
from rlexp.sweep import engine
from rlexp.sweep.build import bytes_of, memory_problem

pytestmark = pytest.mark.slow  # whole commands

ABSURD = [
    (["lr=${nope}"], "lr=${nope}: takes its value from nope, which is not there"),
    (["-m", "lr=${nope}", "seed=0"], "lr=${nope}: takes its value from nope, which is not there"),
    (["lr=${oc.env:NOPE}"], "lr=${oc.env:NOPE}: takes its value from NOPE, which is not there"),
    (["lr=${nope:1}"], "lr=${nope:1}: takes its value from nope, which is not there"),
    (["+=a b"], "'+=a b': has no key; write key=value, as norm=local"),
    (["=a"], "'=a': has no key; write key=value, as norm=local"),
    (["~"], "'~': has no key; write key=value, as norm=local"),
    ([""], "'': has no key; write key=value, as norm=local"),
    (["model=[1,2]"], "model=[1,2]: model=1: no such choice; a number is a key below it, as model.width=1"),
    (["model=[gru,tabular]"], "a run has one model; to compare them write -m model=gru,tabular"),
    (["task=../norm/local"], "task=../norm/local: a choice is a name, not a path; rlexp explain task lists them"),
    (["hydra.callbacks.rlexp=null"], "checks every run before it starts, and cannot be changed"),
    (["hydra.run.dir=null"], "hydra.run.dir=null: must not be null"),
    (["hydra.run.dir=" + "a" * 5000], "File name too long"),
    (["~hydra/job_logging"], "hydra/job_logging: nothing is chosen; leave it, or choose one"),
    (["-m", "hydra.launcher=null"], "hydra.launcher=null: a sweep needs one; hydra/launcher=basic is Hydra's own"),
    (["-m", "hydra.sweeper.max_batch_size=0"], "max_batch_size=0: must be at least 1, or null for all"),
    (["+a=" + "[" * 2000 + "]" * 2000], "brackets are nested too deeply"),
    (["--foo"], "unrecognized arguments: --foo (rlexp --help, rlexp --hydra-help)"),
    (["-p", "lr=1"], "--package lr=1: is of --cfg, and would be ignored without it"),
    (["lr=1", "-p"], "argument --package/-p: expected one argument"),
    (["--cfg", "typo"], "argument --cfg/-c: invalid choice: 'typo'"),
    (["seed=100000000000000000000000"], "seed=100000000000000000000000: must be at most 9223372036854775807"),
    (["steps=1000000000000000000000000000"], "must be at most 2147483647"),
    (["model.width=1000000000", "model.heads=1"], "model.width=1000000000: must be at most 65536"),
    (["group_size.completions=1000000000"], "group_size.completions=1000000000: must be at most 65536"),
    (["group_size.completions=65536", "group_size.prompts=65536"], "one run takes about "),
    (["-m", "group_size.completions=65536", "group_size.prompts=65536"], "one run takes about "),
    (["model.width=65536", "model.layers=1024"], "one run takes about "),
    (["model=tabular", "task=bandit", "task.actions=65536", "task.easy=65536"], "at most 16777216 numbers in a table"),
    (["task=enumerable", "task.symbols=65536", "task.cap=65536"], "makes too many strings of 65536 symbols"),
    (["-m", "seed=range(0,100000000000)"], "makes 100000000000 runs, more than 10000; if they are meant, write hydra."),
    (["-m", "seed=range(0,1000)", "lr=range(1,1000)"], "seed=range(0,1000) lr=range(1,1000): makes 999000 runs, more"),
    (["-m", "reference.rate=range(0,100000)"], "makes 1000000 runs, more than 10000; if they are meant, write hydra."),
    (["-m", "seed=0", "lr=range(0,100000)"], "write hydra.launcher.max_runs=100000\n"),
    (["-m", "norm=glob(*)", "clip=glob(*)", "agg=glob(*)", "seed=0"], "norm=glob(*) clip=glob(*) agg=glob(*): makes "),
    (["-m", "seed=0,1,2", "hydra.launcher.max_runs=2"], "seed=0,1,2: makes 3 runs, more than 2; if they are meant"),
    (["-m", "seed=range(0,3,0)"], "seed=range(0,3,0): never ends, as its step is 0"),
    (["-m", "seed=0,1", "hydra.launcher.max_runs=0"], "max_runs=0: must be at least 1, or null for any number"),
    (["-m", "hydra/launcher=basic", "+hydra.launcher.max_replicas=2"], "max_replicas: BasicLauncher has no such key"),
    ([" norm=rlo,ooooo", "lr=1"], "norm=rlo,ooooo: cannot be read as key=value"),
    (["task=text"], "no such choice; with backend=trl every task is text, as task=sort"),
]


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Make a mistake that is not found fail at once, not after a whole run."""
    monkeypatch.setattr(engine, "train_jobs", lambda jobs: pytest.fail("training started"))


@pytest.mark.slow  # much is composed
@pytest.mark.parametrize(("arguments", "text"), ABSURD, ids=[" ".join(arguments)[:60] for arguments, _ in ABSURD])
def test_it_is_one_line_and_writes_nothing(command, tmp_path, recwarn, arguments, text):
    result = command(*arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err and result.err.count("\n") == 1
    assert not re.search("Traceback|Error:|HYDRA_FULL_ERROR|Exception", result.err)
    assert not any(tmp_path.iterdir()) and not [each for each in recwarn if "Callback" in str(each.message)]


def test_as_many_runs_as_are_meant_are_planned_and_it_is_said_that_it_takes_a_while():
    sweep = [parse.parse_override(override) for override in ("lr=range(1,1001)", "seed=range(0,3)", "seed=0")]
    for most in (1000, None):
        parse.check_size(sweep, most)  # of a key that is given twice the last holds
    with pytest.raises(ConfigError, match=r"^lr=range\(1,1001\): makes 1000 runs, more than 999; .*max_runs=1000$"):
        parse.check_size(sweep, 999)
    assert [*planning_notes([["lr=1", f"seed={seed}"] for seed in range(30)])] == []
    (note,) = planning_notes([[f"lr={number}", "seed=0"] for number in range(1000)])
    assert note == "1000 runs of 1000 variants are composed and checked, which takes about 110 s"


def test_a_choice_whose_file_is_a_list(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("conf") / "task"
    folder.mkdir()
    (folder / "mine.yaml").write_text("- 1\n")
    result = command("--config-dir", str(folder.parent), "task=mine")
    line = "score.metric: takes its value from `metric` of a choice whose file has no keys and values\n"
    assert (result.code, result.err) == (2, line)


def test_options_may_stand_anywhere(command):
    """Python's parser takes overrides in one stretch only."""
    result = command("norm=local", "-m", "lr=-1", "seed=0")
    assert (result.code, result.err) == (2, "lr=-1: must be above 0\n")
    arguments = ["norm=local", "-m", "lr=1", "--config-dir", "here", "-p"]
    assert parse.options_first(arguments) == ["-m", "norm=local", "lr=1", "--config-dir", "here", "-p"]


def test_what_fits_is_not_refused():
    """The estimate is from above, and only what is far above the machine is refused."""
    assert memory_problem(compose("group_size=64", "model.width=512", "model.heads=8")) is None
    assert bytes_of(compose("model.width=65536", "model.layers=1000")) > 1e12  # counted, not made


def test_a_seed_may_be_as_large_as_the_streams_take():
    assert compose("seed=9223372036854775807").seed == 2**63 - 1
    with pytest.raises(ConfigError, match="at most"):
        compose("seed=9223372036854775808")
