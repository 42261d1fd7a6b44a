"""Right answers beside a policy's own completions: what is read, the loss of a step, whole runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import reference_imitation as loops
import torch
from axis_choices import bind
from interrupted import same_in_three_ways, stop_at  # noqa: F401 (a fixture)
from plain_step import Recipe
from reference import gradient
from small_runs import SHORT, SMALL, compose, rows, values
from toy_state import Conversation, Toy, make_experience, make_state, plain, variant

from rlexp.config.checks import remarks
from rlexp.config.schema import read
from rlexp.core.blocks import minibatches
from rlexp.core.errors import ConfigError
from rlexp.loop import imitation, requested
from rlexp.loop.data import gather_groups
from rlexp.loop.losses import imitation_terms
from rlexp.loop.metrics import of_others
from rlexp.loop.step import train_step
from rlexp.record.provenance import config_hash
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

SEEDS = [0, 1, 2]
MU, GRPO = 0.3, 0.7
PLAIN = variant(Recipe())
CLOSE = dict(rtol=1e-10, atol=1e-12)  # float64 sums of some twenty numbers of order one
SLOPE = dict(rtol=1e-6, atol=1e-8)  # central differences with a step of 1e-6 of such sums
NAMES = ("sft", "sft_phi", "sft_is")


class Shown:
    """Answers by as many 1s and 2s in turn as the last symbol of the prompt says, and an end; 0 by nothing.

    Behind the end stands what counts nowhere.
    """

    def oracle(self, prompts):
        number, place = prompts[..., -1:], torch.arange(self.cap)
        tokens = (1 + place % 2).expand(*prompts.shape[:-1], -1)
        return tokens.where(place != number, self.end), (place <= number) & (number > 0)


class Answering(Shown, Toy):
    pass


@dataclass(frozen=True)
class Conversing(Shown, Conversation):
    """Shows a question to the environment, what that writes, and an end."""

    def oracle(self, prompts):
        written = prompts[..., -1:].expand(*prompts.shape[:-1], 2)
        three, end = torch.full_like(written[..., :1], 3), torch.full_like(written[..., :1], self.end)
        answers = torch.cat([three, written, end, end], -1)
        return answers, (torch.arange(5) < 4).expand(answers.shape)


def imitating(name="sft_phi", mu=MU, **more):
    return replace(PLAIN, imitation=bind("imitation", name), imitation_mu=lambda progress: mu, **more)


def runs(*chosen, seeds=None, task=None, **more):
    """One run for each variant."""
    return make_state([(each, 1) for each in chosen], seeds or SEEDS[: len(chosen)], task=task or Answering(), **more)


def step_of(state):
    """Return the experience of a first step, and the tensors of an update on the whole of it."""
    experience = make_experience(state, 1, gather_groups(state, 1))
    shared = requested.tensors_of_step(state, experience)
    return experience, requested.tensors_of_update(state, experience, shared)


def terms_of(chosen, part, tensors):
    policy = torch.full_like(tensors["mean_tokens"], GRPO)
    return imitation_terms(chosen, {"loss/policy": policy}, part, tensors)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_that_of_chord_in_value_and_gradient(name):
    """Ragged answers, some prompts without, other ones in each run; the policy has moved since it sampled."""
    chosen = imitating(name)
    state = runs(chosen, chosen, chosen)
    part, tensors = step_of(state)
    moved = torch.from_numpy(np.random.default_rng(5).normal(scale=0.2, size=(3, 4, 1, 5)))
    now = (tensors["answer_log_probs"].detach() + moved).clamp(max=-0.01).requires_grad_()
    terms = terms_of(chosen, part, tensors | {"answer_log_probs": now})
    (slopes,) = torch.autograd.grad(sum(each.sum() for each in terms.values()), now)
    mask = part.kept["answer_mask"].numpy()
    assert not mask.any(-1).all() and len({*mask.sum(-1).flatten().tolist()}) > 2
    for run in range(3):
        at = now[run].detach().numpy()
        total = sum(each[run].item() for each in terms.values())
        assert total == pytest.approx(loops.chord(GRPO, name, at, mask[run], MU), rel=1e-10)
        assert terms["loss/policy"][run].item() == pytest.approx((1 - MU) * GRPO)
        expected = MU * loops.slopes(name, at) * mask[run] / mask[run].sum()
        np.testing.assert_allclose(slopes[run].numpy(), expected, **CLOSE)
        if name == "sft":  # the others hold their weights
            wanted = gradient(lambda point, m=mask[run]: loops.chord(GRPO, name, point, m, MU), at)
            np.testing.assert_allclose(slopes[run].numpy(), wanted, **SLOPE)


def test_what_is_read_is_what_a_plain_network_says_of_the_answers():
    chosen = imitating("sft")
    state = runs(chosen, chosen, temperatures=(0.7, 1.3))
    part, tensors = step_of(state)
    for run in range(2):
        textbook = plain(state, run, Recipe())
        for p, prompt in enumerate(part.prompts[run].tolist()):
            asked = [token for token in prompt if token != state.task.pad]
            mask = part.kept["answer_mask"][run, p, 0].tolist()
            answer = [1 + t % 2 for t in range(asked[-1])] + [state.task.end] if asked[-1] else []
            assert sum(mask) == len(answer)
            assert part.kept["answers"][run, p, 0].tolist() == answer + [state.task.pad] * (5 - len(answer))
            every = textbook.log_probs(textbook.policy, asked, answer)
            wanted = [every[t, token].item() for t, token in enumerate(answer)]
            found = tensors["answer_log_probs"][run, p, 0][: len(answer)].tolist()
            assert found == pytest.approx(wanted, rel=1e-9)


def test_what_an_environment_writes_is_not_imitated():
    chosen = imitating("sft")
    for own, task in ((True, Conversing()), (False, Conversing(train_on_environment=True))):
        part, _ = step_of(runs(chosen, task=task))
        asked, counted = part.kept["answers"], part.kept["answer_mask"]
        assert (asked[..., 0] == 3).all() and counted[0, 0, 0].tolist() == [True, not own, not own, True, False]


@pytest.mark.parametrize("agg", ["token", "bnpo", "sequence", "sequence_sum", "prompt"])
def test_answers_are_aggregated_as_the_policy_loss_by_themselves(agg):
    chosen = imitating("sft", agg=bind("agg", agg))
    state = runs(chosen)
    part, tensors = step_of(state)
    mask = part.kept["answer_mask"]
    losses, tokens = (-tensors["answer_log_probs"].detach()).where(mask, 0.0), mask.sum()
    each = losses.sum(-1) / mask.sum(-1).clamp(min=1)
    expected = {"token": losses.sum() / tokens, "bnpo": losses.sum() / tokens, "sequence_sum": losses.sum() / 4}
    expected |= {"sequence": each.mean(), "prompt": each.mean()}  # a group is one answer
    found = terms_of(chosen, part, tensors)["loss/imitation"][0]
    torch.testing.assert_close(found.detach(), MU * expected[agg], **CLOSE)


def test_minibatches_together_have_the_loss_of_the_whole():
    """By the number of answers' tokens of the whole step, though one minibatch may have none."""
    chosen = imitating("sft_is")
    state = runs(chosen, minibatches=4)
    experience = make_experience(state, 1, gather_groups(state, 1))
    kept = dict(experience.kept)
    kept["answer_mask"] = kept["answer_mask"].clone()
    kept["answer_mask"][:, 0] = False
    experience = experience._replace(kept=kept)
    shared = requested.tensors_of_step(state, experience)
    found = []
    for part in minibatches(experience, state.prompts, state.minibatches):
        tensors = requested.tensors_of_update(state, part, shared)
        found.append(terms_of(chosen, part, tensors)["loss/imitation"].item())
    whole = imitation.read(state, experience)["answer_log_probs"].detach().numpy()
    assert found[0] == 0 and kept["answer_mask"].any()
    wanted = loops.chord(0.0, "sft_is", whole[0], kept["answer_mask"][0].numpy(), MU)
    assert sum(found) / 4 == pytest.approx(wanted, rel=1e-10)


