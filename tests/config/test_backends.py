"""What belongs to a backend is in tables by its name: who trains, what it can have, its optimizers."""

from __future__ import annotations

from pkgutil import resolve_name
from types import SimpleNamespace

import pytest
import torch
from small_runs import compose

from rlexp.axes import AXES, optimizer
from rlexp.backends.dispatch import TRAINERS, trainer
from rlexp.config.checks import backend_problems
from rlexp.config.choices import TABLES
from rlexp.config.schema import Config
from rlexp.core.exits import RunFailed
from rlexp.language import BACKENDS
from rlexp.language.backend import CAPABILITIES, OPTIMIZERS, NoOp
from rlexp.language.warm_up import STARTS
from rlexp.loop.data import DATA
from rlexp.loop.state import Source


def of_backend(name, **others):
    return compose().model_copy(update={"backend": SimpleNamespace(name=name), **others})


def allowed(backend, key):
    return next(limit.allowed for limit in CAPABILITIES[backend].limits if limit.key == key)


def test_every_backend_has_who_trains_it_and_what_it_can_have():
    assert set(TRAINERS) == set(CAPABILITIES) == set(BACKENDS)


def test_a_backend_that_nobody_knows_is_an_error(tmp_path):
    config = of_backend("other")
    (line,) = backend_problems(config)
    assert line == "backend=other: nothing says what it can have; must be one of replicas, trl"
    with pytest.raises(RunFailed, match="^backend=other: nothing trains it; must be one of replicas, trl$"):
        trainer(config.backend.name)


def test_an_optimizer_that_trl_does_not_have_is_refused_with_those_that_it_has(monkeypatch):
    monkeypatch.setitem(optimizer.FUNCTIONS, "lion", optimizer.sgd)
    line = "backend=trl: has no optimizer=lion; take optimizer=adam or optimizer=adamw or optimizer=sgd or "
    line += "optimizer=momentum or optimizer=rmsprop"
    assert line in [*backend_problems(of_backend("trl", optimizer=SimpleNamespace(name="lion")))]
    assert not any("optimizer" in each for each in backend_problems(of_backend("trl")))


def test_every_optimizer_with_a_gradient_is_one_of_torch_for_trl():
    assert set(OPTIMIZERS) == set(optimizer.FUNCTIONS) - {"evolution_strategies"}
    assert all(hasattr(torch.optim, name) for name in OPTIMIZERS.values())


@pytest.mark.parametrize("limit", [each for one in CAPABILITIES.values() for each in one.limits], ids=lambda x: x.key)
def test_every_limit_is_of_a_key_and_its_message_has_only_what_is_known(limit):
    keys = [key.partition(".")[0] for key in (limit.key, limit.when, limit.unless) if key]
    assert {*keys} <= {*Config.model_fields}
    assert limit.message.format(here="", key="", value="", names="", choices="")
    assert limit.allowed is not NoOp or limit.key in AXES


def test_what_trl_is_said_to_have_is_what_there_is():
    assert set(allowed("trl", "start")) == set(STARTS)
    assert set(allowed("trl", "data")) == {name for name, each in DATA.items() if each.empty is Source.empty}
    assert set(CAPABILITIES["trl"].not_offered) <= {name for axis in AXES.values() for name in axis.inputs}
    assert [allowed("replicas", key) for key in ("model", "task")] == [TABLES[key][0] for key in ("model", "task")]
    assert set(resolve_name(allowed("trl", "model"))) == set(resolve_name(TABLES["model"][1]))


@pytest.mark.parametrize(
    ("others", "line"),
    [
        ({"data": SimpleNamespace(name="stale")}, "backend=trl: data=stale is of backend=replicas; take data=fresh"),
        ({"compile": True}, "backend=trl: compile=True is of backend=replicas"),
        ({"positive_nll_coef": 0.1}, "backend=trl: positive_nll_coef=0.1 is of backend=replicas"),
        ({"kl_stop": 0.1}, "backend=trl: kl_stop=0.1 is of backend=replicas"),
        (
            {"start": SimpleNamespace(name="scaled")},
            "backend=trl: start=scaled is of backend=replicas; take start=random, sft or mixture",
        ),
        (
            {"mismatch": SimpleNamespace(name="token_mask")},
            "mismatch=token_mask: without backend.vllm=true the policy itself samples, nothing differs",
        ),
        (
            {"sampler": SimpleNamespace(name="bf16")},
            "backend=trl: has no sampler but the neutral one; take backend=replicas, or leave sampler as it is",
        ),
        (
            {"norm": SimpleNamespace(name="remax")},
            "backend=trl norm=remax: asks for a greedy completion of each prompt, ",
        ),
    ],
    ids=lambda x: ",".join(x) if isinstance(x, dict) else "",
)
def test_what_trl_does_not_have_is_one_line(others, line):
    before, found = ({*backend_problems(of_backend("trl", **given))} for given in ({}, others))
    (more,) = found - before
    assert more.startswith(line)


def test_a_mismatch_is_corrected_where_vllm_samples():
    backend = SimpleNamespace(name="trl", vllm=True)
    config = compose().model_copy(update={"backend": backend, "mismatch": SimpleNamespace(name="token_mask")})
    assert not any("mismatch" in each for each in backend_problems(config))


def test_the_reference_of_adapters_is_the_model_without_them():
    for lora, refused in ((None, False), (4, True)):
        model, follow = SimpleNamespace(name="gru", lora=lora), SimpleNamespace(name="follow", begin="start")
        found = [*backend_problems(of_backend("trl", model=model, reference=follow))]
        assert ("reference=follow: with model.lora the reference is the model without its adapter" in found) == refused
