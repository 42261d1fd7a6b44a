"""A stranger's folder is data: code that its files name is refused, in a line, until it is typed or trusted."""

from __future__ import annotations

import json
import os
import pickle

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT

from rlexp import api
from rlexp.config import schema, trust
from rlexp.config.compose import CONF, compose, composed, plain
from rlexp.core.errors import ConfigError
from rlexp.launch import repeat

pytestmark = pytest.mark.slow  # whole commands

REACHED = "the config was read"
ATTACK = {"_target_": "pathlib.Path.write_text", "_args_": [{"_target_": "pathlib.Path", "_args_": ["owned"]}, "x"]}


@pytest.fixture
def stranger(tmp_path):
    """Return a function that makes the folder of a run, with these keys of its config otherwise."""
    values = plain(composed("task=jsonl", "backend=trl", "model=llama", "logger=none", *SHORT))

    def made(changes=None, **nodes):
        folder = tmp_path / "theirs"
        folder.mkdir(exist_ok=True)
        (folder / "rows.jsonl").write_text(json.dumps({"prompt": "a", "answer": "b", "config": ATTACK}) + "\n")
        config = values | {key: (values.get(key) or {}) | node for key, node in nodes.items()}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        return "theirs"

    return made


@pytest.fixture
def reading(monkeypatch):
    """Let whatever is not refused end where the config would be read: a reward function would be imported there."""

    def read(values):
        raise ConfigError([REACHED])

    monkeypatch.setattr(repeat, "read", read)


ATTACKED = {"path": "theirs/rows.jsonl", "reward": "hydra.utils:instantiate"}


def test_code_that_a_run_s_config_names_is_not_run(command, tmp_path, stranger):
    refused = command("--from", stranger(task=ATTACKED))
    line = (
        "task.reward=hydra.utils:instantiate: theirs/config.yaml names a function to call; type task.reward=… too, or"
    )
    assert refused.code == 2 and refused.err == f"{line} --trust, if you trust it\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]
    page = (CONF.parent / "docs/safe_to_open.md").read_text(encoding="utf-8")
    assert refused.err.partition("config.yaml ")[2] in page and all(f"`{key}`" in page for key in trust.CODE)


def test_what_could_run_anything_is_refused_even_where_it_is_trusted(command, tmp_path, stranger):
    pytest.importorskip("trl")
    for word in ("--trust", f"task.reward={ATTACKED['reward']}"):
        refused = command("--from", stranger(task=ATTACKED), word)
        assert refused.code == 2 and "is of hydra, and could run what the data says" in refused.err
        assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("nodes", "key"),
    [
        ({"task": {"reward": "own:f"}}, "task.reward=own:f"),
        ({"backend": {"accelerate": "theirs/how.yaml"}}, "backend.accelerate=theirs/how.yaml"),
        ({"logger": {"name": "wandb", "mode": "online"}}, "logger.mode=online"),
        ({"norm": {"_target_": "os.system"}}, "norm._target_=os.system"),
        ({"hydra": {"callbacks": {"x": {"_target_": "os.system"}}}}, "hydra.callbacks.x._target_=os.system"),
        ({"study": {"expect": [{"_target_": "os.system"}]}}, "study.expect._target_=os.system"),
        ({"task": {"reward": "own:" + "f" * 3000}}, "task.reward=own:fff"),
        ({"task": {"reward": "own:\x1b[2J"}}, "task.reward=own:\\x1b[2J"),
    ],
)
def test_each_kind_of_code_is_named_typed_or_trusted(command, stranger, reading, nodes, key):
    refused = command("--from", stranger(**nodes))
    assert refused.code == 2 and refused.err.startswith(key) and len(refused.err.splitlines()) == 1
    assert len(refused.err) < 300 and "\x1b" not in refused.err
    assert command("--from", "theirs", "--trust").err == command("--trust", "--from=theirs").err == f"{REACHED}\n"


def test_a_key_that_is_typed_is_trusted_as_it_is_there(command, stranger, reading):
    source = stranger(task={"reward": "own:f"})
    assert command("--from", source, "task.reward=own:f").err == f"{REACHED}\n"
    other = command("--from", source, "task.reward=own:g")
    assert other.err == "task.reward=own:g: --from repeats a run as it was, and theirs has another\n"
    wrong = command("--from", source, "backend.accelerate=2")
    assert wrong.err == "backend.accelerate=2: --from repeats a run as it was, and theirs has another\n"


