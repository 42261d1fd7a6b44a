"""Samplers whose products are rounded: the rounding, which products are meant, what is recorded, and the same bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from axis_choices import bind
from plain_step import Recipe
from policies import policy_of, prompts_of, sort_task
from reference_mismatch import rounded as nearest_bfloat16
from small_runs import values
from toy_state import Conversation, Toy, make_state, variant

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError
from rlexp.core.exact import bmm, products_by
from rlexp.core.rounding import RoundedProducts, to_bfloat16, to_float8
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop.sampling import sample_completions
from rlexp.loop.step import train_step
from rlexp.models import GRU, Transformer

WAYS = [
    ("bfloat16", None),
    ("bfloat16", "float32"),
    ("float8_channel", None),
    ("float8_tensor", None),
]
SEEDS = (3, 8, 5)
# Every number of e4m3: 4 bits of exponent less 7, 3 of mantissa, none for infinity; the largest would be NaN.
E4M3 = [(m / 8) * 2.0**-6 for m in range(8)] + [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8)][
    :-1
]


def nearest_float8(number: float) -> float:
    """The nearest of them, of two that are as near the one with an even mantissa."""
    place = min(range(len(E4M3)), key=lambda each: (abs(E4M3[each] - abs(number)), each % 2))
    return E4M3[place] if number >= 0 else -E4M3[place]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# ---- rounding


def test_numbers_are_rounded_to_the_nearest():
    assert max(E4M3) == 448 and len(E4M3) == 127
    numbers = torch.cat([random(500) * 10.0 ** random(500, seed=1), torch.tensor([0.0, 1 + 2**-8, 1 + 3 * 2**-8])])
    assert to_bfloat16(numbers).tolist() == [nearest_bfloat16(each) for each in numbers.tolist()]
    quotients, scale = to_float8(numbers.view(1, 1, -1), (-1,))
    assert scale.item() == pytest.approx(numbers.abs().max().item() / 448) and quotients.abs().max() == 448
    wanted = [nearest_float8(each) for each in (numbers / scale.flatten()).tolist()]
    assert quotients.flatten().tolist() == wanted
    halves = torch.tensor([1 + 1 / 16, 1 + 3 / 16, 2**-10, 3 * 2**-10, 448.0]).view(1, 1, -1)
    assert to_float8(halves, (-1,))[0].flatten().tolist() == [1.0, 1.25, 0.0, 2**-8, 448.0]
    zero, scale = to_float8(torch.zeros(1, 2, 3), (-1,))
    assert not zero.any() and (scale == 1).all()


def by_hand(kind, addend, x, weight, products, head):
    """One product of one replica, number by number."""
    bf16, plain = nearest_bfloat16, lambda number: number
    outer = plain if (kind, head) == ("head", "float32") else bf16
    quantized = kind == "linear" and products != "bfloat16"
    largest_x, largest_w = x.abs().max().item(), weight.abs().max().item()
    result = torch.empty(len(x), weight.shape[1])
    for row in range(len(x)):
        for column in range(weight.shape[1]):
            factors = x[row].tolist(), weight[:, column].tolist()
            scales = (1.0, 1.0)
            if quantized:
                tensor = products == "float8_tensor"
                largest = (largest_x, largest_w) if tensor else [max(map(abs, each)) for each in factors]
                scales = [each / 448 for each in largest]
                factors = [
                    [nearest_float8(a / scale) for a in each] for each, scale in zip(factors, scales, strict=True)
                ]
            else:
                factors = [[outer(a) for a in each] for each in factors]
            total = sum(a * b for a, b in zip(*factors, strict=True)) * scales[0] * scales[1]
            result[row, column] = outer(total + (0.0 if addend is None else addend[row, column].item()))
    return result


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kind", ["linear", "attention", "head"])
def test_products_are_those_by_hand(way, kind):
    """But for the last bit of a bfloat16, which another order of a sum can turn over, in one of fifty numbers."""
    x, weight, addend = random(2, 5, 7), random(2, 7, 6, seed=1), random(2, 5, 6, seed=2)
    weight[1] *= 30  # a scale for each replica
    for more in (None, addend):
        found = RoundedProducts(*way)(kind, more, x, weight)
        wanted = torch.stack(
            [by_hand(kind, None if more is None else more[r], x[r], weight[r], *way) for r in range(2)]
        )
        assert ((found - wanted).abs() > 1e-5 * wanted.abs() + 1e-5).float().mean() <= 0.02
        torch.testing.assert_close(found, wanted, rtol=2**-7, atol=1e-5)
        plain = torch.bmm(x, weight) + (0 if more is None else more)
        assert torch.allclose(found, plain, rtol=1e-6, atol=1e-6) == (kind == "head" and way[1] == "float32")


def test_outside_the_block_products_are_as_they_were():
    x, weight = random(2, 5, 7), random(2, 7, 6, seed=1)
    before = bmm(x, weight)
    with products_by(RoundedProducts("bfloat16", None)):
        assert not bmm(x, weight).equal(before)
    assert bmm(x, weight).equal(before)


# ---- which products


@pytest.mark.parametrize("name", ["gru", "transformer", "transformer_plain", "llama", "positional"])
def test_a_model_has_one_output_layer_and_only_what_reads_other_tokens_is_attention(name):
    task, seen = sort_task(), []
    policy = policy_of(name, SEEDS, task)

    def spy(kind, addend, x, weight):
        seen.append((kind, weight.shape))
        return RoundedProducts("bfloat16", None)(kind, addend, x, weight)

    with torch.inference_mode(), products_by(spy):
        logits, state = policy.prefill(prompts_of(task, SEEDS, 4), 2)
        prefill, seen = seen, []
        policy.decode(logits.argmax(-1), state)
    calls = (prefill, seen) if name != "positional" else (prefill,)
    for call in calls:
        heads = [shape for kind, shape in call if kind == "head"]
        assert len(heads) == 1 and heads[0][-1] == task.vocabulary and heads[0][0] == len(SEEDS)
        attention = sum(kind == "attention" for kind, _ in call)
        linear = [shape for kind, shape in call if kind == "linear"]
        assert (attention > 0) == (name in ("transformer", "transformer_plain", "llama"))
        assert linear and all(len(shape) == 3 and shape[0] == len(SEEDS) for shape in linear)


# ---- sampling


def state_of(*ways, model=Transformer, task=None, seeds=(0, 1, 2, 4), recipe=None, **more):
    """One run for each way; None is an exact sampler, and a name another one."""
    base, blocks = variant(recipe or Recipe(entropy_bonus=0.1)), []
    for way in ways:
        one = base
        if isinstance(way, tuple):
            one = replace(base, rounding=way)
        elif way:
            one = replace(base, sampler=bind("sampler", way, std=0.5))
        blocks.append((one, 1))
    if model is not GRU:
        more["hyperparameters"] = dict(width=8, layers=2, heads=2, feedforward=12)
    return make_state(blocks, list(seeds)[: len(ways)], dtype=torch.float32, task=task, model=model, **more)


def drawn(state, step=1):
    prompts = state.task.prompts(state.uniforms(Purpose.PROMPTS, step, state.prompts, state.task.draws), held_out=False)
    noise = uniforms(state.seeds, Purpose.SAMPLING, step, (state.prompts, state.group, state.task.cap))
    return sample_completions(state, state.policy.recorded(prompts, state.group), prompts, noise, step, 0)


class Long(Toy):
    """Answers so long that a transformer packs them."""

    cap = 20


TASKS = {"toy": Toy(), "conversation": Conversation(), "packed": Long()}


@pytest.mark.parametrize("model", [GRU, Transformer], ids=lambda model: model.__name__)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_tokens_come_from_the_rounded_policy_and_old_log_probs_are_the_trainers(way, task, model):
    """Token by token to the bit; read as a whole, sums near the middle of two numbers are rounded to the other one."""
    state = state_of(way, way, model=model, task=task)
    for weights in state.policy.parameters():
        weights.data *= 2.0
    rollout = drawn(state)
    given, own = (rollout.prompts, rollout.completions, state.temperature), rollout.mask
    if hasattr(task, "environment"):
        own = own & (task.environment(*given[:2]) < 0)
    tokens, found = rollout.completions, []
    with torch.no_grad():
        old = state.policy.log_probs(*given).log_probs
        with products_by(RoundedProducts(*way)):
            logits, decoding = state.policy.prefill(given[0], state.group)
            for place in range(task.cap):
                found.append(logits.log_softmax(-1).gather(-1, tokens[..., place, None]).squeeze(-1))
                if place < task.cap - 1:
                    logits, decoding = state.policy.decode(tokens[..., place], decoding)
            whole = state.policy.distributions(*given).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(rollout.old_log_probs[own], old[own], rtol=1e-5, atol=1e-5)
    if way[0] != "float8_tensor":  # whose scales are of all rows, those behind an end, too
        assert rollout.sampler_log_probs[own].equal(torch.stack(found, -1)[own])
    error = (rollout.sampler_log_probs - rollout.old_log_probs)[own].abs()
    assert error.median() > 3e-5
    if way[0] != "float8_tensor":
        assert (rollout.sampler_log_probs - whole)[own].abs().mean() < (0.4 if model is GRU else 1) * error.mean()
    assert (rollout.sampler_log_probs[~own] == rollout.old_log_probs[~own]).all()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("model", [pytest.param(GRU, marks=pytest.mark.rare), Transformer], ids=lambda x: x.__name__)
def test_a_run_has_the_same_bits_alone_and_beside_other_samplers(task, model):
    ways = [WAYS[3], None, WAYS[0], "noisy"]
    together = state_of(*ways, model=model, task=task, inner_steps=2, minibatches=2)
    alone = [
        state_of(way, model=model, task=task, seeds=[seed], inner_steps=2, minibatches=2)
        for way, seed in zip(ways, (0, 1, 2, 4), strict=True)
    ]
    for step in (1, 2, 3):
        row, rows = train_step(together, step, True), [train_step(state, step, True) for state in alone]
        for place, one in enumerate(rows):
            for name, value in one.items():
                torch.testing.assert_close(value[0], row[name][place], rtol=0, atol=0, equal_nan=True, msg=name)
    assert row["mismatch/kl"][1] == 0 and (row["mismatch/kl"][[0, 2, 3]] > 0).all()


def test_the_first_update_is_on_policy_to_the_bit():
    row = train_step(state_of(*WAYS, inner_steps=1), 1, True)
    assert (row["ratio/min"] == 1).all() and (row["ratio/max"] == 1).all() and (row["mismatch/kl"] > 0).all()


def test_truncation_is_of_what_the_rounded_policy_draws():
    state = state_of(WAYS[2])
    (one, size) = state.blocks[0]
    state = replace(state, blocks=[(replace(one, top_k=1), size)])
    rollout = drawn(state)
    assert (rollout.sampler_log_probs[rollout.mask] == 0).all() and (rollout.old_log_probs[rollout.mask] < 0).all()


def divergence(way, seeds=16):
    """KL(π_sampler‖π) in nats a token of a transformer with large logits, over 16 seeds."""
    task, seeds = sort_task(), range(seeds)
    policy = policy_of("transformer", seeds, task, width=24, feedforward=48)
    policy.head.weight.data *= 6
    prompts = prompts_of(task, seeds, 8)
    tokens = torch.randint(1, 5, (len(seeds), 8, 4, task.cap), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        exact = F.log_softmax(policy.logits(prompts, tokens), -1)
        with products_by(RoundedProducts(*way)):
            rounded = F.log_softmax(policy.logits(prompts, tokens), -1)
    return (rounded.exp() * (rounded - exact)).sum(-1).mean((1, 2, 3))


def test_an_output_layer_in_float32_takes_away_most_of_the_disagreement_and_float8_brings_more():
    plain, remedied, float8, per_tensor = (divergence(way) for way in WAYS)
    assert (remedied < plain).float().mean() > 0.8 and remedied.mean() < 0.7 * plain.mean()
    assert (float8 > plain).all() and (per_tensor > plain).all() and float8.mean() > 5 * plain.mean()


# ---- configs


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["sampler=fp8", "task=bandit", "model=tabular"], "sampler.products=float8_channel model=tabular: a table"),
        (["sampler.head=float32"], "sampler.head=float32 sampler.products=null: all products are in float32"),
        (["sampler.products=float4"], "sampler.products=float4"),
    ],
)
def test_what_cannot_be_rounded_is_refused_in_a_line(overrides, line):
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    assert [problem.startswith(line) for problem in error.value.problems] == [True]


def test_noise_comes_on_top_of_rounding():
    state = state_of("noisy", "noisy")
    blocks = [(state.blocks[0][0], 1), (replace(state.blocks[1][0], rounding=WAYS[3]), 1)]
    rollout = drawn(replace(state, blocks=blocks, seeds=[0, 0]))
    assert not rollout.sampler_log_probs[0].equal(rollout.sampler_log_probs[1])
