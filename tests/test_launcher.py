"""The fused launcher: what Hydra's own would leave behind, and one run's fate is its own."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from command import CONF, command, only_sweep  # noqa: F401 (a fixture)
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import OmegaConf

import analysis.compare
from rlexp import compose, engine
from rlexp.config import load
from rlexp.naming import run_name, variant_name
from rlexp.plan import Remembering

TINY = ("preset=tiny",)
LOG = logging.getLogger(__name__)


class Spy(Callback):
    """Writes down which jobs Hydra's callbacks were called for."""

    calls: list[tuple[str, str]] = []

    def on_job_start(self, config, **_):
        self.calls.append(("start", config.hydra.runtime.output_dir))

    def on_job_end(self, config, job_return, **_):
        self.calls.append((job_return.status.name, config.hydra.runtime.output_dir))


@pytest.fixture
def engine_of(monkeypatch):
    """Replace the engine by a function of the job, and the analysis by a word; return the buckets that it was given."""
    buckets = []

    def use(result):
        def train_jobs(jobs, title="rlexp"):
            buckets.append([job.name for job in jobs])
            return [result(job) for job in jobs]

        monkeypatch.setattr(engine, "train_jobs", train_jobs)
        monkeypatch.setattr(analysis.compare, "report", lambda folder, baseline: print("the table"))
        return buckets

    return use


def rows(folder):
    return [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]


def untimed(path):
    """Read a run's metrics without what no two runs share."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def changed(first, second, path=()):
    """Return the paths at which two nested mappings differ."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [] if first == second else [".".join(path)]
    keys = sorted(first.keys() | second.keys())
    return [each for key in keys for each in changed(first.get(key), second.get(key), (*path, key))]


def test_it_leaves_what_hydras_own_launcher_leaves(command, tmp_path, monkeypatch):
    monkeypatch.setattr(analysis.compare, "report", lambda folder, baseline: None)
    sweep = ("-m", *TINY, "norm=local,none", "group_size.completions=2,4", "seed=0,1")
    assert command(*sweep, "hydra.sweep.dir=fused").code == 0
    assert command(*sweep, "hydra.sweep.dir=basic", "hydra/launcher=basic").code == 0
    names = sorted(path.parent.name for path in (tmp_path / "basic").glob("*/config.yaml"))
    assert names == sorted(row["name"] for row in rows(tmp_path / "fused")) and len(names) == 8
    for name in names:
        fused, basic = tmp_path / "fused" / name, tmp_path / "basic" / name
        assert sorted(path.name for path in fused.iterdir()) == sorted(path.name for path in basic.iterdir())
        for file in ("config.yaml", ".hydra/config.yaml", ".hydra/overrides.yaml"):
            assert (fused / file).read_text() == (basic / file).read_text()
        assert untimed(fused / "metrics.jsonl") == untimed(basic / "metrics.jsonl")
        both = (yaml.safe_load((folder / ".hydra/hydra.yaml").read_text()) for folder in (fused, basic))
        assert set(changed(*both)) <= {
            "hydra.launcher._target_",
            "hydra.launcher.executor",
            "hydra.launcher.max_replicas",
            "hydra.overrides.hydra",
            "hydra.runtime.choices.hydra/launcher",
            "hydra.runtime.output_dir",
            "hydra.sweep.dir",
        }


def test_a_sweep_from_the_command_to_the_table(command, tmp_path):
    result = command("-m", *TINY, "norm=local,hybrid", "seed=0,1", "baseline='norm=local'")
    assert result.code == 0
    sweep = only_sweep(tmp_path)
    assert result.out.endswith(f"runs/{sweep.name}\n") and "hybrid" in result.out
    for row in rows(sweep):
        assert row["status"] == "completed" and 0 <= row["score"] <= 1
        config = load(sweep / row["name"] / "config.yaml")
        assert row["variant"] == f"preset=tiny,norm={config.norm.name}"
        assert row["seed"] == config.seed


