"""Sample completions: those of the rollout to come, written once, and nothing that trains notices."""

import json

import pytest
from small_runs import SHORT, SMALL, compose, rows

from rlexp.config.compose import CONF
from rlexp.record import samples
from rlexp.sweep import training
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job
from rlexp.sweep.training import Cadence
from rlexp.tasks import TASKS

pytestmark = pytest.mark.slow  # whole runs

RUN = [*SHORT, *SMALL, "steps=6", "checkpoint_every=2"]
TASK_FILES = sorted(file.stem for file in (CONF / "task").glob("*.yaml"))


def jobs(folder, *overrides, norms=("local", "global")):
    found = []
    for name in norms:
        (folder / name).mkdir(parents=True)
        found.append(Job(compose(*RUN, f"norm={name}", *overrides), folder / name, name, name))
    return found


def written(job):
    return [json.loads(line) for line in (job.folder / "samples.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    train_jobs(done := jobs(tmp_path_factory.mktemp("whole")))
    return done


def test_three_moments_of_a_few_completions(whole):
    for job in whole:
        lines = written(job)
        assert [line["step"] for line in lines] == [step for step in (0, 3, 6) for _ in range(8)]
        assert set(lines[0]) == {"step", "prompt", "completion", "correct", "reward", "advantage"}
        assert all(line["prompt"].endswith("→") for line in lines)


def test_they_are_the_rollout_of_the_next_step_with_the_variants_own_advantages(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "PROMPTS", 10_000)
    monkeypatch.setattr(samples, "COMPLETIONS", 10_000)
    done = jobs(tmp_path, "shaping=overlong")
    train_jobs(done)
    for job in done:
        lines = [line for line in written(job) if line["step"] == 3]
        row = next(row for row in rows(job.folder) if row["step"] == 4)
        assert len(lines) == 16
        mean = {key: sum(line[key] for line in lines) / 16 for key in ("reward", "advantage")}
        assert mean["reward"] == pytest.approx(row["reward/mean"], abs=1e-4)  # written with four decimals
        assert mean["advantage"] == pytest.approx(row["advantage/mean"], abs=1e-4)
        assert max(line["advantage"] for line in lines) == pytest.approx(row["advantage/max"], abs=1e-4)
    assert [line["advantage"] for line in written(done[0])] != [line["advantage"] for line in written(done[1])]


def test_training_gives_the_same_bits_without_them(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(Cadence, "samples", lambda self, step: False)
    train_jobs(without := jobs(tmp_path / "without"))
    for one, other in zip(whole, without, strict=True):
        assert rows(one.folder) == rows(other.folder)


@pytest.mark.parametrize("number", [1, 3, 4, 6])
def test_a_resumed_run_writes_each_line_once(tmp_path, monkeypatch, whole, number):
    step, train_step = number, training.train_step

    def stopping(state, now, measure):
        if now == step:
            raise KeyboardInterrupt
        return train_step(state, now, measure)

    parts = jobs(tmp_path / "parts")
    monkeypatch.setattr(training, "train_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    with (parts[0].folder / "samples.jsonl").open("a") as file:
        file.write('{"step": 0, "prom')  # as a killed process leaves it
    monkeypatch.setattr(training, "train_step", train_step)
    train_jobs(parts)
    for one, other in zip(parts, whole, strict=True):
        assert written(one) == written(other)


@pytest.mark.parametrize("name", sorted({*TASK_FILES} - {"jsonl", "reasoning_gym"}))  # these are text
def test_every_task_writes_its_tokens_as_text(name):
    config = compose(f"task={name}").task
    task = TASKS[config.name](**config.model_dump(exclude={"name"}))
    text = task.render(list(range(task.vocabulary)))
    assert isinstance(text, str) and text and "\n" not in text


def test_what_sort_writes():
    config = compose("task=sort", "task.filler=1").task
    task = TASKS["sort"](**config.model_dump(exclude={"name"}))
    assert task.render([8, 8, 3, 1, 10]) == "3 1 →"
    assert task.render([8, 3, 11, 9]) == "pad 3 · end"
