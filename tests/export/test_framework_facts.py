"""The facts about verl and OpenRLHF that other tests rely on, against the packages where they are installed.

Their source is enough: `pip install --no-deps verl openrlhf` (docs/export.md). Nothing of them is imported.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
from exports import FRAMEWORKS, configured
from framework_facts import ESTIMATORS, LOSSES, OPENRLHF, VERL, VERL_ADDED
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from verl_losses import OF_THE_MACHINE, no_hydra, verl_config

from rlexp.export.tables import export

needs_verl = pytest.mark.skipif(not find_spec("verl"), reason="verl is not installed: docs/export.md")
needs_openrlhf = pytest.mark.skipif(not find_spec("openrlhf"), reason="OpenRLHF is not installed: docs/export.md")
pytestmark = pytest.mark.slow


def source(package: str, *path: str) -> ast.Module:
    """Parse a file of a package that is installed, which is not imported."""
    return ast.parse(Path(find_spec(package).origin).parent.joinpath(*path).read_text(encoding="utf-8"))


@needs_verl
def test_verl_has_these_keys_and_no_others():
    folder = Path(find_spec("verl").origin).parent / "trainer" / "config"
    with no_hydra(), initialize_config_dir(str(folder), version_base=None):
        config = hydra_compose("ppo_trainer", OF_THE_MACHINE)
    missing = object()
    assert [name for name in VERL if OmegaConf.select(config, name, default=missing) is missing] == []
    assert [name for name in VERL_ADDED if OmegaConf.select(config, name, default=missing) is not missing] == []


@needs_verl
def test_verl_has_these_losses_and_estimators():
    tree = source("verl", "trainer", "ppo", "core_algos.py")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    losses = [call.args[0].value for call in calls if call.func.id == "register_policy_loss"]
    (enum,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AdvantageEstimator")
    assert set(losses) == set(LOSSES)
    assert {each.value.value for each in enum.body if isinstance(each, ast.Assign)} == set(ESTIMATORS)


@needs_verl
@pytest.mark.parametrize(
    "overrides",
    [
        ["preset=verl"],
        ["preset=dapo_dynamic", "mismatch=token_mask"],
        ["norm=gdpo", "clip=gspo", "mismatch=sequence_mask"],
        ["norm=optimal_token", "kl=k1", "kl_control=adaptive", "clip=dro", "agg=dr_grpo"],
        ["norm=remax", "kl=low_var_kl", "clip=clip_cov", "agg=sequence_sum", "grad_clip=null"],
    ],
    ids=" ".join,
)
def test_hydra_composes_the_command_with_the_config_of_verl(overrides):
    config = verl_config(*overrides)
    settings = export(configured(*overrides), FRAMEWORKS["verl"]).settings
    assert {name: OmegaConf.select(config, name.removeprefix("+")) for name in settings} == settings


def keyword(value: ast.expr) -> object:
    """`"x"`, `[1, 2]` and `float` as what they are; `"float"` for the last."""
    return value.id if isinstance(value, ast.Name) else ast.literal_eval(value)


@needs_openrlhf
def test_openrlhf_has_these_arguments():
    """Flags of actor and critic are added in a loop over prefixes: `f"--{prefix}.adam.lr"`."""
    known = {}
    for node in ast.walk(source("openrlhf", "cli", "train_ppo_ray.py")):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            flag = ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            wanted = ("type", "nargs", "choices", "action")
            said = {each.arg: keyword(each.value) for each in node.keywords if each.arg in wanted}
            known |= {flag.replace("{prefix}", prefix): said for prefix in ("actor", "critic")}
    facts = {
        flag: {name: value.__name__ if isinstance(value, type) else value for name, value in kinds.items()}
        for flag, kinds in OPENRLHF.items()
    }
    assert {flag: known.get(flag) for flag in facts} == facts
