"""−log π of correct completions beside the other terms of the loss (``positive_nll_coef``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from axis_choices import bind
from interrupted import same_in_three_ways, stop_at  # noqa: F401 (a fixture)
from plain_step import Recipe
from reference import gradient
from small_runs import SHORT, SMALL, compose, rows, values
from toy_state import Toy, make_experience, make_state, variant

from rlexp.config.schema import read
from rlexp.core.blocks import minibatches
from rlexp.core.errors import ConfigError
from rlexp.core.masked import per_token
from rlexp.loop import requested
from rlexp.loop.data import gather_groups
from rlexp.loop.losses import positive_nll_terms
from rlexp.loop.metrics import of_others
from rlexp.loop.step import train_step
from rlexp.record.provenance import config_hash
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

SEEDS = [0, 1, 2]
COEF = 0.3
PLAIN = variant(Recipe())
# The loops and the losses are float64 sums of some fifty numbers of order one.
CLOSE = dict(rtol=1e-10, atol=1e-12)
# Central differences with a step of 1e-6 of sums of order one.
SLOPE = dict(rtol=1e-6, atol=1e-8)


class Lenient(Toy):
    """Answers that begin with 0 or 1 are correct: a third."""

    def score(self, *given):
        scores = super().score(*given)
        return scores._replace(correct=given[1][..., 0] < 2)


def runs(*chosen, seeds=None, **more):
    """One run for each variant."""
    return make_state([(each, 1) for each in chosen], seeds or SEEDS[: len(chosen)], task=Lenient(), **more)


def vapo(log_probs, mask, correct):
    """VAPO, arXiv 2504.05118: the mean of −log π over all tokens of the correct completions."""
    counted = [-log_probs[at] for at in np.ndindex(*mask.shape) if mask[at] and correct[at[:2]]]
    return sum(counted) / len(counted) if counted else 0.0


def nemo_rl(log_probs, mask, rewards):
    """NeMo-RL 7ea279a, from its source: a masked mean over the tokens of rewards above 0, 0 where there are none."""
    weights = mask * (rewards > 0)[..., None]
    return (-log_probs * weights).sum() / weights.sum() if weights.sum() > 0 else 0.0


def of_tokens(state, experience, log_probs, chosen):
    """Return the term by ``agg`` of one run, as a step on the whole rollout has it."""
    part = experience
    tensors = {**state.memory, **requested.tensors_of_step(state, part)}
    tensors["progress"] = torch.zeros_like(tensors["mean_tokens"])
    return positive_nll_terms(chosen, log_probs, part, tensors)["loss/positive_nll"]


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(drop_from_loss=True)], ids=["whole", "filtered"])
def test_with_token_means_it_is_that_of_vapo_and_of_nemo_rl_in_value_and_gradient(recipe):
    """Off-policy and ragged; what a filter takes out of the loss is not in it either."""
    chosen = replace(variant(recipe), positive_nll_coef=COEF)
    state = runs(chosen, chosen, chosen)
    experience = make_experience(state, 1, gather_groups(state, 1))
    random = np.random.default_rng(5)
    moved = experience.old_log_probs + torch.from_numpy(random.normal(scale=0.3, size=experience.mask.shape))
    moved.requires_grad_()
    terms = of_tokens(state, experience, moved, chosen)
    (slopes,) = torch.autograd.grad(terms.sum(), moved)
    assert not experience.mask.all() and (experience.mask.any(-1).all() == (recipe == Recipe()))
    for run in range(len(SEEDS)):
        now, mask = moved[run].detach().numpy(), experience.mask[run].numpy()
        correct = experience.kept["correct"][run].numpy()
        assert 0 < correct.sum() < correct.size
        assert terms[run].item() == pytest.approx(COEF * vapo(now, mask, correct > 0), **{"rel": 1e-10})
        assert terms[run].item() == pytest.approx(COEF * nemo_rl(now, mask, correct), **{"rel": 1e-10})

        def loss(point, mask=mask, correct=correct):
            return COEF * vapo(point.reshape(mask.shape), mask, correct > 0)

        np.testing.assert_allclose(slopes[run].flatten().numpy(), gradient(loss, now.flatten()), **SLOPE)


@pytest.mark.parametrize("agg", ["token", "bnpo", "sequence", "sequence_sum"])
def test_it_is_aggregated_as_the_policy_loss_over_correct_completions_alone(agg):
    chosen = replace(PLAIN, agg=bind("agg", agg), positive_nll_coef=COEF)
    state = runs(chosen)
    experience = make_experience(state, 1, gather_groups(state, 1))
    term = of_tokens(state, experience, experience.old_log_probs, chosen)
    mask = experience.mask & per_token(experience.kept["correct"] > 0, experience.mask)
    losses, tokens = (-experience.old_log_probs).where(mask, 0.0), mask.sum()
    number = {"token": tokens, "bnpo": tokens, "sequence_sum": mask[..., 0].numel()}
    if agg == "sequence":  # a completion that is left out stays in their number
        expected = (losses.sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    else:
        expected = losses.sum() / number[agg]
    torch.testing.assert_close(term[0], COEF * expected, **CLOSE)


def test_minibatches_together_have_the_gradient_of_the_whole(monkeypatch):
    """By the number of correct tokens of the whole rollout, one of whose minibatches may have none."""
    chosen = replace(PLAIN, positive_nll_coef=COEF)
    state = runs(chosen, minibatches=4)
    experience = make_experience(state, 1, gather_groups(state, 1))
    correct = experience.kept["correct"].clone()
    correct[:, 0] = 0
    experience = experience._replace(kept={**experience.kept, "correct": correct})
    shared = requested.tensors_of_step(state, experience)
    tensors = {**state.memory, **shared, "progress": torch.zeros_like(shared["mean_tokens"])}
    terms = []
    for part in minibatches(experience, state.prompts, state.minibatches):
        terms.append(positive_nll_terms(chosen, part.old_log_probs, part, tensors)["loss/positive_nll"])
    mask, old = experience.mask[0].numpy(), experience.old_log_probs[0].numpy()
    assert terms[0].item() == 0
    assert sum(terms).item() / 4 == pytest.approx(COEF * vapo(old, mask, correct[0].numpy() > 0), rel=1e-10)


def test_a_step_adds_it_and_only_for_runs_that_ask():
    """The total is the sum of the terms; the others learn as if they were alone, and have no such metric."""
    asking = replace(PLAIN, positive_nll_coef=COEF)
    both, plain = runs(PLAIN, asking, seeds=[0, 0]), runs(PLAIN)
    row, alone = train_step(both, 1, True), train_step(plain, 1, True)
    assert "loss/positive_nll" not in alone and of_others(both.blocks) == [{"loss/positive_nll"}, set()]
    assert row["loss/positive_nll"][0].isnan() and row["loss/positive_nll"][1] > 0.1
    for name, found in alone.items():
        torch.testing.assert_close(found[0], row[name][0], rtol=0, atol=0, equal_nan=True)
    assert row["loss/policy"][0] == row["loss/policy"][1]
    assert (row["loss/total"][1] - row["loss/total"][0]).item() == pytest.approx(row["loss/positive_nll"][1].item())
    moved = [[p[run] for p in both.policy.parameters()] for run in (0, 1)]
    assert not all(map(torch.equal, *moved))


def test_where_every_advantage_is_zero_it_raises_the_probability_of_what_was_correct():
    """Source: VAPO's reason for it, that a rare success is used by more than its advantage."""
    chosen = replace(PLAIN, norm=lambda rewards, keep: torch.zeros_like(rewards), positive_nll_coef=COEF)
    state = runs(chosen)
    groups = gather_groups(state, 1)
    experience = make_experience(state, 1, groups)

    def likelihood(which):
        log_probs = state.policy.log_probs(experience.prompts, experience.completions, state.temperature).log_probs
        return log_probs.detach()[experience.mask & per_token(which, experience.mask)].mean()

    correct = experience.kept["correct"] > 0
    before = likelihood(correct)
    assert not experience.advantages.any()
    train_step(state, 1, False)
    assert likelihood(correct) > before