def test_a_single_run_has_a_folder_of_its_own_below_runs(command, tmp_path):
    result = command(*TINY, "norm=hybrid", "seed=3")
    assert result.code == 0
    (folder,) = only_sweep(tmp_path).iterdir()
    assert folder.name == "preset=tiny,norm=hybrid,seed=3"
    assert result.out.endswith(f"{folder.relative_to(tmp_path)}\n")
    assert load(folder / "config.yaml").norm.name == "hybrid"
    assert len(untimed(folder / "metrics.jsonl")) == 3


def test_a_sweep_takes_ten_seeds_unless_the_command_line_names_them(command, tmp_path, engine_of):
    engine_of(lambda job: 0.0)
    command("-m", "norm=none", "hydra.sweep.dir=ten")
    command("-m", "norm=local,none", "seed=7,9", "hydra.sweep.dir=two")
    command("-m", "norm=local,none", "seed=7", "hydra.sweep.dir=one")
    assert [row["seed"] for row in rows(tmp_path / "ten")] == list(range(10))
    assert [row["seed"] for row in rows(tmp_path / "two") if row["variant"] == "norm=none"] == [7, 9]
    assert [row["name"] for row in rows(tmp_path / "one")] == ["norm=local,seed=7", "norm=none,seed=7"]


@pytest.mark.parametrize("study", sorted({file.stem for file in (compose.CONF / "study").glob("*.yaml")} - {"none"}))
def test_a_study_is_a_sweep_of_its_own(command, tmp_path, engine_of, study):
    engine_of(lambda job: 0.5)
    result = command(f"study={study}", "hydra.sweep.dir=x")
    assert (result.code, result.err) == (0, "")
    found = rows(tmp_path / "x")
    assert len({row["variant"] for row in found}) > 1 and len({row["seed"] for row in found}) > 1


def test_runs_of_equal_shapes_train_together(command, tmp_path, engine_of):
    buckets = engine_of(lambda job: float(job.config.group_size.completions))
    assert command("-m", "group_size=2,4", "norm=local,rloo", "seed=0", "hydra.sweep.dir=x").code == 0
    assert buckets == [
        [f"group_size={size},norm={norm},seed=0" for norm in ("local", "rloo")] for size in (2, 4)
    ]  # fmt: skip
    assert [row["score"] for row in rows(tmp_path / "x")] == [2, 2, 4, 4]


def test_a_variant_is_composed_once(command, engine_of, monkeypatch):
    engine_of(lambda job: 0.0)
    composed, load = [], ConfigLoaderImpl.load_sweep_config
    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", lambda *args: composed.append(args) or load(*args))
    assert command("-m", "norm=local,none", "seed=range(0,3)").code == 0
    assert len(composed) == 2


