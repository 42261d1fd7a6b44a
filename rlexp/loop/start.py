"""Where the policy starts: ``start(policy, task, seeds) -> problems``, changing the stacked parameters in place.

A start is a function of a run's seed, task, model and start settings alone: variants of a seed begin at one point, and
temperature, learning rate and the other choices of the run do not enter. All replicas are trained as one stack, and one
that has arrived is not moved any more, so that its neighbours change nothing. What went wrong is said for each replica,
an empty text where nothing did. The reference policy begins as a copy of the policy after its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlexp.core.masked import ALL, masked_mean
from rlexp.core.streams import Purpose, uniforms
from rlexp.core.types import Positive, PositiveInt, Probability, Share, Size
from rlexp.loop.optimizer import Adam, Schedule, per_replica
from rlexp.loop.rewards import score_with
from rlexp.loop.rollout import Rollout, response_mask, sample
from rlexp.models.llama import stacked_of
from rlexp.models.policy import Policy, gather_log_probs
from rlexp.models.policy import entropy as entropy_of
from rlexp.tasks import Task

EPS = 1e-6
MAX_GRAD_NORM = 1.0  # norm to which a gradient of the warm-up is clipped
MAX_SCALE, BISECTION_STEPS = 2.0**10, 40  # of the logits
TOLERANCE = 1e-3  # of the entropy that is wanted, in nats


def random(seeds: Sequence[int]) -> list[str]:
    """Keep the random initial weights, which are a function of the seed alone."""
    return [""] * len(seeds)


def pretrained(policy: Policy, seeds: Sequence[int], *, path: str | None) -> list[str]:
    """Take the weights of a Hugging Face folder, all replicas the same: ``LlamaForCausalLM`` of this size.

    Source: ``from_pretrained`` of Transformers, of which only the weights are read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = Path(path or "") / "model.safetensors"
    try:
        weights = stacked_of(load_file(file))
    except (OSError, SafetensorError, KeyError) as error:
        return [f"start.path={path}: {file.name} cannot be read ({type(error).__name__}: {error})"] * len(seeds)
    shapes = {name: parameter.shape[1:] for name, parameter in policy.named_parameters()}
    for name in shapes | weights:
        here, there = shapes.get(name), weights[name].shape if name in weights else None
        if here != there:
            sizes = f"{name} is {list(there or ())} there and {list(here or ())} here"
            return [f"start.path={path}: is another model ({sizes}); take its size and its task"] * len(seeds)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            parameter.copy_(weights[name])
    return [""] * len(seeds)


def sft(
    policy: Policy,
    task: Task,
    seeds: Sequence[int],
    *,
    accuracy: Share,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
) -> list[str]:
    """Supervised warm-up: Adam on −log π of the oracle's completions, mean over tokens, fresh ``prompts`` each time.

    A replica stops at the first check, one ``every`` so many updates, at which the accuracy of samples at temperature 1
    on ``checked`` held-out prompts, one each, is at least ``accuracy``. It can be above it by what one interval brings
    and by the error of the check, √(a (1 − a) / checked) at accuracy a. Source: supervised fine-tuning before
    reinforcement learning, the first step of InstructGPT (arXiv 2203.02155).
    """

    def right(questions: Tensor, update: int) -> tuple[Tensor, ...]:
        return questions, *task.oracle(questions)

    return until_accurate(accuracy, checked, policy, task, seeds, (lr, prompts, every, updates), right)


def pretrained_mixture(
    policy: Policy,
    task: Task,
    seeds: Sequence[int],
    *,
    accuracy: Share,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
    hinted: Probability | None,
) -> list[str]:
    """``sft`` on the task's ``corpus``: several procedures, mistakes and rare skills, each in its share.

    A share ``hinted`` of the prompts shows the end of the answer, which is a right one then.

    Where it stops is as in ``sft``. What it has learned of the corpus is ``eval/corpus_loss`` at step 0, and what a run
    forgets of it is how that loss rises. Source: next-token training on a mixture whose shares are known, as in
    "Physics of Language Models" (arXiv 2407.20311, section 2), of which the summary was read.
    """

    def answers_of(questions: Tensor, update: int) -> tuple[Tensor, ...]:
        answers = task.corpus(questions, uniforms(seeds, Purpose.START_CORPUS, update, (prompts,)))
        if not hinted:
            return questions, *answers
        right = task.oracle(questions)
        chosen = (uniforms(seeds, Purpose.START_HINTS, update, (prompts,)) < hinted).unsqueeze(-1)
        shown = task.hinted(questions, *right).where(chosen, questions)
        return shown, *(a.where(chosen, b) for a, b in zip(right, answers, strict=True))

    return until_accurate(accuracy, checked, policy, task, seeds, (lr, prompts, every, updates), answers_of)