def test_a_step_has_it_only_in_runs_that_ask_and_own_completions_do_not_see_it():
    """The total is the sum of the terms; the others learn as if they were alone, and have no such metric."""
    both, alone = runs(PLAIN, imitating(), seeds=[0, 0]), runs(PLAIN)
    row, before = train_step(both, 1, True), train_step(alone, 1, True)
    assert of_others(both.blocks) == [{"loss/imitation", "imitation/mu"}, set()]
    assert row["loss/imitation"][0].isnan() and row["loss/imitation"][1] > 0.01 and row["imitation/mu"][1] == MU
    for name, found in before.items():
        torch.testing.assert_close(found[0], row[name][0], rtol=0, atol=0, equal_nan=True)
        if not name.startswith(("loss/", "optim/")):
            torch.testing.assert_close(row[name][1], row[name][0], rtol=0, atol=0, equal_nan=True)
    policy = row["loss/policy"]
    assert policy[1] == (1 - MU) * policy[0]
    assert row["loss/total"][1].item() == pytest.approx((policy[1] + row["loss/imitation"][1]).item())
    assert all(
        torch.equal(p[0], q[0]) for p, q in zip(both.policy.parameters(), alone.policy.parameters(), strict=True)
    )
    assert not all(torch.equal(p[0], p[1]) for p in both.policy.parameters())


def test_penalty_and_bonus_stay_whole():
    recipe = Recipe(kl_in_loss=0.2, entropy_bonus=0.1)
    own = variant(recipe)
    chosen = replace(own, imitation=bind("imitation", "sft"), imitation_mu=lambda progress: MU)
    row = train_step(runs(own, chosen, seeds=[0, 0]), 1, True)
    for name in ("loss/kl", "loss/entropy"):
        assert row[name][0] == row[name][1] != 0


