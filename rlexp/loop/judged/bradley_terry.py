"""Reward models: networks that learn from pairs which of two completions is better, and judge in the task's place.

    loss = −log σ(r(better) − r(worse))

with r the number of a scalar network after the last token. Source: Bradley and Terry (1952); Christiano et al. (arXiv
1706.03741, eq. 1), InstructGPT (arXiv 2203.02155, eq. 1). A model is trained before the first step on pairs of the
start policy and, if it is to be refreshed, again every so many steps on pairs of the present policy added to those
before. Each model of an ensemble has pairs and initial weights of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from pydantic import FiniteFloat
from torch import Tensor, nn

from rlexp.core.blocks import map_tensors
from rlexp.core.exact import sum_keepdim
from rlexp.core.registry import bind_choice, schema
from rlexp.core.streams import Purpose
from rlexp.core.types import FiniteNonNegative, NonNegativeInt, PerCompletion, Positive, PositiveInt, Size
from rlexp.loop.judged.pairs import Pairs, Place, first_valid, rows_of, sample_pairs, valid_order
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.loop.state import TrainState
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.scalar import last_value
from rlexp.tasks import Task

Probability = Annotated[float, Ge(0), Le(1)]
Sizes = schema(MODELS) | None
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
    network: Sizes
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

    def forward(self, prompts: Tensor, completions: Tensor, mask: Tensor) -> PerCompletion:
        """Judge completions, ``[R P L], [R P G T], [R P G T] -> [R P G]``."""
        raw = last_value(self.network, prompts, completions, mask)
        return (raw - self.offset.view(-1, 1, 1)) / self.scale.view(-1, 1, 1)


def make_judges(training: BradleyTerry, sizes: object, task: Task, seeds: Sequence[int]) -> dict[str, Judge]:
    """Return untrained models by the names that they have in a state; ``sizes`` are those of the policy."""
    networks = (
        bind_choice(MODELS, training.network or sizes)(Init(seeds, Purpose.REWARD_MODEL_WEIGHTS, member), task, 1)
        for member in range(training.members)
    )
    return {
        f"reward_model_{number}" if number > 1 else "reward_model": Judge(network, len(seeds))
        for number, network in enumerate(networks, 1)
    }


def room_for_pairs(training: BradleyTerry, task: Task, replicas: int, steps: int) -> dict[str, Tensor]:
    """Return what a state remembers of pairs, empty, ``[R E N …]``; nothing if no model is trained again."""
    if not training.refresh:
        return {}
    number = training.pairs + steps // training.refresh * training.refresh_pairs
    shape = (replicas, training.members, number)
    empty = Pairs(
        torch.zeros(*shape, task.prompt_length, dtype=torch.long),
        torch.zeros(*shape, 2, task.cap, dtype=torch.long),
        torch.zeros(*shape, 2, task.cap, dtype=torch.bool),
        torch.zeros(*shape, dtype=torch.bool),
    )
    return {f"pairs_{name}": values for name, values in empty._asdict().items()}


def train_judges(state: TrainState) -> list[str]:
    """Train all models of a fresh state on pairs of its policy; return what went wrong for each run, or ""."""
    training, problems = state.judging, [""] * len(state.seeds)
    for member, judge in enumerate(state.judges):
        place = Place(state.seeds, 0, member)
        pairs = sample_pairs(state.policy, state.task, state.temperature, training, training.pairs, place)
        for replica, found in enumerate(pairs.valid.sum(1).tolist()):
            if found < training.pairs:
                problems[replica] = (
                    f"reward.model: {found} pairs of the start policy differ as wanted, reward.model.pairs="
                    f"{training.pairs}; take fewer, other gaps or another start"
                )
        remember(state, pairs, member, 0)
        fit(judge.network, pairs, training, training.updates, place)
        standardize(judge, pairs)
    return problems


def refresh_judges(state: TrainState, step: int) -> None:
    """At the steps for it, add pairs of the present policy and train all models on all pairs."""
    training = state.judging
    if training is None or not training.refresh or step % training.refresh:
        return
    done = training.pairs + (step // training.refresh - 1) * training.refresh_pairs
    for member, judge in enumerate(state.judges):
        place = Place(state.seeds, step, member)
        wanted = training.refresh_pairs * training.worst_of
        found = sample_pairs(state.policy, state.task, state.temperature, training, wanted, place)
        remember(state, most_wrong(judge, found, training.refresh_pairs), member, done)
        pairs = Pairs(*(state.memory[f"pairs_{name}"][:, member] for name in Pairs._fields))
        known = map_tensors(lambda values: values[:, : done + training.refresh_pairs], pairs)
        fit(judge.network, known, training, training.refresh_updates, place)
        standardize(judge, map_tensors(lambda values: values[:, : training.pairs], pairs))


def remember(state: TrainState, pairs: Pairs, member: int, done: int) -> None:
    """Write pairs behind the ``done`` ones that a model has had, if the state remembers any."""
    for name, values in pairs._asdict().items():
        if f"pairs_{name}" in state.memory:
            state.memory[f"pairs_{name}"][:, member, done : done + values.shape[1]] = values


def most_wrong(judge: Judge, pairs: Pairs, number: int) -> Pairs:
    """Return so many pairs, those first about which a model is most wrong: r(better) − r(worse) is smallest."""
    better, worse = read(judge, pairs).unbind(-1)
    order = (better - worse).masked_fill(~pairs.valid, torch.inf).argsort(dim=1, stable=True)
    return first_valid(rows_of(pairs, order), number)


def fit(network: nn.Module, pairs: Pairs, training: BradleyTerry, updates: int, place: Place) -> None:
    """Make so many updates of a network, each on pairs that are drawn with replacement from the valid ones."""
    order, count = valid_order(pairs), pairs.valid.sum(1, keepdim=True)
    one = torch.ones(len(place.seeds), device=order.device)
    adam = Adam(network, Schedule(training.lr * one, one, one, updates), MAX_GRAD_NORM * one)
    draws = place.uniforms(Purpose.PAIR_BATCHES, 0, updates, training.batch).to(order.device)
    with torch.enable_grad():
        for numbers in draws.unbind(1):
            chosen = order.gather(1, (numbers * count).long().minimum(count - 1).clamp(min=0))
            part = rows_of(pairs, chosen)
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