@pytest.mark.bits
@pytest.mark.slow
def test_runs_with_it_are_the_same_alone_together_and_resumed(tmp_path, stop_at):  # noqa: F811
    ways = {"none": [], "token": ["positive_nll_coef=0.1"], "sequence": ["positive_nll_coef=1.0", "agg=sequence"]}

    def jobs(folder):
        for name, way in ways.items():
            (folder / name).mkdir(parents=True)
            several = [*SHORT, *SMALL, *way, "steps=6", "minibatches=2", "checkpoint_every=3", "task.longest=2"]
            yield Job(compose(*several), folder / name, name, name)

    together = same_in_three_ways(*(list(jobs(tmp_path / place)) for place in ("all", "one", "parts")), stop_at, 5)
    has = {job.name: "loss/positive_nll" in rows(job.folder)[-1] for job in together}
    assert has == {"none": False, "token": True, "sequence": True}


def test_old_completions_have_it_too(tmp_path):
    """What was correct is kept with the completions, or said anew of them."""
    for name in ("stale", "offline"):
        (tmp_path / name).mkdir()
        job = Job(compose(*SHORT, *SMALL, f"data={name}", "positive_nll_coef=0.1"), tmp_path / name, name, name)
        train_jobs([job])
        assert "loss/positive_nll" in rows(tmp_path / name)[-1]


def test_it_is_refused_where_the_task_does_not_judge_and_absent_in_older_configs():
    with pytest.raises(ConfigError) as error:
        read(values("reward=learned", "positive_nll_coef=0.1"))
    (line,) = error.value.problems
    assert line.startswith("reward=learned positive_nll_coef=0.1: is of what the task calls correct")
    now = compose().model_dump()
    before = {key: value for key, value in now.items() if key != "positive_nll_coef"}
    assert config_hash(before) == config_hash(now) != config_hash({**now, "positive_nll_coef": 0.1})
