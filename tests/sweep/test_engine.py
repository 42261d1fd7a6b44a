"""The engine: a run alone, in a batch, with other threads, beside a run that diverges; every choice trains."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from small_runs import ABSENT, BESIDE, SHORT, SMALL, compose, rows

from rlexp.axes import axis_of
from rlexp.config.compose import CONF
from rlexp.record.policies import load_policy
from rlexp.sweep import machine, training
from rlexp.sweep.build import bucket_key
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job
from rlexp.sweep.machine import PERIOD, Threads

MODELS = ("gru", "transformer")
LOSS = ("norm", "clip", "agg", "sampler", "mismatch", "anchor", "optimizer")
# Their choices train below, in tests/loop/test_kl_runs.py, test_judged_runs.py and test_prompt_set.py.
TRAINED = {*LOSS, "shaping", "filter", "kl", "reward"}
GROUPS = sorted({folder.name for folder in CONF.iterdir() if folder.is_dir()} - TRAINED - {"study", "teacher"})


def choices(group):
    return sorted({file.stem for file in (CONF / group).glob("*.yaml")} - {name.partition("=")[2] for name in ABSENT})


def job(tmp_path, *overrides, seed=0, label="default"):
    folder = tmp_path / f"{label},seed={seed}"
    folder.mkdir(parents=True)
    return Job(compose(*SHORT, f"seed={seed}", *overrides), folder, folder.name, label)


def configured(group, choice):
    beside = BESIDE.get(f"{group}={choice}", [])
    return compose(*SHORT, *(SMALL if group != "group_size" else []), f"{group}={choice}", *beside)


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=[pytest.mark.rare] * (group == "preset")) for group in GROUPS]
)
def test_every_choice_trains(tmp_path, group):
    """In as few batches as the choices of a group allow."""
    buckets = {}
    for choice in choices(group):
        config, folder = configured(group, choice), tmp_path / choice
        folder.mkdir()
        buckets.setdefault(bucket_key(config), []).append(Job(config, folder, choice, choice))
    for jobs in buckets.values():
        scores = dict(zip((each.name for each in jobs), train_jobs(jobs), strict=True))
        assert {name: type(score) for name, score in scores.items()} == dict.fromkeys(scores, float), scores
        for each in jobs:
            assert_complete(each)


@pytest.mark.parametrize("model", ["gru", "llama_10k"])
def test_a_summary_says_how_many_weights_a_run_trains(tmp_path, model):
    jobs = [job(tmp_path, *SMALL, f"model={model}", seed=seed) for seed in (0, 1)]
    train_jobs(jobs)
    for each in jobs:
        weights = sum(parameter.numel() for parameter in load_policy(each.folder).network.parameters())
        assert json.loads((each.folder / "summary.json").read_text())["weights"] == weights


def assert_complete(job):
    assert [row["step"] for row in rows(job.folder)] == [0, 1, 2], job.name
    assert json.loads((job.folder / "summary.json").read_text())["status"] == "completed", job.name


def alone_and_together(jobs, folder):
    """Train jobs as one batch, and each alone; compare what they leave."""
    alone, together = (start(jobs, folder / name) for name in ("alone", "together"))
    train_jobs(together)
    for one, other in zip(alone, together, strict=True):
        assert isinstance(*train_jobs([one]), float)
        assert rows(one.folder) == rows(other.folder), one.name
        assert_complete(one)


def start(jobs, folder):
    moved = [replace(job, folder=folder / job.name) for job in jobs]
    for each in moved:
        each.folder.mkdir(parents=True)
    return moved


def crossed(model, tmp_path):
    """Of jobs with all choices of the axes, in changing company, a KL, an entropy bonus, refills, two seeds: one half.

    The axes do not see the model, whose other half they are.
    """
    base = compose(*SHORT, *SMALL, f"model={model}", "minibatches=2", "inner_steps=2")
    named = {axis: [name for name in choices(axis) if f"{axis}={name}" not in BESIDE] for axis in LOSS}
    nodes = {axis: [getattr(compose(f"{axis}={name}"), axis) for name in names] for axis, names in named.items()}
    rows = range(max(map(len, nodes.values())))
    updates = [{axis: each[row % len(each)] for axis, each in nodes.items()} for row in rows]
    updates += [{"kl": compose("kl=k3").kl}, {"kl": compose("kl=k1", "kl.place=reward").kl}, {"entropy_coef": 0.0}]
    dynamic = {"filter": compose("filter=dynamic").filter}
    updates += [dynamic, dynamic | {"sampler": compose("sampler=noisy").sampler}]
    half = len(updates) // 2
    for number, update in [*enumerate(updates)][slice(half, None) if MODELS.index(model) else slice(half)]:
        for seed in (3, 4) if number % 10 == 0 else (3,):
            name = f"{number},seed={seed}"
            config = base.model_copy(update=update | {"seed": seed, "lr": 1e-3 * (1 + number % 3)})
            yield Job(config, tmp_path / name, name, str(number))


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize("model", [pytest.param("gru", marks=pytest.mark.rare), "transformer"])
def test_every_choice_of_the_loss_gives_the_same_bits_alone_and_together(tmp_path, model):
    alone_and_together(list(crossed(model, tmp_path)), tmp_path)


@pytest.mark.bits
@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        "transformer",
        pytest.param("gru", marks=pytest.mark.rare),
        pytest.param("transformer_plain", marks=pytest.mark.rare),
    ],
)
def test_runs_with_a_critic_have_the_same_bits_alone_and_together(tmp_path, model):
    """Norms that ask for values, on a task that pays each token, shaped, filtered and with KL in the reward."""
    common = ["task=token_preference_dense", f"model={model}", "critic=value", "critic.updates=2", "critic.clip=0.1"]
    variants = {"norm=gae": [], "norm=gae_whitened": ["filter=zero_variance"], "norm=value_baseline": ["kl=k1"]}
    jobs = [
        job(tmp_path, *SMALL, *common, "minibatches=2", norm, *more, seed=seed, label=norm)
        for norm, more in variants.items()
        for seed in (3, 4)
    ]
    assert len({bucket_key(each.config) for each in jobs}) == 1
    alone_and_together(jobs, tmp_path)


@pytest.mark.bits
@pytest.mark.slow
def test_every_shaping_and_filter_gives_the_same_bits_alone_and_together(tmp_path):
    base = ["norm=global", "minibatches=2", "kl=k1", "kl.place=reward", "kl.coef=0.1"]
    jobs = []
    for number, name in enumerate(f"{axis}={name}" for axis in ("shaping", "filter") for name in choices(axis)):
        config = compose(*SHORT, *SMALL, *base, name, *BESIDE.get(name, []))
        jobs.append(Job(config.model_copy(update={"seed": 3 + number % 3}), tmp_path, name, name))
    alone_and_together(jobs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=[pytest.mark.rare] * name.startswith("llama")) for name in choices("model")]
)
def test_threads_change_no_bit(tmp_path, model):
    task = {"positional": "sort_lecture", "tabular": "bandit"}.get(model, "sort")
    common = [f"task={task}", "group_size.completions=7", f"model={model}", "group_size.prompts=6"]
    alone = job(tmp_path, *common, "threads=2", label="alone")
    train_jobs([alone])
    for n in (1, 3):
        pair = [job(tmp_path, *common, f"threads={n}", seed=seed, label=str(n)) for seed in (0, 1)]
        train_jobs(pair)
        assert rows(pair[0].folder) == rows(alone.folder)


@pytest.mark.slow
def test_order_of_the_jobs_does_not_matter(tmp_path):
    norms = ["local", "global", "local", "none"]
    orders = {"a": [0, 1, 2, 3], "b": [3, 2, 1, 0]}
    jobs = {
        name: [job(tmp_path, f"norm={norms[i]}", *SMALL, seed=i, label=f"{name}{i}") for i in order]
        for name, order in orders.items()
    }
    scores = {name: dict(zip(orders[name], train_jobs(each), strict=True)) for name, each in jobs.items()}
    assert scores["a"] == scores["b"]
    assert rows(jobs["a"][1].folder) == rows(jobs["b"][2].folder)


@pytest.mark.slow
def test_a_run_that_diverges_ends_alone(tmp_path):
    calm = job(tmp_path, *SMALL, "steps=4", label="calm")
    train_jobs([calm])
    wild = job(tmp_path, *SMALL, "steps=4", "lr=1e30", label="wild")
    beside = job(tmp_path, *SMALL, "steps=4", label="beside")
    first, second = train_jobs([wild, beside])
    assert isinstance(first, FloatingPointError) and isinstance(second, float)
    assert rows(beside.folder) == rows(calm.folder)
    summary = json.loads((wild.folder / "summary.json").read_text())
    assert summary["status"] == "diverged" and summary["collapsed"] is True and summary["score"] is None
    assert "nan" in summary["reason"] and summary["steps"] < 4
    assert json.loads((beside.folder / "summary.json").read_text())["status"] == "completed"


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), "interrupted"), (OSError("disk full"), "failed")])
def test_what_stops_the_batch_is_in_every_summary(tmp_path, monkeypatch, error, status):
    jobs = [job(tmp_path, *SMALL, seed=seed) for seed in (0, 1)]
    step = training.train_step

    def stop(state, number, measure):
        if number == 2:
            raise error
        return step(state, number, measure)

    monkeypatch.setattr(training, "train_step", stop)
    with pytest.raises(KeyboardInterrupt) if status == "interrupted" else nullcontext():
        assert train_jobs(jobs) == [error, error]
    for each in jobs:
        summary = json.loads((each.folder / "summary.json").read_text())
        assert summary["status"] == status and summary["steps"] == 1 and summary["score"] is None


def test_what_shares_a_bucket():
    base = bucket_key(compose())
    same = ["seed=9", "norm=global", "clip=naive", "agg=sequence", "kl=k3", "filter=overlong", "lr=1", "lr_final=1"]
    same += ["start=sft", "start=flattened", "kl_control=fixed", "reference=copy"]
    other = ["group_size=4", "model=gru", "task.alphabet=9", "steps=3", "inner_steps=2", "minibatches=4", "log_every=7"]
    assert {bucket_key(compose(one)) for one in same} == {base}
    assert all(bucket_key(compose(one)) != base for one in other)


@pytest.mark.slow
def test_the_saved_config_repeats_the_run(tmp_path):
    first = job(tmp_path, *SMALL, "norm=hybrid", label="first")
    train_jobs([first])
    from rlexp.config.schema import load

    again = replace(first, config=load(first.folder / "config.yaml"), folder=tmp_path / "again")
    again.folder.mkdir()
    train_jobs([again])
    assert rows(again.folder) == rows(first.folder)


def test_threads_go_to_the_fastest_choice(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    torch.set_num_threads(2)
    threads = Threads(2, None, clock=lambda: now[0])
    slow = {1: 1.0, 2: 3.0}
    used = []

    def work():
        used.append(torch.get_num_threads())
        now[0] += slow[used[-1]]

    for step in range(PERIOD):
        with threads.chosen(step):
            work()
    slow[2] = 0.5
    for step in range(PERIOD, 5 * PERIOD):
        with threads.chosen(step):
            work()
    torch.set_num_threads(2)
    assert used[:PERIOD] == [1, 2] + [1] * (PERIOD - 2)
    assert used[PERIOD : 4 * PERIOD] == [1] * (3 * PERIOD)  # a step lost twice its time: 100 others make up for it
    assert used[4 * PERIOD :] == [1, 2] + [2] * (PERIOD - 2)
    assert Threads(2, 5).choices == [5] and Threads(1, 5).choices == [1]
    assert Threads(2, None).choices[-1] == 2 and 1 in Threads(2, None).choices
    torch.set_num_threads(1)


def test_an_error_that_is_of_one_variant_ends_its_runs_alone(tmp_path, monkeypatch, caplog):
    calm = [job(tmp_path / "alone", *SMALL, seed=seed, label="norm=local") for seed in (0, 1)]
    train_jobs(calm)
    jobs = [job(tmp_path, *SMALL, seed=seed, label="norm=local") for seed in (0, 1)]
    jobs += [job(tmp_path, *SMALL, "norm=center", seed=seed, label="norm=center") for seed in (0, 1)]
    monkeypatch.setitem(axis_of("norm").functions, "center", lambda rewards: rewards.mean(-1))
    results = train_jobs(jobs)
    assert [type(each) for each in results] == [float, float, ValueError, ValueError]
    assert [rows(each.folder) for each in jobs[:2]] == [rows(each.folder) for each in calm]
    statuses = [json.loads((each.folder / "summary.json").read_text())["status"] for each in jobs]
    assert statuses == ["completed", "completed", "failed", "failed"]
    assert "each of the 2 variants is trained apart" in caplog.text
