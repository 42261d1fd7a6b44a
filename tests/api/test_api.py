"""The command line's work from Python: the same files, errors that are raised, a process that is as it was."""

import json
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from small_runs import SHORT, rows

from rlexp import api
from rlexp.analysis.report.page import PROGRAM, sweep_command
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def process_state():
    """What a library must not change."""
    hydra = (GlobalHydra.instance().hydra, HydraConfig.instance().cfg)
    root = logging.getLogger()
    logs = (root.handlers[:], root.level, logging.root.manager.disable)
    machine = (torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.is_grad_enabled())
    numbers = (torch.random.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    return [*map(signal.getsignal, SIGNALS), hydra, logs, machine, numbers, sys.argv[:], os.getcwd(), dict(os.environ)]


@pytest.mark.parametrize(
    ("function", "arguments", "seeds", "line"),
    [
        (api.sweep, ["norm=locl"], None, "norm=locl: no such choice"),
        (api.sweep, ["lr=-1", "seed=0"], None, "lr=-1: must be above 0"),
        (api.sweep, ["norm=local"], [], "seeds: there are none"),
        (api.sweep, ["seed=3"], [1, 2], r"seed=3 seeds=\[1,2\]: give the seeds once"),
        (api.train, ["lr=fast"], None, "lr=fast: must be a number"),
        (api.train, ["nrm=local"], None, "nrm=local: no such key; did you mean norm"),
    ],
)
def test_a_mistake_is_raised_before_anything_is_written(tmp_path, function, arguments, seeds, line):
    with pytest.raises(ConfigError, match=line):
        function(*arguments, **{"seeds": seeds} if seeds is not None else {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_gives_frames_and_leaves_the_process_as_it_was(tmp_path):
    before = process_state()
    found = api.sweep("norm=none,local", *SHORT, seeds=range(2), folder="it's a sweep")
    assert process_state() == before
    assert len(found.runs) == 4 and set(found.runs["status"]) == {"completed"}
    assert set(found.runs["norm"]) == {"none", "local"} and set(found.metrics["step"]) == {0, 1, 2}
    assert found.folder.resolve() == tmp_path / "it's a sweep"
    assert sweep_command(found.folder) == f"{PROGRAM} -m {shlex.join(['norm=none,local', *SHORT, 'seed=0,1'])}"
    first = dict(zip(found.runs["folder"], map(os.path.getmtime, found.runs["folder"]), strict=True))
    more = api.sweep("norm=none,local", *SHORT, seeds=range(3), folder="it's a sweep")
    assert len(more.runs) == 6 and all(os.path.getmtime(folder) == time for folder, time in first.items())


@pytest.mark.slow
def test_failed_runs_are_raised_with_all_that_was_found():
    with pytest.raises(RunFailed, match="1 of 2 runs .* did not complete: .*lr=1e.30.*: diverged") as caught:
        api.sweep("lr=1e-3,1e30", *SHORT, seeds=[0])
    assert sorted(caught.value.found.runs["status"]) == ["completed", "diverged"]
    with pytest.raises(RunFailed, match="diverged by step 1"):
        api.train("lr=1e30", *SHORT)


@pytest.mark.slow
def test_one_run_has_the_bits_of_the_command_and_its_policy_those_of_its_evaluation():
    found = api.sweep("norm=none,local", *SHORT, seeds=range(2), folder="sweep")
    folder = api.train("norm=local", *SHORT, "seed=1", folder="alone")
    together = Path(found.runs.query("norm == 'local' and seed == 1")["folder"].item())
    assert rows(folder) == rows(together)
    policy, last = api.load_policy(folder), rows(folder)[-1]
    greedy = policy.sample(6, 1, greedy=True)
    assert np.mean([row["correct"] for row in greedy]) == pytest.approx(last["eval/greedy_accuracy"])
    sampled = policy.sample(6, 2)
    assert np.mean([row["reward"] for row in sampled]) == pytest.approx(last["eval/reward"], rel=1e-6)
    assert policy.step == 2 and len(sampled) == 12 and policy.sample(6, 2) == sampled
    assert policy.sample(policy.held_out_prompts(6), 2) == sampled
    assert policy.sample(6, 2, seed=7) != sampled and policy.sample(6, 2, temperature=0.1) != sampled


@pytest.mark.slow
def test_a_folder_without_a_policy_says_what_is_missing(tmp_path):
    with pytest.raises(ConfigError, match="nowhere is not the folder of a run"):
        api.load_policy("nowhere")
    folder = api.train(*SHORT, folder="run")
    for file in folder.glob("checkpoint*"):
        file.unlink()
    with pytest.raises(ConfigError, match="run: has no checkpoint.pt"):
        api.load_policy(folder)
    (folder / "config.yaml").write_text(json.dumps({"seed": 0}))
    with pytest.raises(ConfigError, match="config.yaml: task: is missing"):
        api.load_policy(folder)


@pytest.mark.slow
def test_a_comparison_is_that_of_the_command_without_its_text(capsys):
    found = api.sweep("norm=none,local", *SHORT, seeds=range(3))
    report = api.compare(found.folder, baseline="norm=local", metric="eval/reward")
    assert report.comparison.baseline.startswith("norm=local") and report.notes
    assert (report.comparison.table["n"] == 3).all() and "table.csv" in {file.name for file in report.files}
    assert capsys.readouterr().out == ""