def test_with_all_of_the_loss_it_is_supervised_fine_tuning():
    """What is sampled and judged is nothing to a run whose share is 1: answers become likely, whatever norm says."""
    chosen = imitating("sft", mu=1.0)
    other = replace(chosen, norm=lambda rewards, keep: -5 * torch.ones_like(rewards))
    state = runs(chosen, other, seeds=[0, 0])
    _, tensors = step_of(state)
    before = tensors["answer_log_probs"].detach()
    for step in range(1, 7):
        train_step(state, step, False)
    for parameter in state.policy.parameters():
        torch.testing.assert_close(parameter[0], parameter[1], rtol=1e-9, atol=1e-12)
    part, tensors = step_of(state)
    mask = part.kept["answer_mask"]
    assert (tensors["answer_log_probs"].detach() - before)[mask].mean() > 0.1


def test_the_share_follows_its_schedule_from_update_to_update(tmp_path):
    """Of four steps of two updates each; a line has the mean of a step's updates."""
    tmp_path.joinpath("run").mkdir()
    way = ["imitation=sft", "imitation.mu_warmup=0.25", "imitation.mu_decay=0.5", "steps=4", "minibatches=2"]
    train_jobs([Job(compose(*SHORT, *SMALL, *way), tmp_path / "run", "run", "run")])
    found = [row["imitation/mu"] for row in rows(tmp_path / "run") if "imitation/mu" in row]
    wanted = [loops.mu_of_step(update, 2, 4, 0.9, 0.05) for update in range(8)]
    assert found == pytest.approx([sum(wanted[i : i + 2]) / 2 for i in range(0, 8, 2)], rel=1e-6)


@pytest.mark.bits
@pytest.mark.slow
def test_runs_with_it_are_the_same_alone_together_and_resumed(tmp_path, stop_at):  # noqa: F811
    ways = {"none": [], **{name: [f"imitation={name}"] for name in NAMES}}
    ways["chord"] = ["preset=chord", "imitation.mu_warmup=0.3", "agg=sequence"]
    ways["both"] = ["imitation=sft", "distillation=jsd", "teacher.network=reference", "distillation.weight=0.3"]

    def jobs(folder):
        for name, way in ways.items():
            (folder / name).mkdir(parents=True)
            several = [*SHORT, *SMALL, *way, "steps=6", "minibatches=2", "checkpoint_every=3", "task.longest=2"]
            yield Job(compose(*several), folder / name, name, name)

    together = same_in_three_ways(*(list(jobs(tmp_path / place)) for place in ("all", "one", "parts")), stop_at, 5)
    has = {job.name: "loss/imitation" in rows(job.folder)[-1] for job in together}
    assert has == {name: name != "none" for name in ways}


@pytest.mark.parametrize("data", ["stale", "replay", "replay_variance", "offline", "pipeline"])
def test_old_completions_have_it_too(tmp_path, data):
    """The answers are to the prompts of the completions that a step trains on, whenever these were sampled."""
    (tmp_path / "run").mkdir()
    train_jobs([Job(compose(*SHORT, *SMALL, f"data={data}", "imitation=sft"), tmp_path / "run", "run", "run")])
    assert rows(tmp_path / "run")[-1]["loss/imitation"] > 0


TASKS = {name: [] for name in ("sort", "addition", "countdown", "two_habits", "tool", "parity")}
TASKS |= {name: ["model=gru"] for name in ("bandit", "categorical", "length_world", "enumerable", "multi_solution")}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_shows_answers_of_the_shape_of_a_completion(task):
    state = build([compose(*SHORT, *SMALL, f"task={task}", "imitation=sft", *TASKS[task])])
    part = make_experience(state, 1, gather_groups(state, 1))
    assert part.kept["answers"].shape == part.kept["answer_mask"].shape == (1, 4, 1, state.task.cap)
    assert part.kept["answer_mask"].any()


REFUSED = [
    (["imitation.mu_peak=0.3"], "imitation=none imitation.mu_peak=0.3: has no loss; take 0, or "),
    (["imitation=sft", "imitation.mu_valley=1.5"], "imitation.mu_valley=1.5: must be at most 1"),
    (["imitation=sft", "sampler=top_p_trained"], "imitation=sft sampler.training=truncated: the policy may not have"),
    (["imitation=sft", "backend=trl", "model=pretrained"], "backend=trl: has no imitation but the neutral one"),
]


@pytest.mark.parametrize(("overrides", "line"), REFUSED, ids=[" ".join(each[0]) for each in REFUSED])
def test_what_cannot_be_is_refused_in_a_line(overrides, line):
    if "backend=trl" in overrides:
        pytest.importorskip("trl")
    with pytest.raises(ConfigError) as error:
        read(values(*overrides))
    assert any(each.startswith(line) for each in error.value.problems), error.value.problems


def test_a_loss_that_weighs_nothing_is_remarked_on():
    idle = [*remarks(compose("imitation=sft", "imitation.mu_peak=0", "imitation.mu_valley=0"))]
    assert "imitation=sft imitation.mu_peak=0 imitation.mu_valley=0: it weighs nothing" in idle
    assert not [line for line in remarks(compose("imitation=sft")) if "imitation" in line]


def test_configs_of_before_mean_that_nothing_is_imitated():
    now = compose().model_dump()
    before = {key: value for key, value in now.items() if key != "imitation"}
    assert config_hash(before) == config_hash(now) != config_hash(compose("imitation=sft").model_dump())
