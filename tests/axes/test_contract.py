"""Every choice of every axis keeps all that ``rlexp.testing`` checks, is its loops, and declares what it obeys."""

from __future__ import annotations

import pytest
import reference
import torch
from axis_choices import AXES, choices, same_bits

from rlexp.axes import AXES as ROWS
from rlexp.axes.laws import LAWS
from rlexp.config.checks import PROBLEMS, REMARKS
from rlexp.core.facts import facts_of
from rlexp.core.registry import hyperparameters
from rlexp.testing import examine
from rlexp.testing.batches import batch, hard_batch
from rlexp.testing.choices import Choice
from rlexp.testing.laws import obeyed


def reference_of(choice: Choice):
    """Return the loops for a choice, and the slopes by hand if it stops gradients."""
    known = reference.REFERENCES[choice.axis]
    place = f"tests/references/{next(iter(known.values())).__module__}.py"
    assert choice.name in known, (
        f"{choice}: write {choice.axis}_{choice.name} in {place} from its source, with loops, and enter it in the "
        f"table there as {choice.name}"
    )
    return known[choice.name], reference.GRADIENTS.get(choice.axis, {}).get(choice.name)


@pytest.mark.holds("S0.7", "S0.8", "S0.10", "S0.11", "S1.7", "S2.2", "S3.10", "S4.13")
def test_a_choice_keeps_what_is_promised(any_choice):
    """Value and gradient are those of the loops, off-policy and ragged; nothing that it obeys is undeclared."""
    found = [str(result) for result in examine(any_choice, *reference_of(any_choice)) if result.problem]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("axis", AXES)
def test_every_function_is_named_by_a_yaml(axis):
    for name in set(AXES[axis]) - {choice.name for choice in choices(axis)}:
        named = "".join(f", and `{hyperparameter}`" for hyperparameter in hyperparameters(AXES[axis][name]))
        pytest.fail(f"{axis}: no YAML chooses `{name}`; write conf/{axis}/{name}.yaml with `name: {name}`{named}")


@pytest.mark.parametrize("key", ROWS)
def test_every_function_has_the_facts_of_its_axis(key):
    for function in ROWS[key].functions.values():
        assert type(facts_of(function, ROWS[key].facts)) is ROWS[key].facts


def test_every_rule_is_of_a_function():
    assert {*PROBLEMS, *REMARKS} <= {f"{axis.group}={name}" for axis in ROWS.values() for name in axis.functions}


@pytest.mark.bits
@pytest.mark.slow  # large tensors
@pytest.mark.parametrize("axis", AXES)
def test_a_large_run_has_the_same_bits_alone_and_in_a_batch(axis):
    """A reduction over several large axes at once would be split between threads when it is alone."""
    threads, every = torch.get_num_threads(), batch(3, 128, 16, 32, dtype=torch.float32)
    torch.set_num_threads(2)
    try:
        for choice in choices(axis):
            stack = [every[name] for name in choice.needs]
            assert same_bits(choice(*stack)[1:2], choice(*(x[1:2] for x in stack))), choice
    finally:
        torch.set_num_threads(threads)


def test_every_law_is_tested():
    for axis, name in (("norm", "local"), ("clip", "higher"), ("agg", "token")):
        choice = next(choice for choice in choices(axis) if choice.label == name)
        assert {law for law, *_ in obeyed(choice)} == {*LAWS[axis]}


def test_the_batch_reaches_both_sides_of_a_clip():
    """Otherwise the comparisons with references would prove nothing about the bounds."""
    each = hard_batch()
    ratio, positive = (each["log_probs"] - each["old_log_probs"]).exp(), each["advantages"] > 0
    cases = [positive & (ratio > 1.3), positive & (ratio < 0.7), ~positive & (ratio > 1.3), ~positive & (ratio < 0.7)]
    assert all((case & each["mask"]).any(-1).any(-1).any(-1).all() for case in cases)
