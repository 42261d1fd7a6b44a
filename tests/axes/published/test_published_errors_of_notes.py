"""Where the source documents contradict themselves or claim too much; see ``test_published_errors.py``."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import bind, slopes
from published import advantages, close, tensor
from small_runs import compose

from rlexp.core.registry import bind_choice
from rlexp.tasks import TASKS

ONE_TOKEN = torch.ones(1, 1, 1, dtype=torch.bool)
AFTER = torch.linspace(0.0, 20.0, 81, dtype=torch.float64)  # nats by which the proxy is weighed more and more


@pytest.mark.holds("E32")
def test_error_32_a_kl_of_taken_tokens_has_their_shape():
    """S2's docstring has a vocabulary axis that its code never has; its ε of .01 is clip.low and clip.high."""
    log_probs = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    found = bind("kl", "k3")(log_probs, torch.zeros_like(log_probs), torch.full((2,), 20.0))
    assert found.shape == log_probs.shape
    clip = compose("clip=symmetric", "clip.low=0.01", "clip.high=0.01").clip
    assert (clip.low, clip.high) == (0.01, 0.01)


@pytest.mark.holds("E50")
def test_error_50_a_completion_with_a_negative_advantage_has_no_loss_below_its_bound():
    """S3 lets A = −0.5 with clip 0.2 have the loss +0.2: no ratio gives less than 0.5 · 0.8 = 0.4."""
    ratios = torch.linspace(0.01, 5, 500, dtype=torch.float64)
    losses = [
        bind("clip", "ppo", low=0.2, high=0.2)(
            ratio.log().view(1, 1, 1), torch.zeros(1, 1, 1).double(), tensor([[[-0.5]]]), ONE_TOKEN, torch.tensor(20.0)
        )
        for ratio in ratios
    ]
    close(torch.stack(losses).min(), 0.4, 12)


@pytest.mark.holds("E51")
def test_error_51_a_reward_of_one_or_zero_is_never_a_fraction():
    """S3 says that its format reward returns 1 or 0, and shows .8, .7 and −.2."""
    task = bind_choice(TASKS, compose("task=sort").task)()
    answers, mask = task.oracle(task.prompts(torch.rand(1, 6, task.draws), held_out=False))
    prompts = task.prompts(torch.rand(1, 6, task.draws), held_out=False)
    finished = torch.rand(1, 6, 1) > 0.5
    scores = task.score(prompts, answers.unsqueeze(2), mask.unsqueeze(2), finished).components["format"]
    assert not {*scores.flatten().tolist()} - {0.0, 1.0} and not {0.8, 0.7, -0.2} & {0.0, 1.0}


@pytest.mark.holds("E52")
def test_error_52_one_part_in_b_is_what_comes_from_above_and_not_what_a_completion_contributes():
    """S3: 1/B makes all completions contribute equally. Their gradients are 1/B times A, and differ."""
    log_probs = tensor([[[-1.0], [-1.0], [-1.0]]])
    gains, mask = advantages([[1, 0, 0.5]], "center").view(1, 3, 1), torch.ones(1, 3, 1, dtype=torch.bool)
    losses = (-gains * log_probs).requires_grad_()
    above = torch.autograd.grad(bind("agg", "sequence")(losses, mask), losses)[0]
    close(above.flatten(), [1 / 3] * 3, 12)
    contributed = slopes(bind("clip", "naive"), log_probs, log_probs, gains, mask) / 3
    close(contributed.flatten(), [-1 / 6, 1 / 6, 0.0], 12)


@pytest.mark.holds("E53")
@pytest.mark.parametrize(("cap", "penalty"), [(1000, 0.0), (15, -1.0)])
def test_error_53_a_penalty_that_is_the_same_for_all_is_taken_away_again(cap, penalty):
    """S1 has completions of 15 tokens and L_max 1000: nothing is punished. With L_max 15 everything is, as much."""
    verdicts, lengths = tensor([[1, -1, 1, 0]]), tensor([[15, 15, 15, 15]])
    shaped = bind("shaping", "overlong", cap=cap, cache=2, factor=1.0)(verdicts, lengths)
    close(shaped - verdicts, [[penalty] * 4], 12)
    after, before = (advantages(each.tolist(), "local", eps=1e-8, ddof=1) for each in (shaped, verdicts))
    torch.testing.assert_close(after, before)


