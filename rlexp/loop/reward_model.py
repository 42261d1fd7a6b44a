"""Reward models: networks that learn from pairs which of two completions is better, and judge in the task's place.

    loss = −log σ(r(better) − r(worse))

with r the number of a scalar network after the last token. Source: Bradley and Terry (1952); Christiano et al. (arXiv
1706.03741, eq. 1), InstructGPT (arXiv 2203.02155, eq. 1). A model is trained before the first step on pairs of the
start policy and, if it is to be refreshed, again every so many steps on pairs of the present policy added to those
before. Each model of an ensemble has pairs and initial weights of its own.

Pairs are two completions of one prompt with a label which of them is better. The labeller knows the task's components.
It weighs them by weights of its own, which need not be those of the task, and adds something for every token: what it
prefers is then not what the task wants. A share of its labels is turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from pydantic import FiniteFloat
from torch import Tensor, nn

from rlexp.core import types as t
from rlexp.core.blocks import gather_rows, map_tensors
from rlexp.core.exact import sum_keepdim
from rlexp.core.registry import bind_choice, schema
from rlexp.core.streams import Purpose
from rlexp.core.types import FiniteNonNegative, NonNegativeInt, Positive, PositiveInt, Probability, Size
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.rewards import scores_of
from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.state import TrainState
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.scalar import last_value
from rlexp.tasks import Task, total_reward

ROUNDS = 16  # of sampling, as many pairs each as are wanted, after which a run has to do with what it has
MAX_GRAD_NORM = 1.0  # norm to which a gradient is clipped
AT_ONCE = 256  # pairs that are read at once where no gradient is needed
SMALLEST = 1e-6  # deviation by which the numbers of a model are divided at least


@dataclass(frozen=True, kw_only=True)
class BradleyTerry:
    """How many models of which sizes (None: those of the policy), and what they are trained on.

    ``pairs`` of the start policy, labelled by ``weights`` of the task's components and ``length_bonus`` a token, each
    with a difference above ``smallest_gap`` and up to ``largest_gap``, a share ``flips`` of the labels turned round;
    ``updates`` of ``batch`` pairs with Adam at ``lr``. Every ``refresh`` steps (0: never) ``refresh_pairs`` of the
    present policy are added and ``refresh_updates`` made on all of them; of ``worst_of`` times as many candidates those
    are taken about which the model is most wrong, which with more than 1 is adversarial retraining.
    """

    members: Size
    network: schema(MODELS) | None
    pairs: Size
    weights: dict[str, FiniteNonNegative]
    length_bonus: FiniteFloat
    smallest_gap: FiniteNonNegative
    largest_gap: FiniteNonNegative | None
    flips: Probability
    updates: PositiveInt
    batch: Size
    lr: Positive
    refresh: NonNegativeInt
    refresh_pairs: Size
    refresh_updates: PositiveInt
    worst_of: Size


TRAININGS = {"bradley_terry": BradleyTerry}


class Judge(nn.Module):
    """A reward model: (r − offset) / scale, with r the number of a network after the last token."""

    def __init__(self, network: nn.Module, replicas: int):
        super().__init__()
        self.network = network
        self.offset = nn.Parameter(torch.zeros(replicas), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(replicas), requires_grad=False)

    def forward(self, prompts: Tensor, completions: Tensor, mask: Tensor) -> t.PerCompletion:
        """Judge completions, ``[R P L], [R P G T], [R P G T] -> [R P G]``."""
        raw = last_value(self.network, prompts, completions, mask)
        return (raw - self.offset.view(-1, 1, 1)) / self.scale.view(-1, 1, 1)


class Pairs(NamedTuple):
    """Prompts, two completions each, the preferred one first, and whether the pair is one at all."""

    prompts: t.Prompts
    completions: t.PairOfCompletions
    mask: t.PairOfMasks
    valid: t.PerPair

    def rows(self, places: Tensor) -> Pairs:
        """Return the pairs at places ``[R n]``."""
        return map_tensors(lambda values: gather_rows(values, places), self)

    def valid_order(self) -> Tensor:
        """Return the places of all pairs, those that are valid first, each kind in its order, ``[R N]``."""
        return (~self.valid).byte().argsort(dim=1, stable=True)


def make_judges(training: BradleyTerry, sizes: object, task: Task, seeds: Sequence[int]) -> dict[str, Judge]:
    """Return untrained models by the names that they have in a state; ``sizes`` are those of the policy."""
    network, names = bind_choice(MODELS, training.network or sizes), ["reward_model"]
    names += [f"reward_model_{number}" for number in range(2, training.members + 1)]
    inits = (Init(seeds, Purpose.REWARD_MODEL_WEIGHTS, member) for member in range(training.members))
    return {name: Judge(network(init, task, 1), len(seeds)) for name, init in zip(names, inits, strict=True)}


def room_for_pairs(training: BradleyTerry, task: Task, replicas: int, steps: int) -> dict[str, Tensor]:
    """Return what a state remembers of pairs, empty, ``[R E N …]``; nothing if no model is trained again."""
    if not training.refresh:
        return {}
    shape = (replicas, training.members, training.pairs + steps // training.refresh * training.refresh_pairs)
    return {
        "pairs_prompts": torch.zeros(*shape, task.prompt_length, dtype=torch.long),
        "pairs_completions": torch.zeros(*shape, 2, task.cap, dtype=torch.long),
        "pairs_mask": torch.zeros(*shape, 2, task.cap, dtype=torch.bool),
        "pairs_valid": torch.zeros(*shape, dtype=torch.bool),
    }


def train_judges(state: TrainState) -> list[str]:
    """Train all models of a fresh state on pairs of its policy; return what went wrong for each run, or ""."""
    training, problems = state.judging, [""] * len(state.seeds)
    for member, judge in enumerate(state.judges):
        pairs = sample_pairs(state, training, training.pairs, 0, member)
        for replica, found in enumerate(pairs.valid.sum(1).tolist()):
            if found < training.pairs:
                problems[replica] = (
                    f"reward.model: {found} pairs of the start policy differ as wanted, reward.model.pairs="
                    f"{training.pairs}; take fewer, other gaps or another start"
                )
        remember(state, pairs, member, 0)
        fit(state, pairs, training.updates, 0, member)
        standardize(judge, pairs)
    return problems


def refresh_judges(state: TrainState, step: int) -> None:
    """At the steps for it, add pairs of the present policy and train all models on all pairs.

    Of the candidates those are added about which a model is most wrong: r(better) − r(worse) is smallest.
    """
    training = state.judging
    if training is None or not training.refresh or step % training.refresh:
        return
    new = training.refresh_pairs
    done = training.pairs + (step // training.refresh - 1) * new
    for member, judge in enumerate(state.judges):
        found = sample_pairs(state, training, new * training.worst_of, step, member)
        better, worse = read(judge, found).unbind(-1)
        ranked = found.rows((better - worse).masked_fill(~found.valid, torch.inf).argsort(dim=1, stable=True))
        remember(state, ranked.rows(ranked.valid_order()[:, :new]), member, done)
        pairs = Pairs(*(state.memory[f"pairs_{name}"][:, member] for name in Pairs._fields))
        known, first = (Pairs(*(values[:, :end] for values in pairs)) for end in (done + new, training.pairs))
        fit(state, known, training.refresh_updates, step, member)
        standardize(judge, first)


def sample_pairs(state: TrainState, labeller: BradleyTerry, wanted: int, step: int, member: int) -> Pairs:
    """Return so many pairs a run from the policy for a model, those that are valid first, ``[R N …]``.

    Rounds of candidates are sampled until every run has enough; a run takes its first ones, whoever its neighbours are.
    A candidate is two completions of a prompt of training, in the order that the labeller says.
    """
    task, rounds = state.task, []
    while len(rounds) < ROUNDS and not (rounds and (sum(each.valid.sum(1) for each in rounds) >= wanted).all()):
        at = dict(round=member * ROUNDS + len(rounds))
        prompts = task.prompts(state.uniforms(Purpose.PAIR_PROMPTS, step, wanted, task.draws, **at), held_out=False)
        noise = state.uniforms(Purpose.PAIR_SAMPLING, step, wanted, 2, task.cap, **at)
        rollout = sample(state.policy, task, prompts, noise, state.temperature)
        first, second = label_scores(task, rollout, labeller).unbind(-1)
        gap = (first - second).abs()
        valid = (gap > labeller.smallest_gap) & (gap <= (labeller.largest_gap or torch.inf))
        flipped = state.uniforms(Purpose.PAIR_FLIPS, step, wanted, **at) < labeller.flips
        better = ((second > first) ^ flipped).long()
        order = torch.stack([better, 1 - better], -1).unsqueeze(-1)
        chosen = (torch.take_along_dim(each, order, 2) for each in (rollout.completions, rollout.mask))
        rounds.append(Pairs(prompts, *chosen, valid))
    pairs = map_tensors(lambda *parts: torch.cat(parts, 1), *rounds)
    return pairs.rows(pairs.valid_order()[:, :wanted])


def label_scores(task: Task, rollout: Rollout, labeller: BradleyTerry) -> Tensor:
    """Return what the labeller thinks of completions, ``[R P G]``: Σ weight · component + bonus · length."""
    total = total_reward(scores_of(task, rollout).components, labeller.weights)
    return total + labeller.length_bonus * rollout.mask.to(total.dtype).sum(-1)


def remember(state: TrainState, pairs: Pairs, member: int, done: int) -> None:
    """Write pairs behind the ``done`` ones that a model has had, if the state remembers any."""
    for name, values in pairs._asdict().items():
        if f"pairs_{name}" in state.memory:
            state.memory[f"pairs_{name}"][:, member, done : done + values.shape[1]] = values


def fit(state: TrainState, pairs: Pairs, updates: int, step: int, member: int) -> None:
    """Make so many updates of a model, each on pairs that are drawn with replacement from the valid ones."""
    network, training = state.judges[member].network, state.judging
    order, count = pairs.valid_order(), pairs.valid.sum(1, keepdim=True)
    one = torch.ones(len(state.seeds), device=order.device)
    adam = Adam(network, Schedule(training.lr * one, one, one, updates), MAX_GRAD_NORM * one)
    draws = state.uniforms(Purpose.PAIR_BATCHES, step, updates, training.batch, round=member * ROUNDS)
    with torch.enable_grad():
        for numbers in draws.unbind(1):
            chosen = order.gather(1, (numbers * count).long().minimum(count - 1).clamp(min=0))
            part = pairs.rows(chosen)
            losses = pair_losses(last_value(network, part.prompts, part.completions, part.mask))
            (sum_keepdim(losses, (-1,)) / training.batch).sum().backward()
            adam.step()


def pair_losses(rewards: Tensor) -> Tensor:
    """−log σ(r(better) − r(worse)) of pairs, ``[… 2] -> […]``, as a log-softmax of two."""
    return -F.log_softmax(rewards, -1)[..., 0]


@torch.no_grad()
def standardize(judge: Judge, pairs: Pairs) -> None:
    """Give the numbers of a model mean 0 and deviation 1 over the completions of pairs."""
    judge.offset.zero_()
    judge.scale.fill_(1.0)
    rewards = read(judge, pairs)
    number = rewards.shape[1] * rewards.shape[2]
    mean = sum_keepdim(rewards, (-1, -2)) / number
    judge.offset.copy_(mean.flatten())
    judge.scale.copy_((sum_keepdim((rewards - mean).square(), (-1, -2)) / number).sqrt().clamp(min=SMALLEST).flatten())


@torch.no_grad()
def read(judge: Judge, pairs: Pairs) -> Tensor:
    """Return a model's number of each completion of pairs, ``[R N 2]``."""
    parts = zip(*(each.split(AT_ONCE, 1) for each in pairs[:3]), strict=True)
    return torch.cat([judge(*(each.contiguous() for each in part)) for part in parts], 1)
