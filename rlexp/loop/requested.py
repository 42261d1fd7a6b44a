"""What the axes may ask for beyond the rollout and the minibatch themselves: made on request, by name.

What no variant asks for is not made. What costs a pass through a network is made for the replicas that ask and is 0 for
the others, which do not read it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rlexp.core.masked import ALL, count, per_token
from rlexp.core.streams import Purpose, hashed_uniforms
from rlexp.core.types import PerVocabulary
from rlexp.loop import imitation, kl_stop, population, truncation
from rlexp.loop.networks import log_probs_of, of_replicas
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, loss_mask, most_likely, sample
from rlexp.loop.sampling import Groups, prompt_numbers
from rlexp.loop.state import Experience, Tensors, TrainState, subset
from rlexp.loop.teachers import teaching
from rlexp.models import scalar
from rlexp.models.policy import Policy, entropy, gather_log_probs


@torch.no_grad()
def tensors_of_rollout(
    state: TrainState, step: int, groups: Groups, reference: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the state's memory and each requested tensor by its name in ``INPUTS``.

    ``reference`` are the reference's log-probabilities of the whole vocabulary, if they are known already. What it
    returns is 0 for the runs that do not ask, where a network has to read or sample. A task with an environment has a
    ``loss_mask``.
    """
    rollout, rewards, like = groups.rollout, groups.rewards, groups.rollout.old_log_probs
    weights = {name: weight for name, weight in state.task.weights.items() if weight}

    def distributions() -> Tensor:
        whole = groups.policy.distributions(rollout.prompts, rollout.completions, state.temperature)
        return truncation.distributions(state.blocks, whole)

    def proximal() -> Tensor:
        """Return those of the policy as it is; where it cannot draw a token any more, the old ones."""
        if groups.ages is None:
            return like
        computed = by_network("proximal_log_probs", "policy", log_probs_of)
        if not truncation.trains_any(state.blocks):
            return computed
        trained = gather_log_probs(distributions(), rollout.completions)
        trained = trained.where(truncation.inside(trained), like)
        which = state.per_run(lambda variant: variant.trains_truncated and "proximal_log_probs" in variant.requested)
        return trained.where(which[:, None, None, None], computed)

    def asking(name: str) -> Tensor:
        return state.per_run(lambda variant: name in variant.requested).nonzero().squeeze(-1)

    def by_network(name: str, network: str, function: Callable[[Policy, Rollout, Tensor], Tensor]) -> Tensor:
        computed = of_replicas(state, asking(name), network, rollout, function)
        return torch.zeros_like(like) if computed is None else computed

    def greedy(policy: Policy, part: Rollout, temperature: Tensor) -> Tensor:
        """Reward of the most likely completion of every prompt by the judge of the run, ``[R P 1]``; 0 where none."""
        runs = state if len(temperature) == len(state.seeds) else subset(state, asking("greedy_rewards"))
        unused = torch.zeros_like(part.old_log_probs[:, :, :1])
        completed = sample(policy, state.task, part.prompts, unused, temperature, most_likely)
        return score(runs, completed, step, occasion=Purpose.GREEDY_VOTES).total.nan_to_num(0.0)

    def by_reference(policy: Policy, part: Rollout, temperature: Tensor) -> Tensor:
        """Rewards of G completions of every prompt by the reference, by the run's judge, ``[R P G]``; 0 where none."""
        runs = state if len(temperature) == len(state.seeds) else subset(state, asking("reference_rewards"))
        uniforms = runs.uniforms(Purpose.REFERENCE_SAMPLING, step, *part.old_log_probs.shape[1:])
        completed = sample(policy, state.task, part.prompts, uniforms, temperature)
        return score(runs, completed, step, occasion=Purpose.REFERENCE_VOTES).total.nan_to_num(0.0)

    def numbers() -> Tensor:
        asked = "prompt_numbers" in state.requested
        return prompt_numbers(state, rollout.prompts) if asked else torch.zeros_like(rollout.prompts[..., 0])

    made = {
        "ref_log_probs": lambda: by_network("ref_log_probs", "reference", log_probs_of),
        **teaching(state, rollout, rewards.correct),
        **imitation.shown(state, rollout),
        "proximal_log_probs": proximal,
        "ages": lambda: torch.zeros_like(like) if groups.ages is None else groups.ages,
        "greedy_rewards": lambda: by_network("greedy_rewards", "policy", greedy),
        "reference_rewards": lambda: by_network("reference_rewards", "reference", by_reference),
        "entropies": lambda: entropy(distributions()),
        "sum_pi_squared": lambda: distributions().exp().square().sum(-1),
        "prompt_numbers": numbers,
        "drawn": lambda: state.uniforms(Purpose.VERDICTS, step, state.prompts, state.group),
        "hashed": lambda: hashed_uniforms(state.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        "components": lambda: torch.stack([rewards.components[name] for name in weights], -1),
        "weights": lambda: like.new_tensor(list(weights.values())).expand(len(state.seeds), -1),
        "correct": lambda: rewards.correct.to(like.dtype),
        "values": lambda: scalar.values(state.networks["critic"].module, rollout.prompts, rollout.completions),
    }
    if rewards.per_token is not None:
        made["token_rewards"] = lambda: rewards.per_token
    if reference is not None:
        made["ref_log_probs"] = lambda: gather_log_probs(reference, rollout.completions)
    if hasattr(state.task, "environment"):
        made["loss_mask"] = lambda: loss_mask(state.task, rollout.prompts, rollout.completions, rollout.mask)
    names = state.requested | {"ref_log_probs", "prompt_numbers", "loss_mask", "taught"}
    return state.memory | {name: make() for name, make in made.items() if name in names}


@torch.no_grad()
def reference_distributions(state: TrainState, rollout: Rollout) -> PerVocabulary:
    """Return the reference's log-probabilities of the whole vocabulary at every token of the rollout."""
    return state.reference.distributions(rollout.prompts, rollout.completions, state.temperature)


def tensors_of_step(state: TrainState, batch: Experience) -> dict[str, Tensor]:
    """Return what all updates of a step share, ``[R]`` each but what is of a population.

    ``mean_tokens`` is how many tokens of a minibatch count on average, see ``agg.token``; ``taught_tokens`` how many of
    them have a teacher, ``correct_tokens`` how many are of correct completions, ``answer_tokens`` how many right
    answers have; for ``stopped`` see ``kl_stop``.
    """
    masks = {"mean_tokens": batch.mask}
    if "taught" in batch.kept:
        masks["taught_tokens"] = batch.mask & per_token(batch.kept["taught"], batch.mask)
    if any(variant.positive_nll_coef for variant, _ in state.blocks):
        masks["correct_tokens"] = batch.mask & per_token(batch.kept["correct"] > 0, batch.mask)
    if "answer_mask" in batch.kept:
        masks["answer_tokens"] = batch.kept["answer_mask"]
    tokens = {name: count(mask, ALL, batch.advantages.dtype).squeeze(ALL).clamp(min=1) for name, mask in masks.items()}
    shared = {name: number / state.minibatches for name, number in tokens.items()}
    return shared | kl_stop.init_stopped(state) | population.tensors_of_population(state, batch)


def tensors_of_update(state: TrainState, part: Experience, shared: Tensors) -> dict[str, Tensor]:
    """Return what a loss may ask for beside a minibatch: memory, what all share, right answers, where the run is,
    random numbers.
    """
    tensors = state.memory | dict(shared) | imitation.read(state, part)
    tensors["progress"] = torch.full_like(tensors["mean_tokens"], state.optimizer.progress)
    if "uniforms" in state.requested:
        tensors["uniforms"] = state.uniforms(Purpose.LOSS, state.optimizer.updates, *part.mask.shape[1:])
    return tensors
