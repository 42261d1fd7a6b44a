"""What is wrong with the launcher's settings is one line, before anything is written."""

import pytest
from command import command  # noqa: F401 (a fixture)

from rlexp.launch import checks as settings


@pytest.mark.parametrize(("launcher", "library"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_library_is_one_line(command, tmp_path, monkeypatch, launcher, library):  # noqa: F811
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    result = command("-m", f"hydra/launcher={launcher}")
    line = f"hydra/launcher={launcher} needs {library}, which is not installed: pip install {library}\n"
    assert (result.code, result.err) == (2, line)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # much is composed
def test_hyperparameters_of_an_executor_are_checked_before_anything_is_written(command, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(settings, "find_spec", lambda name: True)
    monkeypatch.setattr(settings.shutil, "which", lambda name: None)
    assert command("-m", "hydra/launcher=slurm").err.startswith("hydra/launcher=slurm needs sbatch")
    wrong = ("fused", "workers=many"), ("processes", "workers=0"), ("slurm", "minutes=0"), ("ray", "cpus=-1")
    for mistake in wrong:
        result = command("-m", f"hydra/launcher={mistake[0]}", f"hydra.launcher.{mistake[1]}")
        allowed = "auto or at least 1" if "workers" in mistake[1] else "at least 1"
        assert (result.code, result.err) == (2, f"hydra.launcher.{mistake[1]}: must be {allowed}\n")
    assert command("-m", "hydra/launcher=processes", "hydra.launcher.cpus=1").code == 2
    assert not list(tmp_path.iterdir())
