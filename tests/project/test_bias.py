"""benchmarks.bias: its sums against autograd, what must be exact, and its page."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from benchmarks import bias

# Rounding of sums of a few thousand float64 numbers of order one.
CLOSE = dict(rtol=1e-9, atol=1e-11)
WORLD = bias.tree()


def numbers(seed=0):
    random = torch.Generator().manual_seed(seed)
    rewards = (torch.rand(len(WORLD.tokens), generator=random) < 0.2).double()
    policies = [torch.randn(WORLD.nodes, bias.TOKENS, generator=random).double()]
    for _ in range(20):
        policies.append(policies[-1] + 0.01 * torch.randn(policies[0].shape, generator=random).double())
    return rewards, policies


def test_all_completions_are_there_once():
    """27 end within three tokens or fewer, and so on: Σ_t 3^(t−1) that end at t < 5, and 4 · 3⁴ of five."""
    assert len(WORLD.tokens) == 1 + 3 + 9 + 27 + 4 * 81 and WORLD.nodes == 1 + 3 + 9 + 27 + 81
    assert len({tuple(row) for row in WORLD.tokens.tolist()}) == len(WORLD.tokens)
    chances = WORLD.log_probs(numbers()[1][0]).sum(-1).exp()
    torch.testing.assert_close(chances.sum(), torch.tensor(1.0).double(), **CLOSE)


def test_sums_are_those_of_autograd():
    _, policies = numbers()
    logits = policies[0].clone().requires_grad_()
    random = torch.Generator().manual_seed(1)
    slopes = torch.randn(WORLD.mask.shape, generator=random).double()
    weights = torch.rand(len(WORLD.tokens), generator=random).double()
    total, square = bias.Tree.gradient(WORLD, logits.detach(), slopes, weights)
    each = (slopes * WORLD.log_probs(logits)).sum(-1)
    torch.testing.assert_close(
        total, torch.autograd.grad((weights * each).sum(), logits, retain_graph=True)[0], **CLOSE
    )
    squares = [torch.autograd.grad(one, logits, retain_graph=True)[0].square().sum() for one in each]
    torch.testing.assert_close(square, (torch.stack(squares) * weights).sum(), **CLOSE)


def test_fresh_samples_are_unbiased_by_every_method():
    found = bias.measured(WORLD, *numbers(), bias.ages_of(0, False))
    assert found.pop("drift") == 0
    biases, spreads, _ = zip(*found.values(), strict=True)
    assert max(biases) < 1e-9 and max(spreads) == pytest.approx(min(spreads), rel=1e-9)


@pytest.mark.parametrize("in_flight", [False, True])
def test_old_samples_are_unbiased_by_the_product_alone(in_flight):
    """No product here reaches the bound of 3."""
    rewards, policies = numbers()
    found = bias.measured(WORLD, rewards, policies, bias.ages_of(16, in_flight))
    assert found.pop("drift") > 0
    unbiased = {name for name, row in found.items() if row[0] < 1e-9}
    usual = "clip=symmetric anchor=proximal mismatch=sequence_"
    assert unbiased == {f"{usual}truncate", f"{usual}mask"}


def test_a_completion_s_gradient_is_its_own():
    """What is asked of a method here holds for samples: no completion changes the slope of another."""
    _, policies = numbers()
    now, then = WORLD.log_probs(policies[-1]), WORLD.log_probs(policies[0])
    given = {"sampler_log_probs": then, "proximal_log_probs": now, "mask": WORLD.mask, "ages": torch.full_like(now, 8)}
    given |= {"advantages": torch.linspace(-1, 1, len(now)).double()[:, None].expand(now.shape)}
    for method in bias.METHODS:
        some = [0, 7, 100, 363]
        parts = [
            bias.slopes_of(
                method, now[which][None], {k: v[which][None] for k, v in given.items()} | {"log_ratio_bound": 20.0}
            )
            for which in (slice(None), some)
        ]
        torch.testing.assert_close(parts[0][:, some], parts[1], **CLOSE)


def test_in_flight_the_last_token_is_new():
    assert bias.ages_of(8, True) == [8, 6, 4, 2, 0] and bias.ages_of(8, False) == [8] * 5


@pytest.mark.slow
def test_the_command_writes_table_figure_and_numbers(tmp_path, monkeypatch):
    (tmp_path / "bias.md").write_text("<!-- written by python -m benchmarks.bias -->\n<!-- until here -->\n")
    monkeypatch.setattr(sys, "argv", ["bias", "--worlds", "2", "--docs", str(tmp_path)])
    bias.main()
    found = json.loads((tmp_path / "bias" / "bias.json").read_text())["found"]
    assert len(found) == 2 * len(bias.AGES) and all(len(each["drift"]) == 2 for each in found.values())
    page = (tmp_path / "bias.md").read_text()
    assert page.count("| `clip=") == 2 * len(bias.METHODS) and (tmp_path / "bias" / "bias.svg").stat().st_size > 10_000
