"""What is watched of runs that somebody else than the task judges, against plain loops."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from axis_choices import bind
from plain_step import Recipe
from toy_state import GROUP, PROMPTS, Toy, make_state, variant

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.evaluation import evaluate
from rlexp.loop.metrics import judged_metrics, repeated_bigrams
from rlexp.loop.requested import reference_distributions
from rlexp.loop.rollout import sample
from rlexp.loop.sampling import sample_groups

PLAIN = variant(Recipe())
PRM = replace(PLAIN, reward=bind("reward", "prm", accuracy=0.7, votes=5, ties="random"), verdicts=5)
FLOAT32 = dict(rel=1e-6)  # what is logged


def two(**options):
    """A run that the task judges and two that it does not."""
    return make_state([(PLAIN, 1), (PRM, 2)], [0, 0, 1], **options)


def completions_of(rollout, replica):
    """Tokens of every completion, without what stands behind its end."""
    for p in range(PROMPTS):
        for g in range(GROUP):
            yield rollout.completions[replica, p, g][rollout.mask[replica, p, g]].tolist()


@pytest.mark.holds("S4.16")
def test_repetition_is_the_share_of_bigrams_that_were_there_before():
    rollout = sample_groups(make_state([(PRM, 2)], [0, 1], temperatures=(0.5,)), 1).rollout
    found, there = repeated_bigrams(rollout.completions, rollout.mask)
    for replica in range(2):
        expected = []
        for tokens in completions_of(rollout, replica):
            bigrams = list(zip(tokens, tokens[1:], strict=False))
            expected.append((1 - len(set(bigrams)) / len(bigrams)) if bigrams else math.nan)
        pairs = zip(found[replica].flatten().tolist(), there[replica].flatten().tolist(), strict=True)
        assert [value if any_ else math.nan for value, any_ in pairs] == pytest.approx(expected, nan_ok=True)
    said = torch.tensor([[[[1, 2, 1, 2, 1], [1, 1, 1, 1, 1], [1, 2, 3, 0, 0], [1, 2, 1, 2, 1]]]])
    lengths = torch.tensor([5, 5, 3, 2]).unsqueeze(-1)
    shares, _ = repeated_bigrams(said, (torch.arange(5) < lengths).view(1, 1, 4, 5))
    assert shares.flatten().tolist() == pytest.approx([0.5, 0.75, 0.0, 0.0])


def test_divergence_by_position_and_gold_are_those_of_loops():
    state = two(dtype=torch.float64)
    groups = sample_groups(state, 1)
    rollout, distributions = groups.rollout, reference_distributions(state, groups.rollout)
    row = {name: values.tolist() for name, values in judged_metrics(state, groups, distributions).items()}
    assert {values[0] for values in row.values()} == {None}
    for replica in (1, 2):
        quarters = defaultdict(list)
        for p in range(PROMPTS):
            for g in range(GROUP):
                for t in range(int(rollout.mask[replica, p, g].sum())):
                    token = rollout.completions[replica, p, g, t]
                    d = (rollout.old_log_probs - distributions[..., token])[replica, p, g, t].item()
                    quarters[4 * t // Toy.cap].append(math.exp(-d) - 1 + d)
        for quarter, values in quarters.items():
            found = row[f"kl/quarter_{quarter + 1}"][replica]
            assert found == pytest.approx(statistics.fmean(values), **FLOAT32)
        gold = groups.rewards.gold[replica].flatten().tolist()
        assert row["gold/mean"][replica] == pytest.approx(statistics.fmean(gold))
        assert row["gold/std"][replica] == pytest.approx(statistics.stdev(gold))


def test_the_win_rate_compares_samples_of_one_prompt_with_the_references():
    state = two(dtype=torch.float64)
    state.reference.load_state_dict({name: -values for name, values in state.reference.state_dict().items()})
    row = evaluate(state, 3, 6, 5, [1])
    assert row["eval/win_rate"].tolist()[0] is None
    task, seeds = state.task, state.seeds
    questions = task.prompts(uniforms(seeds, Purpose.EVALUATION_PROMPTS, 0, (6, task.draws)), held_out=True)
    streams = (state.policy, Purpose.EVALUATION_SAMPLING, 3), (state.reference, Purpose.EVALUATION_REFERENCE, 0)
    rollouts = [
        sample(network, task, questions, uniforms(seeds, purpose, at, (6, 5, task.cap)), state.temperature)
        for network, purpose, at in streams
    ]
    for replica in (1, 2):
        wins = []
        for p in range(6):
            ours, theirs = ([judged(task, each, replica, p, g) for g in range(5)] for each in rollouts)
            wins += [0.5 if a == b else float(a > b) for a in ours for b in theirs]
        assert row["eval/win_rate"].tolist()[replica] == pytest.approx(statistics.fmean(wins))
        assert 0.05 < statistics.fmean(wins) < 0.95 and statistics.fmean(wins) != 0.5


def judged(task, rollout, replica, p, g):
    """What the task says of one completion, rounded so that ties are ties."""
    tokens = rollout.completions[replica, p, g][rollout.mask[replica, p, g]].tolist()
    return round(task.judge(rollout.prompts[replica, p].tolist(), tokens), 9)


def test_a_policy_wins_half_against_itself():
    state = make_state([(PRM, 2)], [0, 1], temperatures=(1.0,))
    state.reference.load_state_dict(state.policy.state_dict())
    wins = evaluate(state, 0, 200, 8, [1])["eval/win_rate"].tolist()
    assert wins == pytest.approx([0.5, 0.5], abs=0.04)  # of 200 prompts
