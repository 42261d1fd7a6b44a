"""A temperature that moves: what a step samples and trains at, what stays, and runs beside each other."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from small_runs import SHORT, SMALL, values
from toy_state import make_state, variant

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.loop.data import Stale, prefill_buffer
from rlexp.loop.evaluation import evaluate
from rlexp.loop.step import train_step
from rlexp.record.provenance import config_hash
from rlexp.training import train

STEPS = 4
FIRST, FINAL = (1.7, 0.6, 1.0), (0.5, math.inf, 2.0)


def state_of(final=FINAL, seeds=(0, 1, 2), data=None, temperatures=FIRST, **more):
    settings = dict(dtype=torch.float32, inner_steps=2, minibatches=2) | more
    state = make_state([(variant(Recipe()), len(seeds))], list(seeds), temperatures=temperatures, **settings)
    final = None if final is None else torch.tensor([final[seed] for seed in seeds])
    state = replace(state, temperature_final=final, steps=STEPS)
    if data:
        state = replace(state, data=data, buffer=data.empty(replace(state, data=data)))
        prefill_buffer(state)
    return state


def temperature_at(step, run):
    return FIRST[run] if FINAL[run] == math.inf else FIRST[run] + (FINAL[run] - FIRST[run]) * (step - 1) / STEPS


def test_a_step_is_that_of_a_constant_temperature_of_its_own():
    """Sampling, log-probabilities, reference and metrics; the last is a step before the final one."""
    state = state_of()
    for step in range(1, STEPS + 1):
        wanted = [temperature_at(step, run) for run in range(3)]
        constant = replace(copy.deepcopy(state), temperature=torch.tensor(wanted), temperature_final=None)
        row, other = train_step(state, step, True), train_step(constant, step, True)
        torch.testing.assert_close(row["policy/temperature"].values, torch.tensor(wanted), rtol=1e-6, atol=0)
        assert row["policy/temperature"].tolist()[1] is None and "policy/temperature" not in other
        for name, value in other.items():
            torch.testing.assert_close(row[name], value, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert wanted[0] == pytest.approx(0.8) and state.temperature.tolist() == pytest.approx(FIRST)


def test_a_run_without_a_schedule_does_not_notice_its_neighbours():
    together, alone = state_of(), state_of(None, seeds=[1])
    for step in range(1, STEPS + 1):
        row, one = train_step(together, step, True), train_step(alone, step, True)
        for name, value in one.items():
            torch.testing.assert_close(value[0], row[name][1], rtol=0, atol=0, equal_nan=True, msg=name)


def test_a_run_with_a_schedule_has_the_same_bits_alone():
    together, alone = state_of(), state_of(seeds=[2])
    for step in range(1, STEPS + 1):
        row, one = train_step(together, step, True), train_step(alone, step, True)
        for name, value in one.items():
            if name != "policy/temperature":
                torch.testing.assert_close(value[0], row[name][2], rtol=0, atol=0, equal_nan=True, msg=name)
        assert row["policy/temperature"].tolist()[2] == one["policy/temperature"].tolist()[0]


def test_what_is_old_keeps_the_log_probabilities_of_its_temperature():
    state = state_of(data=Stale(age=1), inner_steps=1, minibatches=1)
    for step in range(1, STEPS + 1):
        now = state.at_step(step)
        policy = copy.deepcopy(state.policy)
        fresh = now.data.gather(now, step).stored
        train_step(state, step, False)
        used = state.data.slot(state, step + 1)  # what the next step uses: sampled in this one
        assert all(torch.equal(a, b) for a, b in zip(used, fresh, strict=True))
        old = policy.log_probs(used.prompts, used.completions, now.temperature).log_probs.detach()
        torch.testing.assert_close(used.old_log_probs, old.where(used.mask, 0.0), rtol=1e-5, atol=1e-5)
    other = policy.log_probs(used.prompts, used.completions, state.temperature).log_probs.detach()
    assert (used.old_log_probs - other)[0][used.mask[0]].abs().max() > 0.05


def test_evaluation_keeps_the_temperature():
    moving, constant = state_of(), state_of(None)
    found = [evaluate(state, STEPS, 4, 8, [1]) for state in (moving, constant)]
    assert all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(*(each.values() for each in found), strict=True)
    )


def test_a_schedule_to_where_it_is_is_the_constant_run():
    def rows(*overrides):
        config = read(values(*SHORT, *SMALL, "steps=3", *overrides))
        found = [event.metrics for event in train([config]) if type(event).__name__ == "Row"]
        return [{key: str(each[key]) for key in each if not key.startswith("time/")} for each in found]

    plain, same = rows("temperature=0.7"), rows("temperature=0.7", "temperature_final=0.7")
    assert [{k: v for k, v in each.items() if k != "policy/temperature"} for each in same] == plain
    moved = rows("temperature=0.7", "temperature_final=1.4")
    assert [float(each["policy/temperature"]) for each in moved[1:]] == pytest.approx(
        [0.7, 0.7 + 0.7 / 3, 0.7 + 1.4 / 3]
    )


def test_configs_without_it_are_the_same_run():
    config = read(values()).model_dump(mode="json")
    before = {key: value for key, value in config.items() if key != "temperature_final"}
    assert config["temperature_final"] is None and config_hash(before) == config_hash(config)
    assert config_hash(config | {"temperature_final": 0.5}) != config_hash(config)


@pytest.mark.parametrize("value", ["0", "-1.0", "inf"])
def test_what_is_no_temperature_is_refused(value):
    with pytest.raises(ConfigError) as error:
        read(values(f"temperature_final={value}"))
    assert error.value.problems[0].startswith("temperature_final=")
