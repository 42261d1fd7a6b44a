"""What shaping, filter, norm and teacher may ask for beyond the rollout itself: made on request, by name.

What no variant asks for is not made. What costs a pass through a network is made for the replicas that ask and is 0 for
the others, which do not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rlexp.core.streams import Purpose, hashed_uniforms
from rlexp.loop.dynamic_sampling import Groups
from rlexp.loop.replicas import compute_for, replicas_where
from rlexp.loop.rewards import Rewards, score_with
from rlexp.loop.rollout import Rollout, most_likely, sample
from rlexp.loop.state import TrainState
from rlexp.models import scalar
from rlexp.models.policy import Policy, entropy, gather_log_probs
from rlexp.tasks import Task


@torch.no_grad()
def requested_tensors(
    state: TrainState, step: int, groups: Groups, rewards: Rewards, reference: Tensor | None
) -> dict[str, Tensor]:
    """Return the state's memory and each requested tensor by its name in ``OFFERED``.

    ``reference`` are the reference's log-probabilities of the whole vocabulary, if they are known already.
    """
    made = makers(state, step, groups, rewards)
    if reference is not None:
        made["ref_log_probs"] = lambda: gather_log_probs(reference, groups.rollout.completions)
    names = state.requested | {"ref_log_probs"}
    return state.memory | {name: make() for name, make in made.items() if name in names}


def makers(state: TrainState, step: int, groups: Groups, rewards: Rewards) -> Mapping[str, Callable[[], Tensor]]:
    """Return for each name the function that makes the tensor."""
    rollout, weights = groups.rollout, {name: weight for name, weight in state.task.weights.items() if weight}

    def distributions() -> Tensor:
        return state.policy.distributions(
            rollout.prompts, rollout.completions, state.temperature, forward_cache=groups.forward_cache
        )

    def by_network(name: str, network: str, function: Callable) -> Tensor:
        asking = replicas_where(state, lambda variant: name in variant.requested)
        if not len(asking):
            return torch.zeros_like(rollout.old_log_probs)
        return compute_for(asking, state, state.networks[network].module, function, rollout)

    def greedy(policy: Policy, part: Rollout, temperature: Tensor) -> Tensor:
        return greedy_rewards(policy, state.task, part, temperature)

    like = rollout.old_log_probs
    return {
        "ref_log_probs": lambda: by_network("ref_log_probs", "reference", log_probs_of),
        "teacher_log_probs": lambda: by_network("teacher_log_probs", "teacher", log_probs_of),
        "greedy_rewards": lambda: by_network("greedy_rewards", "policy", greedy),
        "entropies": lambda: entropy(distributions()),
        "sum_pi_squared": lambda: distributions().exp().square().sum(-1),
        "drawn": lambda: state.uniforms(Purpose.VERDICTS, step, state.prompts, state.group),
        "hashed": lambda: hashed_uniforms(state.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        "components": lambda: torch.stack([rewards.components[name] for name in weights], -1),
        "weights": lambda: like.new_tensor(list(weights.values())).expand(len(state.seeds), -1),
        "correct": lambda: rewards.correct.to(like.dtype),
        "values": lambda: scalar.values(state.networks["critic"].module, rollout.prompts, rollout.completions),
    } | ({} if rewards.per_token is None else {"token_rewards": lambda: rewards.per_token})


def log_probs_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the completions' tokens by another network than the one that sampled, ``[R P G T]``."""
    return policy.log_probs(rollout.prompts, rollout.completions, temperature).log_probs


def greedy_rewards(policy: Policy, task: Task, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Reward of the most likely completion of every prompt, ``[R P 1]``; 0 where it has none."""
    unused = torch.zeros_like(rollout.old_log_probs[:, :, :1])
    greedy = sample(policy, task, rollout.prompts, unused, temperature, most_likely)
    return score_with(task, greedy).total.nan_to_num(0.0)
