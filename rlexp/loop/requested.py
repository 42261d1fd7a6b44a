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
from rlexp.core.types import CompletionMask, PerVocabulary
from rlexp.loop import kl_stop
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout, loss_mask, most_likely, sample
from rlexp.loop.sampling import Groups, prompt_numbers
from rlexp.loop.state import Experience, Tensors, TrainState, subset, take_replicas
from rlexp.models import scalar
from rlexp.models.policy import Policy, entropy, gather_log_probs
from rlexp.tasks import Task


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
        return groups.policy.distributions(rollout.prompts, rollout.completions, state.temperature)

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
        "proximal_log_probs": lambda: (
            like if groups.ages is None else by_network("proximal_log_probs", "policy", log_probs_of)
        ),
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


def of_replicas(
    state: TrainState,
    replicas: Tensor,
    network: str,
    rollout: Rollout,
    function: Callable[[Policy, Rollout, Tensor], Tensor],
    into: Tensor | None = None,
) -> Tensor | None:
    """Return what a network makes of the rollouts of some replicas, 0 or what ``into`` has for the others.

    None for no replicas at all, if nothing is given.
    """
    if not len(replicas):
        return into
    policy = state.networks[network].module
    if len(replicas) == len(state.seeds):
        return function(policy, rollout, state.temperature)
    part = Rollout(*(tensor[replicas] for tensor in rollout))
    computed = function(take_replicas(policy, replicas), part, state.temperature[replicas])
    into = computed.new_zeros(len(state.seeds), *computed.shape[1:]) if into is None else into
    return into.index_copy(0, replicas, computed)


def teaching(state: TrainState, rollout: Rollout, correct: CompletionMask) -> dict[str, Callable[[], Tensor]]:
    """Return how what teachers say is made, by name; nothing where no run has one.

    ``taught`` are the completions that have a teacher: where none has a hint to show, its ``teacher_log_probs`` are
    those of the policy that sampled.
    """
    asked = {"teacher_log_probs", "teacher_distributions"} & state.requested
    if not asked:
        return {}
    ways = {variant.taught_by: None for variant, _ in state.blocks if asked & variant.requested}
    shown = {hint: shown_prompts(state.task, rollout, correct, hint) for _, hint in ways}

    def read(name: str, function: Callable[[Policy, Rollout, Tensor], Tensor]) -> Tensor | None:
        result = None
        for network, hint in ways:
            runs = state.per_run(lambda v, way=(network, hint): name in v.requested and v.taught_by == way)
            prompts, _ = shown[hint]
            result = of_replicas(
                state, runs.nonzero().squeeze(-1), network, rollout._replace(prompts=prompts), function, result
            )
        return result

    def taught() -> Tensor:
        there = torch.zeros_like(correct)
        for way in ways:
            runs = state.per_run(lambda v, way=way: bool(asked & v.requested) and v.taught_by == way)
            there |= runs[:, None, None] & shown[way[1]][1]
        return there

    return {
        "taught": taught,
        "teacher_log_probs": lambda: read("teacher_log_probs", log_probs_of).where(
            per_token(taught(), rollout.mask), rollout.old_log_probs
        ),
        "teacher_distributions": lambda: read("teacher_distributions", distributions_of),
    }


def shown_prompts(
    task: Task, rollout: Rollout, correct: CompletionMask, hint: str | None
) -> tuple[Tensor, CompletionMask]:
    """Return the prompts as a teacher sees them, and for which completions there is something to show.

    Prompts are ``[R P L]``, or ``[R P G L]`` where each completion has its own. Source of ``success``: SDPO (arXiv
    2601.20802), TRL ``SDPOConfig.dont_reprompt_on_self_success``: never the completion itself.
    """
    prompts, completions, mask = rollout.prompts, rollout.completions, rollout.mask
    if hint is None:
        return prompts, torch.ones_like(correct)
    if hint == "answer":
        answers, there = task.oracle(prompts)
        return task.hinted(prompts, answers, there), there.any(-1, keepdim=True).expand(correct.shape)
    alone = torch.eye(correct.shape[-1], dtype=torch.bool, device=correct.device)
    others = correct.unsqueeze(-2) & ~alone
    first = others.to(torch.int8).argmax(-1, keepdim=True).expand(completions.shape)
    there, shown = others.any(-1), mask.gather(2, first)
    prompts = prompts.unsqueeze(2).expand(*correct.shape, -1)
    hinted = task.hinted(prompts, completions.gather(2, first), shown & there.unsqueeze(-1))
    return hinted, there


def distributions_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the vocabulary at the completions' tokens by another network, ``[R P G T V]``."""
    return as_one_each(policy.distributions, rollout, temperature)


def log_probs_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the completions' tokens by another network than the one that sampled, ``[R P G T]``."""
    return as_one_each(lambda *inputs: policy.log_probs(*inputs).log_probs, rollout, temperature)


def as_one_each(function: Callable, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Call a function of prompts and completions; completions with prompts of their own are groups of one."""
    prompts, completions = rollout.prompts, rollout.completions
    if prompts.dim() == 3:
        return function(prompts, completions, temperature)
    result = function(prompts.flatten(1, 2), completions.flatten(1, 2).unsqueeze(2), temperature)
    return result.view(*completions.shape[:3], *result.shape[3:])


@torch.no_grad()
def reference_distributions(state: TrainState, rollout: Rollout) -> PerVocabulary:
    """Return the reference's log-probabilities of the whole vocabulary at every token of the rollout."""
    return state.reference.distributions(rollout.prompts, rollout.completions, state.temperature)


def tensors_of_step(state: TrainState, batch: Experience) -> dict[str, Tensor]:
    """Return what all updates of a step share, ``[R]`` each.

    ``mean_tokens`` is how many tokens of a minibatch count on average, see ``agg.token``; ``taught_tokens`` how many of
    them have a teacher, ``correct_tokens`` how many are of correct completions; for ``stopped`` see ``kl_stop``.
    """
    masks = {"mean_tokens": batch.mask}
    if "taught" in batch.kept:
        masks["taught_tokens"] = batch.mask & per_token(batch.kept["taught"], batch.mask)
    if any(variant.positive_nll_coef for variant, _ in state.blocks):
        masks["correct_tokens"] = batch.mask & per_token(batch.kept["correct"] > 0, batch.mask)
    tokens = {name: count(mask, ALL, batch.advantages.dtype).squeeze(ALL).clamp(min=1) for name, mask in masks.items()}
    return {name: number / state.minibatches for name, number in tokens.items()} | kl_stop.init_stopped(state)


def tensors_of_update(state: TrainState, part: Experience, shared: Tensors) -> dict[str, Tensor]:
    """Return what a loss may ask for beside a minibatch: memory, what all share, where the run is, random numbers."""
    tensors = state.memory | dict(shared)
    tensors["progress"] = torch.full_like(tensors["mean_tokens"], state.optimizer.progress)
    if "uniforms" in state.requested:
        tensors["uniforms"] = state.uniforms(Purpose.LOSS, state.optimizer.updates, *part.mask.shape[1:])
    return tensors
