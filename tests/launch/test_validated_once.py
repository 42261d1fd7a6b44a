"""A config is validated once on its way from the command line to training."""

from collections import Counter

import pytest
from small_runs import SHORT, SMALL

from rlexp import api
from rlexp.config.schema import Config

pytestmark = pytest.mark.slow


@pytest.fixture
def validated(monkeypatch):
    """How often the configs of each norm and seed were validated."""
    found, validate = Counter(), Config.model_validate

    def counted(values, **options):
        found[values["norm"]["name"], values["seed"]] += 1
        return validate(values, **options)

    monkeypatch.setattr(Config, "model_validate", counted)
    return found


def test_that_of_a_run(validated, tmp_path):
    api.train(*SHORT, *SMALL, "norm=rloo", folder=tmp_path / "run")
    assert validated == {("rloo", 0): 1}


@pytest.mark.parametrize("launcher", ["fused", "basic"])
def test_those_of_a_sweep(launcher, validated, tmp_path):
    api.sweep(*SHORT, *SMALL, "norm=local,rloo", f"hydra/launcher={launcher}", seeds=[0, 1], folder=tmp_path)
    assert validated == {(norm, seed): 1 for norm in ("local", "rloo") for seed in (0, 1)}
