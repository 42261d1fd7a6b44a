"""Where the batches of a sweep are trained changes no number, and a dead worker takes only its own runs with it."""

import pytest
from clusters import ray_address, slurm_cluster, until  # noqa: F401 (fixtures)
from command import command, no_comparison  # noqa: F401 (fixtures)
from executors import (  # noqa: F401 (some are fixtures)
    TINY,
    assert_saved,
    endless,
    same_as_inline,
    saves_at_ctrl_c,
    survives_a_kill,
)
from sweep_files import rows

from rlexp.record import lock

pytestmark = pytest.mark.usefixtures("no_comparison")
RAY = ("hydra/launcher=ray", "hydra.launcher.workers=2")
SLURM = ("hydra/launcher=slurm", "hydra.launcher.mem_gb=1", "hydra.launcher.minutes=5")


@pytest.mark.slow
@pytest.mark.slurm
def test_slurm_leaves_what_inline_leaves(slurm_cluster, same_as_inline):  # noqa: F811
    same_as_inline(*SLURM)


@pytest.mark.slow
@pytest.mark.slurm
def test_a_killed_slurm_job_takes_only_its_runs_with_it(slurm_cluster, survives_a_kill):  # noqa: F811
    survives_a_kill(*SLURM)


@pytest.mark.slow
@pytest.mark.slurm
def test_ctrl_c_lets_slurm_jobs_save(slurm_cluster, saves_at_ctrl_c):  # noqa: F811
    saves_at_ctrl_c(*SLURM, "hydra.launcher.workers=1")


@pytest.mark.slow
@pytest.mark.slurm
def test_slurm_jobs_whose_sweep_is_killed_save_and_end(slurm_cluster, tmp_path):  # noqa: F811
    saves_when_its_sweep_is_killed(tmp_path, *SLURM, "hydra.launcher.workers=1")


@pytest.mark.slow
@pytest.mark.ray
def test_ray_tasks_whose_sweep_is_killed_end(tmp_path):
    """Ray itself may end the tasks of a program that is gone, which leaves no time to save."""
    pytest.importorskip("ray")
    parent, metrics = endless(tmp_path, *RAY)
    parent.kill()
    parent.wait()
    until(lambda: not any(lock.is_held(path.parent) for path in metrics), "nobody trains on: the end", 30)


def saves_when_its_sweep_is_killed(folder, *launcher):
    parent, metrics = endless(folder, *launcher)
    parent.kill()
    parent.wait()
    until(lambda: not any(lock.is_held(path.parent) for path in metrics), "nobody trains on: the end", 30)
    assert_saved(metrics)


@pytest.mark.slow
@pytest.mark.slurm
def test_what_sbatch_refuses_is_the_reason(slurm_cluster, command, tmp_path):  # noqa: F811
    result = command(*TINY, "seed=0", *SLURM, "hydra.launcher.partition=nowhere", "hydra.sweep.dir=x")
    assert result.code == 1 and "invalid partition specified: nowhere" in rows(tmp_path / "x")[0]["reason"]


@pytest.mark.slow
@pytest.mark.ray
def test_ray_leaves_what_inline_leaves(same_as_inline):
    pytest.importorskip("ray")
    same_as_inline(*RAY)


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_cluster_leaves_what_inline_leaves(ray_address, same_as_inline):  # noqa: F811
    same_as_inline("hydra/launcher=ray", f"hydra.launcher.address='{ray_address}'")


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_that_does_not_answer_is_one_line(command, tmp_path):  # noqa: F811
    pytest.importorskip("ray")
    result = command(*TINY, "hydra/launcher=ray", "hydra.launcher.address='127.0.0.1:1'", "hydra.sweep.dir=x")
    assert (result.code, result.err) == (2, "hydra.launcher.address=127.0.0.1:1: nobody answers there\n")
    assert not list(tmp_path.glob("x/*/*"))


@pytest.mark.slow
@pytest.mark.ray
def test_a_killed_ray_worker_takes_only_its_runs_with_it(ray_address, survives_a_kill):  # noqa: F811
    survives_a_kill(*RAY, f"hydra.launcher.address='{ray_address}'")
