"""Runs and variants are named by their overrides."""

import pytest

from rlexp.runfolder.variants import run_name, variant_name


@pytest.mark.parametrize(
    ("overrides", "name", "variant"),
    [
        ([], "default", "default"),
        (["seed=3"], "seed=3", "default"),
        (["seed=3", "norm=local", "clip=higher"], "norm=local,clip=higher,seed=3", "norm=local,clip=higher"),
        (["eval.ks=[1,2]"], "eval.ks=[1,2]", "eval.ks=[1,2]"),
    ],
)
def test_names_are_the_overrides(overrides, name, variant):
    assert (run_name(overrides), variant_name(overrides)) == (name, variant)


def test_names_fit_a_folder_and_stay_different():
    values = ["a/b", "a b", "a:b", *("x" * length for length in (200, 201))]
    names = [run_name([f"task.metric={value}", "seed=1"]) for value in values]
    assert len(set(names)) == len(names)
    assert all(len(name) < 110 and "/" not in name and name.endswith(",seed=1") for name in names)
