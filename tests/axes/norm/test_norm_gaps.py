"""Norms of tokens where tokens that do not count stand between those that do: against loops, verl's among them."""

from __future__ import annotations

import numpy as np
import pytest
import reference_norm_token
import torch
from axis_choices import bind

from rlexp.axes import norm
from rlexp.axes.norm import critic
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
    "gae_decoupled": LAM | dict(lam_value=0.95),
    "gae_length_adaptive": dict(gamma=0.9, alpha=0.4, lam_value=0.95, bootstrap=0.6),
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
    found = critic.gae(offered["token_rewards"], offered["values"], offered["mask"], finished, **LAM)
    for p, g in np.ndindex(P, G):
        rows = (offered[name][p, g].tolist() for name in ("token_rewards", "values", "mask"))
        expected = torch.tensor(verl_gae(*rows, 0.9, 0.7), dtype=torch.float64)
        mask = offered["mask"][p, g]
        torch.testing.assert_close(found[p, g][mask], expected[mask], **CLOSE)


def test_with_lam_1_advantages_and_values_add_up_to_the_returns_across_gaps():
    offered = gappy()
    inputs, mask = (offered["token_rewards"], offered["values"], offered["mask"]), offered["mask"]
    every = torch.ones_like(offered["finished"])
    found = critic.gae_returns(*inputs, every, gamma=0.9, lam=1.0, bootstrap=0.0)
    torch.testing.assert_close(found[mask], critic.rewards_to_go(inputs[0], mask, gamma=0.9)[mask], **CLOSE)


@pytest.mark.parametrize("lam_value", [1.0, 0.6])
def test_decoupled_targets_are_returns_of_a_lambda_of_their_own(lam_value):
    """Those of ``gae`` with ``lam_value``, whatever the advantages have; with 1 the rewards to come, across gaps."""
    offered, settings = gappy(), dict(gamma=0.9, bootstrap=0.6)
    given = [offered[name] for name in ("token_rewards", "values", "mask", "finished")]
    expected = norm.TARGETS["gae"](*given, lam=lam_value, **settings)
    names = "gae_decoupled", "gae_length_adaptive"
    for target in (norm.TARGETS[name] for name in names):
        torch.testing.assert_close(target(*given, lam_value=lam_value, **settings), expected, rtol=0, atol=0)
    if lam_value == 1:
        ended = [*given[:3], torch.ones_like(given[3])]
        found = norm.TARGETS[names[0]](*ended, lam_value=1.0, **settings)
        rewards = critic.rewards_to_go(given[0], given[2], gamma=0.9)
        torch.testing.assert_close(found[given[2]], rewards[given[2]], **CLOSE)


def test_a_lambda_by_length_is_the_one_step_error_below_its_bound_and_nears_the_return_above():
    """α = ½: λ is 0 for up to two tokens, ½ for four, ¾ for eight; each completion is ``gae`` of its own λ."""
    offered = gappy() | {"mask": torch.arange(T) < torch.tensor([1, 2, 4, 6, 8]).view(1, G, 1).expand(P, G, 1)}
    given = [offered[name] for name in ("token_rewards", "values", "mask", "finished")]
    found = critic.gae_length_adaptive(*given, gamma=0.9, alpha=0.5, lam_value=1.0, bootstrap=0.6)
    for g, lam in enumerate([0.0, 0.0, 0.5, 2 / 3, 0.75]):
        alone = critic.gae(*(each[:, g : g + 1] for each in given), gamma=0.9, lam=lam, bootstrap=0.6)
        torch.testing.assert_close(found[:, g : g + 1], alone, **CLOSE)


def nemo_gae(rewards, values, mask, lam, gamma=0.9):
    """NeMo-RL 7ea279a ``GeneralizedAdvantageEstimator._compute_gae`` of one completion, from its source."""
    following, running, found = 0.0, 0.0, []
    for t in reversed(range(len(rewards))):
        advanced = rewards[t] + gamma * following - values[t] + gamma * lam * running
        following = values[t] * mask[t] + (1 - mask[t]) * following
        running = advanced * mask[t] + (1 - mask[t]) * running
        found.append(running)
    return found[::-1]


def test_advantages_and_targets_by_length_are_those_of_nemo_rl():
    offered, alpha = gappy(), 0.4
    inputs = [offered[name] for name in ("token_rewards", "values", "mask")]
    finished, settings = torch.ones_like(offered["finished"]), dict(gamma=0.9, lam_value=0.8, bootstrap=0.0)
    advantages = critic.gae_length_adaptive(*inputs, finished, alpha=alpha, **settings)
    targets = norm.TARGETS["gae_length_adaptive"](*inputs, finished, **settings)
    for p, g in np.ndindex(P, G):
        rewards, values, mask = (each[p, g].tolist() for each in inputs)
        lam = 1 - 1 / max(alpha * sum(mask), 1.0)
        for found, of_lam, added in ((advantages, lam, 0.0), (targets, 0.8, 1.0)):
            expected = [a + added * v for a, v in zip(nemo_gae(rewards, values, mask, of_lam), values, strict=False)]
            counted = inputs[2][p, g]
            torch.testing.assert_close(
                found[p, g][counted], torch.tensor(expected, dtype=torch.float64)[counted], **CLOSE
            )


def test_a_reward_is_paid_once_at_the_last_token_of_all():
    mask = torch.tensor([[True, True, False, False, True, True, False], [False] * 7, [False, True] + [False] * 5])
    assert last_token(mask).nonzero().tolist() == [[0, 5], [2, 1]]
    paid = at_last_token(torch.tensor([2.0, 3.0, 4.0]), mask)
    assert paid.sum(-1).tolist() == [2, 0, 4]
    assert critic.next_places(mask)[0].tolist() == [1, 4, 4, 4, 5, 6, 7]
