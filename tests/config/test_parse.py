"""What is typed becomes what Hydra reads, and a slip that shows in the text is answered with what to write."""

import pytest

from rlexp.config import parse
from rlexp.config.choices import no_key, no_such_choice
from rlexp.config.compose import CONF, composed, plain
from rlexp.core.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["hydra.run.dir=runs/x_1.2"], ["hydra.run.dir=runs/x_1.2"]),
        (["hydra.run.dir=my runs/x"], ["hydra.run.dir=my runs/x"]),
        (["hydra.run.dir=my runs/a=b,c"], ["hydra.run.dir='my runs/a=b,c'"]),
        (["hydra.run.dir='my runs/a=b,c'"], ["hydra.run.dir='my runs/a=b,c'"]),
        (["hydra.sweep.dir=it's (new)"], [r"hydra.sweep.dir='it\'s (new)'"]),
        (["hydra.run.dir=runs/${seed}"], ["hydra.run.dir=runs/${seed}"]),
        (["baseline=norm=local,lr=1"], ["baseline='norm=local,lr=1'"]),
        (["baseline=null"], ["baseline=null"]),
        (["-m", "teacher.run=a,b"], ["-m", "teacher.run=a,b"]),
        (["group_size=4"], ["group_size='4'"]),
        (["-m", "start=sft,flattened", "start.lr=0.3"], ["-m", "start=sft,flattened", "start.lr=choice(0.3)"]),
        (["-m", "start=sft", "start.accuracy=0.3"], ["-m", "start=sft", "start.accuracy=0.3"]),
        (["-m", "start=sft,flattened", "start.lr=1,2"], ["-m", "start=sft,flattened", "start.lr=1,2"]),
        (["-m", "norm=a,b", "clip.high=0.3"], ["-m", "norm=a,b", "clip.high=0.3"]),
        (["-m", "preset=gspo,sapo", "eval.ks=[1]"], ["-m", "preset=gspo,sapo", "eval.ks=[1]"]),
        (["-m", "preset=gspo,sapo", "clip.low=1e-3"], ["-m", "preset=gspo,sapo", "clip.low=choice(1e-3)"]),
        (["start=sft,flattened", "start.accuracy=0.3"], ["start=sft,flattened", "start.accuracy=0.3"]),
    ],
)  # fmt: skip
def test_what_hydra_reads(arguments, read):
    assert parse.for_hydra(arguments) == read


def test_a_folder_that_exists_is_one_teacher_and_not_several(tmp_path):
    folder = tmp_path / "norm=local,seed=0"
    assert parse.for_hydra([f"teacher.run={folder}"]) == [f"teacher.run={folder}"]
    folder.mkdir()
    assert parse.for_hydra([f"teacher.run={folder}"]) == [f"teacher.run='{folder}'"]


def test_records_hold_what_was_typed():
    assert parse.as_typed(["start.accuracy=choice(0.3)", "lr=choice(1,2)", "steps=5"]) == [
        "start.accuracy=0.3",
        "lr=choice(1,2)",
        "steps=5",
    ]


SLIPS = [
    (["-m", "seed=0,0,1"], "seed=0,0,1: 0 is named more than once"),
    (["-m", "study=a,b"], "study=a,b: a study is a sweep of its own; start them one after another"),
    (["-m", "group_size=4,4"], "group_size=4,4: 4 is named more than once"),
    (["-m", "lr=1e-3,0.001,2,2"], "lr=1e-3,0.001,2,2: 0.001, 2 are named more than once"),
    (["norm=[local,max]"], "norm=[local,max]: a run has one norm; to compare them write -m norm=local,max"),
    (["norm=a", "norm=b"], "norm=a norm=b: norm is given 2 times; to compare them write -m norm=a,b"),
    (["-m", "seed=0", "seed=1"], "seed=0 seed=1: seed is given 2 times; to compare them write -m seed=0,1"),
    (["--steps", "100"], "--steps: keys have no dashes; write steps=100"),
    (["--inner-steps=2"], "--inner-steps=2: keys have no dashes; write inner_steps=2"),
    (["--clip.high"], "--clip.high: keys have no dashes; write clip.high=..."),
    (["norm", "local"], "norm local: write norm=local, without spaces"),
    (["norm", "=", "local"], "norm = local: write norm=local, without spaces"),
    (["-m", "norm=local,", "max"], "norm=local, max: write norm=local,max, without a space"),
]


@pytest.mark.parametrize(("arguments", "line"), SLIPS, ids=[" ".join(arguments) for arguments, _ in SLIPS])
def test_a_slip_is_answered_with_what_to_write(arguments, line):
    with pytest.raises(ConfigError) as error:
        parse.check(arguments)
    assert error.value.problems == (line,)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config-name", "seed", "-m", "norm=local,max", "seed=range(0,3)", "eval.ks=[1,1]"],
        ["--cfg", "job", "~norm.eps", "+norm.eps=1", "seed=0", "seed=1", "hydra.run.dir=a=b"],
    ],
)
def test_what_is_right_passes(arguments):
    parse.check(arguments)


def test_a_value_given_twice_is_remarked_on():
    assert list(parse.remarks(["steps=5", "lr=1", "steps=7"])) == ["steps=5 steps=7: the last holds"]


def known(group):
    return [file.stem for file in (CONF / group).glob("*.yaml")]


@pytest.mark.parametrize(
    ("group", "choice", "hint"),
    [
        ("norm", "grpo", "did you mean preset=grpo or norm=gdpo? (rlexp explain norm has all "),
        ("preset", "gpro", "did you mean grpo? "),
        ("preset", "locall", "there are a2po, "),
        ("preset", "local", "did you mean norm=local?"),
        ("kl", "0.1", "a number is a key below it, as kl.coef=0.1. The choices: "),
        ("agg", "2", "there are bnpo, "),
        ("group_size", "3", "there are 2, 4, 8, 16, 32, 64; any other by value: group_size.completions=3 group_size"),
        ("group_size", "big", "there are 2, 4, 8, 16, 32, 64"),
    ],
)  # fmt: skip
def test_a_choice_that_does_not_exist(group, choice, hint):
    assert no_such_choice(group, choice, known(group)).startswith(f"{group}={choice}: no such choice; {hint}")


@pytest.fixture(scope="module")
def settings():
    return plain(composed())


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("nrm", "no such key; did you mean norm?"),
        ("eps", "no such key; did you mean norm.eps or optimizer.eps?"),
        ("completions", "no such key; did you mean group_size.completions?"),
        ("learning_rate", "no such key; learning_rate is lr here"),
        ("normalization", "no such key; normalization is norm here"),
        ("aggregation", "no such key; aggregation is agg here"),
        ("num_generation", "no such key; num_generations is group_size.completions here"),
        ("zzz", "no such key; there are advantage_clip, advantage_entropy_weight, agg, allocation, "),
        ("nrm.eps", "no such key; did you mean norm.eps?"),
        ("norm.epss", "no such key; did you mean eps?"),
        ("clip.zzz", "no such key; there are high, low"),
        ("start.accuracy", "the start that is chosen has no accuracy; there is one with start=flattened, mixture, "),
        ("filter.loss.share", "the filter that is chosen has no loss.share; there is one with filter=top_entropy"),
    ],
)  # fmt: skip
def test_a_key_that_does_not_exist(settings, key, hint):
    assert no_key(key, settings).startswith(hint)
