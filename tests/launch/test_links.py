"""A folder that somebody else has made does not decide which files outside of it a run writes."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL

from rlexp import api
from rlexp.core.errors import ConfigError
from rlexp.runfolder.files import link_out

TINY = [*SHORT, *SMALL, "model=gru", "model.hidden=6", "norm=center"]
WRITTEN = ["train.log", ".hydra", ".hydra/config.yaml", "metrics.jsonl", "checkpoint.pt", "model", "wandb"]
WRITTEN_TO = [("train.log", "file"), ("train.log", "not/there"), ("train.log", "../file")]


@pytest.mark.slow  # much is composed
@pytest.mark.parametrize("name, target", [*((name, "folder") for name in WRITTEN), *WRITTEN_TO])
def test_a_run_does_not_write_through_a_link(command, tmp_path, name, target):  # noqa: F811
    (tmp_path / "file").write_text("mine\n")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "theirs" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / target)
    refused = command(*TINY, "hydra.run.dir=theirs")
    assert refused.err == f"theirs/{name} is a link to another folder, where a run would write: remove it\n"
    assert refused.code == 2 and (tmp_path / "file").read_text() == "mine\n" and not [*(tmp_path / "folder").iterdir()]


def test_neither_does_a_sweep_nor_python(command, tmp_path):  # noqa: F811
    (tmp_path / "theirs/run").mkdir(parents=True)
    (tmp_path / "theirs/run/train.log").symlink_to(tmp_path / "file")
    sweep = command("-m", *TINY, "seed=0", "hydra.sweep.dir=theirs")
    assert sweep.code == 2 and sweep.err.startswith("theirs/run/train.log is a link to another folder")
    with pytest.raises(ConfigError, match="theirs/run/train.log is a link"):
        api.train(*TINY, folder="theirs/run")


def test_links_within_a_folder_and_links_to_nothing_are_left_alone(tmp_path):
    (tmp_path / "wandb/run").mkdir(parents=True)
    (tmp_path / "wandb/latest-run").symlink_to("run")
    (tmp_path / "wandb/debug.log").symlink_to("/elsewhere/debug.log")  # as older runs have them, moved
    (tmp_path / "loop").symlink_to("loop")
    assert link_out(tmp_path) is link_out(tmp_path / "nowhere") is None
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/up").symlink_to("../../..")
    assert link_out(tmp_path) == tmp_path / "deep/er/up"
    (tmp_path / "linked").symlink_to(tmp_path / "deep")
    (tmp_path / "deep/er/up").unlink()
    (tmp_path / "deep/down").symlink_to(tmp_path / "deep/er")
    assert link_out(tmp_path / "linked") is None


def test_pickles_that_lay_in_a_sweep_are_no_results_of_workers(tmp_path, monkeypatch):
    slurm = pytest.importorskip("rlexp.launch.executors.slurm")
    folders, executor = [], MagicMock(spec=slurm.SlurmExecutor)
    monkeypatch.setattr(slurm, "SlurmExecutor", lambda folder: folders.append(folder) or executor)
    for _ in range(2):
        with slurm.open_pool(tmp_path, [], workers=1, partition=None, cpus=1, mem_gb=1, minutes=1, options={}):
            pass
    first, second = folders
    assert first != second and first.parent == second.parent == tmp_path / ".workers" and not [*first.iterdir()]
