"""Hydra's insides are used in one file, no class of Hydra is changed, and a choice may be called by a number."""

import ast
import copy
from pathlib import Path

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)
from engine_double import engine_of  # noqa: F401 (a fixture)
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import ReadonlyConfigError
from sweep_files import rows

import rlexp
from rlexp.config.compose import CONF, compose
from rlexp.config.fast import copy_tree, masked_copy, read_once
from rlexp.config.parse import as_typed, quote_numbers
from rlexp.core.hydra_compat import VERSION_BASE
from rlexp.launch.hydra_private import (
    CachingConfigLoader,
    as_yaml,
    hydra_config,
    numbers_apart,
)

pytestmark = pytest.mark.slow  # whole runs

ROOT = Path(rlexp.__file__).parents[1]
PRIVATE_FILE = "rlexp/launch/hydra_private.py"
PUBLIC_OF_UTILS = {"JobReturn", "JobStatus"}


def private_imports(path):
    """Yield what a file imports of Hydra that is not for its users."""
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "hydra.core.utils":
                yield from (alias.name for alias in node.names if alias.name not in PUBLIC_OF_UTILS)
        yield from (module for module in modules if module.startswith("hydra._internal"))


def test_the_insides_of_hydra_are_used_in_one_file():
    files = [file for room in ("rlexp", "hydra_plugins") for file in (ROOT / room).rglob("*.py")]
    users = {file.relative_to(ROOT).as_posix() for file in files if list(private_imports(file))}
    assert users == {PRIVATE_FILE}


def test_nothing_of_hydra_is_replaced():
    for function in (Override.value, ConfigLoaderImpl.load_sweep_config, ConfigLoaderImpl.load_configuration):
        assert function.__module__.startswith("hydra.")


@pytest.mark.parametrize(
    ("typed", "quoted"),
    [
        ("group_size=8", "group_size='8'"),
        ("+group_size=8", "+group_size='8'"),
        ("group_size@x=8", "group_size@x='8'"),
        ("group_size=8,16", "group_size=8,16"),
        ("group_size=range(2,4)", "group_size=range(2,4)"),
        ("group_size.prompts=8", "group_size.prompts=8"),
        ("seed=8", "seed=8"),
        ("-m", "-m"),
    ],
)
def test_only_numbers_that_are_choices_are_quoted(typed, quoted):
    assert quote_numbers([typed]) == [quoted]
    assert as_typed([quoted]) == [typed]


def test_a_number_is_a_choice_without_the_command_line():
    assert compose("group_size=4").group_size.completions == 4


def overrides_in(folder):
    return yaml.safe_load((folder / ".hydra" / "overrides.yaml").read_text())


def hydra_in(folder):
    return OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra


def test_a_single_run_records_what_was_typed(command, tmp_path, engine_of):  # noqa: F811
    engine_of(lambda job: 0.5)
    assert command("group_size=4", "seed=3").code == 0
    (folder,) = (tmp_path / "runs").glob("*/*")
    assert folder.name == "group_size=4,seed=3"
    assert overrides_in(folder) == ["group_size=4", "seed=3"]
    assert hydra_in(folder).overrides.task == ["group_size=4", "seed=3"]
    assert hydra_in(folder).job.override_dirname == "group_size=4,seed=3"


@pytest.mark.parametrize("launcher", ["fused", "basic"])
@pytest.mark.parametrize("typed", ["group_size=2,4", "group_size=4", "group_size=choice(2,4)", "group_size=range(4,5)"])
def test_a_sweep_records_what_was_typed(command, tmp_path, engine_of, typed, launcher):  # noqa: F811
    engine_of(lambda job: float(job.config.group_size.completions))
    assert command("-m", typed, "seed=0,1", "hydra.sweep.dir=x", f"hydra/launcher={launcher}").code == 0
    multirun = OmegaConf.load(tmp_path / "x" / "multirun.yaml").hydra
    assert multirun.overrides.task == [typed, "seed=0,1"]
    assert multirun.job.override_dirname == f"{typed},seed=0,1"
    sizes = (2, 4) if "2" in typed else (4,)
    names = [f"group_size={size},seed={seed}" for size in sizes for seed in (0, 1)]
    assert sorted(path.parent.name for path in (tmp_path / "x").glob("*/.hydra")) == sorted(names)
    for name in names:
        assert sorted(overrides_in(tmp_path / "x" / name)) == name.split(",")
        assert hydra_in(tmp_path / "x" / name).job.override_dirname == name
    if launcher == "fused":
        assert {row["variant"]: row["score"] for row in rows(tmp_path / "x")} == {
            f"group_size={size}": size for size in sizes
        }


