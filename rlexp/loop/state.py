"""The train state: everything that a step works on, for R runs that train as one batch, or for some of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core import types as t
from rlexp.core.blocks import map_variants
from rlexp.core.exact import as_before
from rlexp.core.facts import Facts, facts_of
from rlexp.core.memory import apply_updates
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.optimizer import Optimizer
from rlexp.loop.rollout import sample
from rlexp.loop.variant import Variant
from rlexp.models.policy import Policy, RolloutPolicy, TokenLogProbs
from rlexp.tasks.task import Task

Tensors = Mapping[str, Tensor]
# for updates, where they have been made
KEPT = ("proximal_log_probs", "ages", "teacher_log_probs", "teacher_distributions", "taught", "correct")
KEPT += ("answers", "answer_mask")


@dataclass(frozen=True)
class Network:
    """A network of the state: stacked parameters ``[R, ...]``, and the optimizer that trains it (None: nothing does).

    ``replicas`` are those that have this network, None for all; the rows of the others are never read or saved.
    """

    module: nn.Module
    optimizer: Optimizer | None = None
    replicas: frozenset[int] | None = None


class Source:
    """Where completions come from (``loop.data``): what is kept of them, and how many groups a step samples.

    ``slots`` is how many rollouts of the start there are before the first step.
    """

    slots = 0

    def sampled(self, prompts: int) -> int:
        """Return how many of a step's groups are sampled anew."""
        return prompts

    def empty(self, state: TrainState) -> NamedTuple | None:
        """Return a buffer without completions, as large as a state needs it; None for none."""
        return None

    def store(self, state: TrainState, step: int, stored: tuple) -> None:
        """Put what a step keeps into the buffer."""
        for held, new in zip(state.buffer, stored, strict=True):
            held.copy_(new)


def token_log_probs(policy: RolloutPolicy, *inputs: Tensor, **options: object) -> TokenLogProbs:
    """``policy.log_probs`` as a function, so that it can be compiled."""
    return policy.log_probs(*inputs, **options)


@dataclass(frozen=True)
class TrainState:
    """R runs that train as one batch: what they share, and what is each run's own, ``[R]``.

    ``networks`` are known by name: ``policy``, ``reference`` and, where they are asked for, ``teacher``, ``critic`` and
    ``reward_model``; ``critic`` and ``judging`` say how the last two are trained (None without them). ``blocks`` are
    the variants, in the order of the replicas, each with the number of replicas that it owns. ``memory`` holds what
    runs remember from step to step, ``[R, ...]``. ``data`` says where completions come from, and ``buffer`` holds
    those that it keeps, ``[R, ...]``; None for fresh ones. ``temperature`` is that of evaluation, and in training where
    ``temperature_final`` is None or infinite. A step changes weights, memory and buffer, nothing
    else. ``sample`` and ``log_probs`` are functions of a policy, compiled where the config asks for that.
    """

    task: Task
    networks: dict[str, Network]
    blocks: Sequence[tuple[Variant, int]]
    seeds: Sequence[int]
    temperature: t.PerReplica
    memory: dict[str, Tensor]
    prompts: int
    group: int
    inner_steps: int
    minibatches: int
    data: Source | None = None
    buffer: NamedTuple | None = None
    judging: object = None
    sample: Callable = sample
    log_probs: Callable = token_log_probs
    critic: object = None
    temperature_final: t.PerReplica | None = None
    steps: int = 0

    def at_step(self, step: int) -> TrainState:
        """Return the state with the temperatures of a step of training: T + (T_final − T) · (step − 1) / steps.

        Evaluation keeps the first ones. What was sampled at another temperature keeps the log-probabilities that it
        had there. Source: linear, as the learning rate; asked for in TRL #2941, which has a constant.
        """
        if self.temperature_final is None:
            return self
        moved = self.temperature + (self.temperature_final - self.temperature) * ((step - 1) / self.steps)
        return replace(self, temperature=moved.where(self.temperature_final.isfinite(), self.temperature))

    @property
    def policy(self) -> Policy:
        return self.networks["policy"].module

    @property
    def reference(self) -> Policy:
        return self.networks["reference"].module

    @property
    def judges(self) -> list[nn.Module]:
        return [network.module for name, network in self.networks.items() if name.startswith("reward_model")]

    @property
    def optimizer(self) -> Optimizer:
        return self.networks["policy"].optimizer

    def uniforms(self, purpose: Purpose, step: int, *shape: int, round: int = 0) -> Tensor:
        """Each run's own random numbers in [0, 1) for a purpose at a step, ``[R, *shape]``."""
        return uniforms(self.seeds, purpose, step, shape, self.temperature.device, round)

    @property
    def judged_at_all(self) -> bool:
        """Whether somebody else than the task judges any run; asks no device."""
        return any(variant.judged for variant, _ in self.blocks)

    def per_run(self, of: Callable[[Variant], object], dtype: torch.dtype | None = None) -> Tensor:
        """Return what a function says of the variant of each run, ``[R ...]``."""
        numbers = [of(variant) for variant, size in self.blocks for _ in range(size)]
        return torch.tensor(numbers, dtype=dtype, device=self.temperature.device)

    @cached_property
    def judged(self) -> Tensor:
        """Whether somebody else than the task judges a run, bool ``[R]``."""
        return self.per_run(lambda variant: variant.judged)

    @cached_property
    def verdicts(self) -> Tensor:
        """How often the judge of a run is asked about a completion, ``[R]``."""
        return self.per_run(lambda variant: variant.verdicts)

    @cached_property
    def bounds(self) -> Tensor:
        """The smallest and the largest reward of each run, ``[2, R]``: of its task, or of who judges in its place."""
        return self.per_run(lambda variant: variant.bounds or self.task.reward_range, self.temperature.dtype).T

    @cached_property
    def allocates(self) -> bool:
        """Whether groups of any run can have less completions than there is room for."""
        return not all(facts_of(variant.allocation, Facts).is_noop for variant, _ in self.blocks)

    @cached_property
    def requested(self) -> frozenset[str]:
        """Names of the tensors that some variant asks for."""
        return frozenset().union(*(variant.requested for variant, _ in self.blocks))


