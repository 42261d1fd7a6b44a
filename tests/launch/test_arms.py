"""`hydra/sweeper=arms`: arms that are no product of axes train as one sweep, each with each of the other overrides."""

import pytest
from command import command, no_comparison  # noqa: F401 (fixtures)
from engine_double import engine_of  # noqa: F401 (a fixture)
from sweep_files import rows

ARMS = 'hydra.sweeper.arms=["default","clip=higher","clip=higher,agg=sequence"]'


def sweep(command, *arguments):  # noqa: F811
    return command("-m", "preset=tiny", "hydra/sweeper=arms", *arguments, "hydra.sweep.dir=x")


def test_each_arm_is_trained_over_the_same_seeds(command, engine_of, tmp_path, no_comparison):  # noqa: F811
    engine_of(lambda job: 0.0)
    assert sweep(command, ARMS, "seed=0,1").code == 0
    variants = ["preset=tiny", "preset=tiny,clip=higher", "preset=tiny,clip=higher,agg=sequence"]
    assert [(row["variant"], row["seed"]) for row in rows(tmp_path / "x")] == [
        (variant, seed) for variant in variants for seed in (0, 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "hydra.sweeper.arms: there are none; name them"),
        ((ARMS.replace("higher,agg", "higer,agg"),), "clip=higer: no such choice; did you mean higher?"),
        ((ARMS, "hydra.launcher.max_runs=4"), "3 arms make 6 runs, more than 4; if they are meant, write hydra.laun"),
    ],
)
def test_mistakes_end_in_a_line_before_anything_is_written(command, tmp_path, arguments, said):  # noqa: F811
    result = sweep(command, *arguments, "seed=0,1")
    assert result.code == 2 and said in result.err and not (tmp_path / "x").exists()
