"""What overrides compose to where numbers are set apart is what Hydra makes of all of them at once."""

import pytest
from hydra.errors import ConfigCompositionException

from rlexp.config.compose import composed, plain
from rlexp.question import composition
from rlexp.question.composition import config_of
from rlexp.runfolder.variants import flatten


@pytest.mark.parametrize(
    "overrides",
    [
        ("preset=ppo", "clip.high=.28", "lr=1e-2"),
        ("study=d09_bandit", "steps=3", "norm=max"),
        ("start=mixture", "start.accuracy=0.1", "lr=null", "eval.ks=[1,2]"),
        ("task.cap=9", "agg=dr_grpo", "~norm.eps", "+x=1"),
    ],
    ids=" ".join,
)
def test_numbers_set_apart_are_those_of_hydra(overrides):
    whole = composed(*overrides, with_hydra=True)
    choices, values = composition.composition(overrides)
    assert choices == dict(whole.hydra.runtime.choices)
    kept = {key: value for key, value in plain(whole).items() if key not in composition.WHO_ASKS}
    assert list(values.items()) == list(flatten(kept))


def test_what_differs_by_numbers_is_composed_once(monkeypatch):
    read = []

    def counted(*overrides, **how):
        read.append(overrides)
        return composed(*overrides, **how)

    monkeypatch.setattr(composition, "composed", counted)
    rates = [config_of(("norm=max", f"lr={rate}", f"clip.high={rate}")).lr for rate in ("1e-3", "2", ".5")]
    assert rates == [1e-3, 2.0, 0.5] and read == [("norm=max",)]


def test_a_number_for_a_key_that_is_not_there_is_told_as_hydra_does():
    with pytest.raises(ConfigCompositionException, match="Could not override 'norm.epss'"):
        config_of(("norm=local", "norm.epss=1"))