@pytest.mark.parametrize(
    "nodes", [{}, {"backend": {"accelerate": 2}}, {"logger": {"name": "wandb", "mode": "offline"}}]
)
def test_a_config_without_code_needs_no_trust(command, stranger, reading, nodes):
    assert command("--from", stranger(**nodes)).err == f"{REACHED}\n"


def test_the_config_of_a_folder_is_read_in_python_as_carefully(stranger, tmp_path):
    stranger(task=ATTACKED)
    for trusted, line in ((False, "names a function to call"), (True, "is of hydra|needs the extra trl")):
        with pytest.raises(ConfigError, match=line):
            schema.load(tmp_path / "theirs/config.yaml", trust=trusted)
    assert not (tmp_path / "owned").exists()


CALLED = "{_target_: pathlib.Path.touch, self: {_target_: pathlib.Path, _args_: [owned]}}"
FILES = [
    (
        "norm/mine.yaml",
        f"# @package _global_\nhydra: {{callbacks: {{x: {CALLED}}}}}",
        "hydra.callbacks=None|hydra.callb",
    ),
    ("norm/mine.yaml", "# @package hydra.job\nenv_set: {PATH: here}", "hydra: "),
    ("norm/mine.yaml", "# @package _global_\nhydra: {job: {env_set: {PATH: here}}}", "hydra.job"),
    ("norm/mine.yaml", "# @package _global_\nhydra: {callbacks: null}", "hydra.callbacks"),
    ("norm/mine.yaml", "# @package _global_\nhydra: {sweep: {dir: /tmp/there}}", "hydra.sweep"),
    ("norm/mine.yaml", "# @package _global_\nhydra: {launcher: {setup: [rm]}}", "hydra.launcher"),
    ("norm/mine.yaml", "# @package _global_\nhydra: ${study.x}", "hydra="),
    ("norm/mine.yaml", "# @package _global_\nhydra: {sweeper: {params: '${study.x}'}}", "hydra.sweeper"),
    ("norm/mine.yaml", "# @package _global_\nhydra: {sweeper: {params: {+hydra.job.env_set.A: 1}}}", "hydra.sweeper.p"),
    (
        "norm/mine.yaml",
        "# @package _global_\nhydra: {sweeper: {params: {task.reward: 'os:system'}}}",
        "hydra.sweeper.p",
    ),
    ("norm/mine.yaml", "# @package _global_\nx: &x {task: {reward: 'own:f'}}\n<<: *x", "reward=own:f|x.task.reward"),
    ("norm/mine.yaml", "defaults: [{override /hydra/job_logging: evil}]", "defaults"),
    ("norm/mine.yaml", "defaults: [local@hydra.callbacks]", "defaults"),
    ("norm/mine.yaml", "defaults: [../../../elsewhere]", "defaults=../../../elsewhere"),
    ("norm/mine.yaml", "defaults: [{norm: '${x}'}]", "defaults"),
    ("norm/mine.yaml", f"name: {CALLED}", "name._target_=pathlib.Path.touch"),
    ("norm/mine.yaml", "name: local\neps: ${oc.env:HOME}", "eps=${oc.env:HOME}: "),
    ("norm/mine.yaml", "name: ${${a}:HOME}", "name=${${a}:HOME}: "),
    ("task/mine.yaml", "name: jsonl\nreward: own:f", "reward=own:f"),
    ("study/mine.yaml", "# @package _global_\ntask: {reward: 'own:f'}", "task.reward=own:f"),
    ("backend/mine.yaml", "name: trl\naccelerate: how.yaml", "accelerate=how.yaml"),
    ("logger/mine.yaml", "name: wandb\nmode: online", "mode=online"),
    ("hydra/job_logging/mine.yaml", "version: 1\nformatters: {x: {(): os.getcwd}}", "hydra: "),
    ("norm/mine.yaml", "handlers: {x: {(): os.getcwd}}", "handlers.x.()=os.getcwd"),
    ("norm/mine.yml", f"name: {CALLED}", "name._target_=pathlib.Path.touch"),
]


