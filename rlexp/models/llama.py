"""A stacked Llama: RMSNorm, rotary positions, SwiGLU, input and output tied; of Transformers' ``LlamaForCausalLM``.

It reads prompts and completions, decodes and keeps what it has computed as ``transformer`` does. Gains of norms are
multiplied into the weights behind them, which costs nothing a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from rlexp.core.exact import baddbmm, bmm
from rlexp.core.types import Depth, Seed, Size
from rlexp.models import shapes as s
from rlexp.models.forward_cache import TokenActivations
from rlexp.models.layers import Embedding, Init, Projection
from rlexp.models.policy import Policy
from rlexp.models.rotation import Rotation
from rlexp.models.transformer import Block, Transformer
from rlexp.tasks.task import Task

EPS, BASE, STD = 1e-6, 10_000.0, 0.02  # LlamaConfig: rms_norm_eps, rope_theta, initializer_range
PART = 4096  # rows
INNER = 4  # the width of the feed-forward part over that of the model, as model=llama has it under TRL

# The layers of a block as Transformers names them, and what holds them here.
SIDE_BY_SIDE = {
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"): "qkv",
    ("self_attn.o_proj",): "out",
    ("mlp.gate_proj", "mlp.up_proj"): "up",
    ("mlp.down_proj",): "down",
}
GAINS = {"input_layernorm": "attention_gain", "post_attention_layernorm": "feedforward_gain"}


class Normal(Projection):
    """x W with W from N(0, 0.02²), as Transformers initializes a Llama."""

    def __init__(self, init: Init, inputs: int, outputs: int):
        nn.Module.__init__(self)
        self.weight = init.normal(inputs, outputs, std=STD)


def in_cache(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield tensors ``[R, ...]`` replica by replica, so that what is done to them one after another stays in the cache.

    Many rows ``[R, N, ·]`` come in parts. Where there is no cache to stay in, tensors come as they are.
    """
    if tensors[0].is_cpu and not torch.compiler.is_compiling():
        for parts in zip(*(tensor.unbind(0) for tensor in tensors), strict=True):
            yield from zip(*(part.split(PART) for part in parts), strict=True)
    else:
        yield tensors


class RMSNorm(torch.autograd.Function):
    """x / √(mean x² + ε) over the last axis (arXiv 1910.07467), without a gain."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y, inverse = torch.empty_like(x), torch.empty_like(x[..., :1])
        for one, result, scale in in_cache(x, y, inverse):
            torch.mul(one, one, out=result)
            torch.mean(result, -1, keepdim=True, out=scale).add_(EPS).sqrt_().reciprocal_()
            torch.mul(one, scale, out=result)
        ctx.save_for_backward(y, inverse)
        return y

    @staticmethod
    def backward(ctx, upstream: Tensor) -> Tensor:
        for_x = torch.empty_like(upstream)
        for given, y, inverse, result in in_cache(upstream, *ctx.saved_tensors, for_x):
            along = torch.mul(given, y, out=result).mean(-1, keepdim=True)
            torch.addcmul(given, y, along, value=-1, out=result).mul_(inverse)
        return for_x


class SwiGLU(torch.autograd.Function):
    """x + (silu(y G) · y U) D for y = norm(x), with G and U side by side (arXiv 2002.05202, eq. 6)."""

    @staticmethod
    def forward(
        ctx, x: s.Rows, y: s.Rows, up: s.GateAndUpWeight, down: s.DownWeight, cache: TokenActivations | None
    ) -> s.Rows:
        """``[R, N, W], [R, N, W], [R, W, 2F], [R, F, W] -> [R, N, W]``; a cache may hold both results."""
        if cache is None:
            hidden = bmm(y, up)
            output = baddbmm(x, gated(hidden), down)
        else:
            hidden, output = cache.hidden, cache.output
        ctx.save_for_backward(y, up, down, hidden)
        return output

    @staticmethod
    def backward(ctx, upstream: s.Rows) -> tuple[Tensor | None, ...]:
        y, up, down, hidden = ctx.saved_tensors
        for_hidden, product = gated_backward(bmm(upstream, down.transpose(1, 2)), hidden)
        for_y, for_down = bmm(for_hidden, up.transpose(1, 2)), bmm(product.transpose(1, 2), upstream)
        return upstream, for_y, bmm(y.transpose(1, 2), for_hidden), for_down, None


def gated(hidden: Tensor) -> Tensor:
    """silu(gate) · linear of the two halves, ``[R, ..., 2F] -> [R, ..., F]``; silu(g) = g / (1 + exp(−g))."""
    product = hidden.new_empty(*hidden.shape[:-1], hidden.shape[-1] // 2)
    for both, result in in_cache(hidden, product):
        gate, linear = both.chunk(2, -1)
        torch.neg(gate, out=result).exp_().add_(1)
        torch.div(gate, result, out=result).mul_(linear)
    return product


def gated_backward(upstream: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of ``gated`` in ``hidden``, and once more its result; it overwrites ``upstream``."""
    product, for_hidden = torch.empty_like(upstream), torch.empty_like(hidden)
    for given, both, result, for_both in in_cache(upstream, hidden, product, for_hidden):
        (gate, linear), (for_gate, for_linear) = both.chunk(2, -1), for_both.chunk(2, -1)
        open_ = torch.neg(gate).exp_().add_(1).reciprocal_()
        silu = gate * open_
        torch.mul(silu, linear, out=result)
        torch.mul(given, silu, out=for_linear)
        slope = silu.neg_().add_(gate).add_(1).mul_(open_)  # σ (1 + g − g σ), the derivative of g σ
        torch.mul(given.mul_(linear), slope, out=for_gate)
    return for_hidden, product


