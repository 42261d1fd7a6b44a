"""What S4 of the source documents prints about losses over pairs and groups, and TRL's losses on the same numbers."""

from __future__ import annotations

import importlib.util
import math
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from axis_choices import CLOSE, bind
from published import advantages, close, tensor

from rlexp.axes.clip import pairs as of_pairs

PAIRS, LENGTHS = 5, (4, 7)  # of the preferred and of the other completion
DPO, IPO = dict(beta=0.1, label_smoothing=0.0, pairs="all"), dict(tau=0.1, pairs="all")


@pytest.fixture
def pairs() -> dict[str, torch.Tensor]:
    """Groups of two, the first of them preferred, longer or shorter than the other."""
    random = torch.Generator().manual_seed(4)
    shape = (PAIRS, 2, max(LENGTHS))
    log_probs, ref_log_probs = (-torch.randn(shape, generator=random).double().abs() for _ in range(2))
    lengths = torch.randint(1, max(LENGTHS) + 1, (PAIRS, 2, 1), generator=random)
    return {
        "log_probs": log_probs,
        "ref_log_probs": ref_log_probs,
        "rewards": tensor([[1.0, 0.0]]).expand(PAIRS, 2),
        "keep": torch.ones(PAIRS, 2, dtype=torch.bool),
        "mask": torch.arange(max(LENGTHS)) < lengths,
    }


def loss(choice, pairs) -> torch.Tensor:
    return bind("agg", "sequence")(choice(*(pairs[name] for name in choice.needs)), pairs["mask"])


@pytest.mark.holds("S4.9")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_s4_9_loss_at_the_reference(pairs, smoothing):
    at_reference = pairs | {"log_probs": pairs["ref_log_probs"]}
    close(loss(bind("clip", "dpo", **DPO | {"label_smoothing": smoothing}), at_reference).item(), 0.693147, 6)


@pytest.mark.holds("S4.9")
@pytest.mark.parametrize(("choice", "hyperparameters", "at_reference"), [("dpo", DPO, math.log(2)), ("ipo", IPO, 25.0)])
def test_s4_9_a_group_without_a_pair_counts_as_0(pairs, choice, hyperparameters, at_reference):
    """One of five groups ties: the first loss is four fifths of what the source prints, and so is the gradient."""
    given = pairs | {"log_probs": pairs["ref_log_probs"].clone().requires_grad_(), "rewards": pairs["rewards"].clone()}
    given["rewards"][2] = 1.0
    tied = loss(bind("clip", choice, **hyperparameters), given)
    assert tied.item() == pytest.approx(4 / 5 * at_reference)
    assert of_pairs.groups_with_pairs(*(given[n] for n in ("rewards", "keep", "mask")), pairs="all").item() == 0.8
    (slopes,) = torch.autograd.grad(tied, given["log_probs"])
    (whole,) = torch.autograd.grad(
        loss(bind("clip", choice, **hyperparameters), given | {"rewards": pairs["rewards"]}), given["log_probs"]
    )
    assert slopes[2].eq(0).all() and torch.equal(slopes[[0, 1, 3, 4]], whole[[0, 1, 3, 4]])


def test_s4_9_margin_and_accuracy(pairs):
    """Chosen by 1.2 nats in the first pair, rejected by 0.4 in the second; a third group has no pair."""
    gains = tensor([[1.0, -0.2], [0.1, 0.5], [3.0, 0.0]]).unsqueeze(-1)
    rewards, everything = tensor([[1, 0], [1, 0], [1, 1]]), torch.ones(3, 2, dtype=torch.bool)
    given = (gains, torch.zeros_like(gains), rewards, everything, everything.unsqueeze(-1))
    assert of_pairs.margin(*given, pairs="all").item() == pytest.approx((1.2 - 0.4) / 2)
    assert of_pairs.accuracy(*given, pairs="all").item() == 0.5
    assert of_pairs.groups_with_pairs(*given[2:], pairs="all").item() == pytest.approx(2 / 3)
    none = (*given[:2], torch.zeros_like(rewards), *given[3:])
    assert of_pairs.margin(*none, pairs="all").isnan() and of_pairs.accuracy(*none, pairs="all").isnan()


@pytest.mark.holds("E35")
def test_s4_error_35_a_larger_beta_stays_closer():
    """The margin at which the loss of a pair that is right with probability 0.9 has no slope: logit(0.9) / beta."""

    def slope(beta, margin):
        gains = tensor([[[margin], [0.0]]]).requires_grad_()
        mask = torch.ones(1, 2, 1, dtype=torch.bool)
        choice = bind("clip", "dpo", beta=beta, label_smoothing=0.1, pairs="all")
        losses = choice(gains, torch.zeros_like(gains), tensor([[1.0, 0.0]]), mask[..., 0], mask)
        return torch.autograd.grad(losses[0, 0, 0], gains)[0][0, 0, 0].item()

    for beta in (0.1, 1.0):
        optimum = math.log(9) / beta
        assert slope(beta, optimum - 0.1) < 0 < slope(beta, optimum + 0.1)


@pytest.mark.holds("E36")
def test_s4_error_36_log_probabilities_are_summed(pairs):
    """Every token twice as often is twice the margin, where a mean over tokens would leave it."""
    twice = {name: torch.cat([pairs[name]] * 2, -1) for name in ("log_probs", "ref_log_probs", "mask")}
    given = [pairs[name] for name in ("log_probs", "ref_log_probs", "mask")]
    torch.testing.assert_close(of_pairs.margins(*twice.values()), 2 * of_pairs.margins(*given), **CLOSE)


