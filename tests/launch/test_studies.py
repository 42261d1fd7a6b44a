"""Every study, as it is written, can be trained and judged.

Configs are composed once a choice, not once a seed, and of an axis of numbers with the last one.
"""

from functools import cache
from importlib.util import find_spec
from itertools import product

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from small_runs import compose

from analysis.data.variants import number, parse_override, split_commas
from rlexp.config.compose import CONF
from rlexp.config.remarks import remarks
from rlexp.launch.comparisons import comparison_problems
from rlexp.sweep.job import Job

STUDIES = sorted({file.stem for file in (CONF / "study").glob("*.yaml")} - {"none"})
if find_spec("trl") is None:
    STUDIES = [name for name in STUDIES if "_llama" not in name]
TRANSFER = [name for name in STUDIES if name.startswith("transfer_") and not name.endswith("_more")]
# remarks on what a study asks about, or on one grid of rates for two optimizers
MEANT = ("kl=k1 ", "optimizer=sgd lr=")
STARTS_AND_RATES = ("start.accuracy", "lr")


def swept(name):
    """What the sweeper of a study is asked for, with what its file takes over from others; a list of texts a key."""
    file = yaml.safe_load((CONF / "study" / f"{name}.yaml").read_text())
    others = [swept(each) for each in file.get("defaults", []) if isinstance(each, str) and each != "_self_"]
    own = file.get("hydra", {}).get("sweeper", {}).get("params", {})
    own = {key: values_of(key, value) for key, value in own.items()}
    return {key: values for params in [*others, own] for key, values in params.items()}


def values_of(key, value):
    """`a,b` and `range(0,3)` as Hydra sweeps them."""
    override = OverridesParser.create().parse_override(f"{key}={value}")
    return [str(each) for each in override.sweep_string_iterator()] if override.is_sweep_override() else [str(value)]


@pytest.mark.slow  # a compose a choice of each
@pytest.mark.parametrize("name", STUDIES)
def test_what_a_study_claims_can_be_judged(name):
    axes = swept(name)
    seeds = [int(seed) for seed in axes.pop("seed")]
    variants = [",".join(map("=".join, zip(axes, row, strict=True))) for row in product(*axes.values())]
    last = {axis: f"{axis}={values[-1]}" for axis, values in axes.items() if None not in map(number, values)}
    composed = cache(lambda *choices: compose(f"study={name}", *choices, *last.values()))
    # the choices of a study of more seeds are those of the study before it, which are composed there
    told = variants[:1] if name.endswith("_more") else variants
    configs = {
        variant: composed(*(part for part in split_commas(variant) if parse_override(part)[0] not in last))
        for variant in told
    }
    configs = {variant: configs.get(variant, configs[told[0]]) for variant in variants}
    jobs = [
        Job(configs[variant].model_copy(update={"seed": seed}), CONF, f"{variant},{seed}", variant)
        for variant in variants
        for seed in seeds
    ]
    assert len(variants) > 1 and len(seeds) > 1
    assert [*comparison_problems(jobs, [f"study={name}"])] == []
    noted = {line for config in configs.values() for line in remarks(config)}
    assert [line for line in noted if not line.startswith(MEANT)] == []


@pytest.mark.parametrize("name", TRANSFER)
def test_a_study_of_transfer_has_ten_seeds_to_report(name):
    axes, study = swept(name), compose(f"study={name}").study
    (arms,) = axes.keys() - {"seed", *STARTS_AND_RATES}
    assert study.choose_first and len({*map(int, axes["seed"])} - {*study.choose_seeds}) == 10
    assert len(study.expect) == len(axes["start.accuracy"]) * (len(axes[arms]) - 1)


@pytest.mark.parametrize("name", [name for name in TRANSFER if name.endswith("_llama")])
def test_both_worlds_are_asked_the_same(name):
    one, other = (yaml.safe_load((CONF / "study" / f"{each}.yaml").read_text()) for each in (name, name[:-6]))
    assert one["study"] == {"name": name} and f"transfer_{one['defaults'][0][9:]}" == other["study"]["name"]
