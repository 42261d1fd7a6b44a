"""Sampling: prompts and a policy to completions, with the log-probabilities of the policy that sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.core.exact import as_before
from rlexp.core.types import CompletionMask, Completions, PerReplica, PerToken, Prompts, TokenMask
from rlexp.models.policy import RolloutPolicy, gather_log_probs
from rlexp.tasks import Task


class Rollout(NamedTuple):
    """Prompts and their completions, as they were sampled.

    The mask covers the tokens up to the end token, which counts; elsewhere old_log_probs are 0. ``sampler_log_probs``
    are those that the tokens were drawn from: the same tensor, unless ``sampler`` has changed them. What the task's
    environment has written is in the mask; its old_log_probs are 0 where no loss sees it (``loss_mask``).
    """

    prompts: Prompts
    completions: Completions
    old_log_probs: PerToken
    mask: TokenMask
    finished: CompletionMask
    sampler_log_probs: PerToken

    @property
    def there(self) -> CompletionMask:
        """Return the completions that there are: one that ``allocation`` has left out has no token."""
        return self.mask.any(-1)

    @property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return every completion behind its prompt and which of these tokens count, ``[R, P, G, L + T]`` each."""
        prompts = self.prompts.unsqueeze(2).expand(-1, -1, self.mask.shape[2], -1)
        present = torch.ones_like(prompts, dtype=torch.bool)
        return torch.cat([prompts, self.completions], -1), torch.cat([present, self.mask], -1)


def empty_rollout(task: Task, held: Sequence[int], group: int, device: torch.device) -> Rollout:
    """Return room for groups, ``held`` of them as ``[R, …, P]``: completions without a token."""
    tokens = *held, group, task.cap
    return Rollout(
        prompts=torch.zeros(*held, task.prompt_length, dtype=torch.long, device=device),
        completions=torch.zeros(tokens, dtype=torch.long, device=device),
        old_log_probs=torch.zeros(tokens, device=device),
        mask=torch.zeros(tokens, dtype=torch.bool, device=device),
        finished=torch.zeros(tokens[:-1], dtype=torch.bool, device=device),
        sampler_log_probs=torch.zeros(tokens, device=device),
    )


