"""What Hydra 1.4 does otherwise than 1.3 is met, whichever is installed."""

import pytest
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from rlexp.launch import hooks
from rlexp.launch.hydra_private import set_overrides
from rlexp.train import mode_of


def compared(monkeypatch, folder, own, config):
    """Return whether the end of a sweep leads to a comparison."""
    calls = []
    for name in ("compare", "write_page"):
        monkeypatch.setattr(hooks, name, lambda *args, **kwargs: calls.append(args))
    monkeypatch.setattr(hooks, "unfinished", lambda folder: [])
    own.on_multirun_end(config)
    return bool(calls)


def test_a_sweep_that_is_interrupted_is_not_compared(monkeypatch, tmp_path):
    config, own = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}, "sweeper": {}}}), hooks.Hooks()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert not compared(monkeypatch, tmp_path, own, config)
        assert compared(monkeypatch, tmp_path, hooks.Hooks(), config)  # started where an exception was handled
    assert compared(monkeypatch, tmp_path, own, config)


@pytest.mark.parametrize(("by_hydra", "lines"), [(None, 1), ([("file", "function", 1)], 0)])
def test_a_traceback_is_written_once(tmp_path, by_hydra, lines):
    log = tmp_path / "train.log"
    failed = JobReturn(status=JobStatus.FAILED)
    failed._return_value, failed._remote_traceback = ValueError("this"), by_hydra
    config = OmegaConf.create({"hydra": {"job_logging": {"handlers": {"file": {"filename": str(log)}}}}})
    hooks.Hooks().on_job_end(config, failed)
    assert (log.read_text().count("ValueError: this") if log.exists() else 0) == lines


@pytest.mark.parametrize(
    ("arguments", "added"),
    [
        (["study=lecture17"], ["--multirun"]),
        (["study=lecture17", "-m"], []),
        (["study=none"], []),
        (["study=lecture17,none"], []),
        (["study.minimum_effect=1"], []),
    ],
)
def test_a_study_is_a_sweep(arguments, added):
    assert mode_of(arguments) == added


def test_overrides_are_replaced_in_settings_that_hydra_has_locked():
    how = {"kv_sep": "=", "item_sep": ",", "exclude_keys": ["seed"]}
    job = {"override_dirname": "norm=none", "config": {"override_dirname": how}}
    settings = OmegaConf.create({"hydra": {"overrides": {"task": ["norm=none"]}, "job": job}})
    OmegaConf.set_readonly(settings.hydra, True)
    set_overrides(settings, ["norm=local", "seed=3"])
    assert settings.hydra.overrides.task == ["norm=local", "seed=3"]
    assert settings.hydra.job.override_dirname == "norm=local"
    assert OmegaConf.is_readonly(settings.hydra)
