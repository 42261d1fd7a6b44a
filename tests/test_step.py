"""The training step: against plain PyTorch, one run at a time, and the laws that every step obeys."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from axis_choices import bind, choices, numbers
from plain_step import Recipe
from toy_fleet import GROUP, PROMPTS, TOTAL, Toy, fleet, plain, unstacked, variant

from rlexp import collect, judge, step
from rlexp import fleet as fleet_module
from rlexp.judge import experience
from rlexp.masked import per_token
from rlexp.models import GRU, Positional, Transformer
from rlexp.rollout import Rollout, distributions, taken
from rlexp.run import HEALTH
from rlexp.step import train_step
from rlexp.streams import Purpose, uniforms
from rlexp.update import Adam, gradient_norms

# Both sides are float64; two steps of a few hundred operations and Adam's division by √v make the last digits differ.
CLOSE = dict(rtol=1e-8, atol=1e-10)
# Rounding of one forward pass in float64.
ROUNDING = 1e-12
STEPS = 2
MIXED = Recipe(kl_in_loss=0.3, entropy_bonus=0.2, drop_from_loss=True, inner_steps=2, minibatches=2)
RECIPES = {
    "default": Recipe(),
    "kl_in_loss": Recipe(kl_in_loss=0.3),
    "kl_in_reward": Recipe(kl_in_reward=0.3),
    "entropy": Recipe(entropy_bonus=0.2),
    "filter": Recipe(drop_from_loss=True, drop_from_statistics=True),
    "filter_loss": Recipe(drop_from_loss=True, agg="sequence"),
    "filter_statistics": Recipe(drop_from_statistics=True),
    "minibatches": Recipe(minibatches=2),
    "inner_steps": Recipe(inner_steps=3),
    "sequence": Recipe(agg="sequence", minibatches=4),
    "to_go": Recipe(gamma=0.9),
    "to_go_penalised": Recipe(gamma=0.9, kl_in_reward=0.3, drop_from_statistics=True, inner_steps=2),
    "mixed": MIXED,
}
UNIT = {"kl_factor": torch.ones(2, dtype=torch.float64)}
BLOCKS = [
    (RECIPES["mixed"], 2),
    (RECIPES["kl_in_reward"], 1),
    (RECIPES["sequence"], 1),
    (RECIPES["to_go_penalised"], 2),
]
SEEDS = [0, 1, 0, 3, 4, 1]
MODELS = {
    "gru": dict(model=GRU),
    "transformer": dict(model=Transformer, knobs=dict(width=8, layers=1, heads=2, feedforward=8)),
    "positional": dict(model=Positional, knobs=dict(width=6)),
}


@pytest.fixture
def float64(monkeypatch):
    """Let the whole step be computed in float64, its random numbers the same."""
    monkeypatch.setattr(fleet_module, "uniforms", lambda *address: uniforms(*address).double())
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def seen(monkeypatch):
    """Return what every update is given, and the log-probabilities of the policy at that time."""
    parts, real = [], step.update

    def spy(runs, part, *rest):
        with torch.no_grad():
            every = distributions(runs.policy, *part[:2], runs.temperature)
            parts.append((part, taken(every, part.completions)))
        return real(runs, part, *rest)

    monkeypatch.setattr(step, "update", spy)
    return parts


class Still(Adam):
    """Keeps the gradients of the last update and applies none."""

    def step(self):
        self.seen = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return gradient_norms(self.seen)


def runs(recipe, seeds=(0, 1), **options):
    sizes = dict(inner_steps=recipe.inner_steps, minibatches=recipe.minibatches)
    return fleet([(variant(recipe), len(seeds))], list(seeds), **sizes, **options)


def parameters(policy):
    return [parameter.detach().clone() for parameter in policy.parameters()]


def random_inputs(fleet, replica, at):
    """Prompts without padding, and the random numbers of the sampling."""
    seed, task = [fleet.seeds[replica]], fleet.task
    prompts = task.prompts(uniforms(seed, Purpose.PROMPTS, at, (PROMPTS, task.draws)), held_out=False)[0]
    noise = uniforms(seed, Purpose.SAMPLING, at, (PROMPTS, GROUP, task.cap)).double()[0]
    return [[token for token in prompt if token != task.pad] for prompt in prompts.tolist()], noise


@pytest.mark.parametrize(
    ("name", "task"), [("default", Toy()), *((name, Toy(unjudged=2)) for name in RECIPES)], ids=str
)
def test_a_step_is_that_of_plain_pytorch(float64, name, task):
    recipe = RECIPES[name]
    both = runs(recipe, task=task, temperatures=(1.7, 0.6))
    singles = [plain(both, replica, recipe) for replica in (0, 1)]
    for at in range(1, STEPS + 1):
        row = train_step(both, at, True)
        for replica, single in enumerate(singles):
            expected = single.step(*random_inputs(both, replica, at))
            assert {key: row[key][replica].item() for key in expected} == pytest.approx(
                expected, rel=CLOSE["rtol"], abs=CLOSE["atol"]
            )
    for replica, single in enumerate(singles):
        torch.testing.assert_close(unstacked(both.policy, replica), dict(single.policy.state_dict()), **CLOSE)


def test_the_comparison_reaches_clipped_cut_off_ended_and_unjudged_completions(float64, seen):
    both = runs(RECIPES["inner_steps"], task=Toy(unjudged=2), temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    part, _ = seen[0]
    assert (row["clip/low"] > 0).any() and (row["clip/high"] > 0).any()
    assert (row["length/truncated"] > 0).all() and (row["length/truncated"] < 1).all()
    assert part.rewards.isnan().any() and (part.prompts == Toy.pad).any()


def test_ratios_are_against_the_policy_that_sampled_through_all_inner_steps(float64, seen):
    both = runs(Recipe(inner_steps=3))
    sampler = copy.deepcopy(both.policy)
    train_step(both, 1, False)
    for part, _ in seen:
        with torch.no_grad():
            log_probs = taken(distributions(sampler, *part[:2], both.temperature), part.completions)
        torch.testing.assert_close(part.old_log_probs, log_probs.where(part.mask, 0.0), **CLOSE)
    drift = [((now - part.old_log_probs).exp() - 1).where(part.mask, 0.0).abs().max() for part, now in seen]
    assert drift[0] < ROUNDING
    assert drift[1] > 1e-3 and drift[2] > drift[1]


@pytest.mark.parametrize("clip", [bind("clip", "ppo", low=0.2, high=0.2), bind("clip", "naive")], ids=str)
def test_the_first_update_follows_the_plain_policy_gradient(float64, seen, clip):
    """−Σ A ∇ log π / number of tokens, whatever the clip."""
    both = fleet([(replace(variant(Recipe()), clip=clip), 2)], [0, 1], adam=Still)
    row = train_step(both, 1, True)
    part, _ = seen[0]
    assert (row["ratio/min"] - 1).abs().max() < ROUNDING and (row["ratio/max"] - 1).abs().max() < ROUNDING
    log_probs = taken(distributions(both.policy, *part[:2], both.temperature), part.completions)
    weighed = (part.advantages * log_probs * part.mask).sum((1, 2, 3)) / part.mask.sum((1, 2, 3))
    expected = torch.autograd.grad(-weighed.sum(), list(both.policy.parameters()))
    torch.testing.assert_close(both.adam.seen, list(expected), **CLOSE)


def made_up(shape=(2, 3, 4, 5)):
    """A rollout of random numbers."""
    random = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=random)
    mask = torch.arange(shape[-1]) < lengths.unsqueeze(-1)
    old, ref = (-torch.rand(shape, generator=random).where(mask, 0.0) for _ in range(2))
    tokens = torch.zeros(shape, dtype=torch.long)
    return (
        Rollout(tokens[..., 0, :], tokens, old, mask, lengths < shape[-1], old),
        ref,
        torch.rand(shape[:-1], generator=random),
    )


def test_the_penalty_in_the_reward_enters_before_the_norm(float64):
    """Equal rewards: the advantages are those of −coef · Σ_t (log π − log π_ref) alone, normalised."""
    rollout, ref, _ = made_up()
    recipe = Recipe(kl_in_reward=0.3)
    part = experience(variant(recipe), rollout, torch.ones(2, 3, 4), ref, UNIT)
    penalties = ((rollout.old_log_probs - ref) * rollout.mask).sum(-1)
    deviations = penalties - penalties.mean(-1, keepdim=True)
    expected = -0.3 * deviations / (0.3 * penalties.std(-1, keepdim=True) + recipe.eps)
    torch.testing.assert_close(part.advantages, expected.unsqueeze(-1).expand(2, 3, 4, 5), **CLOSE)
    torch.testing.assert_close(part.rewards, 1 - 0.3 * penalties, **CLOSE)


def test_rewards_are_offered_whole_and_in_parts_that_add_up(float64):
    """Shaping, then the penalty: rewards = outcomes − Σ_t token_penalties = rewards of the task + adjustments."""
    rollout, ref, rewards = made_up()
    rewards[0, 1, 2] = math.nan
    offered = {}

    def listen(rewards, outcomes, adjustments, token_penalties, keep):
        offered.update(rewards=rewards, outcomes=outcomes, adjustments=adjustments, penalties=token_penalties)
        return rewards

    shaped = replace(variant(Recipe(kl_in_reward=0.3)), norm=listen, shaping=lambda rewards: rewards - 0.25)
    part = experience(shaped, rollout, rewards, ref, UNIT)
    there = ~rewards.isnan()
    torch.testing.assert_close(offered["outcomes"][there], rewards[there] - 0.25, **CLOSE)
    expected = 0.3 * (rollout.old_log_probs - ref).where(rollout.mask, 0.0)
    torch.testing.assert_close(offered["penalties"], expected, **CLOSE)
    torch.testing.assert_close(offered["rewards"][there], (rewards - 0.25 - expected.sum(-1))[there], **CLOSE)
    torch.testing.assert_close(offered["adjustments"][there], (-0.25 - expected.sum(-1))[there], **CLOSE)
    assert all(offered[name][~there].eq(0).all() for name in ("rewards", "outcomes", "adjustments"))
    assert part.rewards.isnan().equal(~there) and not part.advantages[~there].any()


def test_no_norm_counts_the_penalty_twice(norm_choice):
    """It takes the reward whole, or its parts."""
    whole, parts = {"rewards"}, {"outcomes", "token_penalties"}
    taken = (whole | parts) & set(norm_choice.needs)
    assert taken in (whole, parts) or norm_choice.name in ("gdpo", "pass_at_k", "w_reinforce")


def test_completions_without_a_reward_have_no_advantage_and_enter_no_statistics(float64, norm_choice):
    rollout, ref, rewards = made_up()
    missing = torch.zeros_like(rewards, dtype=torch.bool)
    missing[:, :, 1], missing[0, 2] = True, True
    extra = {name: made for name, made in numbers(*rollout.mask.shape).items() if name not in rollout._fields}
    chosen = replace(variant(Recipe()), norm=norm_choice)
    part = experience(chosen, rollout, rewards.masked_fill(missing, math.nan), ref, extra)
    alike = (
        extra | rollout._asdict() | {"token_penalties": torch.zeros_like(ref), "lengths": rollout.mask.double().sum(-1)}
    )
    filled = rewards.masked_fill(missing, 1e6)
    alike |= {"rewards": filled, "outcomes": filled, "adjustments": torch.zeros_like(rewards), "keep": ~missing}
    expected = norm_choice(*(alike[name] for name in norm_choice.needs))
    assert not part.advantages[missing].any()
    assert torch.equal(part.advantages[~missing], per_token(expected, ref).expand_as(ref)[~missing])
    assert torch.equal(part.mask, rollout.mask)


def test_rewards_are_shaped_before_the_penalty_is_taken_off_and_filtered_after(float64):
    """Statistics of 3r − 1 − coef · KL, which filter and norm are given; the penalty is not scaled."""
    rollout, ref, rewards = made_up()
    rewards[0, 0] = 0.7
    asked = []

    def everything(rewards, scored):
        asked.append(rewards)
        return scored

    chosen = replace(
        variant(Recipe(kl_in_reward=0.3)),
        shaping=bind("shaping", "affine", a=3.0, b=-1.0),
        filter_statistics=everything,
        filter_loss=bind("filter", "zero_variance"),
        norm=bind("norm", "center"),
    )
    part = experience(chosen, rollout, rewards, ref, UNIT)
    expected = 3 * rewards - 1 - 0.3 * ((rollout.old_log_probs - ref) * rollout.mask).sum(-1)
    torch.testing.assert_close(part.rewards, expected, **CLOSE)
    centred = (expected - expected.mean(-1, keepdim=True)).unsqueeze(-1).expand_as(ref)
    torch.testing.assert_close(part.advantages, centred, **CLOSE)
    assert torch.equal(asked[0], part.rewards)
    assert torch.equal(part.mask, rollout.mask), "the penalty makes the rewards of the first group differ"
    without = replace(chosen, kl_in_reward=0.0)
    kept = experience(without, rollout, rewards, ref, UNIT).mask
    assert (
        not kept[0, 0].any() and torch.equal(kept[0, 1:], rollout.mask[0, 1:]) and torch.equal(kept[1], rollout.mask[1])
    )


def test_a_filter_of_tokens_leaves_the_rest_of_a_completion_in_the_loss(seen):
    chosen = replace(variant(Recipe()), filter_loss=bind("filter", "top_entropy", share=0.5))
    both = fleet([(chosen, 2)], [0, 1], adam=Still, temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    part, _ = seen[0]
    every, mask = (
        distributions(both.policy, *part[:2], both.temperature).detach(),
        collect.collect(both, 1).rollout.mask,
    )
    entropies = torch.distributions.Categorical(logits=every).entropy()
    for replica in range(2):
        ranked = entropies[replica][mask[replica]].sort(descending=True).values
        threshold = ranked[round(len(ranked) / 2) - 1] - ROUNDING
        assert torch.equal(part.mask[replica], mask[replica] & (entropies[replica] >= threshold))
    torch.testing.assert_close(row["filter/tokens"].double(), part.mask.sum((1, 2, 3)) / row["tokens"].double())
    assert (part.mask.any(-1) & (part.mask != mask).any(-1)).any()


def test_persistent_luck_belongs_to_the_pair_and_the_other_is_drawn_anew():
    names = ("flips", "flips_persistent")
    chosen = [bind("shaping", name, low=0.0, high=1.0, false_positives=0.5, false_negatives=0.5) for name in names]
    runs = fleet([(replace(variant(Recipe()), shaping=each), 2) for each in chosen], [0, 1, 0, 1])
    rollout = collect.collect(runs, 1).rollout
    first, again, later = (beside(runs, at, rollout) for at in (1, 1, 2))
    assert set(first) == {"drawn", "hashed"} and all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(first["hashed"], later["hashed"]) and not (first["drawn"] == later["drawn"]).any()
    assert not (first["hashed"][0] == first["hashed"][1]).any()
    for name, luck in first.items():
        assert luck.shape == rollout.finished.shape and torch.equal(luck[:2], luck[2:]), f"{name}: paired by seed"
    moved = rollout._replace(
        completions=rollout.completions.flip(1), prompts=rollout.prompts.flip(1), mask=rollout.mask.flip(1)
    )
    assert torch.equal(beside(runs, 2, moved)["hashed"].flip(1), first["hashed"])
    elsewhere = rollout._replace(prompts=(rollout.prompts + 1) % 4)
    assert not (beside(runs, 2, elsewhere)["hashed"] == first["hashed"]).any()
    padding = rollout._replace(completions=rollout.completions.where(rollout.mask, 3))
    assert torch.equal(beside(runs, 2, padding)["hashed"], first["hashed"])


ASKED = {"greedy_rewards", "sum_pi_squared", "components", "weights", "correct"}


def asking(**options):
    """Return a fleet of two variants, of which the second takes all that is made on request, and what it was given."""
    given = {}

    def listen(rewards, keep, greedy_rewards, sum_pi_squared, components, weights, correct):
        given.update({name: value for name, value in locals().items() if name in ASKED})
        return rewards

    plain = variant(Recipe())
    return fleet([(plain, 1), (replace(plain, norm=listen), 1)], [0, 1], **options), given


def test_what_a_norm_asks_for_is_made(float64, seen):
    """The second run's own: nothing of the first, whose norm takes none of it."""
    both, given = asking(task=Toy(unjudged=2), temperatures=(1.7, 0.6), adam=Still)
    train_step(both, 1, False)
    part, task = seen[0][0], both.task
    prompts = [[token for token in prompt if token != task.pad] for prompt in part.prompts[1].tolist()]
    single = plain(both, 1, Recipe())
    for p, prompt in enumerate(prompts):
        tokens, shares = [], []
        while len(tokens) < task.cap and tokens[-1:] != [task.end]:
            tokens.append(int(single.log_probs(single.policy, prompt, tokens)[-1].argmax()))
        judged = task.judge(prompt, tokens)
        assert given["greedy_rewards"][0, p, 0].item() == pytest.approx(0.0 if math.isnan(judged) else judged)
        for g in range(GROUP):
            answer = part.completions[1, p, g][part.mask[1, p, g]].tolist()
            shares = single.log_probs(single.policy, prompt, answer)[:-1].exp().square().sum(-1)
            torch.testing.assert_close(given["sum_pi_squared"][0, p, g, : len(answer)], shares.detach(), **CLOSE)
            assert given["correct"][0, p, g] == (answer[0] == 0)
    scores = task.score(part.prompts[1:], part.completions[1:], part.mask[1:], None)
    assert given["weights"].tolist() == [[0.7, 0.5]]
    torch.testing.assert_close(given["components"], torch.stack(list(scores.components.values()), -1), equal_nan=True)


