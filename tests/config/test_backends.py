"""What belongs to a backend is in tables by its name: who trains, what it can have, its optimizers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_runs import compose

from rlexp.axes import optimizer
from rlexp.backends.dispatch import TRAINERS, train_jobs
from rlexp.config.backend_checks import PROBLEMS, backend_problems, of_replicas
from rlexp.core.exits import RunFailed
from rlexp.language import BACKENDS
from rlexp.language.backend import OPTIMIZERS
from rlexp.sweep.job import Job


def of_backend(name, **others):
    return compose().model_copy(update={"backend": SimpleNamespace(name=name), **others})


def test_every_backend_has_who_trains_it_and_what_it_can_have():
    assert set(TRAINERS) == set(PROBLEMS) == set(BACKENDS)


def test_a_backend_that_nobody_knows_is_an_error(tmp_path):
    config = of_backend("other")
    (line,) = backend_problems(config)
    assert line == "backend=other: nothing says what it can have; must be one of replicas, trl"
    with pytest.raises(RunFailed, match="^backend=other: nothing trains it; must be one of replicas, trl$"):
        train_jobs([Job(config, tmp_path, "one", "one")])


def test_an_optimizer_that_trl_does_not_have_is_refused_with_those_that_it_has():
    config = of_backend("trl", optimizer=SimpleNamespace(name="lion"))
    line = "backend=trl: has no optimizer=lion; take optimizer=adam or optimizer=adamw or optimizer=sgd or "
    assert f"{line}optimizer=momentum or optimizer=rmsprop" in [*of_replicas(config)]
    assert not any("optimizer" in each for each in of_replicas(of_backend("trl")))


def test_every_optimizer_is_one_of_torch_for_trl():
    assert set(OPTIMIZERS) == set(optimizer.FUNCTIONS)
    assert all(hasattr(torch.optim, name) for name in OPTIMIZERS.values())