class Experience(NamedTuple):
    """A rollout and what it was worth.

    ``mask`` leaves out completions and tokens filtered from the loss, ``keep`` says which completions are in the
    statistics; ``rewards`` are those after shaping and KL in the reward, NaN where there is none. ``critic`` has the
    ``values`` and ``returns`` ``[R P G T]`` that a critic learns from; it is empty without one. ``kept`` has what an
    update asks for beside the rest (``KEPT``).
    """

    prompts: t.Prompts
    completions: t.Completions
    old_log_probs: t.PerToken
    ref_log_probs: t.PerToken
    mask: t.TokenMask
    keep: t.CompletionMask
    rewards: t.PerCompletion
    advantages: t.PerToken
    sampler_log_probs: t.PerToken
    prompt_numbers: t.PromptNumbers
    critic: dict[str, t.PerToken]
    kept: dict[str, Tensor] = {}


def backward(loss: t.PerReplica, network: nn.Module, part: Experience, *more: object) -> None:
    """Let the gradients of a loss of a minibatch flow into a network; ``more`` is what else its shapes depend on."""
    with as_before(network, "backward", part.prompts.shape, part.completions.shape, *more):
        loss.sum().backward()


def update_memory(variant: Variant, memory: Tensors, batch: Experience) -> dict[str, Tensor]:
    """Return the memories after a step; they are offered the experience, with rewards 0 outside the statistics."""
    rewards = {"rewards": batch.rewards.where(batch.keep, 0.0), "all_rewards": batch.rewards}
    return apply_updates(variant, memory, batch._asdict() | rewards)


def take_replicas(module: nn.Module, replicas: Tensor) -> nn.Module:
    """Return a network of some of the replicas: the same module with their rows of every parameter, copied."""
    rows = {id(each): nn.Parameter(each.detach()[replicas], requires_grad=False) for each in module.parameters()}
    return copy.deepcopy(module, rows)


def subset(state: TrainState, replicas: Tensor) -> TrainState:
    """Return a state of these replicas, in their order, to sample and judge with: its networks are not to be trained.

    Their optimizers are those of the whole state. Its sampling is not compiled, whatever that of the whole state is:
    another number of runs would compile it again.
    """
    variants, sizes = zip(*state.blocks, strict=True)
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    counts = owners[replicas.cpu()].bincount(minlength=len(sizes)).tolist()
    kept = [each for each in state.networks.items() if each[0] == "policy" or each[0].startswith("reward_model")]
    return replace(
        state,
        networks={name: Network(take_replicas(network.module, replicas), network.optimizer) for name, network in kept},
        seeds=[state.seeds[replica] for replica in replicas.tolist()],
        temperature=state.temperature[replicas],
        temperature_final=None,
        memory={name: values[replicas] for name, values in state.memory.items()},
        sample=sample,
        log_probs=token_log_probs,
        blocks=[(variant, size) for variant, size in zip(variants, counts, strict=True) if size],
    )


@torch.no_grad()
def update_reference(state: TrainState, step: int) -> None:
    """Let the references of the variants that have one that moves follow their policies."""

    def moved(variant: Variant, reference: Tensor, policy: Tensor) -> dict[str, Tensor]:
        offered = {"reference": reference, "policy": policy, "step": step}
        return {"reference": call_with(variant.reference, offered)}

    if any("policy" in required_inputs(variant.reference) for variant, _ in state.blocks):
        for reference, policy in zip(state.reference.parameters(), state.policy.parameters(), strict=True):
            reference.copy_(map_variants(moved, state.blocks, reference, policy)["reference"])
