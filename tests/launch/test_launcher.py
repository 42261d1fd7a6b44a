"""The launcher: what Hydra's own would leave behind, in as few batches as the shapes of the runs allow."""

import pytest
import yaml
from command import command, no_comparison, only_sweep  # noqa: F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows, untimed

from rlexp.config.schema import load
from rlexp.launch import checks, hooks

pytestmark = pytest.mark.slow  # whole runs

TINY = ("preset=tiny",)


def changed(first, second, path=()):
    """Return the paths at which two nested mappings differ."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [] if first == second else [".".join(path)]
    keys = sorted(first.keys() | second.keys())
    return [each for key in keys for each in changed(first.get(key), second.get(key), (*path, key))]


@pytest.mark.slow
def test_it_leaves_what_hydras_own_launcher_leaves(command, tmp_path, no_comparison):
    sweep = ("-m", *TINY, "norm=local,none", "group_size.completions=2,4", "seed=0,1")
    assert command(*sweep, "hydra.sweep.dir=fused").code == 0
    assert command(*sweep, "hydra.sweep.dir=basic", "hydra/launcher=basic").code == 0
    names = sorted(path.parent.name for path in (tmp_path / "basic").glob("*/config.yaml"))
    assert names == sorted(row["name"] for row in rows(tmp_path / "fused")) and len(names) == 8
    for name in names:
        fused, basic = tmp_path / "fused" / name, tmp_path / "basic" / name
        assert sorted(path.name for path in fused.iterdir()) == sorted(path.name for path in basic.iterdir())
        for file in ("config.yaml", ".hydra/config.yaml", ".hydra/overrides.yaml"):
            assert (fused / file).read_text() == (basic / file).read_text()
        assert untimed(fused / "metrics.jsonl") == untimed(basic / "metrics.jsonl")
        both = (yaml.safe_load((folder / ".hydra/hydra.yaml").read_text()) for folder in (fused, basic))
        assert set(changed(*both)) <= {
            "hydra.launcher._target_",
            "hydra.launcher.executor",
            "hydra.launcher.max_replicas",
            "hydra.launcher.max_runs",
            "hydra.launcher.workers",
            "hydra.overrides.hydra",
            "hydra.runtime.choices.hydra/launcher",
            "hydra.runtime.output_dir",
            "hydra.sweep.dir",
        }


def test_a_sweep_from_the_command_to_the_table(command, tmp_path):
    result = command("-m", *TINY, "norm=local,hybrid", "seed=0,1", "baseline='norm=local'")
    assert result.code == 0
    sweep = only_sweep(tmp_path)
    assert result.out.endswith(f"runs/{sweep.name}\n") and "hybrid" in result.out
    for row in rows(sweep):
        assert row["status"] == "completed" and 0 <= row["score"] <= 1
        config = load(sweep / row["name"] / "config.yaml")
        assert row["variant"] == f"preset=tiny,norm={config.norm.name}"
        assert row["seed"] == config.seed


def test_a_single_run_has_a_folder_of_its_own_below_runs(command, tmp_path):
    result = command(*TINY, "norm=hybrid", "seed=3")
    assert result.code == 0
    (folder,) = only_sweep(tmp_path).iterdir()
    assert folder.name == "preset=tiny,norm=hybrid,seed=3"
    assert result.out.endswith(f"{folder.relative_to(tmp_path)}\n")
    assert load(folder / "config.yaml").norm.name == "hybrid"
    assert len(untimed(folder / "metrics.jsonl")) == 3


def test_a_sweep_takes_ten_seeds_unless_the_command_line_names_them(command, tmp_path, engine_of):
    engine_of(lambda job: 0.0)
    command("-m", "norm=none", "hydra.sweep.dir=ten")
    command("-m", "norm=local,none", "seed=7,9", "hydra.sweep.dir=two")
    command("-m", "norm=local,none", "seed=7", "hydra.sweep.dir=one")
    assert [row["seed"] for row in rows(tmp_path / "ten")] == list(range(10))
    assert [row["seed"] for row in rows(tmp_path / "two") if row["variant"] == "norm=none"] == [7, 9]
    assert [row["name"] for row in rows(tmp_path / "one")] == ["norm=local,seed=7", "norm=none,seed=7"]


@pytest.mark.parametrize(
    "study", ["clipping", pytest.param("lecture17", marks=pytest.mark.rare)]
)  # tests/launch/test_studies.py checks them all
def test_a_study_is_a_sweep_of_its_own(command, tmp_path, engine_of, monkeypatch, study):
    """Its names, seeds and expectations pass all checks, and it is a sweep; what follows one is tested elsewhere."""
    engine_of(lambda job: 0.5)
    for last in ("compare", "write_page"):
        monkeypatch.setattr(hooks, last, lambda *_: None)
    result = command(f"study={study}", "hydra.sweep.dir=x")
    others = [line for line in result.err.splitlines() if not line.startswith(("note: kl=k1 ", "[rlexp] batch "))]
    assert (result.code, others) == (0, [])
    found = rows(tmp_path / "x")
    assert len({row["variant"] for row in found}) > 1 and len({row["seed"] for row in found}) > 1


def test_runs_of_equal_shapes_train_together(command, tmp_path, engine_of):
    buckets = engine_of(lambda job: float(job.config.group_size.completions))
    assert command("-m", "group_size=2,4", "norm=local,rloo", "seed=0", "hydra.sweep.dir=x").code == 0
    assert buckets == [
        [f"group_size={size},norm={norm},seed=0" for norm in ("local", "rloo")] for size in (2, 4)
    ]  # fmt: skip
    assert [row["score"] for row in rows(tmp_path / "x")] == [2, 2, 4, 4]


@pytest.mark.parametrize("batches", [[], ["hydra.sweeper.max_batch_size=3"]])
def test_each_job_is_checked_once_and_its_folder_read_once(command, engine_of, monkeypatch, batches):
    engine_of(lambda job: 0.0)
    checked = []
    for name in ("job_of", "inspect"):
        real = getattr(checks, name)
        monkeypatch.setattr(checks, name, lambda *args, real=real: checked.append(real) or real(*args))
    assert command("-m", "norm=local,none", "seed=0,1", "lr=0.1,0.2", *batches).code == 0
    assert len(checked) == 2 * 8


def test_a_batch_has_at_most_max_replicas_runs(command, engine_of):
    buckets = engine_of(lambda job: 0.0)
    assert command("-m", "seed=range(0,5)", "hydra.launcher.max_replicas=2").code == 0
    assert [len(bucket) for bucket in buckets] == [2, 2, 1]
