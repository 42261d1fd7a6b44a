"""`hydra/sweeper=search`: Optuna asks for batches of trials, each trained over the same seeds and told by its mean."""

import math
from importlib.util import find_spec

import pytest
from command import command  # noqa: F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows

from rlexp.launch import hooks
from rlexp.launch import search as launch_search

SEARCH = ["-m", "preset=tiny", "hydra/sweeper=search", "seed=0,1", "hydra.sweep.dir=x"]
RATES = "lr=tag(log,interval(1e-4,1e-1))"
SHORT = ["hydra.sweeper.trials=6", "hydra.sweeper.batch=2"]


@pytest.fixture
def optuna():
    return pytest.importorskip("optuna")


@pytest.fixture
def no_comparison(monkeypatch):
    """Let searches end without the seconds of a table and a page."""
    for last in ("compare", "write_page"):
        monkeypatch.setattr(hooks, last, lambda *_: None)


def study(optuna, folder):
    """Open a search as anybody with Optuna would."""
    return optuna.load_study(study_name="rlexp", storage=f"sqlite:///{folder / 'optuna.db'}")


def hill(job):
    """A score that is best at a rate of .01, with a part of the seed's own."""
    return -abs(math.log10(job.config.lr / 0.01)) + job.config.seed


def test_a_batch_of_trials_trains_together_over_all_seeds(command, engine_of, optuna, tmp_path, no_comparison):  # noqa: F811
    batches = engine_of(hill)
    assert command(*SEARCH, RATES, "hydra.sweeper.trials=7", "hydra.sweeper.batch=3").code == 0
    assert [len(batch) for batch in batches] == [6, 6, 2]
    found = rows(tmp_path / "x")
    assert [row["job"] for row in found] == [*range(14)] and [row["seed"] for row in found] == [0, 1] * 7
    trials = study(optuna, tmp_path / "x").trials
    for trial, first, second in zip(trials, found[::2], found[1::2], strict=True):
        assert first["variant"] == second["variant"] == ",".join(trial.user_attrs["overrides"])
        assert trial.value == (first["score"] + second["score"]) / 2


@pytest.mark.slow
def test_the_first_trial_is_the_config_as_it_is(command, engine_of, optuna, tmp_path, no_comparison):  # noqa: F811
    engine_of(hill)
    assert (
        command(*SEARCH, RATES, "clip=symmetric,higher", "inner_steps=range(1,4)", "lr_final=0,0.5", *SHORT).code == 0
    )
    assert study(optuna, tmp_path / "x").trials[0].params == {
        "lr": 1e-3,
        "clip": "symmetric",
        "inner_steps": 1,
        "lr_final": "0",
    }


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_the_best_rate_is_found(command, engine_of, optuna, tmp_path, no_comparison, sampler):  # noqa: F811
    engine_of(hill)
    result = command(*SEARCH, RATES, "hydra.sweeper.trials=24", f"hydra.sweeper.sampler={sampler}")
    assert result.code == 0 and "best of 24 trials: lr=0.0" in result.err
    assert 0.004 < study(optuna, tmp_path / "x").best_params["lr"] < 0.025


@pytest.mark.slow
def test_a_search_that_was_stopped_asks_for_what_it_would_have(command, engine_of, optuna, tmp_path, no_comparison):  # noqa: F811
    engine_of(hill)
    assert command(*SEARCH, RATES, *SHORT, "hydra.sweep.dir=whole").code == 0
    calls = []

    def stop(job):
        calls.append(job)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return hill(job)

    engine_of(stop)
    assert command(*SEARCH, RATES, *SHORT).code == 130
    states = [trial.state.name for trial in study(optuna, tmp_path / "x").trials]
    assert states == ["COMPLETE", "COMPLETE", "RUNNING", "RUNNING"]
    engine_of(hill)
    assert command(*SEARCH, RATES, *SHORT).code == 0
    whole, stopped = ([(t.params, t.value) for t in study(optuna, tmp_path / each).trials] for each in ("whole", "x"))
    assert whole == stopped and len(rows(tmp_path / "x")) == 12
    assert command(*SEARCH, RATES, "hydra.sweeper.trials=8", "hydra.sweeper.batch=2").code == 0
    assert len(study(optuna, tmp_path / "x").trials) == 8


@pytest.mark.slow
def test_equal_trials_train_once(command, engine_of, optuna, tmp_path, no_comparison):  # noqa: F811
    batches = engine_of(hill)
    assert command(*SEARCH, "clip=symmetric,higher", *SHORT).code == 0
    assert sum(map(len, batches)) == 4
    assert [trial.value for trial in study(optuna, tmp_path / "x").trials] == [-0.5] * 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "state"), [(FloatingPointError("diverged by step 3"), "PRUNED"), (OSError("the disk"), "FAIL")]
)
def test_a_trial_without_a_score_ends_no_search(command, engine_of, optuna, tmp_path, no_comparison, error, state):  # noqa: F811
    engine_of(lambda job: error if job.number == 3 else hill(job))
    assert command(*SEARCH, RATES, *SHORT).code == 1
    states = [trial.state.name for trial in study(optuna, tmp_path / "x").trials]
    assert states == ["COMPLETE", state, *["COMPLETE"] * 4]


