"""Starts shared by the variants of a seed: kept on disk, read back bit by bit, and what runs make of them."""

from __future__ import annotations

import json

import pytest
import torch
from small_runs import SHORT, SMALL, compose, rows

from rlexp.config.schema import load
from rlexp.runfolder.files import to_yaml
from rlexp.sweep import starts as begin
from rlexp.sweep import training
from rlexp.sweep.build import build
from rlexp.sweep.engine import train_jobs
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # whole runs

WARM = ["start.accuracy=0.6", "start.lr=3e-3", "start.prompts=16", "start.every=2", "start.checked=64"]
TASK = ["task=token_preference", "task.vocabulary=9", "task.prompt_length=3", "task.cap=6", "task.low=3", "model=gru"]
COMMON = [*SHORT, *SMALL, *TASK, "model.hidden=8"]
STARTS = {
    "random": ["start=random"],
    "sft": ["start=sft", *WARM],
    "sharpened": ["start=sharpened", *WARM],
    "flattened": ["start=flattened", "start.entropy=2.15", *WARM],
}


def config(start, *overrides, seed=0):
    return compose(*COMMON, *STARTS[start], f"seed={seed}", *overrides)


def begun(configs, folder=None):
    state = build(configs)
    assert begin.apply_starts(state, configs, folder) == [""] * len(configs)
    return state


def weights_of(state, replica=slice(None)):
    return [parameter[replica].detach().clone() for parameter in state.policy.parameters()]


def same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture
def trained(monkeypatch):
    """Return the configs of every start that was trained, not read."""
    seen, real = [], begin.train_starts

    def spy(configs):
        seen.append([each.start_seed for each in configs])
        return real(configs)

    monkeypatch.setattr(begin, "train_starts", spy)
    return seen


@pytest.mark.parametrize("start", [name for name in STARTS if name != "random"])
def test_what_is_read_is_what_would_be_made_again(tmp_path, trained, start):
    configs = [config(start, seed=seed) for seed in (0, 1)]
    made = begun(configs, tmp_path)
    assert trained == [[0, 1]] and len(list(tmp_path.iterdir())) == 2
    read = begun(configs[1:], tmp_path)
    assert trained == [[0, 1]]
    again = begun(configs[1:])
    assert trained == [[0, 1], [1]]
    assert same(weights_of(read), weights_of(again)) and same(weights_of(read), weights_of(made, slice(1, 2)))
    assert not same(weights_of(read), weights_of(build(configs[1:])))
    assert same(read.policy.parameters(), read.reference.parameters())


@pytest.mark.holds("S0.19")
def test_the_variants_of_a_seed_share_one_start(tmp_path, trained):
    others = [["norm=none"], ["lr=0.5"], ["temperature=2"], ["kl=k3"], ["steps=9"], ["group_size.completions=2"]]
    together = [config("sft", *each, seed=seed) for each in others[:4] for seed in (3, 4)]
    state = begun(together, tmp_path)
    assert sorted(map(sorted, trained)) == [[3, 4]]
    assert all(same(weights_of(state, i), weights_of(state, i % 2)) for i in range(8))
    for each in others:
        begun([config("sft", *each, seed=3)], tmp_path)
    assert len(trained) == 1


@pytest.mark.parametrize(
    "change", ["seed=9", "task.cap=5", "model.hidden=6", "start.accuracy=0.7", "start.lr=1e-3", "matmul_precision=high"]
)
def test_whatever_a_start_depends_on_makes_another(tmp_path, trained, change):
    begun([config("sft")], tmp_path)
    begun([config("sft", change)], tmp_path)
    assert len(trained) == 2 and len(list(tmp_path.iterdir())) == 2


def test_prompts_that_come_again_make_no_other(tmp_path, trained):
    states = [begun([config("sft", f"task.prompt_set={size}")], tmp_path) for size in ("null", 4, 64)]
    assert len(trained) == len(list(tmp_path.iterdir())) == 1
    assert all(same(weights_of(states[0]), weights_of(each)) for each in states)
    assert same(weights_of(states[0]), weights_of(begun([config("sft", "task.prompt_set=4")])))  # made, not read


def test_a_start_of_its_own_seed_is_that_of_a_run_with_this_seed(tmp_path, trained):
    """The critic's body too; and what a run samples stays that of its own seed."""
    others = ["critic=value", "norm=gae"]
    for name in ("random", "sft"):
        both = [config(name, *others, seed=5), config(name, *others, "start.seed=5", seed=9)]
        state = begun(both, tmp_path)
        for network in ("policy", "critic", "reference"):
            parameters = [*state.networks[network].module.parameters()]
            assert all(torch.equal(each[0], each[1]) for each in parameters)
        assert state.seeds == [5, 9]
    assert trained == [[5]] and len(list(tmp_path.iterdir())) == 1


def test_a_folder_from_before_starts_had_seeds_is_read(tmp_path):
    path = tmp_path / "config.yaml"
    values = config("sft").model_dump(mode="json")
    del values["start"]["seed"]
    path.write_text(to_yaml(values))
    assert load(path) == config("sft")