def test_a_choice_is_called_by_a_number_without_our_callbacks_too(command, tmp_path, engine_of):  # noqa: F811
    engine_of(lambda job: 0.0)
    result = command("-m", "preset=tiny", "~hydra.callbacks.rlexp", "group_size=2,4", "seed=0", "hydra.sweep.dir=x")
    assert result.code == 0, result.err
    assert [row["variant"] for row in rows(tmp_path / "x")] == ["preset=tiny,group_size=2", "preset=tiny,group_size=4"]


def test_a_variant_is_composed_once(command, engine_of, monkeypatch):  # noqa: F811
    engine_of(lambda job: 0.0)
    composed, load = [], ConfigLoaderImpl.load_sweep_config
    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", lambda *args: composed.append(args) or load(*args))
    assert command("-m", "norm=local,none", "clip.high=0.2,0.28", "seed=range(0,3)").code == 0
    assert len(composed) == 2


@pytest.mark.parametrize(
    ("overrides", "numbers"),
    [
        ("norm=rloo seed=0 lr=1e-3 clip.high=.28", "seed=0 lr=1e-3 clip.high=.28"),
        ("clip.high=.2 clip=higher clip.high=-1", "clip.high=.2 clip.high=-1"),  # Hydra reads the file first
        ("group_size=8 group_size.prompts=4 eval.ks=[1,2]", "group_size.prompts=4"),  # a choice called by a number
        ("lr=null seed=1", "seed=1"),
        ("+x=1 hydra.job.num=3 lr=${seed}", ""),
        ("lr=null lr=1", ""),
        ("lr=1 lr=null", ""),
        ("~norm.eps norm.eps=1", ""),
        ("eval={every:3} eval.every=4", ""),
        ("clip.high=1 ~clip", ""),
        ("clips=null clip.high=1", "clip.high=1"),
    ],
)
def test_numbers_are_set_apart_where_their_place_does_not_matter(overrides, numbers):
    others, found = numbers_apart(overrides.split())
    assert found == numbers.split()
    assert [*others] == [each for each in overrides.split() if each not in found]


@pytest.mark.parametrize("dirname", [{}, {"kv_sep": ":", "item_sep": "_", "exclude_keys": ["norm"]}])
def test_another_number_is_what_composing_it_would_give(dirname):
    with initialize_config_dir(str(CONF), **VERSION_BASE):
        loader = GlobalHydra.instance().config_loader()
        setting = [f"hydra.job.config.override_dirname.{key}={value}" for key, value in dirname.items()]
        master = loader.load_configuration("config", setting, RunMode.MULTIRUN)
        folder, caching = master.hydra.sweep.dir, CachingConfigLoader(loader)
        for seed, rate, high in [(0, "1e-3", 1), (13, "1e-3", 0.28), (13, "2", 0.28), (0, ".5", -1)]:
            overrides = ["norm=rloo", f"clip.high={high}", f"seed={seed}", "eval.ks=[1,2]", f"lr={rate}"]
            cached, true = (each.load_sweep_config(master, overrides) for each in (caching, loader))
            assert OmegaConf.to_container(cached) == OmegaConf.to_container(true)
            assert cached.hydra.sweep.dir == true.hydra.sweep.dir == folder


def children_of(node):
    content = node.__dict__.get("_content")
    return content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()


def nodes(tree):
    """All nodes of a config, itself first."""
    return [tree, *(node for child in children_of(tree) for node in nodes(child))]


def test_a_copied_config_is_what_deepcopy_gives():
    with initialize_config_dir(str(CONF), **VERSION_BASE):
        loader = GlobalHydra.instance().config_loader()
        tree = loader.load_configuration("config", ["norm=rloo", "eval.ks=[1,2]"], RunMode.RUN)
    assert tree.hydra.sweep.dir  # fills the cache of ${now:}
    copied, deep, before = copy_tree(tree), copy.deepcopy(tree), OmegaConf.to_container(tree)
    for one, other, original in zip(nodes(copied), nodes(deep), nodes(tree), strict=True):
        assert type(one) is type(other) and one._metadata == other._metadata
        assert one is not original and one._metadata is not original._metadata
        assert one._metadata.flags is None or one._metadata.flags is not original._metadata.flags
        assert one._metadata.resolver_cache is not original._metadata.resolver_cache
    assert all(child._parent is node for node in nodes(copied) for child in children_of(node))
    assert OmegaConf.to_container(copied) == before and copied.hydra.sweep.dir == tree.hydra.sweep.dir
    OmegaConf.set_readonly(copied, True)
    copied.hydra.job.num = 3
    copied.hydra.overrides.task.append("lr=1")
    assert OmegaConf.to_container(tree) == before and not OmegaConf.is_readonly(tree)


