"""The policy or its reference as a teacher that sees a hint: what it is shown, the loss of a step, whole runs."""

from __future__ import annotations

import pytest
import reference_distillation as loops
import torch
from interrupted import same_in_three_ways, stop_at  # noqa: F401 (a fixture)
from policies import policy_of
from small_runs import SHORT, SMALL, compose, rows
from task_choices import addition, two_habits

from rlexp.config.checks import remarks
from rlexp.core.errors import ConfigError
from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import start, step, teachers
from rlexp.loop.rollout import Rollout
from rlexp.loop.start import pretrained_mixture
from rlexp.loop.teachers import shown_prompts
from rlexp.sweep.build import build
from rlexp.sweep.job import Job

TASK = ["task=two_habits", "task.items=3", "task.alphabet=5", "task.cap=6", "task.hint=4"]
RUN = [*TASK, *SHORT, *SMALL, "threads=1", "minibatches=1", "eval.ks=[1]", "task.right_a=1.0", "task.right_b=1.0"]
WAYS = {
    "none": [],
    "answer": ["teacher.network=reference", "teacher.hint=answer", "distillation=jsd", "distillation.weight=0.4"],
    "success": ["teacher.network=policy", "teacher.hint=success", "distillation=reverse_kl_top_k"],
    "shown": ["teacher.network=reference", "teacher.hint=success", "distillation=jsd"],
    "sampled": ["teacher.network=reference", "teacher.hint=success", "distillation=sampled"],
    "masked": ["teacher.network=reference", "distillation=sampled_masked", "distillation.weight=0.7"],
    "rlsd": ["teacher=rlsd", "teacher.network=policy"],
    "added": ["teacher=added", "teacher.network=policy", "teacher.hint=success"],
}
CLOSE = dict(rtol=2e-5, atol=1e-6)  # float32 sums of a few hundred numbers of order one


def test_what_is_shown_is_the_first_other_completion_that_is_right():
    task = addition(hint=4)
    prompts = task.prompts(torch.rand(2, 3, task.draws, generator=torch.Generator().manual_seed(1)), held_out=False)
    right, right_mask = task.oracle(prompts)
    wrong, wrong_mask = task.wrong_answers(prompts)
    correct = torch.tensor([[[0, 1, 1], [1, 0, 0], [0, 0, 0]]] * 2).bool()
    pick = correct.unsqueeze(-1)
    completions = torch.where(pick, right.unsqueeze(2), wrong.unsqueeze(2))
    completions[..., 1, 0] = task.comma  # the second is told from the third by its first token
    mask = torch.where(pick, right_mask.unsqueeze(2), wrong_mask.unsqueeze(2))
    none = torch.zeros(completions.shape)
    rollout = Rollout(prompts, completions, none, mask, mask.any(-1), none)

    shown, there = shown_prompts(task, rollout, correct, "success")
    expected = [[[1, 2, 1], [None, 0, 0], [None] * 3]] * 2  # whose answer each is shown
    for r, of_run in enumerate(expected):
        for p, of_prompt in enumerate(of_run):
            for g, other in enumerate(of_prompt):
                line = prompts[r, p].unsqueeze(0).unsqueeze(0)
                if other is not None:
                    line = task.hinted(line, completions[r, p, other][None, None], mask[r, p, other][None, None])
                assert shown[r, p, g].equal(line[0, 0]) and there[r, p, g] == (other is not None)

    shown, there = shown_prompts(task, rollout, correct, "answer")
    assert shown.equal(task.hinted(prompts, right, right_mask)) and there.all()
    assert shown_prompts(task, rollout, correct, None)[0] is prompts


RIGHT = [False, True, False, False]  # completions of each group, to who looks for one to show; it has none itself


def state_of(names, monkeypatch):
    """Return the state of one run of each way, and what each update of it is given."""
    configs = [compose(*RUN, *WAYS[name], f"seed={number}") for number, name in enumerate(names)]
    state, seen, real = build(configs), [], step.update

    def update(state, policy, part, *rest):
        seen.append(part)
        return real(state, policy, part, *rest)

    monkeypatch.setattr(step, "update", update)
    with torch.no_grad():  # a reference that is not the policy
        for parameter in state.reference.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)))
    real_shown = teachers.shown_prompts
    of_all = torch.tensor(RIGHT).expand(len(names), 4, 4)
    monkeypatch.setattr(
        teachers, "shown_prompts", lambda task, rollout, _, hint: real_shown(task, rollout, of_all, hint)
    )
    return state, seen


def read(network, run, prompts, completions):
    """Return log-probabilities of the vocabulary at the tokens of one completion, by itself."""
    several = [len(parameter) for parameter in network.parameters()][0]
    given = prompts.expand(several, 1, -1), completions.expand(several, 1, 1, -1)
    return network.distributions(*given, torch.ones(several))[run, 0, 0].double()