def inverse_cdf(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Sample by the inverse of the cumulative distribution: ``[..., V], [...] -> [...]``."""
    cumulative = log_probs.exp().cumsum(-1)
    return (cumulative <= uniforms.unsqueeze(-1) * cumulative[..., -1:]).sum(-1).clamp(max=log_probs.shape[-1] - 1)


def most_likely(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """Take the most likely token: ``[..., V] -> [...]``; of equal ones the first."""
    return log_probs.argmax(-1)


@torch.no_grad()
def sample(
    policy: RolloutPolicy,
    task: Task,
    prompts: Prompts,
    uniforms: PerToken,
    temperature: PerReplica,
    pick: Callable = inverse_cdf,
    shared: bool = False,
) -> Rollout:
    """Complete every prompt G times, at the ``temperature`` of its run; ``uniforms`` are in [0, 1), ``[R, P, G, T]``.

    All T numbers of a completion exist beforehand and tensors keep the width T, so that stopping when every
    completion of the batch has ended changes no bit of any run. A ``recorded`` policy keeps what it computes. Where
    completions are ``shared``, a transformer decodes those that begin alike once.
    """
    # inference mode makes small operations cheaper; compiled code has none, and cannot write to a cache in it
    with torch.no_grad() if torch.compiler.is_compiling() else torch.inference_mode():
        if shared and hasattr(policy, "packed_decoding"):
            drawn = decode_shared(policy, task, prompts, uniforms, temperature, pick)
        elif policy.network.packs and not torch.compiler.is_compiling():
            drawn = decode_packed(policy, task, prompts, uniforms, temperature, pick)
        else:
            *drawn, decoding = decode(policy, task, prompts, uniforms, temperature, pick)
            policy.record(decoding)
    after = (0, uniforms.shape[-1] - len(drawn[0]))
    tokens, log_probs = (F.pad(torch.stack(list(each), -1), after) for each in drawn)
    return as_rollout(task, prompts, tokens, log_probs)


def as_rollout(task: Task, prompts: Prompts, tokens: Completions, log_probs: PerToken) -> Rollout:
    """Return a rollout of tokens that the policy itself has drawn with ``log_probs``, which end where they end."""
    ends = (tokens == task.end).long()
    mask = ends.cumsum(-1) == ends
    finished = ends.any(-1) if task.end >= 0 else torch.ones_like(mask[..., 0])
    completions = tokens.where(mask, max(task.pad, 0))
    old = log_probs.where(loss_mask(task, prompts, completions, mask), 0.0)
    return Rollout(prompts, completions, old, mask, finished, old)


def response_mask(task: Task, prompts: Prompts, completions: Completions, mask: TokenMask) -> TokenMask:
    """Return the tokens of ``mask`` that the policy has written: not those of the task's environment, if it has one.

    Source: verl ``response_mask``, TRL ``tool_mask`` and ``env_mask``, SkyRL ``loss_masks``.
    """
    if not hasattr(task, "environment"):
        return mask
    return mask & (task.environment(prompts, completions) < 0)


def loss_mask(task: Task, prompts: Prompts, completions: Completions, mask: TokenMask) -> TokenMask:
    """Return the tokens of ``mask`` that a loss sees: ``response_mask``, or all with ``train_on_environment``."""
    if getattr(task, "train_on_environment", False):
        return mask
    return response_mask(task, prompts, completions, mask)


def right_answers(task: Task, prompts: Prompts) -> tuple[Completions, TokenMask]:
    """Return the task's right answer to each prompt as its one completion, ``[R P 1 T]``, and the tokens it has."""
    answers, mask = (each.unsqueeze(2) for each in task.oracle(prompts))
    return answers.where(mask, max(task.pad, 0)), mask


def decode(
    policy: RolloutPolicy, task: Task, prompts: Prompts, uniforms: PerToken, temperature: PerReplica, pick: Callable
) -> tuple[list[Tensor], list[Tensor], Any]:
    """Return tokens and their log-probabilities, ``[R, P, G]`` a place until all have ended, and the decoding state."""
    scale = temperature.view(-1, 1, 1, 1)
    shapes = prompts.shape, uniforms.shape, policy is policy.network
    with as_before(policy.network, "prefill", *shapes):
        logits, decoding = policy.prefill(prompts, uniforms.shape[2])
    ended = torch.zeros_like(uniforms[..., 0], dtype=torch.bool)
    environment = getattr(task, "environment", None)
    tokens, log_probs = [], []
    for noise in uniforms.unbind(-1):
        if tokens:
            with as_before(policy.network, "decode", len(tokens), *shapes):
                logits, decoding = policy.decode(tokens[-1], decoding)
        distribution = F.log_softmax(logits / scale, -1)
        tokens.append(pick(distribution, noise))
        if environment is not None:
            written = environment(prompts, torch.stack(tokens, -1))[..., -1]
            tokens[-1] = tokens[-1].where(written < 0, written)
        log_probs.append(gather_log_probs(distribution, tokens[-1]))
        if task.end >= 0:
            ended = ended | (tokens[-1] == task.end)
            if ended.all():
                break
    return tokens, log_probs, decoding


def decode_packed(
    policy: RolloutPolicy, task: Task, prompts: Prompts, uniforms: PerToken, temperature: PerReplica, pick: Callable
) -> tuple[Tensor, Tensor]:
    """``decode`` by a policy that packs: completions that have ended cost nothing from some token on.

    Return tokens and log-probabilities as ``[T, R, P, G]``.
    """
    drawn = Drawn(task, prompts, uniforms)
    logits, decoding = policy.packed_decoding(prompts)
    ids = torch.arange(drawn.number).to(prompts)  # which completion a row is
    kept, of_prompts = ids, ids // uniforms.shape[2]  # one more than the last where a row only fills a tile
    logits, scale = logits.flatten(0, 1)[of_prompts], temperature[of_prompts // prompts.shape[1]].unsqueeze(-1)
    for t in range(drawn.time):
        distribution = F.log_softmax(logits / scale[ids], -1)
        tokens = drawn.draw(t, ids, distribution, pick, kept)
        if t == drawn.time - 1:
            break
        if decoding.full:
            rows = (~drawn.ended[kept]).nonzero().squeeze(-1)
            if not len(rows):
                break
            rows = rows[ids[rows].argsort()]
            which, fills = decoding.lay(of_prompts[ids[rows]] if t == 0 else rows)
            ids, tokens = ids[rows][which], tokens[rows][which]
            kept = ids.masked_fill(fills, drawn.number)
        logits = decoding.decode(tokens)
    return drawn.result()


def decode_shared(
    policy: RolloutPolicy, task: Task, prompts: Prompts, uniforms: PerToken, temperature: PerReplica, pick: Callable
) -> tuple[Tensor, Tensor]:
    """``decode_packed`` where completions that begin alike are decoded once, up to where they part.

    Of many completions of a prompt by a policy that has learned, few differ early. ``pick`` looks at each row alone.
    """
    drawn = Drawn(task, prompts, uniforms)
    logits, decoding = policy.packed_decoding(prompts)
    logits, scale = logits.flatten(0, 1), temperature.repeat_interleave(prompts.shape[1])
    ids = torch.arange(drawn.number).to(prompts)
    rows = beginnings = ids // uniforms.shape[2]  # in which row a completion is, and which beginning it has
    before = beginnings[:0]
    for t in range(drawn.time):
        distribution = F.log_softmax(logits / scale[decoding.of_prompts].unsqueeze(-1), -1)
        tokens = drawn.draw(t, ids, distribution[rows], pick)
        going_on = ~drawn.ended[ids]
        ids, rows, beginnings, tokens = (each[going_on] for each in (ids, rows, beginnings, tokens))
        if t == drawn.time - 1 or not len(ids):
            break
        alike, beginnings = (beginnings * task.vocabulary + tokens).unique(return_inverse=True)
        first = torch.zeros_like(alike).scatter_(0, beginnings, torch.arange(len(ids)).to(ids))  # any one of them
        parents = torch.div(alike, task.vocabulary, rounding_mode="floor")
        if decoding.full or not torch.equal(parents, before):  # else each goes on as the only one of its row
            which, fills = decoding.lay(rows[first])
            places = torch.zeros_like(alike).scatter_(0, which[~fills], (~fills).nonzero().squeeze(-1))
            before = torch.arange(len(alike)).to(alike)
        logits, rows = decoding.decode(tokens[first][which]), places[beginnings]
    return drawn.result()


class Drawn:
    """Tokens of all completions as they are drawn, and which of them have ended; the last is of rows that are none."""

    def __init__(self, task: Task, prompts: Prompts, uniforms: PerToken):
        self.task, self.prompts, self.shape = task, prompts, uniforms.shape[:-1]
        self.uniforms = uniforms.flatten(0, 2).T.contiguous()
        self.time, self.number = self.uniforms.shape
        self.tokens = prompts.new_zeros(self.time, self.number + 1)
        self.log_probs = uniforms.new_zeros(self.tokens.shape)
        self.ended = torch.zeros_like(self.tokens[0], dtype=torch.bool)
        self.ended[-1] = True

    def draw(self, t: int, ids: Tensor, distribution: Tensor, pick: Callable, kept: Tensor | None = None) -> Tensor:
        """Draw the t-th token of the completions ``ids``, and keep it as that of ``kept``: ``[N, V] -> [N]``.

        Unless a pick looks at every row for itself, it sees all completions where they are, ended ones with anything.
        """
        kept = ids if kept is None else kept
        if pick in (inverse_cdf, most_likely):
            tokens = pick(distribution, self.uniforms[t][ids])
        else:
            whole = distribution.new_zeros(self.number + 1, distribution.shape[-1]).index_copy_(0, kept, distribution)
            tokens = pick(whole[:-1].view(*self.shape, -1), self.uniforms[t].view(self.shape)).flatten()[ids]
        if hasattr(self.task, "environment"):
            self.tokens[t].index_copy_(0, kept, tokens)
            whole = self.tokens[: t + 1, :-1].T.reshape(*self.shape, -1)
            written = self.task.environment(self.prompts, whole)[..., -1].flatten()[ids]
            tokens = tokens.where(written < 0, written)
        self.tokens[t].index_copy_(0, kept, tokens)
        self.log_probs[t].index_copy_(0, kept, gather_log_probs(distribution, tokens))
        self.ended[kept] |= tokens == self.task.end
        return tokens

    def result(self) -> tuple[Tensor, Tensor]:
        """Return tokens and log-probabilities, ``[T, R, P, G]`` each; what stands behind an end means nothing."""
        return tuple(each[:, :-1].view(-1, *self.shape) for each in (self.tokens, self.log_probs))