def test_a_part_of_a_config_is_what_omegaconf_gives():
    with initialize_config_dir(str(CONF), **VERSION_BASE):
        tree = GlobalHydra.instance().config_loader().load_configuration("config", ["norm=rloo"], RunMode.RUN)
    OmegaConf.set_readonly(tree.hydra, True)
    before = OmegaConf.to_container(tree)
    for keys in (["hydra"], [key for key in tree if key != "hydra"]):
        part, given = masked_copy(tree, keys), OmegaConf.masked_copy(tree, keys)
        for one, other in zip(nodes(part), nodes(given), strict=True):
            assert type(one) is type(other) and one._metadata == other._metadata
        assert all(child._parent is node for node in nodes(part) for child in children_of(node))
        assert OmegaConf.to_yaml(part) == OmegaConf.to_yaml(given)
        OmegaConf.set_readonly(part, False)
        OmegaConf.set_struct(part, False)
    part.norm.divide, part.fresh = "changed", {"x": 1}
    assert OmegaConf.to_container(tree) == before


def test_yaml_reads_as_what_omegaconf_writes():
    with initialize_config_dir(str(CONF), **VERSION_BASE):
        tree = GlobalHydra.instance().config_loader().load_configuration("config", ["norm=rloo"], RunMode.RUN)
    odd = ["1e3", "0x1f", "yes", "null", "~", "", " a", "a: b", "ü", "line\nbreak", "x" * 200, "1_000", ".5", "@a", "%"]
    shared = [1, 2.5e-7]
    text = OmegaConf.create({"odd": odd, "refers": "${odd}", "twice": [shared, shared], "none": None, "no": False})
    for node in (tree, text):
        written = as_yaml(node)
        assert yaml.safe_load(written) == yaml.safe_load(OmegaConf.to_yaml(node))
        assert OmegaConf.to_container(OmegaConf.create(written)) == OmegaConf.to_container(node, enum_to_str=True)


def test_a_source_reads_each_file_once_and_gives_a_copy(tmp_path):
    (tmp_path / "a.yaml").write_text("# @package _global_\ndefaults: [b]\nx: {y: 1}\n")
    source = FileConfigSource("test", str(tmp_path))
    read_once(source)
    first = source.load_config("a")
    del first.config.defaults
    first.config.x.y, first.header["package"] = 2, "changed"
    (tmp_path / "a.yaml").unlink()
    second = source.load_config("a")
    assert OmegaConf.to_container(second.config) == {"defaults": ["b"], "x": {"y": 1}}
    assert second.header == {"package": "_global_"} and second.provider == "test"


def test_the_node_of_a_job_is_hydras_and_cannot_be_changed_while_it_is():
    settings = OmegaConf.structured({"hydra": HydraConf(), "seed": 3})
    settings.hydra.job.name = "${seed}"
    before = HydraConfig.instance().cfg
    with hydra_config(settings):
        assert HydraConfig.get().job.name == "3" and HydraConfig.initialized()
        with pytest.raises(ReadonlyConfigError):
            HydraConfig.get().job.name = "other"
    assert HydraConfig.instance().cfg is before
    settings.hydra.job.name = "other"


def test_what_several_readings_share_is_read_once_until_it_is_written_again(tmp_path, monkeypatch):
    load, shared, loaded = FileConfigSource.load_config, {}, []
    monkeypatch.setattr(FileConfigSource, "load_config", lambda self, path: loaded.append(path) or load(self, path))

    def reading():
        source = FileConfigSource(provider="main", path=f"file://{tmp_path}")
        read_once(source, shared)
        return source.load_config("choice").config

    for text, expected in (("lr: 1", 1), ("lr: 20", 20)):
        (tmp_path / "choice.yaml").write_text(text)
        reading().lr = 3
        assert reading().lr == expected
    assert len(loaded) == 2