def test_the_loss_of_a_step_is_that_of_the_loops(monkeypatch):
    names = ["answer", "none", "success", "sampled", "shown"]
    state, seen = state_of(names, monkeypatch)
    task = state.task
    with torch.no_grad():
        before = {
            name: network.module
            for name, network in build(
                [compose(*RUN, *WAYS[n], f"seed={i}") for i, n in enumerate(names)]
            ).networks.items()
        }
        before["reference"].load_state_dict(state.reference.state_dict())
    row = step.train_step(state, 1, True)
    (part,) = seen
    for run, name in enumerate(names):
        if name == "none":  # its files do not have it
            continue
        total, tokens = 0.0, 0
        network = before["policy" if name == "success" else "reference"]
        right, right_mask = task.oracle(part.prompts)
        for p in range(part.prompts.shape[1]):
            for g in range(4):
                mask = part.mask[run, p, g]
                others = [other for other in range(4) if RIGHT[other] and other != g]
                if name == "answer":
                    hint = right[run, p], right_mask[run, p]
                elif others:
                    hint = part.completions[run, p, others[0]], part.mask[run, p, others[0]]
                else:
                    continue
                tokens += mask.sum().item()
                asked = part.prompts[run, p][None, None]
                shown = task.hinted(asked, *(each[None, None] for each in hint))
                completion = part.completions[run, p, g][None, None, None]
                student = read(before["policy"], run, asked, completion)
                taught = read(network, run, shown, completion)
                for t in mask.nonzero().flatten().tolist():
                    token = completion.flatten()[t]
                    if name == "sampled":
                        total += ((student[t, token] - taught[t, token]) * student[t, token]).item()
                        continue
                    settings = (1.0, 4, "student", False) if name == "success" else (0.5, None, "student", False)
                    total += loops.divergence_of(student[t].tolist(), taught[t].tolist(), *settings)
        weight = 0.4 if name == "answer" else 1.0
        assert row["loss/distillation"][run].item() == pytest.approx(weight * total / tokens, rel=1e-4, abs=1e-6)
        assert total, name


def test_the_accuracy_of_teachers_that_see_the_answer(monkeypatch):
    """Every second answer is made right, where a teacher is asked; judged by the prompt without its hint."""
    names, asked, real = ["answer", "none", "success", "masked", "rlsd"], [], teachers.sample
    sums = [
        "task=addition",
        "task.hint=4",
        *(each for each in RUN if not each.startswith("task")),
    ]  # of several lengths
    state = build([compose(*sums, *WAYS[name], f"seed={number}") for number, name in enumerate(names)])
    with torch.no_grad():  # a reference that is not the policy
        for parameter in state.reference.parameters():
            parameter.add_(0.1)
    questions = state.task.prompts(state.uniforms(Purpose.EVALUATION_PROMPTS, 0, 6, state.task.draws), held_out=True)
    right, mask = state.task.oracle(questions)
    shown, seeds = state.task.hinted(questions, right, mask), []

    def answer(policy, task, prompts, unused, temperature, pick):
        asked.append((policy, pick))
        runs = [next(r for r in range(len(names)) if mine.equal(shown[r])) for mine in prompts]
        seeds.extend(runs)
        found = real(policy, task, prompts, unused, temperature, pick)
        second = (torch.arange(6) % 2 == 0).view(1, 6, 1, 1)
        return found._replace(
            completions=right[runs].unsqueeze(2).where(second, found.completions),
            mask=mask[runs].unsqueeze(2).where(second, found.mask),
            finished=found.finished | second[..., 0],
        )

    monkeypatch.setattr(teachers, "sample", answer)
    (row,) = teachers.hinted_accuracy(state, questions).values()
    assert row.tolist() == [0.5, None, 0.5, None, 0.5] and seeds == [0, 2, 4]
    assert all(pick is teachers.most_likely for _, pick in asked)
    for (policy, _), (runs, network) in zip(asked, (([0], "reference"), ([2, 4], "policy")), strict=True):
        theirs = state.networks[network].module.parameters()
        assert all(mine.equal(other[runs]) for mine, other in zip(policy.parameters(), theirs, strict=True))
    assert not teachers.hinted_accuracy(build([compose(*RUN, *WAYS["masked"])]), questions[:1])