def test_other_code_makes_another(tmp_path, trained, monkeypatch):
    starts, (one, other) = tmp_path / "starts", (tmp_path / name for name in ("one", "other"))
    for folder, text in ((one, "x = 1"), (other, "x = 2")):
        (folder / "models").mkdir(parents=True)
        (folder / "models" / "gru.py").write_text(text)
        monkeypatch.setattr(begin, "PACKAGE", folder)
        begun([config("sft")], starts)
    assert len(trained) == 2 and len(list(starts.iterdir())) == 2


def test_different_starts_in_one_batch(tmp_path):
    configs = [config(name, seed=seed) for seed in (0, 1) for name in STARTS]
    state = begun(configs, tmp_path)
    for replica, each in enumerate(configs):
        assert same(weights_of(state, slice(replica, replica + 1)), weights_of(begun([each])))
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("damage", [b"", b"half a file"])
def test_a_damaged_file_is_made_again(tmp_path, trained, damage):
    whole = begun([config("sft")], tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for left in (damage, content[:500]):
        file.write_bytes(left)
        assert same(weights_of(begun([config("sft")], tmp_path)), weights_of(whole))
    assert len(trained) == 3
    assert torch.load(file, weights_only=True)["weights"].keys() == dict(whole.policy.named_parameters()).keys()


def test_a_flipped_bit_and_the_start_of_another_seed_are_made_again(tmp_path, trained, caplog):
    one, other = (begun([config("sft", seed=seed)], tmp_path / str(seed)) for seed in (0, 1))
    (file,), (theirs,) = ((tmp_path / name).iterdir() for name in "01")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    for left, text in ((bytes(content), "is damaged"), (theirs.read_bytes(), "is another start than its name says")):
        file.write_bytes(left)
        assert same(weights_of(begun([config("sft")], tmp_path / "0")), weights_of(one))
        assert caplog.messages[-1] == f"{file} {text}: the start is made again"
    assert len(trained) == 4 and not same(weights_of(one), weights_of(other))


def jobs(folder, *overrides, starts=None):
    for number, (name, seed) in enumerate((name, seed) for name in STARTS for seed in (0, 1)):
        place = folder / f"{name},seed={seed}"
        place.mkdir(parents=True)
        yield Job(config(name, "kl=k3", *overrides, seed=seed), place, place.name, str(number), starts=starts)


@pytest.mark.bits
def test_runs_from_different_starts_give_the_same_bits_alone_together_and_resumed(tmp_path, monkeypatch):
    together, alone = list(jobs(tmp_path / "together", starts=tmp_path / "starts")), list(jobs(tmp_path / "alone"))
    scores = train_jobs(together)
    for one, other in zip(alone, together, strict=True):
        train_jobs([one])
        assert rows(one.folder) == rows(other.folder), one.name
    parts, step = list(jobs(tmp_path / "parts", "checkpoint_every=1", starts=tmp_path / "starts")), training.train_step

    def stopping(state, now, measure):
        if now == 2:
            raise KeyboardInterrupt
        return step(state, now, measure)

    monkeypatch.setattr(training, "train_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        train_jobs(parts)
    monkeypatch.setattr(training, "train_step", step)
    monkeypatch.setattr(training, "apply_starts", lambda *_: pytest.fail("a run that goes on has begun"))
    assert train_jobs(parts) == scores
    assert all(rows(one.folder) == rows(other.folder) for one, other in zip(parts, together, strict=True))


def test_the_penalty_is_against_the_policy_after_the_start(tmp_path):
    (_, _, job, *_) = jobs(tmp_path)
    train_jobs([job])
    first, *_, last = [row["kl/ref_exact"] for row in rows(job.folder) if "kl/ref_exact" in row]
    assert first == 0 < last


def test_a_run_that_does_not_arrive_fails_alone(tmp_path):
    every = [
        Job(each, tmp_path / str(number), str(number), str(number))
        for number, each in enumerate([config("sft", "start.accuracy=0.99", "start.updates=2"), config("sft")])
    ]
    for job in every:
        job.folder.mkdir()
    failed, score = train_jobs(every)
    assert "start: sampled accuracy" in str(failed) and "after 2 updates, wanted 0.99" in str(failed)
    assert isinstance(score, float)
    summaries = [json.loads((job.folder / "summary.json").read_text()) for job in every]
    assert [each["status"] for each in summaries] == ["failed", "completed"] and summaries[0]["reason"] == str(failed)


def test_a_start_does_not_depend_on_the_cores_of_the_machine(tmp_path):
    """A stack of one seed has other bits with several threads, so that is not left to what torch finds."""
    made = []
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        (job,) = [
            Job(config("sft", "model.hidden=32"), tmp_path / str(number), "a", "0", starts=tmp_path / f"s{number}")
        ]
        job.folder.mkdir()
        train_jobs([job])
        made.append((rows(job.folder), next((tmp_path / f"s{number}").iterdir()).read_bytes()))
    torch.set_num_threads(1)
    assert made[0] == made[1] == made[2]
