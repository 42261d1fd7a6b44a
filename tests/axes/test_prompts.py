"""Which prompts come: weights against the sources' rules, how a step draws by them, and whole runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import reference_prompts as reference
import torch
from axis_choices import bind, choices, same_bits
from interrupted import same_alone_together_and_resumed, stop_at  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, compose, rows

from rlexp.axes import prompts
from rlexp.core.errors import ConfigError
from rlexp.core.memory import bind_memories
from rlexp.core.registry import call_with
from rlexp.loop.sampling import draw_prompts, first_of_equal, places_of_prompts, prompt_numbers, prompt_set, subset
from rlexp.loop.step import train_step
from rlexp.runfolder.variants import variant_name
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

KNOWN, RUNS, P, G = 5, 3, 4, 6
SET = [f"task.prompt_set={KNOWN}", *SMALL]
REMEMBERING = {
    "no_positive_resampling": [{"threshold": 0.5}, {"threshold": 1.0}],
    "difficulty_pools": [
        {"hard": 0.25, "easy": 0.75, "hard_weight": 0.2, "easy_weight": 0.0},
        {"hard": 0.5, "easy": 0.5, "hard_weight": 3.0, "easy_weight": 0.5},
    ],
    "pass_rate_target": [
        {"target": 0.5, "temperature": 0.1, "decay": 0.2},
        {"target": 1.0, "temperature": 2.0, "decay": 0.0},
    ],
}
CASES = [(name, settings) for name, several in REMEMBERING.items() for settings in several]


def steps_of(number, graded):
    """Steps of rewards ``[R P G]``, some of them none, and of which prompts they are; a prompt can come twice."""
    random = torch.Generator().manual_seed(number)
    for _ in range(number):
        rewards = torch.rand(RUNS, P, G, generator=random, dtype=torch.float64)
        rewards = rewards if graded else (rewards < rewards.mean(-1, keepdim=True) + 0.2).double()
        gone = torch.rand(RUNS, P, G, generator=random) < 0.2
        gone[0, 0] = True  # a group without any
        yield rewards.masked_fill(gone, torch.nan), torch.randint(KNOWN, (RUNS, P), generator=random)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_weights_are_those_of_the_source(name, settings, graded):
    """Over steps in which prompts come twice, not at all, and without a reward; float64, so that 1e-12 is rounding."""
    node = compose(*SET, f"prompts={name}", *(f"prompts.{key}={value}" for key, value in settings.items())).prompts
    (memory,) = bind_memories(prompts.MEMORIES, node).values()
    choice = bind("prompts", name, size=KNOWN, **settings)
    remembered = torch.tensor(memory.start(), dtype=torch.float64).expand(RUNS, -1, -1)
    steps = [*steps_of(7, graded)]
    for done in range(len(steps) + 1):
        found = choice.of({memory.name: remembered})
        for run in range(RUNS):
            mine = [(rewards[run].tolist(), numbers[run].tolist()) for rewards, numbers in steps[:done]]
            wanted = torch.tensor(getattr(reference, name)(mine, KNOWN, **settings), dtype=torch.float64)
            torch.testing.assert_close(found[run], wanted, rtol=1e-12, atol=1e-12)
        if done < len(steps):
            offered = dict(zip(("all_rewards", "prompt_numbers"), steps[done], strict=True))
            remembered = call_with(memory.update, offered | {memory.name: remembered})


@pytest.mark.parametrize("initial", [0.01, 0.4, 1.0])
@pytest.mark.parametrize("progress", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_easy_to_hard_is_competence(initial, progress):
    lengths = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [2, 2, 2, 2, 2, 2, 2, 2]], dtype=torch.float64)
    given = {"answer_lengths": lengths, "progress": torch.full((2,), progress, dtype=torch.float64)}
    found = bind("prompts", "easy_to_hard", initial=initial, until=0.5).of(given)
    wanted = [reference.easy_to_hard(each, progress, initial, 0.5) for each in lengths.tolist()]
    assert found.tolist() == wanted
    assert found[1].eq(1).all()  # what is alike comes together


def test_easy_to_hard_ends_with_all_prompts_and_begins_with_the_easiest():
    lengths = torch.arange(100.0).unsqueeze(0)
    choice = bind("prompts", "easy_to_hard", initial=0.005, until=0.5)
    numbers = [
        choice.of({"answer_lengths": lengths, "progress": torch.full((1,), t)}).sum().item() for t in (0.0, 0.2, 0.5)
    ]
    assert numbers == [1.0, 64.0, 100.0]  # √0.4 = 0.632


ONE = replace(build([compose(*SHORT, *SET)]).blocks[0][0], prompts=lambda candidates: candidates)


def places_by(weights, uniforms):
    """Which prompts of one run are drawn by these weights."""
    offered = {"candidates": weights.unsqueeze(0), "first": torch.arange(len(weights)).unsqueeze(0)}
    return places_of_prompts(ONE, uniforms.unsqueeze(0), offered)[0]


def drawn(weights, size=20_000):
    """How often each prompt is drawn, by evenly spaced numbers in [0, 1)."""
    return (places_by(weights, torch.arange(size) / size).bincount(minlength=len(weights)) / size).tolist()


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [0, 0, 1e-6, 3e-6], [0, 5, 0, 0], [2, 0, 2, 0]])
def test_prompts_are_drawn_by_their_weights(weights):
    shares = [each / sum(weights) for each in weights]
    assert drawn(torch.tensor(weights, dtype=torch.float32)) == pytest.approx(shares, abs=1e-3)


def test_the_first_of_equal_prompts():
    random = torch.Generator().manual_seed(0)
    for length in (1, 2, 5):
        known = torch.randint(3, (RUNS, 12, length), generator=random)
        wanted = [[each.index(one) for one in each] for each in known.tolist()]
        assert first_of_equal(known).tolist() == wanted


def test_of_prompts_that_weigh_nothing_all_are_drawn():
    assert drawn(torch.zeros(4)) == [0.25] * 4


def test_a_prompt_without_a_weight_is_never_drawn():
    """Not by the largest number below 1 either, whatever rounds."""
    for size in range(2, 200):
        weights = torch.full((size,), 0.1)
        weights[-1] = 0
        assert places_by(weights, torch.tensor([1 - 2**-24])).tolist() == [size - 2]


def state_of(*overrides, seeds=(0, 1)):
    return build([compose(*SHORT, *SET, *overrides, f"seed={seed}") for seed in seeds])


def test_what_is_solved_comes_no_more():
    """Until all are; then all come again. So easy a threshold that a prompt is solved when one completion is."""
    state = state_of(
        "prompts=no_positive_resampling", "prompts.threshold=1e-9", "task.alphabet=3", "task.longest=2", "lr=0.05"
    )
    first = first_of_equal(prompt_set(state))
    for step in range(1, 13):
        before = state.memory["solved"][..., 0].bool()
        numbers = prompt_numbers(state, draw_prompts(state, step, 0))
        for run in range(2):
            taken = before[run][numbers[run]]  # which of equal ones are the first
            assert before[run][first[run]].all() or not taken.any(), (step, run)
        train_step(state, step, False)
        assert (state.memory["solved"][..., 0].bool() | ~before).all()
    assert first.ne(torch.arange(KNOWN)).any() and state.memory["solved"].any()


def test_completions_outside_the_statistics_count_too():
    """Groups that are all right tell the norm nothing; that they are solved they do."""
    easy = ["task.alphabet=3", "task.shortest=1", "task.longest=1", "prompts.threshold=0.3", "lr=0.01", "steps=100"]
    solved = []
    for chosen in ("filter=none", "filter=zero_variance_statistics"):
        state = state_of("prompts=no_positive_resampling", chosen, *easy)
        for step in range(1, 31):
            train_step(state, step, False)
        solved.append(state.memory["solved"].clone())
    assert solved[0].any() and same_bits(*solved)


def test_a_part_of_a_state_draws_what_the_whole_does():
    """The second round of a refill: its runs keep what they remember."""
    state = state_of("prompts=no_positive_resampling", seeds=(0, 1, 2))
    state.memory["solved"][1, :4] = 1
    part = subset(state, torch.tensor([1, 2]))
    assert torch.equal(draw_prompts(part, 3, 1), draw_prompts(state, 3, 1)[1:])
    assert set(prompt_numbers(part, draw_prompts(part, 3, 1))[0].tolist()) == {4}


def jobs(folder, *variants):
    made = []
    for number, overrides in enumerate(variants):
        config = compose(*SHORT, "steps=4", *SET, *overrides)
        name = variant_name(overrides)
        (folder / str(number)).mkdir(parents=True)
        made.append(Job(config, folder / str(number), name, name, number, tuple(overrides), folder / "starts"))
    return made


@pytest.mark.bits
@pytest.mark.slow  # six whole runs
def test_alone_and_beside_other_samplers_a_run_is_the_same(tmp_path):
    named = [[f"prompts={choice.name}", "filter=dynamic", "filter.refill.rounds=3"] for choice in choices("prompts")]
    together = jobs(tmp_path / "together", *named)
    train_jobs(together)
    for number, overrides in enumerate(named):
        train_jobs(jobs(tmp_path / "alone" / str(number), overrides))
        assert rows(tmp_path / "together" / str(number)) == rows(tmp_path / "alone" / str(number) / "0"), overrides


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen",
    [
        ["prompts=difficulty_pools", "filter=dynamic", "filter.refill.rounds=3"],
        pytest.param(
            ["prompts=pass_rate_target", "data=pipeline", "data.rollouts=2", "data.tokens=2", "data.max_age=3"],
            marks=pytest.mark.rare,
        ),
        pytest.param(["prompts=no_positive_resampling", "data=replay", "data.capacity=3"], marks=pytest.mark.rare),
        pytest.param(["prompts=easy_to_hard", "data=stale", "data.age=2"], marks=pytest.mark.rare),
    ],
    ids=" ".join,
)
def test_alone_together_and_resumed_are_the_same_bits(tmp_path, stop_at, chosen):  # noqa: F811
    same_alone_together_and_resumed(tmp_path, stop_at, "task.prompt_set=8", *chosen)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["prompts=easy_to_hard"], "prompts=easy_to_hard: chooses among prompts that come again"),
        (
            ["prompts=pass_rate_target", "task.prompt_set=8", "prompts.size=9"],
            "prompts.size=9: must be task.prompt_set=8",
        ),
        (["prompts=difficulty_pools", "task.prompt_set=8", "prompts.hard=0.8"], "prompts.hard=0.8: must be at most"),
        (
            ["prompts=easy_to_hard", "task.prompt_set=8", "data=offline"],
            "prompts=easy_to_hard data=offline: no prompts",
        ),
    ],
)
def test_what_cannot_be_is_one_line(overrides, problem):
    with pytest.raises(ConfigError) as error:
        compose(*overrides)
    assert error.value.problems[0].startswith(problem)