def mixture(
    policy: Policy,
    task: Task,
    seeds: Sequence[int],
    *,
    accuracy: Probability,
    tolerance: Positive,
    formed: Probability,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
) -> list[str]:
    """``sft`` on right answers and on wrong ones of the right form, in a share that ends at ``accuracy``.

    A replica stops at the first check at which samples are right within ``tolerance`` of ``accuracy``, and at least
    ``formed`` of them are one of the two answers to their prompt, so that an accuracy of 0 is that of a policy which
    answers wrong, not of one that does not answer. From each check on, accuracy / (the share that are one of the two)
    of the answers are right, at most all: so the accuracy does not pass what is wanted for good. The wrong answers are
    the task's own, ``wrong_answers``. Source: none; a ceiling on the accuracy by wrong labels.
    """
    share = torch.ones(len(seeds))

    def answers_of(questions: Tensor, update: int) -> tuple[Tensor, ...]:
        chosen = uniforms(seeds, Purpose.START_MIXTURE, update, (prompts, 1)) < share[:, None, None]
        pairs = zip(task.oracle(questions), task.wrong_answers(questions), strict=True)
        return questions, *(right.where(chosen, wrong) for right, wrong in pairs)

    def check(update: int) -> tuple[Tensor, Tensor]:
        nonlocal share
        right, known = right_and_formed(policy, task, seeds, checked, update)
        share = (accuracy / known.clamp(min=EPS)).clamp(max=1)
        return right, ((right - accuracy).abs() > tolerance) | (known < formed)

    short = f"wanted {accuracy:g} ± {tolerance:g}; take more start.updates, another start.lr or a lower start.formed"
    return imitate(policy, task, seeds, (lr, prompts, every, updates), answers_of, check, short)


def scaled(
    policy: Policy,
    task: Task,
    seeds: Sequence[int],
    *,
    entropy: Positive,
    accuracy: Share,
    lr: Positive,
    prompts: Size,
    every: PositiveInt,
    checked: Size,
    updates: PositiveInt,
) -> list[str]:
    """``sft``, then all logits times one number, folded into the head, that brings the mean entropy to ``entropy``.

    What stays equal is the most likely token of every state: greedy answers and greedy accuracy are those of ``sft``
    with the same settings (but for ties within rounding). Sampled accuracy is not: it moves towards the greedy one when
    the policy is sharpened, away from it when it is flattened. The entropy, in nats a token at temperature 1, is that
    over the states that samples of the ``sft`` policy visit on ``checked`` held-out prompts.
    Source: temperature scaling (arXiv 1706.04599), which changes no most likely token.
    """
    hyperparameters = dict(accuracy=accuracy, lr=lr, prompts=prompts, every=every, checked=checked, updates=updates)
    problems = sft(policy, task, seeds, **hyperparameters)
    with torch.no_grad():
        visited = answers(policy, task, seeds, checked, updates + 1)
        own = response_mask(task, visited.prompts, visited.completions, visited.mask)
        scale, reached = scale_to(entropy, policy(visited.prompts, visited.completions), own)
        for parameter in policy.head_parameters():
            parameter.mul_(per_replica(scale, parameter))
    missed = ((reached - entropy).abs() > TOLERANCE).tolist()
    bounds = f"1/{MAX_SCALE:g} and {MAX_SCALE:g}"
    text = f"wanted {entropy:g} nats a token: no scale of the logits between {bounds} gives that"
    return [
        a or (f"start: entropy {b:.3f}, {text}" if c else "") for a, b, c in zip(problems, reached, missed, strict=True)
    ]


def until_accurate(
    accuracy: float,
    checked: int,
    policy: Policy,
    task: Task,
    seeds: Sequence[int],
    settings: tuple,
    answers_of: Callable,
) -> list[str]:
    """``imitate`` until samples on ``checked`` held-out prompts are right as often as ``accuracy``."""

    def check(update: int) -> tuple[Tensor, Tensor]:
        found = score_with(task, answers(policy, task, seeds, checked, update)).correct.float().mean(-1).mean(-1)
        return found, found < accuracy

    short = f"wanted {accuracy:g}; take more start.updates, another start.lr or a lower start.accuracy"
    return imitate(policy, task, seeds, settings, answers_of, check, short)


