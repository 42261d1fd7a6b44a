"""Losses against a teacher: gradients in the student's distribution, laws, and that they are TRL's."""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
import pytest
import reference
import reference_distillation as loops
import torch
from axis_choices import bind, choices, numbers

SHAPE = 2, 3, 4, 7
# Float64 sums of a few dozen numbers of order one; central differences of step 1e-6.
CLOSE, DIFFERENCES = dict(rtol=1e-9, atol=1e-11), dict(rtol=1e-5, atol=1e-7)
OF_DISTRIBUTIONS = [choice for choice in choices("distillation") if "distributions" in choice.needs]
VARIED = [
    {"alpha": alpha, "top_k": k, "support": support, "tail": tail, "is_clip": None}
    for alpha in (0.0, 0.3, 1.0)
    for k, tail in ((None, False), (3, False), (3, True), (99, True))
    for support in ("student", "teacher")
]


def tensors():
    found = numbers(*SHAPE[:-1])
    return found | {"mask": torch.ones_like(found["mask"])}


@pytest.mark.parametrize("settings", VARIED, ids=str)
def test_the_gradient_in_the_students_distribution_is_that_of_the_loops(settings):
    given = tensors()
    student = given["distributions"].requires_grad_()
    loss = bind("distillation", "jsd", **settings).of(given)
    (found,) = torch.autograd.grad(loss.sum(), student)
    settings = {key: value for key, value in settings.items() if key != "is_clip"}
    for at in [(0, 0, 0), (1, 2, 3)]:
        value = partial(loops.divergence_of, teacher=given["teacher_distributions"][at].tolist(), **settings)
        wanted = reference.gradient(value, student[at].detach().numpy())
        np.testing.assert_allclose(found[at].numpy(), wanted, **DIFFERENCES)


def test_the_weight_of_a_token_has_no_gradient():
    given = tensors()
    old = dict(alpha=1.0, top_k=None, support="student", tail=False)
    log_probs = given["log_probs"].requires_grad_()
    student = given["distributions"].requires_grad_()
    losses = [bind("distillation", "jsd", **old, is_clip=bound).of(given) for bound in (None, 1.2)]
    slopes = [torch.autograd.grad(each.sum(), student)[0] for each in losses]
    weights = (log_probs - given["old_log_probs"]).detach().exp().clamp(max=1.2)
    torch.testing.assert_close(losses[1], losses[0] * weights, **CLOSE)
    torch.testing.assert_close(slopes[1], slopes[0] * weights.unsqueeze(-1), **CLOSE)
    assert not losses[1].requires_grad or torch.autograd.grad(losses[1].sum(), log_probs, allow_unused=True)[0] is None


def test_slopes_of_the_sampled_ones_are_those_by_hand():
    given = tensors()
    p, q, taught = (given[name] for name in ("log_probs", "old_log_probs", "teacher_log_probs"))
    p.requires_grad_()
    ratio = (p - q).detach().exp()
    slope = (p - taught).detach()
    (found,) = torch.autograd.grad(bind("distillation", "sampled", is_clip=1.5).of(given).sum(), p)
    torch.testing.assert_close(found, ratio.clamp(max=1.5) * slope, **CLOSE)
    (found,) = torch.autograd.grad(bind("distillation", "sampled_masked", low=0.1, kl_coef=0.3).of(given).sum(), p)
    kept = p.detach().exp() - q.exp() >= -0.1
    assert 0 < kept.float().mean() < 1
    torch.testing.assert_close(found, (ratio * slope).where(kept, 0.0) + 0.6 * (p - q).detach(), **CLOSE)

    (found,) = torch.autograd.grad(bind("distillation", "sampled_gated", beta=3.0).of(given).sum(), p)
    torch.testing.assert_close(found, -1 / (1 + (3 * slope).exp()), **CLOSE)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("largest", [0.01, 0.05, 50.0])
def test_a_clipped_divergence_is_that_of_the_loops_and_without_a_bound_the_divergence(alpha, largest):
    given = tensors()
    student = given["distributions"].requires_grad_()
    losses = bind("distillation", "jsd_clipped", alpha=alpha, largest=largest).of(given)
    (found,) = torch.autograd.grad(losses.sum(), student)
    for at in [(0, 0, 0), (1, 2, 3)]:
        taught = given["teacher_distributions"][at].tolist()
        value = partial(loops.clipped_of, teacher=taught, alpha=alpha, largest=largest)
        assert losses[at].item() == pytest.approx(value(student[at].tolist()), rel=1e-9)
        np.testing.assert_allclose(
            found[at].numpy(), reference.gradient(value, student[at].detach().numpy()), **DIFFERENCES
        )
    plain = bind("distillation", "jsd", alpha=alpha, top_k=None, support="student", tail=False, is_clip=None).of(given)
    assert torch.allclose(losses, plain, **CLOSE) == (largest == 50)