@pytest.mark.slow
def test_what_cannot_be_trained_ends_in_a_line_and_is_not_asked_again(
    command, engine_of, optuna, tmp_path, monkeypatch
):  # noqa: F811
    """Where there are too many combinations to compose all of them beforehand."""
    monkeypatch.setattr(launch_search, "MOST_PROBES", 0)
    batches = engine_of(hill)
    mixed = [*SEARCH, "norm=local,gae", "critic=none,value", "hydra.sweeper.trials=12", "hydra.sweeper.batch=2"]
    results = [command(*mixed)]
    while results[-1].code == 2 and len(results) < 12:
        assert "norm=gae: asks for values" in results[-1].err or "norm=local asks for no values" in results[-1].err
        results.append(command(*mixed))
    assert len(results) > 1 and results[-1].code == 0 and batches
    states = [trial.state.name for trial in study(optuna, tmp_path / "x").trials]
    assert len(states) == 12 and {*states} == {"COMPLETE", "FAIL"}


@pytest.mark.slow
def test_another_search_in_the_folder_is_refused(command, engine_of, optuna, tmp_path, no_comparison):  # noqa: F811
    engine_of(hill)
    assert command(*SEARCH, RATES, *SHORT).code == 0
    for others, what in ([RATES, "steps=3"], "fixed"), ([RATES.replace("1e-1", "1e-2")], "searched"):
        result = command(*SEARCH, *others, *SHORT)
        assert (result.code, result.err) == (
            2,
            f"x/optuna.db holds a search that differs ({what}): take another hydra.sweep.dir\n",
        )
    assert command(*SEARCH, RATES, *SHORT, "threads=1").code == 0
    (tmp_path / "x" / "optuna.db").write_bytes(b"no database" * 100)
    result = command(*SEARCH, RATES, *SHORT)
    assert result.code == 2 and result.err.startswith("x/optuna.db cannot be opened as Optuna's: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lr=0.1"], "hydra/sweeper=search: nothing is searched; name values, or as lr='tag(log,interval(1e-4,1e-2))'"),
        (["lr=tag(log,interval(0,1))"], "lr=tag(log,interval(0,1)): `low > 0` must hold for `log=True`"),
        (["lr=interval(-1,1)"], "lr=-1: must be above 0"),
        (["clip=symmetric,higer"], "clip=higer: no such choice; did you mean higher?"),
        (["norm=local,gae"], "norm=gae: asks for values, and critic=none has none"),
        ([RATES, "seed=interval(0,3)"], "seed=interval(0,3): seeds are listed, as seed=range(0,5)"),
        ([RATES, "seed=range(3,3)"], "hydra/sweeper=search: there are no seeds; list them, as seed=range(0,5)"),
        ([RATES, "hydra.sweeper.trials=0"], "hydra.sweeper.trials=0: must be at least 1"),
        ([RATES, "hydra.sweeper.sampler=cma"], "hydra.sweeper.sampler=cma: must be one of tpe, gp, random"),
        ([RATES, "hydra.launcher.max_runs=9"], "32 trials of 2 seeds make 64 runs, more than 9; if they are meant"),
        ([RATES, "until_decided=0.1"], "until_decided: is of a sweep whose arms are known beforehand"),
        ([RATES, "baseline=lr=0.1"], "baseline: is of a sweep whose arms are known beforehand"),
    ],
)
def test_mistakes_end_in_a_line_before_anything_is_written(command, optuna, tmp_path, arguments, said):  # noqa: F811
    seeds = [] if any(each.startswith("seed=") for each in arguments) else ["seed=0,1"]
    result = command("-m", "preset=tiny", "hydra/sweeper=search", "hydra.sweep.dir=x", *seeds, *arguments)
    assert result.code == 2 and said in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_without_optuna_a_line_says_what_to_install(command, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(launch_search, "find_spec", lambda name: None if name == "optuna" else find_spec(name))
    result = command(*SEARCH, RATES)
    assert result.err == "hydra/sweeper=search needs optuna, which is not installed: pip install optuna\n"
    assert result.code == 2 and not (tmp_path / "x").exists()


@pytest.mark.slow
def test_what_was_trained_is_not_trained_again(command, optuna, tmp_path):  # noqa: F811
    real = [*SEARCH, RATES, "steps=4", "eval.every=2", "hydra.sweeper.batch=2"]
    assert command(*real, "hydra.sweeper.trials=2").code == 0
    before = [trial.value for trial in study(optuna, tmp_path / "x").trials]
    files = {path: path.read_bytes() for path in (tmp_path / "x").glob("lr=*/metrics.jsonl")}
    result = command(*real, "hydra.sweeper.trials=4")
    assert result.code == 0 and "4 variants ran with 2 seeds each" in " ".join(result.out.split())
    assert "The variants were searched for" in (tmp_path / "x" / "analysis" / "report.html").read_text("utf-8")
    assert [trial.value for trial in study(optuna, tmp_path / "x").trials][:2] == before
    assert all(path.read_bytes() == text for path, text in files.items()) and len(rows(tmp_path / "x")) == 8