@pytest.mark.parametrize(("name", "text", "key"), FILES)
def test_code_that_a_file_of_a_folder_names_is_refused(command, tmp_path, name, text, key):
    file = tmp_path / "their conf" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    for words in (["--config-dir", "their conf"], [f"--config-dir={tmp_path}/their conf"]):
        done = command(*words, "norm=mine", "hydra.run.dir=x")
        assert done.code == 2 and done.err.startswith(tuple(key.split("|"))) and len(done.err.splitlines()) == 1
        assert "their conf/" in done.err and "--trust, if you trust it" in done.err
    searched = f"hydra.searchpath=[pkg://nowhere,'file://{tmp_path}/their conf']"
    assert command(searched, "norm=mine", "hydra.run.dir=x").err == done.err
    with pytest.raises(ConfigError, match="if you trust it"):
        api.train(searched, "norm=mine", folder="x")
    with pytest.raises(ConfigError, match="if you trust it"):
        compose(searched, "norm=mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["their conf"]


def test_links_in_a_folder_are_looked_behind(command, tmp_path):
    (tmp_path / "behind/norm").mkdir(parents=True)
    (tmp_path / "behind/norm/mine.yaml").write_text(f"name: {CALLED}")
    (tmp_path / "behind/norm/again").symlink_to(tmp_path / "behind")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/norm").symlink_to(tmp_path / "behind/norm")
    done = command("--config-dir", "conf", "norm=mine")
    assert done.code == 2 and done.err.startswith("name._target_=pathlib.Path.touch: conf/norm/mine.yaml names")


def test_a_file_of_billions_is_one_line(command, tmp_path):
    levels = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    (tmp_path / "conf/norm").mkdir(parents=True)
    for text, line in ((f"a0: &a0 [1]\n{levels}", "holds more than"), ("a: " + "[" * 5000, "")):
        (tmp_path / "conf/norm/mine.yaml").write_text(text)
        done = command("--config-dir", "conf", "norm=mine")
        assert done.code == 2 and line in done.err and len(done.err.splitlines()) == 1


HARMLESS = """\
# @package _global_
defaults: [{override /norm: center}]
steps: 3
study: {name: mine, question: "is ${norm.name} enough?", expect: []}
hydra: {mode: MULTIRUN, sweeper: {params: {reward: "verifier,learned", seed: "0,1"}, max_batch_size: 4}}
"""


def test_a_study_of_a_folder_needs_no_trust(command, tmp_path):
    (tmp_path / "conf/study").mkdir(parents=True)
    (tmp_path / "conf/study/mine.yaml").write_text(HARMLESS)
    done = command("--config-dir", "conf", "study=mine", "lr=-1")
    assert done.code == 2 and done.err == "lr=-1: must be above 0\n"


def test_a_file_is_trusted_where_its_key_is_typed_or_trust_is_said(command, tmp_path):
    (tmp_path / "conf/logger").mkdir(parents=True)
    (tmp_path / "conf/logger/mine.yaml").write_text("name: wandb\nmode: online\nproject: theirs\n")
    for word in ("--trust", "logger.mode=offline"):
        done = command("--config-dir", "conf", "logger=mine", word, "--cfg", "job")
        assert done.code == 0 and "project: theirs" in done.out


class Evil:
    def __reduce__(self):
        return os.mkdir, ("owned",)


@pytest.mark.parametrize("option", ["--experimental-rerun", "--exp", "--e"])
def test_no_pickle_is_read(command, tmp_path, option):
    (tmp_path / "config.pickle").write_bytes(pickle.dumps(Evil()))
    for words in ([option, "config.pickle"], [f"{option}=config.pickle"]):
        done = command(*words)
        assert done.code == 2 and "no pickle is read" in done.err and len(done.err.splitlines()) == 1
    assert not (tmp_path / "owned").exists()


def test_the_variant_of_a_stranger_is_printed_as_text(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({"variant": "norm=\x1b]0;owned\x07"}))
    job = repeat.job_of(schema.read(plain(composed("logger=none"))), tmp_path / "new", tmp_path)
    assert job.variant == "norm=\\x1b]0;owned\\x07"
