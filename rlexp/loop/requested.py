"""What the axes may ask for beyond the rollout and the minibatch themselves: made on request, by name.

What no variant asks for is not made. What costs a pass through a network is made for the replicas that ask and is 0 for
the others, which do not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rlexp.core.masked import count
from rlexp.core.streams import Purpose, hashed_uniforms
from rlexp.core.types import PerReplica
from rlexp.loop.dynamic_sampling import Groups, prompt_numbers
from rlexp.loop.replicas import compute_for_subset, replicas_where, subset
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, most_likely, sample
from rlexp.loop.state import Experience, TrainState
from rlexp.models import scalar
from rlexp.models.policy import Policy, entropy, gather_log_probs

TOKENS = (-1, -2, -3)


@torch.no_grad()
def requested_tensors(state: TrainState, step: int, groups: Groups, reference: Tensor | None) -> dict[str, Tensor]:
    """Return the state's memory and each requested tensor by its name in ``INPUTS``.

    ``reference`` are the reference's log-probabilities of the whole vocabulary, if they are known already.
    """
    made = lazy_inputs(state, step, groups)
    if reference is not None:
        made["ref_log_probs"] = lambda: gather_log_probs(reference, groups.rollout.completions)
    names = state.requested | {"ref_log_probs", "prompt_numbers"}
    return state.memory | {name: make() for name, make in made.items() if name in names}


def lazy_inputs(state: TrainState, step: int, groups: Groups) -> Mapping[str, Callable[[], Tensor]]:
    """Return for each name the function that makes the tensor."""
    rollout, rewards = groups.rollout, groups.rewards
    weights = {name: weight for name, weight in state.task.weights.items() if weight}

    def distributions() -> Tensor:
        return groups.policy.distributions(rollout.prompts, rollout.completions, state.temperature)

    def by_network(name: str, network: str, function: Callable) -> Tensor:
        asking = replicas_requiring(state, name)
        if not len(asking):
            return torch.zeros_like(rollout.old_log_probs)
        return compute_for_subset(asking, state, state.networks[network].module, function, rollout)

    def greedy(policy: Policy, part: Rollout, temperature: Tensor) -> Tensor:
        return greedy_rewards(policy, subset_requiring(state, "greedy_rewards"), step, part, temperature)

    def numbers() -> Tensor:
        asked = "prompt_numbers" in state.requested
        return prompt_numbers(state, rollout.prompts) if asked else torch.zeros_like(rollout.prompts[..., 0])

    like = rollout.old_log_probs
    return {
        "ref_log_probs": lambda: by_network("ref_log_probs", "reference", log_probs_of),
        "teacher_log_probs": lambda: by_network("teacher_log_probs", "teacher", log_probs_of),
        "greedy_rewards": lambda: by_network("greedy_rewards", "policy", greedy),
        "entropies": lambda: entropy(distributions()),
        "sum_pi_squared": lambda: distributions().exp().square().sum(-1),
        "prompt_numbers": numbers,
        "drawn": lambda: state.uniforms(Purpose.VERDICTS, step, state.prompts, state.group),
        "hashed": lambda: hashed_uniforms(state.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        "components": lambda: torch.stack([rewards.components[name] for name in weights], -1),
        "weights": lambda: like.new_tensor(list(weights.values())).expand(len(state.seeds), -1),
        "correct": lambda: rewards.correct.to(like.dtype),
        "values": lambda: scalar.values(state.networks["critic"].module, rollout.prompts, rollout.completions),
    } | ({} if rewards.per_token is None else {"token_rewards": lambda: rewards.per_token})


def mean_tokens_of(state: TrainState, batch: Experience) -> dict[str, PerReplica]:
    """Return how many tokens of a minibatch count on average, ``[R]``, by its name: see ``agg.token``."""
    tokens = count(batch.mask, TOKENS, batch.advantages.dtype).squeeze(TOKENS).clamp(min=1)
    return {"mean_tokens": tokens / state.minibatches}


def tensors_of_update(state: TrainState, part: Experience, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a loss may ask for beside a minibatch: memory, what all share, where the run is, random numbers."""
    tensors = state.memory | dict(shared)
    tensors["progress"] = torch.full_like(tensors["mean_tokens"], state.optimizer.progress)
    if "uniforms" in state.requested:
        tensors["uniforms"] = state.uniforms(Purpose.LOSS, state.optimizer.updates, *part.mask.shape[1:])
    return tensors


def log_probs_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the completions' tokens by another network than the one that sampled, ``[R P G T]``."""
    return policy.log_probs(rollout.prompts, rollout.completions, temperature).log_probs


def replicas_requiring(state: TrainState, name: str) -> Tensor:
    """Return the indices of the replicas whose variant asks for a tensor."""
    return replicas_where(state, lambda variant: name in variant.requested)


def subset_requiring(state: TrainState, name: str) -> TrainState:
    """Return the state of these replicas."""
    asking = replicas_requiring(state, name)
    return state if len(asking) == len(state.seeds) else subset(state, asking)


def greedy_rewards(policy: Policy, state: TrainState, step: int, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Reward of the most likely completion of every prompt by the judge of the run, ``[R P 1]``; 0 where none."""
    unused = torch.zeros_like(rollout.old_log_probs[:, :, :1])
    greedy = sample(policy, state.task, rollout.prompts, unused, temperature, most_likely)
    return score(state, greedy, step, occasion=Purpose.GREEDY_VOTES).total.nan_to_num(0.0)
