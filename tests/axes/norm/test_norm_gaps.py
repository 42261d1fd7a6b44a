"""Norms of tokens where tokens that do not count stand between those that do: against loops, verl's among them."""

from __future__ import annotations

import numpy as np
import pytest
import reference_norm_token
import torch
from axis_choices import bind

from rlexp.axes import norm
from rlexp.core.masked import at_last_token, last_token

P, G, T = 3, 5, 8
CLOSE = dict(rtol=1e-10, atol=1e-12)
GAMMA, LAM = dict(gamma=0.9), dict(gamma=0.9, lam=0.7, bootstrap=0.6)
SCALE = dict(eps=1e-6, ddof=1)
NORMS = {
    "reinforce": GAMMA,
    "reinforce_pp": GAMMA | SCALE,
    "reinforce_pp_baseline": GAMMA | SCALE,
    "optimal_token": {},
    "gae": LAM,
    "gae_whitened": LAM | SCALE,
    "value_baseline": GAMMA,
}


def gappy() -> dict[str, torch.Tensor]:
    """Random numbers and masks with holes, one of them without any token; nothing is paid outside a mask."""
    random = torch.Generator().manual_seed(3)

    def normal(*size):
        return torch.randn(size, generator=random, dtype=torch.float64)

    mask = torch.rand(P, G, T, generator=random) < 0.6
    mask[0, 0], mask[1, 1] = False, torch.arange(T) == T - 1
    keep = torch.rand(P, G, generator=random) < 0.8
    old = -normal(P, G, T).abs() - 0.01
    return {
        "outcomes": normal(P, G),
        "token_penalties": normal(P, G, T).where(mask, 0.0),
        "token_rewards": normal(P, G, T).where(mask, 0.0),
        "values": normal(P, G, T + 1),
        "mask": mask,
        "keep": keep,
        "finished": torch.rand(P, G, generator=random) < 0.5,
        "old_log_probs": old,
        "sum_pi_squared": old.exp() ** 2 + 0.1,
    }


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_tokens_skips_what_does_not_count(name):
    choice, offered = bind("norm", name, **NORMS[name]), gappy()
    given = [offered[each] for each in choice.needs]
    expected = reference_norm_token.FUNCTIONS[name](*(each.numpy() for each in given), **NORMS[name])
    counted = offered["mask"] & offered["keep"].unsqueeze(-1)
    torch.testing.assert_close(choice(*given)[counted], torch.from_numpy(np.asarray(expected))[counted], **CLOSE)


def verl_gae(rewards, values, mask, gamma, lam):
    """verl ``compute_gae_advantage_return`` of one completion, from its source: observation tokens are skipped."""
    following = last = 0.0
    found = []
    for t in reversed(range(len(rewards))):
        error = rewards[t] + gamma * following - values[t]
        if mask[t]:
            following, last = values[t], error + gamma * lam * last
        found.append(last)
    return found[::-1]


def test_gae_is_that_of_verl():
    """All have ended: verl knows no value behind the last token."""
    offered = gappy()
    finished = torch.ones_like(offered["finished"])
    found = norm.gae(offered["token_rewards"], offered["values"], offered["mask"], finished, **LAM)
    for p, g in np.ndindex(P, G):
        rows = (offered[name][p, g].tolist() for name in ("token_rewards", "values", "mask"))
        expected = torch.tensor(verl_gae(*rows, 0.9, 0.7), dtype=torch.float64)
        mask = offered["mask"][p, g]
        torch.testing.assert_close(found[p, g][mask], expected[mask], **CLOSE)


def test_with_lam_1_advantages_and_values_add_up_to_the_returns_across_gaps():
    offered = gappy()
    inputs, mask = (offered["token_rewards"], offered["values"], offered["mask"]), offered["mask"]
    every = torch.ones_like(offered["finished"])
    found = norm.gae_returns(*inputs, every, gamma=0.9, lam=1.0, bootstrap=0.0)
    torch.testing.assert_close(found[mask], norm.rewards_to_go(inputs[0], mask, gamma=0.9)[mask], **CLOSE)


def test_a_reward_is_paid_once_at_the_last_token_of_all():
    mask = torch.tensor([[True, True, False, False, True, True, False], [False] * 7, [False, True] + [False] * 5])
    assert last_token(mask).nonzero().tolist() == [[0, 5], [2, 1]]
    paid = at_last_token(torch.tensor([2.0, 3.0, 4.0]), mask)
    assert paid.sum(-1).tolist() == [2, 0, 4]
    assert norm.next_places(mask)[0].tolist() == [1, 4, 4, 4, 5, 6, 7]
