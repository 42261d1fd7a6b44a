"""Advantages that weigh tokens by their entropy (``advantage_entropy_weight``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_step import Recipe
from small_runs import compose, values
from toy_state import make_experience, make_state, variant

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.core.masked import entropy_weights
from rlexp.loop.data import gather_groups
from rlexp.loop.step import train_step
from rlexp.models.policy import entropy
from rlexp.record.provenance import config_hash

PLAIN = variant(Recipe())
WEIGHED = replace(PLAIN, advantage_entropy_weight=0.4)
CLOSE = dict(rtol=1e-7, atol=1e-6)  # textpolicy adds 1e-8 to a mean of order one or a tenth


def textpolicy(advantage, entropies, beta):
    """textpolicy 2afe657 ``apply_gtpo_weighting`` of one completion, from its source."""
    mean = sum(entropies) / len(entropies)
    if mean < 1e-7:
        return [advantage] * len(entropies)
    return [advantage * max(0.0, 1 + beta * (h / (mean + 1e-8) - 1)) for h in entropies]


def entropies_of(state, experience):
    """Entropies of the policy that sampled at each token."""
    return entropy(state.policy.distributions(experience.prompts, experience.completions, state.temperature)).detach()


@pytest.mark.parametrize("beta", [0.1, 1.0, 3.0])
def test_weights_are_those_of_textpolicy_completion_by_completion(beta):
    """Ragged; one completion is certain of all its tokens; from 1 on some weights are kept from falling below 0."""
    random = np.random.default_rng(2)
    entropies, mask = random.exponential(size=(3, 4, 6)), np.arange(6) < random.integers(1, 7, (3, 4, 1))
    entropies[1, 2] = 0.0
    found = entropy_weights(torch.from_numpy(entropies), torch.from_numpy(mask), beta).numpy()
    for p, g in np.ndindex(3, 4):
        counted = mask[p, g]
        np.testing.assert_allclose(
            found[p, g][counted], textpolicy(1.0, entropies[p, g][counted].tolist(), beta), **CLOSE
        )
    assert (found[mask] == 0).any() == (beta == 3.0) and (found[1, 2][mask[1, 2]] == 1).all()
    if beta < 1:
        np.testing.assert_allclose((found * mask).sum(-1), mask.sum(-1), rtol=1e-12)  # 1 on average


def test_advantages_are_weighed_after_the_norm_and_only_in_runs_that_ask():
    state = make_state([(PLAIN, 2), (WEIGHED, 2)], [0, 1, 0, 1])
    experience = make_experience(state, 1, gather_groups(state, 1))
    entropies = entropies_of(state, experience)
    for run in (0, 1):
        assert torch.equal(experience.mask[run], experience.mask[run + 2])
        for p, g in np.ndindex(*experience.mask.shape[1:3]):
            counted = experience.mask[run, p, g]
            plain, weighed = (experience.advantages[each, p, g][counted] for each in (run, run + 2))
            assert (plain == plain[0]).all()
            expected = textpolicy(plain[0].item(), entropies[run, p, g][counted].tolist(), 0.4)
            torch.testing.assert_close(weighed, torch.tensor(expected, dtype=torch.float64), **CLOSE)
    assert not experience.advantages.requires_grad
    assert not torch.allclose(experience.advantages[0], experience.advantages[2])


def test_a_bound_is_of_what_has_been_weighed():
    state = make_state([(WEIGHED, 1), (replace(WEIGHED, advantage_clip=0.3), 1)], [0, 0])
    free, clipped = make_experience(state, 1, gather_groups(state, 1)).advantages
    torch.testing.assert_close(clipped, free.clamp(-0.3, 0.3), rtol=0, atol=0)


@pytest.mark.bits
def test_a_run_has_the_same_bits_beside_others_and_they_do_not_notice():
    together = make_state([(WEIGHED, 1), (PLAIN, 1)], [0, 1], dtype=torch.float32)
    singles = [make_state([(each, 1)], [seed], dtype=torch.float32) for seed, each in enumerate((WEIGHED, PLAIN))]
    for at in (1, 2):
        row, alone = train_step(together, at, True), [train_step(single, at, True) for single in singles]
        for run in (0, 1):
            for name, found in alone[run].items():
                torch.testing.assert_close(found[0], row[name][run], rtol=0, atol=0, equal_nan=True)


def test_it_is_refused_where_nobody_knows_the_entropies_and_absent_in_older_configs():
    with pytest.raises(ConfigError) as error:
        read(values("data=stale", "advantage_entropy_weight=0.1"))
    (line,) = error.value.problems
    assert line.startswith("advantage_entropy_weight=0.1 data=stale: asks for distributions of the policy that sampled")
    now = compose().model_dump()
    before = {key: value for key, value in now.items() if key != "advantage_entropy_weight"}
    assert config_hash(before) == config_hash(now) != config_hash({**now, "advantage_entropy_weight": 0.1})