def test_a_weight_divides_the_loss_between_both(monkeypatch):
    """Of the same rollout: 1 − weight of the policy loss, weight of that against the teacher."""
    found = {}
    for weight in (0.0, 0.4, 1.0):
        way = [*WAYS["answer"][:3], f"distillation.weight={weight}", "norm=none", "shaping=affine", "shaping.b=1.0"]
        state = build([compose(*RUN, *way)])
        row = step.train_step(state, 1, True)
        found[weight] = {name: row[name].item() for name in ("loss/policy", "loss/distillation") if name in row}
    assert "loss/distillation" not in found[0.0] and abs(found[0.0]["loss/policy"]) > 1e-3
    assert found[0.4]["loss/policy"] == pytest.approx(0.6 * found[0.0]["loss/policy"], rel=1e-5)
    assert found[0.4]["loss/distillation"] == pytest.approx(0.4 * found[1.0]["loss/distillation"], rel=1e-5)
    assert found[1.0]["loss/policy"] == 0


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["transformer", *(pytest.param(name, marks=pytest.mark.rare) for name in ("llama_10k", "gru"))]
)
def test_taught_runs_are_the_same_alone_together_and_resumed(tmp_path, stop_at, model):  # noqa: F811
    course = [*TASK, f"model={model}", "start=pretrained_mixture", "start.accuracy=0.02", "start.checked=64"]
    course += ["start.every=5", "start.hinted=0.5", "minibatches=2", "entropy_coef=0.01"]

    def jobs(folder):
        for name, way in WAYS.items():
            (folder / name).mkdir(parents=True)
            several = [*SHORT, *SMALL, *course, *way, "steps=6", "checkpoint_every=3", "eval.ks=[1]"]
            yield Job(compose(*several), folder / name, name, name)

    together = same_in_three_ways(*(list(jobs(tmp_path / place)) for place in ("all", "one", "parts")), stop_at, 5)
    has = {job.name: "loss/distillation" in rows(job.folder)[-2] for job in together}
    assert has == {name: any("distillation" in each for each in way) for name, way in WAYS.items()}


def test_what_a_start_reads_with_a_hint_is_a_right_answer(monkeypatch):
    task, seeds = two_habits(hint=3), (0, 1)
    learned, real = [], start.imitation_loss
    monkeypatch.setattr(start, "imitation_loss", lambda *given: learned.append(given[1:]) or real(*given))
    knobs = dict(accuracy=1.0, lr=1e-3, prompts=64, every=2, checked=16, updates=2, hinted=0.4)
    pretrained_mixture(policy_of("transformer", seeds, task), task, seeds, **knobs)
    for update, (prompts, completions, _) in enumerate(learned):
        chosen = uniforms(seeds, Purpose.START_HINTS, update, (64,)) < 0.4
        assert ((prompts != task.pad).sum(-1) > task.prompt_length - 3).equal(chosen) and chosen.any()
        bare = prompts.where(~chosen.unsqueeze(-1), task.pad)
        plain = task.prompts(uniforms(seeds, Purpose.START_PROMPTS, update, (64, task.draws)), held_out=False)
        assert bare[~chosen].equal(plain[~chosen])
        right, mask = task.oracle(plain)
        assert completions[chosen].equal(right[chosen])
        assert prompts.equal(task.hinted(plain, right, mask).where(chosen.unsqueeze(-1), plain))


PROBLEMS = [
    (["teacher.network=policy", "distillation=jsd"], "teacher.network=policy teacher.hint=null: it teaches itself no"),
    (
        ["teacher.network=policy", "teacher.run=x", *WAYS["success"][1:]],
        "teacher.run=x teacher.network=policy: only one",
    ),
    (["distillation=jsd"], "teacher.run=null: must be the folder of a run"),
    (["distillation.weight=0.5"], "distillation=none distillation.weight=0.5: has no loss; take 0"),
    ([*WAYS["answer"], "task.hint=null"], "teacher.hint=answer: the prompt has no room for it; take task.hint=4"),
    (
        [*WAYS["success"], "group_size.completions=1", "norm=none"],
        "teacher.hint=success group_size.completions=1: there is no other",
    ),
    (["start=pretrained_mixture", "start.hinted=0.5", "task.hint=null"], "start.hinted=0.5: the prompt has no room"),
    ([*WAYS["answer"], "distillation.alpha=1.5"], "distillation.alpha=1.5: must be at most 1"),
]


@pytest.mark.parametrize(("overrides", "problem"), PROBLEMS, ids=[" ".join(each) for each, _ in PROBLEMS])
def test_what_cannot_be_is_one_line(overrides, problem):
    plain = [each for each in RUN if each.split("=")[0] not in {o.split("=")[0] for o in overrides}]
    with pytest.raises(ConfigError) as error:
        compose(*plain, *overrides)
    assert error.value.problems[0].startswith(problem), error.value.problems


def test_a_task_without_hints_is_refused_with_those_that_have_some():
    with pytest.raises(ConfigError, match="take a task with task.hint: addition, countdown, two_habits"):
        compose(*WAYS["answer"])


def test_what_is_seldom_meant_gets_a_remark():
    read_of = [*remarks(compose(*RUN, "teacher=self"))]
    assert any(line.startswith("teacher.network=reference distillation=none: nothing asks") for line in read_of)
    read_of = [*remarks(compose(*RUN, *WAYS["answer"]))]
    assert any(line.startswith("teacher.hint=answer start=random: it has never seen a hint") for line in read_of)
