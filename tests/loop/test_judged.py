"""Runs that somebody else than the task judges: what they learn from, what is gold, what is counted and logged."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from axis_choices import bind
from mixed_state import Coarse
from plain_step import Recipe
from small_runs import SHORT, SMALL, compose, rows
from toy_state import GROUP, PROMPTS, Toy, make_experience, make_state, variant

from rlexp.loop import sampling
from rlexp.loop.data import gather_groups
from rlexp.loop.metrics import agreement
from rlexp.loop.requested import tensors_of_rollout
from rlexp.loop.rewards import score, score_with
from rlexp.loop.sampling import sample_groups
from rlexp.loop.step import train_step
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

PLAIN = variant(Recipe())
KNOBS = dict(accuracy=0.7, votes=5, ties="random")
PRM = replace(PLAIN, reward=bind("reward", "prm", **KNOBS), verdicts=5)
PERSISTENT = replace(PLAIN, reward=bind("reward", "prm_persistent", **KNOBS), verdicts=5)
DYNAMIC = dict(filter_refill=bind("filter", "zero_variance"), refill_rounds=4)


def both(**options):
    """Three variants of two seeds."""
    return make_state([(PLAIN, 2), (PRM, 2), (PERSISTENT, 2)], [0, 1] * 3, dtype=torch.float32, **options)


def test_the_judges_verdict_is_trained_on_and_the_tasks_is_gold():
    groups = sample_groups(both(), 1)
    rewards, task = groups.rewards, score_with(Toy(), groups.rollout)
    assert torch.equal(rewards.gold, task.total) and torch.equal(rewards.correct, task.correct)
    assert torch.equal(rewards.total[:2], task.total[:2])
    quality = 2 * task.correct.float() - 1
    assert {*rewards.total[2:].unique().tolist()} <= {-1, 0, 1} and not rewards.total[2:].equal(quality[2:])
    assert (rewards.total[2:] == quality[2:]).float().mean() > 0.75  # 0.887 ± 0.04


def test_a_completion_without_a_reward_of_the_task_gets_none():
    rewards = sample_groups(both(task=Toy(unjudged=1)), 1).rewards
    assert rewards.gold.isnan().any() and rewards.total.isnan().equal(rewards.gold.isnan())


def test_errors_are_drawn_anew_or_belong_to_the_completion():
    state = both()
    rollout = sample_groups(state, 1).rollout
    now, again, later, round_ = (score(state, rollout, at, round=n).total for at, n in [(1, 0), (1, 0), (2, 0), (1, 1)])
    assert torch.equal(now, again)
    assert torch.equal(now[4:], later[4:]) and torch.equal(now[4:], round_[4:])
    assert all((now[2:4] != other[2:4]).any() for other in (later, round_))
    twice = rollout._replace(**{name: x.flip(1) for name, x in rollout._asdict().items()})
    assert torch.equal(score(state, twice, 9).total[4:].flip(1), now[4:])


def test_rewards_are_made_once_a_round_and_go_with_their_groups(monkeypatch):
    calls, real = [], sampling.score

    def spy(state, rollout, step, *, round):
        calls.append((round, len(state.seeds)))
        return real(state, rollout, step, round=round)

    monkeypatch.setattr(sampling, "score", spy)
    owners = [(replace(each, **DYNAMIC), 2) for each in (PLAIN, PRM, PERSISTENT)]
    state = make_state(owners, [0, 1] * 3, task=Coarse(), dtype=torch.float32)
    groups = sample_groups(state, 1)
    assert [round for round, _ in calls] == [*range(int(groups.rounds.max()))] and calls[0][1] == 6 > calls[1][1]
    anew = score_with(Coarse(), groups.rollout)
    assert torch.equal(groups.rewards.gold, anew.total) and torch.equal(groups.rewards.correct, anew.correct)
    constant = groups.rewards.total.amax(-1) == groups.rewards.total.amin(-1)
    assert torch.equal((~constant).sum(-1), groups.used), "the refill has looked at the judge's rewards"
    persistent = score(state, groups.rollout, 7).total[4:]
    assert torch.equal(groups.rewards.total[4:], persistent), "rewards stand beside their completions"


def test_a_greedy_baseline_is_judged_too():
    remax = {"norm": bind("norm", "remax")}
    state = make_state([(replace(PRM, **remax), 1), (replace(PLAIN, **remax), 1), (PRM, 1)], [0, 0, 0])
    gap = make_experience(state, 1, gather_groups(state, 1))
    baseline = (gap.rewards.unsqueeze(-1) - gap.advantages)[:, :, 0, 0]
    assert {*baseline[0].round(decimals=6).tolist()} <= {-1.0, 0.0, 1.0} and not baseline[1].equal(baseline[0])


def test_the_reference_is_judged_too():
    """By whoever judges the run, with votes of its own; the same completions for the same seed."""
    a2po = {"norm": bind("norm", "a2po", beta=0.5)}
    state = make_state([(replace(PRM, **a2po), 1), (replace(PLAIN, **a2po), 1), (PRM, 1)], [0, 0, 0])
    judged, plain, unasked = tensors_of_rollout(state, 1, gather_groups(state, 1))["reference_rewards"]
    assert {*judged.flatten().tolist()} <= {-1.0, 0.0, 1.0} and not judged.equal(plain) and not unasked.any()


@pytest.mark.bits
def test_a_judged_run_has_the_same_bits_alone():
    state = both(minibatches=2)
    table = [train_step(state, at, True) for at in (1, 2, 3)]
    for first, owner in [(0, PLAIN), (2, PRM), (4, PERSISTENT)]:
        alone = make_state([(owner, 1)], [0], dtype=torch.float32, minibatches=2)
        for at, ours in zip((1, 2, 3), table, strict=True):
            theirs = train_step(alone, at, True)
            known = {name: values.tolist()[first] for name, values in ours.items()}
            assert all(known[name] == values.tolist()[0] or math.isnan(known[name]) for name, values in theirs.items())
            assert {name for name, value in known.items() if value is not None} - {*theirs} == set()


def test_only_judged_runs_log_their_gold_and_count_verdicts(tmp_path):
    jobs = []
    for name, override in {"plain": "reward=verifier", "judged": "reward=prm", "more": "reward=prm_persistent"}.items():
        (tmp_path / name).mkdir()
        votes = ["reward.votes=7"] if name == "more" else []
        jobs.append(Job(compose(*SHORT, *SMALL, override, *votes), tmp_path / name, name, name))
    assert all(isinstance(result, float) for result in train_jobs(jobs))
    plain, judged, more = (rows(job.folder) for job in jobs)
    gold = {"gold/mean", "gold/std", "gold/agreement", "repetition/bigrams", *(f"kl/quarter_{q}" for q in range(1, 5))}
    evaluated = {"eval/proxy", "eval/agreement", "eval/win_rate"}
    assert [{*ours} - {*theirs} for ours, theirs in zip(judged, plain, strict=True)] == [
        evaluated | {"progress/verdicts"}, gold | {"progress/verdicts"}, gold | evaluated | {"progress/verdicts"},
    ]  # fmt: skip
    assert [row["progress/verdicts"] for row in judged] == [5 * row["progress/completions"] for row in judged]
    assert [row["progress/verdicts"] for row in more] == [0, 7 * 16, 7 * 32]
    assert judged[0]["eval/reward"] == plain[0]["eval/reward"], "evaluation is by the task"


def test_agreement_is_the_share_of_pairs_in_order():
    random = torch.Generator().manual_seed(3)
    gold, rewards = (torch.randint(0, 3, (2, PROMPTS, GROUP), generator=random).double() for _ in range(2))
    gold[0, 0, 1] = math.nan
    rewards[0, 0, 1] = math.nan
    for r in range(2):
        pairs = [
            (a - b, x - y)
            for p in range(PROMPTS)
            for (a, x), (b, y) in combinations(zip(gold[r, p].tolist(), rewards[r, p].tolist(), strict=True), 2)
            if a - b and not math.isnan(a - b)
        ]
        right = sum(0.5 if y == 0 else x * y > 0 for x, y in pairs)
        assert agreement(rewards, gold)[r].item() == pytest.approx(right / len(pairs), abs=1e-12)
    assert agreement(rewards[:1], torch.ones(1, PROMPTS, GROUP)).isnan().all()