def imitate(
    policy: Policy, task: Task, seeds: Sequence[int], settings: tuple, answers_of: Callable, check: Callable, short: str
) -> list[str]:
    """Adam on −log π of the answers to fresh prompts; a replica stands still from the first check that it passes.

    ``answers_of(questions, update)`` are the prompts that it sees, completions and masks; of these only what the policy
    itself would write is learned. ``check(update)`` says how accurate the replicas are and which miss what is wanted.
    """
    lr, prompts, every, updates = settings
    one = torch.ones(len(seeds))
    adam = Adam(policy, Schedule(lr * one, one, one, updates), MAX_GRAD_NORM * one)
    away = torch.ones_like(one, dtype=torch.bool)
    for update in range(updates + 1):
        if update % every == 0:
            found, missed = check(update)
            away = away & missed
            adam.schedule = adam.schedule._replace(peak=(lr * one).where(away, 0.0))
        if update == updates or not away.any():
            break
        questions = task.prompts(uniforms(seeds, Purpose.START_PROMPTS, update, (prompts, task.draws)), held_out=False)
        questions, completions, mask = answers_of(questions, update)
        learned = response_mask(task, questions, completions.unsqueeze(2), mask.unsqueeze(2)).squeeze(2)
        imitation_loss(policy, questions, completions, learned).sum().backward()
        adam.step()
    return [
        f"start: sampled accuracy {accuracy:.3f} after {updates} updates, {short}" if still else ""
        for accuracy, still in zip(found.tolist(), away.tolist(), strict=True)
    ]


def imitation_loss(policy: nn.Module, prompts: Tensor, completions: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of −log π over the tokens of one completion ``[R P T]`` for each prompt ``[R P L]``: ``[R]``."""
    completions = completions.unsqueeze(2)
    log_probs = F.log_softmax(policy(prompts, completions), -1)
    losses = -gather_log_probs(log_probs, completions)
    return masked_mean(losses, mask.unsqueeze(2), ALL).squeeze(ALL)


def answers(policy: Policy, task: Task, seeds: Sequence[int], prompts: int, at: int) -> Rollout:
    """Sample one completion for each of the held-out prompts of a start, which are always the same."""
    questions = task.prompts(uniforms(seeds, Purpose.START_CHECKS, 0, (prompts, task.draws)), held_out=True)
    noise = uniforms(seeds, Purpose.START_SAMPLING, at, (prompts, 1, task.cap))
    return sample(policy, task, questions, noise, torch.ones(len(seeds)))


def right_and_formed(policy: Policy, task: Task, seeds: Sequence[int], prompts: int, at: int) -> tuple[Tensor, Tensor]:
    """Return the share of correct completions, and of those that are correct or the task's wrong answer, ``[R]``."""
    rollout = answers(policy, task, seeds, prompts, at)
    correct = score_with(task, rollout).correct[..., 0]
    wrong, mask = task.wrong_answers(rollout.prompts)
    wrong = wrong.where(mask, max(task.pad, 0))
    formed = correct | (rollout.completions[:, :, 0] == wrong).all(-1) & (rollout.mask[:, :, 0] == mask).all(-1)
    return correct.float().mean(-1), formed.float().mean(-1)


def scale_to(entropy: float, logits: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Bisect for the scale of ``logits`` ``[R P G T V]`` with this mean entropy over tokens; return both, ``[R]``.

    Entropy falls as the scale rises.
    """

    def mean_entropy(scale: Tensor) -> Tensor:
        distributions = F.log_softmax(logits * per_replica(scale, logits), -1)
        return masked_mean(entropy_of(distributions), mask, ALL).squeeze(ALL)

    low, high = (torch.full_like(logits[:, 0, 0, 0, 0], bound) for bound in (1 / MAX_SCALE, MAX_SCALE))
    for _ in range(BISECTION_STEPS):
        middle = (low * high).sqrt()
        flat = mean_entropy(middle) > entropy
        low, high = middle.where(flat, low), high.where(flat, middle)
    scale = (low * high).sqrt()
    return scale, mean_entropy(scale)


STARTS = {
    "random": random,
    "pretrained": pretrained,
    "pretrained_mixture": pretrained_mixture,
    "sft": sft,
    "mixture": mixture,
    "scaled": scaled,
}