def two_tokens_trained_on_two_answers(depends: bool) -> torch.Tensor:
    """Return P(aa), P(ab), P(ba), P(bb) after supervised training on aa and bb."""
    first, second = torch.zeros(2, requires_grad=True), torch.zeros(2, 2, requires_grad=True)
    with torch.no_grad():
        second += torch.tensor([[0.3, -0.3], [0.2, -0.2]])
    optimizer = torch.optim.Adam([first, second], lr=0.1)

    def joint():
        seen = second if depends else second[:1].expand(2, 2)
        return first.log_softmax(-1).unsqueeze(-1), seen.log_softmax(-1)

    for _ in range(400):
        optimizer.zero_grad()
        head, tail = joint()
        of_answers = torch.stack([head[0, 0], tail[0, 0], head[1, 0], tail[1, 1]]).view(1, 2, 1, 2)
        bind("imitation", "sft")(of_answers).sum().backward()
        optimizer.step()
    return sum(joint()).exp().detach().flatten().double()


@pytest.mark.holds("S4.19", "E56")
def test_error_56_supervised_training_keeps_both_modes_and_averages_none():
    """S4: SFT averages modes. A policy that reads its tokens has half of each; without it all four mix."""
    close(two_tokens_trained_on_two_answers(depends=True), [0.5, 0.0, 0.0, 0.5], 2)
    close(two_tokens_trained_on_two_answers(depends=False), [0.25] * 4, 2)


def of_proxy_and_gold() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return all strings' proxy and gold, and the policies π₀ exp(weight · proxy), ``[weights strings]``."""
    task = bind_choice(TASKS, compose("task=enumerable").task)()
    proxy, gold = task.rewards.proxy.double(), task.rewards.gold.double()
    return proxy, gold, (AFTER.unsqueeze(-1) * proxy).softmax(-1)


@pytest.mark.holds("E44")
def test_error_44_a_proxy_that_levels_off_is_what_overoptimisation_looks_like():
    """S4: levelling off is fine. Over the last third the proxy gains a fiftieth, gold is a point below its top."""
    proxy, gold, policies = of_proxy_and_gold()
    of_proxy, of_gold = policies @ proxy, policies @ gold
    assert (of_proxy.diff() > 0).all()
    late = slice(2 * len(AFTER) // 3, None)
    assert of_proxy[late][-1] - of_proxy[late][0] < 0.03 * (of_proxy[-1] - of_proxy[0])
    assert of_gold.max() - of_gold[late].max() > 0.9 and of_gold.argmax() < len(AFTER) // 2


@pytest.mark.holds("E43")
def test_error_43_dpo_follows_what_its_pairs_prefer_beyond_the_top_of_gold():
    """S4: DPO does not hack. Its loss is least at π₀ exp(proxy / beta): the same policies as above."""
    proxy, gold, policies = of_proxy_and_gold()
    beta, start = 1 / AFTER[-1].item(), torch.zeros_like(proxy).softmax(-1)
    pair = proxy.argsort()[[-40, 40]]  # a better one and a worse one
    log_probs, reference = policies[-1].log()[pair].view(1, 2, 1), start.log()[pair].view(1, 2, 1)
    mask = torch.ones(1, 2, 1, dtype=torch.bool)
    given = reference, proxy[pair].view(1, 2), mask[..., 0], mask
    turned = torch.sigmoid(proxy[pair[1]] - proxy[pair[0]]).item()  # how often Bradley and Terry's labeller errs
    log_probs.requires_grad_()
    loss = bind("clip", "dpo", beta=beta, label_smoothing=turned, pairs="all")(log_probs, *given)
    close(torch.autograd.grad(loss.sum(), log_probs)[0].flatten(), [0.0, 0.0], 9)
    assert (policies[-1] * gold).sum() < (policies * gold).sum(-1).max() - 0.5


@pytest.mark.holds("S4.12")
def test_s4_12_the_numbers_of_the_table_of_practice_are_settings_here():
    """Weight of the KL, bounds of the clip, value, entropy and λ, norm of the gradient, warm-up."""
    config = compose(
        "preset=rlhf", "kl.coef=0.1", "kl_control=ziegler", "clip.low=0.1", "clip.high=0.2", "entropy_coef=0.01",
        "norm.lam=0.95", "lr=1e-6", "grad_clip=1.0", "warmup_steps=10",
    )  # fmt: skip
    assert (config.kl.coef, config.norm.lam, config.grad_clip, config.warmup_steps) == (0.1, 0.95, 1.0, 10)
    assert config.kl_control.name == "ziegler" and math.isclose(config.lr, 1e-6)
