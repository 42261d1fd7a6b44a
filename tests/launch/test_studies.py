"""Every study, as it is written, can be trained and judged.

Configs are made once a choice, not once a seed, and of an axis of numbers with the last one. One study in ten is
composed by Hydra too.
"""

from functools import cache, partial
from importlib.util import find_spec
from itertools import product

import pytest
from omegaconf import OmegaConf
from small_runs import bases, compose, file_of
from study_configs import swept

from rlexp.config.checks import remarks
from rlexp.config.choices import choices_of, claims, comment_of, studies, text_of
from rlexp.config.compose import CONF
from rlexp.config.compose import compose as composed_by_hydra
from rlexp.launch.comparison import comparison_problems
from rlexp.runfolder.variants import number, parse_override, split_commas
from rlexp.sweep.job import Job

pytestmark = pytest.mark.slow  # Hydra composes each study

ALL = [name for name in choices_of("study") if name != "none"]
STUDIES = ALL if find_spec("trl") else [name for name in ALL if "_llama" not in name]
EVERY = 4  # of so many, one is among the quick tests
TRANSFER = [name for name in STUDIES if name.startswith("transfer_") and not name.endswith("_more")]
# remarks on what a study asks about, on one grid of rates for two optimizers, or on a notebook's recipe in its own task
MEANT = ("kl=k1 ", "optimizer=sgd lr=", "shaping=overlong task=token_preference")
STARTS_AND_RATES = ("start.accuracy", "lr")


def variants_of(name):
    """All that a study compares, and its seeds."""
    axes = swept(name)
    seeds = [int(seed) for seed in axes.pop("seed")]
    return [",".join(map("=".join, zip(axes, row, strict=True))) for row in product(*axes.values())], seeds


def configs_of(name, composed):
    """The config of each variant, with the last number of each axis of numbers."""
    axes = swept(name)
    axes.pop("seed")
    last = {axis: f"{axis}={values[-1]}" for axis, values in axes.items() if None not in map(number, values)}
    told = {
        variant: [part for part in split_commas(variant) if parse_override(part)[0] not in last]
        for variant in variants_of(name)[0]
    }
    return {variant: composed(*choices, *last.values()) for variant, choices in told.items()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (n % EVERY > 0)) for n, name in enumerate(STUDIES)]
)
def test_what_a_study_claims_can_be_judged(name):
    variants, seeds = variants_of(name)
    configs = configs_of(name, partial(compose, f"study={name}"))
    jobs = [
        Job(configs[variant].model_copy(update={"seed": seed}), CONF, f"{variant},{seed}", variant)
        for variant in variants
        for seed in seeds
    ]
    assert len(variants) > 1 and len(seeds) > 1
    assert [*comparison_problems(jobs, [f"study={name}"])] == []
    noted = {line for config in configs.values() for line in remarks(config)}
    assert [line for line in noted if not line.startswith(MEANT)] == []


@pytest.mark.slow  # a compose a choice of each
@pytest.mark.parametrize("name", STUDIES[::10])
def test_hydra_makes_the_same_of_a_study(name):
    by_hydra = cache(composed_by_hydra)
    assert configs_of(name, partial(compose, f"study={name}")) == configs_of(name, partial(by_hydra, f"study={name}"))


@pytest.mark.parametrize("name", TRANSFER)
def test_a_study_of_transfer_has_ten_seeds_to_report(name):
    axes, study = swept(name), compose(f"study={name}").study
    (arms,) = axes.keys() - {"seed", *STARTS_AND_RATES}
    assert study.choose_first and len({*map(int, axes["seed"])} - {*study.choose_seeds}) == 10
    assert len(study.expect) == len(axes["start.accuracy"]) * (len(axes[arms]) - 1)


@pytest.mark.parametrize("name", [name for name in TRANSFER if name.endswith("_llama")])
def test_both_worlds_are_asked_the_same(name):
    assert bases("study", name) == [name.removesuffix("_llama"), "parts/transfer_llama"]
    file = file_of("study", name)
    assert {*file} == {"defaults", "study"} and {*file.study} == {"name"}


def test_a_claim_has_a_line_and_names_its_studies_after_itself():
    named = {study: claim for claim in claims() for study in claims()[claim]}
    assert [study for study, claim in named.items() if not study.startswith(claim)] == []
    assert named.keys() == studies().keys() and len(named) == sum(map(len, claims().values()))
    assert not {*named} & {file.stem for file in (CONF / "study").glob("*.yaml")}
    assert [claim for claim in claims() if not comment_of(text_of("study/claims", claim))] == []


@pytest.mark.parametrize("claim", claims())
def test_the_studies_of_a_claim_are_the_keys_of_its_file(claim):
    """The file is split by its lines, which must mean what YAML means."""
    whole = OmegaConf.create(text_of("study/claims", claim))
    assert {name: OmegaConf.create(text) for name, text in claims()[claim].items()} == whole