class Gated(torch.autograd.Function):
    """``gated`` with its gradient."""

    @staticmethod
    def forward(ctx, hidden: Tensor) -> Tensor:
        ctx.save_for_backward(hidden)
        return gated(hidden)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> Tensor:
        return gated_backward(upstream.clone(), *ctx.saved_tensors)[0]


class LlamaBlock(Block):
    """x + attention(norm(x)), then x + SwiGLU(norm(x)), each norm with a gain."""

    layer = Normal
    norm = RMSNorm.apply
    activate = staticmethod(gated)
    feed_forward = SwiGLU

    @staticmethod
    def activated(hidden: Tensor) -> Tensor:
        return Gated.apply(hidden.unsqueeze(0)).squeeze(0)

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__(init, width, heads, feedforward)
        self.up = self.layer(init, width, 2 * feedforward)
        self.attention_gain, self.feedforward_gain = ones(self.up.weight, width), ones(self.up.weight, width)

    def qkv_weight(self) -> s.Weight:
        return super().qkv_weight() * self.attention_gain.mT

    def up_weight(self) -> s.Weight:
        return self.up.weight * self.feedforward_gain.mT


class Llama(Transformer):
    """Token embeddings, ``layers`` blocks of ``width``, a last norm, and the embeddings once more as the head.

    Logits and gradients are those of Transformers' ``LlamaForCausalLM`` with ``intermediate_size`` = 4 · ``width``,
    ``tie_word_embeddings`` and its other defaults. A network with ``outputs`` of its own has a head for them.
    """

    block = LlamaBlock

    def __init__(
        self,
        init: Init,
        task: Task,
        outputs: int | None = None,
        *,
        width: Size,
        layers: Depth,
        heads: Size,
        seed: Seed | None = None,  # of a config: whose ``init`` it is; all there is to it here
    ):
        Policy.__init__(self)
        self.take_sizes(task, outputs)
        self.half = width // heads // 2
        self.tokens = Embedding(init, task.vocabulary, width, std=STD)
        self.blocks = nn.ModuleList(self.block(init, width, heads, INNER * width) for _ in range(layers))
        self.gain = ones(self.tokens.weight, width)
        self.head = None if outputs is None else self.block.layer(init, width, outputs)

    def head_weight(self) -> s.Weight:
        if self.head is None:
            return (self.tokens.weight * self.gain).mT.contiguous()
        return self.head.weight * self.gain.mT

    def head_parameters(self) -> list[nn.Parameter]:
        return [self.gain]

    def embedded(self, positions: Tensor, owners: Tensor | None = None) -> None:
        """Add nothing: positions are in the attention."""

    def rotation(self, positions: Tensor) -> Rotation:
        """Return the rotations at positions ``[R, P, T]``: by p · 10,000^(−i / half) for the i-th pair of a head."""
        place = torch.arange(self.half, device=positions.device, dtype=torch.float64)
        angles = positions.unsqueeze(-1) * BASE ** -(place / self.half)
        turned = Rotation(angles.cos(), angles.sin())
        return Rotation(*(each.to(self.gain.dtype).unsqueeze(2) for each in turned))

    def transformers_config(self) -> dict[str, object]:
        """Return what ``transformers.LlamaConfig`` is made with for the same network."""
        vocabulary, width = self.tokens.weight.shape[1:]
        return {
            "vocab_size": vocabulary,
            "hidden_size": width,
            "intermediate_size": INNER * width,
            "num_hidden_layers": len(self.blocks),
            "num_attention_heads": self.blocks[0].heads,
            "rms_norm_eps": EPS,
            "rope_theta": BASE,
            "tie_word_embeddings": True,
        }


def named_as_transformers(policy: Llama, replica: int) -> dict[str, Tensor]:
    """Return the weights of one replica by the names and in the shapes of Transformers' ``LlamaForCausalLM``."""
    ours = {name: parameter[replica].detach() for name, parameter in policy.named_parameters()}
    found = {"model.embed_tokens.weight": ours["tokens.weight"], "model.norm.weight": ours["gain"].squeeze(0)}
    for place in range(len(policy.blocks)):
        here, there = f"blocks.{place}.", f"model.layers.{place}."
        for names, stacked in SIDE_BY_SIDE.items():
            parts = ours[f"{here}{stacked}.weight"].chunk(len(names), -1)
            found |= {f"{there}{name}.weight": part.mT.contiguous() for name, part in zip(names, parts, strict=True)}
        found |= {f"{there}{name}.weight": ours[here + gain].squeeze(0) for name, gain in GAINS.items()}
    return found


def stacked_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of one replica, by name, of those of a ``LlamaForCausalLM``."""
    found = {"tokens.weight": weights["model.embed_tokens.weight"], "gain": weights["model.norm.weight"].unsqueeze(0)}
    place = 0
    while f"model.layers.{place}.{next(iter(GAINS))}.weight" in weights:
        here, there = f"blocks.{place}.", f"model.layers.{place}."
        for names, stacked in SIDE_BY_SIDE.items():
            found[f"{here}{stacked}.weight"] = torch.cat([weights[f"{there}{name}.weight"].mT for name in names], -1)
        found |= {here + gain: weights[f"{there}{name}.weight"].unsqueeze(0) for name, gain in GAINS.items()}
        place += 1
    return found


def ones(like: Tensor, width: int) -> nn.Parameter:
    """Return a gain ``[R, 1, width]`` of ones."""
    return nn.Parameter(torch.ones(len(like), 1, width, device=like.device))