def test_nothing_is_made_that_no_variant_asks_for():
    """A greedy completion and another forward pass are not free."""
    both, (other, _) = runs(Recipe()), asking()
    assert not beside(both, 1, collect.collect(both, 1).rollout)
    assert set(beside(other, 1, collect.collect(other, 1).rollout)) == ASKED


def beside(fleet, at, rollout):
    """What the step makes to offer it beside a rollout."""
    scores = fleet.task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    offered = judge.beside(fleet, at, rollout, scores)
    return {name: values for name, values in offered.items() if name not in fleet.memory}


@pytest.mark.parametrize("agg", ["token", "sequence"])
@pytest.mark.parametrize("model", MODELS)
def test_tokens_that_do_not_count_change_nothing(seen, agg, model):
    """Padding and completions left out of the loss: other tokens and numbers there, the same gradient bit by bit."""
    recipe = Recipe(kl_in_loss=0.3, entropy_bonus=0.2, drop_from_loss=True, agg=agg)
    both = runs(recipe, adam=Still, dtype=torch.float32, temperatures=(1.7, 0.6), **MODELS[model])
    row = train_step(both, 1, True)
    gradients, (part, _) = both.adam.seen, seen[0]
    assert (part.mask.any(-1) != part.mask[..., 0].any()).any() and not part.mask.all()
    other = part._replace(
        completions=(part.completions + 1).remainder(6).where(~part.mask, part.completions),
        old_log_probs=part.old_log_probs.masked_fill(~part.mask, math.nan),
        ref_log_probs=part.ref_log_probs.masked_fill(~part.mask, 1e4),
    )
    again = step.update(both, other, part.mask.float().sum((1, 2, 3)), True)
    assert all(torch.equal(a, b) for a, b in zip(gradients, both.adam.seen, strict=True))
    assert all(torch.equal(value, row[name]) for name, value in again.items())