def at_a_state(seed=2, vocabulary=7):
    """Logits of a student at one state, and log-probabilities of a teacher."""
    logits, other = torch.randn(2, vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return logits.requires_grad_(), other.log_softmax(-1)


def loss_at(choice, logits, taught, token=0):
    """Return the loss of one token that the student itself has drawn."""
    student = logits.log_softmax(-1).view(1, 1, 1, -1)
    given = {"distributions": student, "teacher_distributions": taught.view(1, 1, 1, -1)}
    given |= {"log_probs": student[..., token], "old_log_probs": student[..., token].detach()}
    given |= {"teacher_log_probs": taught[token].view(1, 1, 1), "log_ratio_bound": torch.tensor(20.0).double()}
    return choice.of(given).squeeze()


@pytest.mark.parametrize("name", ["sampled", "sampled_masked"])
def test_a_sampled_loss_follows_the_reverse_kl_over_tokens_of_the_student(name):
    """Exactly, over all tokens of a state: as TRL and prime-rl say of them."""
    logits, taught = at_a_state()
    choice = next(each for each in choices("distillation") if each.name == name)
    probabilities = logits.softmax(-1).detach()
    expected = sum(p * loss_at(choice, logits, taught, token) for token, p in enumerate(probabilities))
    student = logits.log_softmax(-1)
    reverse = (student.exp() * (student - taught)).sum()
    (found,), (wanted,) = (torch.autograd.grad(each, logits) for each in (expected, reverse))
    torch.testing.assert_close(found, wanted, **CLOSE)


@pytest.mark.parametrize("choice", OF_DISTRIBUTIONS, ids=str)
def test_a_divergence_is_0_with_a_slope_of_0_at_the_teacher_and_above_elsewhere(choice):
    logits, taught = at_a_state()
    elsewhere = loss_at(choice, logits, taught)
    assert elsewhere < -0.01 if choice.name == "jsd_clipped" else elsewhere > 0.01  # it has bounds on one side alone
    equal = taught.clone().requires_grad_()
    loss = loss_at(choice, equal, taught)
    assert abs(loss.item()) < 1e-12
    assert torch.autograd.grad(loss, equal)[0].abs().max() < 1e-12


def test_half_is_symmetric_and_bounded_by_log_2():
    choice = bind("distillation", "jsd", alpha=0.5, top_k=None, support="student", tail=False, is_clip=None)
    logits, taught = at_a_state()
    one, other = loss_at(choice, logits, taught), loss_at(choice, taught, logits.log_softmax(-1))
    assert one.item() == pytest.approx(other.item(), rel=1e-12)
    apart = torch.tensor([50.0, 0, 0]).double(), torch.tensor([0, 50.0, 0]).double().log_softmax(-1)
    assert loss_at(choice, *apart).item() == pytest.approx(np.log(2), rel=1e-12)


needs_trl = pytest.mark.skipif(not importlib.util.find_spec("trl"), reason="TRL is not installed: pip install '.[trl]'")


@needs_trl
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(("top_k", "tail"), [(None, False), (3, False), (3, True)])
def test_it_is_trls_self_distillation(alpha, top_k, tail):
    """Value and gradient, of float64 logits; TRL's support is the student's."""
    from trl.experimental.sdpo import loss_utils as trl

    logits, taught = (torch.randn(SHAPE, generator=torch.Generator().manual_seed(s)).double() for s in (1, 2))
    whole = partial(trl.compute_full_logit_self_distillation_loss, distillation_alpha=alpha)
    cut = partial(
        trl.compute_topk_self_distillation_loss,
        distillation_topk=top_k,
        distillation_alpha=alpha,
        distillation_add_tail=tail,
    )
    settings = dict(alpha=alpha, top_k=top_k, support="student", tail=tail, is_clip=None)
    nothing = torch.zeros(SHAPE[:-1]).double()
    found = []
    for ours in (True, False):
        point = logits.clone().requires_grad_()
        if ours:
            given = {"distributions": point.log_softmax(-1), "teacher_distributions": taught.log_softmax(-1)}
            given |= {"log_probs": nothing, "old_log_probs": nothing, "log_ratio_bound": torch.tensor(20.0)}
            loss = bind("distillation", "jsd", **settings).of(given)
        else:
            loss = (whole if top_k is None else cut)(point, taught)
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), point)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@needs_trl
@pytest.mark.slow
def test_sampled_is_trls_with_its_weights():
    from trl.experimental.sdpo import loss_utils as trl

    logits, taught = (torch.randn(SHAPE, generator=torch.Generator().manual_seed(s)).double() for s in (1, 2))
    tokens = torch.randint(SHAPE[-1], SHAPE[:-1], generator=torch.Generator().manual_seed(3))
    old = -torch.rand(SHAPE[:-1], generator=torch.Generator().manual_seed(4)).double()

    def log_probs_of(each):
        return each.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

    def theirs(point):
        loss = trl.compute_sampled_token_self_distillation_loss(point, taught, tokens, distillation_alpha=1.0)
        return trl.apply_importance_sampling_clipping(loss, log_probs_of(point), old, 1.3)

    def ours(point):
        given = {"log_probs": log_probs_of(point), "old_log_probs": old, "teacher_log_probs": log_probs_of(taught)}
        return bind("distillation", "sampled", is_clip=1.3).of(given | {"log_ratio_bound": torch.tensor(20.0)})

    results = []
    for each in (ours, theirs):
        point = logits.clone().requires_grad_()
        loss = each(point)
        results.append((loss.detach(), torch.autograd.grad(loss.sum(), point)[0]))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