@pytest.mark.holds("S4.15", "E37")
@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_s4_error_37_the_target_of_ipo(tau):
    """1 / (2 τ): no loss there, and some at 1 / τ."""
    mask = torch.ones(1, 2, 1, dtype=torch.bool)
    choice = bind("clip", "ipo", tau=tau, pairs="all")
    losses = [
        choice(tensor([[[gain], [0.0]]]), torch.zeros(1, 2, 1).double(), tensor([[1.0, 0.0]]), mask[..., 0], mask)
        for gain in (0.5 / tau, 1 / tau)
    ]
    close(losses[0], [[[0.0], [0.0]]], 12)
    assert losses[1].min().item() == pytest.approx((0.5 / tau) ** 2)


@pytest.mark.holds("S4.11", "E42")
@pytest.mark.parametrize(
    ("rewards", "share", "expected"),
    [
        ([1, 2, 3, 4], 0.5, [0, 0, 0.3155, 0.6845]),
        ([1, 1, 1, 1], 0.5, [0.25, 0.25, 0.25, 0.25]),
        ([1, 0, 0, 0], 1.0, [0.7112, 0.0963, 0.0963, 0.0963]),
    ],
)
def test_s4_11_weights_of_normalised_rewards(rewards, share, expected):
    close(advantages(rewards, "rwr", beta=1.0, share=share, eps=1e-8, ddof=1), expected, 4)


def test_s4_error_42_a_small_share_is_at_least_one():
    assert advantages([1, 2, 3], "rwr", beta=1.0, share=0.1, eps=1e-8, ddof=1).tolist() == [0, 0, 1]


# ---- TRL


class FakeTrainer(SimpleNamespace):
    """As much of a DPOTrainer as its loss reads."""

    def __init__(self, kind: str, beta: float):
        same = SimpleNamespace(gather=lambda x: x, gather_for_metrics=lambda x: x, device=torch.device("cpu"))
        settings = dict(loss_types=[kind], loss_weights=[1.0], label_smoothing=0.0, beta=beta, accelerator=same)
        settings |= dict(f_divergence_type="reverse_kl", precompute_ref_logps=True, ld_alpha=None)
        settings |= dict(aux_loss_enabled=False, use_weighting=False, _total_train_tokens=0, _tp_size=1)
        super().__init__(**settings, model=SimpleNamespace(training=True), _metrics={"train": defaultdict(list)})


def of_trl(kind: str, beta: float, pairs) -> tuple[torch.Tensor, dict]:
    """Return the loss that TRL's trainer computes of these log-probabilities, and its metrics."""
    from trl import DPOTrainer

    def rows(values):
        return torch.cat([values[:, 0], values[:, 1]])  # the preferred ones first

    mask = rows(pairs["mask"])
    kept = {name: rows(pairs[name]).where(mask, 0.0) for name in ("log_probs", "ref_log_probs")}
    nothing = torch.zeros(mask.shape)
    outputs = SimpleNamespace(log_probs=kept["log_probs"], entropy=nothing, mean_logits=nothing, is_top1=nothing.bool())
    chosen, rejected = kept["ref_log_probs"].sum(-1).chunk(2)
    ids = torch.zeros(mask.shape[0], 1 + mask.shape[1], dtype=torch.long)
    full = torch.cat([torch.zeros(len(mask), 1, dtype=torch.bool), mask], -1).long()
    inputs = {"input_ids": ids, "attention_mask": full, "completion_mask": full}
    inputs |= {"ref_chosen_logps": chosen, "ref_rejected_logps": rejected}
    trainer = FakeTrainer(kind, beta)
    return DPOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False), trainer._metrics["train"]


def compared(ours, theirs, log_probs):
    """Equal values and gradients."""
    torch.testing.assert_close(ours, theirs, **CLOSE)
    slopes = (torch.autograd.grad(each, log_probs)[0] for each in (ours, theirs))
    torch.testing.assert_close(*slopes, **CLOSE)


@pytest.mark.skipif(not importlib.util.find_spec("trl"), reason="TRL is not installed: pip install '.[trl]'")
class TestTRL:
    """Needs `pip install '.[trl]'`."""

    def test_dpo_is_that_of_trl(self, pairs):
        pairs["log_probs"].requires_grad_()
        theirs, metrics = of_trl("sigmoid", 0.1, pairs)
        compared(loss(bind("clip", "dpo", **DPO), pairs), theirs, pairs["log_probs"])
        given = [pairs[name].detach() for name in ("log_probs", "ref_log_probs", "rewards", "keep", "mask")]
        margin = 0.1 * of_pairs.margin(*given, pairs="all").item()
        assert margin == pytest.approx(metrics["rewards/margins"][0], rel=1e-9)
        assert of_pairs.accuracy(*given, pairs="all").item() == pytest.approx(metrics["rewards/accuracies"][0])

    def test_ipo_of_trl_has_means_over_tokens(self, pairs):
        """The same where completions have one token that counts, another otherwise."""
        theirs, _ = of_trl("ipo", 0.1, pairs)
        assert loss(bind("clip", "ipo", **IPO), pairs).item() != pytest.approx(theirs.item(), rel=0.01)
        single = pairs | {"mask": torch.arange(max(LENGTHS)) < torch.ones(PAIRS, 2, 1)}
        single["log_probs"].requires_grad_()
        compared(loss(bind("clip", "ipo", **IPO), single), of_trl("ipo", 0.1, single)[0], single["log_probs"])