def test_minibatches_hold_whole_groups_and_all_prompts(seen):
    both = runs(Recipe(minibatches=2, inner_steps=2))
    train_step(both, 1, False)
    parts = [part for part, _ in seen]
    assert all(part.advantages.shape == (2, PROMPTS // 2, GROUP, Toy.cap) for part in parts)
    assert torch.equal(parts[0].prompts, parts[2].prompts) and not torch.equal(parts[0].prompts, parts[1].prompts)
    expected = train_step(runs(Recipe()), 1, True)
    deviations = torch.cat([parts[0].advantages, parts[1].advantages], 1)[..., 0].flatten(1).std(-1)
    torch.testing.assert_close(deviations.float(), expected["advantage/std"])


def summed(monkeypatch, agg, parts):
    """Return the sum of the gradients of a pass in ``parts`` minibatches, the weights kept as they are."""
    both = fleet([(replace(variant(MIXED), agg=agg), 2)], [0, 1], adam=Still, minibatches=parts)
    gradients = []
    monkeypatch.setattr(both.adam, "step", lambda: (Still.step(both.adam), gradients.append(both.adam.seen))[0])
    train_step(both, 1, False)
    assert len(gradients) == parts
    return [sum(each) for each in zip(*gradients, strict=True)]


@pytest.mark.parametrize("choice", choices("agg"), ids=str)
def test_how_a_rollout_is_split_changes_no_gradient_but_that_of_bnpo(float64, monkeypatch, choice):
    """Policy loss, penalty and bonus, with completions left out of the loss."""
    whole, split = (summed(monkeypatch, choice, parts) for parts in (1, 4))
    same = all((a - b / 4).abs().max() < 1e-12 for a, b in zip(whole, split, strict=True))
    assert same == (choice.name != "bnpo")


def test_updates_know_the_share_of_the_run_that_is_done_and_their_random_numbers():
    given = []

    def loss(log_probs, old_log_probs, advantages, mask, progress, uniforms):
        given.append((progress, uniforms))
        return -advantages * log_probs

    both = fleet([(replace(variant(Recipe()), clip=loss), 2)], [3, 5], inner_steps=2, minibatches=2)
    train_step(both, 1, False)
    train_step(both, 2, False)
    assert [progress.tolist() for progress, _ in given] == [pytest.approx([done / TOTAL] * 2) for done in range(8)]
    for update, (_, drawn) in enumerate(given):
        expected = uniforms([3, 5], Purpose.LOSS, update, (PROMPTS // 2, GROUP, Toy.cap))
        assert torch.equal(drawn, expected)


def test_random_numbers_are_drawn_only_if_a_loss_asks_for_them(monkeypatch):
    drawn = []

    def spy(*address):
        drawn.append(address[1])
        return uniforms(*address)

    monkeypatch.setattr(fleet_module, "uniforms", spy)
    train_step(runs(Recipe()), 1, False)
    assert set(drawn) == {Purpose.PROMPTS, Purpose.SAMPLING}


def mixed_fleet(chosen=slice(None), **options):
    """Return the ``chosen`` replicas of a fleet of four variants, float32."""
    owners = [recipe for recipe, size in BLOCKS for _ in range(size)][chosen]
    blocks = [(variant(recipe), owners.count(recipe)) for recipe in dict.fromkeys(owners)]
    return fleet(blocks, SEEDS[chosen], dtype=torch.float32, inner_steps=2, minibatches=2, **options)


def trained(runs, steps=3):
    """Train and return the metrics of all steps, ``[steps, R]`` each."""
    rows = [train_step(runs, at, True) for at in range(1, steps + 1)]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_bit_identical_alone_and_beside_other_variants(model):
    options = dict(temperatures=(1.7, 0.6), task=Toy(unjudged=2), **MODELS[model])
    together = mixed_fleet(**options)
    metrics = trained(together)
    for replica in range(len(SEEDS)):
        alone = mixed_fleet(slice(replica, replica + 1), **options)
        for name, values in trained(alone).items():
            torch.testing.assert_close(values[:, 0], metrics[name][:, replica], rtol=0, atol=0, equal_nan=True)
        for ours, theirs in zip(together.policy.parameters(), alone.policy.parameters(), strict=True):
            assert torch.equal(ours[replica], theirs[0])


@pytest.mark.parametrize("sick", [0, 3])
def test_a_replica_of_nan_leaves_the_others_unchanged(sick):
    healthy, infected = mixed_fleet(), mixed_fleet()
    with torch.no_grad():
        for parameter in infected.policy.parameters():
            parameter[sick] = math.nan
    expected, metrics = trained(healthy), trained(infected)
    others = [replica for replica in range(len(SEEDS)) if replica != sick]
    assert not all(metrics[name][:, sick].isfinite().any() for name in HEALTH)
    for name, values in expected.items():
        torch.testing.assert_close(metrics[name][:, others], values[:, others], rtol=0, atol=0, equal_nan=True)
    for ours, theirs in zip(infected.policy.parameters(), healthy.policy.parameters(), strict=True):
        assert torch.equal(ours[others], theirs[others])


@pytest.mark.parametrize(
    ("penalty", "metric", "sign"), [("entropy_bonus", "policy/entropy", 1), ("kl_in_loss", "kl/ref_exact", -1)]
)
def test_without_advantages_the_bonus_raises_entropy_and_the_penalty_lowers_divergence(penalty, metric, sign):
    silent = replace(variant(Recipe(**{penalty: 1.0})), norm=lambda rewards, keep: torch.zeros_like(rewards))
    course = trained(fleet([(silent, 2)], [0, 1]), steps=4)[metric]
    assert (sign * course[-1] > sign * course[0]).all()


def test_the_parts_of_the_loss_sum_to_the_total():
    row = train_step(runs(MIXED), 1, True)
    parts = [row[f"loss/{name}"] for name in ("policy", "kl", "entropy")]
    assert all(part.all() for part in parts)
    torch.testing.assert_close(sum(parts), row["loss/total"], **CLOSE)


def test_the_reference_stays_where_it_is():
    both = runs(MIXED)
    before, started = parameters(both.reference), parameters(both.policy)
    trained(both)
    assert all(torch.equal(a, b) for a, b in zip(before, both.reference.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(started, both.policy.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in both.reference.parameters())


@pytest.mark.parametrize("name", ["default", "kl_in_reward", "mixed"])
def test_measuring_changes_no_bit(name):
    measured, blind = runs(RECIPES[name]), runs(RECIPES[name])
    for at in range(1, STEPS + 1):
        row = train_step(measured, at, True)
        assert set(train_step(blind, at, False)) == {"tokens", "completions"}
    assert all(torch.equal(a, b) for a, b in zip(parameters(measured.policy), parameters(blind.policy), strict=True))
    assert len(row) > len({"tokens", "completions"})


def test_tokens_are_those_sampled_filtered_ones_included(seen):
    both = runs(Recipe(drop_from_loss=True), temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    torch.testing.assert_close(row["tokens"] / (PROMPTS * GROUP), row["length/mean"], **CLOSE)
    assert (seen[0][0].mask.sum((1, 2, 3)) < row["tokens"]).all()