@pytest.mark.parametrize("dirname", [{}, {"kv_sep": ":", "item_sep": "_", "exclude_keys": ["norm"]}])
def test_another_seed_is_what_composing_it_would_give(dirname):
    with initialize_config_dir(str(compose.CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        setting = [f"hydra.job.config.override_dirname.{key}={value}" for key, value in dirname.items()]
        master = loader.load_configuration("config", setting, RunMode.MULTIRUN)
        folder, remembering = master.hydra.sweep.dir, Remembering(loader)
        for seed in (0, 13):
            overrides = ["norm=rloo", f"seed={seed}", "eval.ks=[1,2]"]
            found, true = (each.load_sweep_config(master, overrides) for each in (remembering, loader))
            assert OmegaConf.to_container(found) == OmegaConf.to_container(true)
            assert found.hydra.sweep.dir == true.hydra.sweep.dir == folder


def test_a_batch_has_at_most_max_replicas_runs(command, engine_of):
    buckets = engine_of(lambda job: 0.0)
    assert command("-m", "seed=range(0,5)", "hydra.launcher.max_replicas=2").code == 0
    assert [len(bucket) for bucket in buckets] == [2, 2, 1]


def test_a_failed_run_is_named_and_the_others_count(command, tmp_path, engine_of):
    engine_of(lambda job: FloatingPointError("loss is nan") if job.config.seed == 1 else 0.5)
    result = command("-m", "norm=local,none", "seed=0,1", "hydra.sweep.dir=x")
    assert result.code == 1
    assert result.err.splitlines() == [
        f"norm={norm},seed=1: failed: FloatingPointError: loss is nan" for norm in ("local", "none")
    ]  # fmt: skip
    assert "the table" in result.out
    fates = [(row["status"], row["score"]) for row in rows(tmp_path / "x")]
    assert fates == [("completed", 0.5)] * 2 + [("failed", None)] * 2


def test_a_run_that_diverges_says_so(command, tmp_path):
    result = command("-m", *TINY, "lr=1e-3,1e38", "warmup_steps=0", "seed=0", "steps=6", "hydra.sweep.dir=x")
    assert result.code == 1
    good, bad = rows(tmp_path / "x")
    assert (good["status"], bad["status"]) == ("completed", "diverged")
    assert result.err.splitlines()[-1] == f"{bad['name']}: diverged: {bad['reason']}"


def test_a_crash_fails_only_its_own_batch_and_leaves_the_traceback_in_its_logs(command, tmp_path, engine_of):
    def train(job):
        if job.config.group_size.completions == 2:
            raise MemoryError("no more")
        return 0.5

    engine_of(train)
    result = command("-m", "group_size=2,4", "seed=0,1", "hydra.sweep.dir=x")
    assert result.code == 1
    assert "Traceback" not in result.out + result.err
    for row in rows(tmp_path / "x"):
        log = (tmp_path / "x" / row["name"] / "train.log").read_text()
        crashed = "group_size=2" in row["name"]
        assert row["status"] == ("failed" if crashed else "completed")
        assert ("Traceback" in log and "MemoryError: no more" in log) == crashed


def test_a_failed_single_run_is_one_line_and_its_log_has_the_traceback(command, tmp_path, engine_of):
    engine_of(lambda job: FloatingPointError("loss is nan"))
    result = command("hydra.run.dir=x")
    assert (result.code, result.err) == (1, "run failed: FloatingPointError: loss is nan (see x)\n")
    assert "FloatingPointError" in (tmp_path / "x" / "train.log").read_text()


def test_later_batches_run_although_an_earlier_one_failed(command, tmp_path, engine_of):
    buckets = engine_of(lambda job: ValueError("bad luck") if job.config.seed == 0 else 0.5)
    result = command("-m", "norm=local", "seed=range(0,5)", "hydra.sweeper.max_batch_size=2", "hydra.sweep.dir=x")
    assert result.code == 1
    assert [len(bucket) for bucket in buckets] == [2, 2, 1]
    assert [row["job"] for row in rows(tmp_path / "x")] == [0, 1, 2, 3, 4]
    assert [row["status"] for row in rows(tmp_path / "x")] == ["failed"] + ["completed"] * 4
    assert result.out.count("the table") == 1


def test_the_index_is_there_before_training_and_says_what_was_interrupted(command, tmp_path, engine_of):
    def train(job):
        if job.config.group_size.completions == 4:
            assert [row["status"] for row in rows(tmp_path / "x")] == ["completed", "running"]
            raise KeyboardInterrupt
        return 0.5

    engine_of(train)
    result = command("-m", "group_size=2,4", "seed=0", "hydra.sweep.dir=x")
    same = "python -m rlexp.train -m group_size=2,4 seed=0 hydra.sweep.dir=x"
    assert result.code == 130
    assert result.err == f"interrupted; go on with: {same}\n".replace("-m group", f"--config-dir {CONF} -m group")
    assert [row["status"] for row in rows(tmp_path / "x")] == ["completed", "interrupted"]


def test_ctrl_c_in_the_terminal(tmp_path):
    arguments = ["-m", *TINY, "steps=100000", "seed=0,1", "hydra.sweep.dir=x"]
    command = [sys.executable, "-m", "rlexp.train", "--config-dir", str(CONF), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    while process.poll() is None and not any(tmp_path.glob("x/*/metrics.jsonl")):
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    last = err.splitlines()[-1]
    assert last.startswith("interrupted; go on with: python -m rlexp.train ") and last.endswith(" hydra.sweep.dir=x")
    assert [row["status"] for row in rows(tmp_path / "x")] == ["interrupted"] * 2
    for row in rows(tmp_path / "x"):
        assert json.loads((tmp_path / "x" / row["name"] / "summary.json").read_text())["status"] == "interrupted"


def test_results_outlive_a_failure_to_compare_them(command, tmp_path, engine_of, monkeypatch):
    engine_of(lambda job: 0.5)
    monkeypatch.setattr(analysis.compare, "report", lambda folder, baseline: 1 / 0)
    result = command("-m", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 0
    assert result.err == "no comparison: ZeroDivisionError: division by zero (python -m analysis.compare x)\n"
    assert [row["status"] for row in rows(tmp_path / "x")] == ["completed"]


def test_callbacks_are_called_for_each_job(command, tmp_path, engine_of):
    engine_of(lambda job: ValueError("bad luck") if job.config.seed else 0.5)
    Spy.calls.clear()
    command("-m", "seed=0,1", "hydra.sweep.dir=x", "+hydra.callbacks.spy._target_=test_launcher.Spy")
    expected = [("start", 0), ("start", 1), ("COMPLETED", 0), ("FAILED", 1)]
    assert Spy.calls == [(what, str(tmp_path / "x" / f"seed={seed}")) for what, seed in expected]


def test_a_log_record_goes_to_its_job_or_to_all(command, tmp_path, engine_of):
    def train(job):
        if job.config.seed == 0:
            LOG.info("for everyone")
        LOG.info("about %s", job.name, extra={"job": job.name})
        return 0.5

    engine_of(train)
    command("-m", "seed=0,1", "hydra.sweep.dir=x")
    for seed in (0, 1):
        log = (tmp_path / "x" / f"seed={seed}" / "train.log").read_text().splitlines()
        assert [line.partition(" - ")[2] for line in log] == ["for everyone", f"about seed={seed}"]


def test_no_log_files_if_logging_is_off(command, tmp_path, engine_of):
    engine_of(lambda job: ValueError("bad luck"))
    command("-m", "seed=0", "hydra.sweep.dir=x", "hydra/job_logging=disabled")
    assert not (tmp_path / "x" / "seed=0" / "train.log").exists()


def test_a_job_sees_its_environment(command, engine_of, monkeypatch):
    monkeypatch.delenv("RLEXP_TEST", raising=False)
    seen = []
    engine_of(lambda job: seen.append(os.environ.get("RLEXP_TEST")) or 0.5)
    command("-m", "seed=0", "+hydra.job.env_set.RLEXP_TEST=yes")
    assert seen == ["yes"] and "RLEXP_TEST" not in os.environ


@pytest.mark.parametrize(
    ("overrides", "name", "variant"),
    [
        ([], "default", "default"),
        (["seed=3"], "seed=3", "default"),
        (["seed=3", "norm=local", "clip=higher"], "norm=local,clip=higher,seed=3", "norm=local,clip=higher"),
        (["eval.ks=[1,2]"], "eval.ks=[1,2]", "eval.ks=[1,2]"),
    ],
)
def test_names_are_the_overrides(overrides, name, variant):
    assert (run_name(overrides), variant_name(overrides)) == (name, variant)


def test_names_fit_a_folder_and_stay_different():
    values = ["a/b", "a b", "a:b", *("x" * length for length in (200, 201))]
    names = [run_name([f"task.metric={value}", "seed=1"]) for value in values]
    assert len(set(names)) == len(names)
    assert all(len(name) < 110 and "/" not in name and name.endswith(",seed=1") for name in names)
