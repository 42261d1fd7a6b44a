"""What two sweeps say of the same differences, against plain loops."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis import load, transfer
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.sweep_arms import Effect
from rlexp.analysis.stats.transfer import agreement, transfer_frame
from rlexp.analysis.stats.transfer import transfer as set_side_by_side

EVEN = np.linspace(-1, 1, 10)
BASE = 0.5 + 0.05 * EVEN
SIZES = "numbers of weights, each larger than the one before"
SHAKEN = 0.01 * np.roll(EVEN, 3)


def scores(norms, prefix=""):
    """Ten seeds of each norm, whose mean differences to `local` are given."""
    return {f"{prefix}norm={name}": list(BASE + mean + SHAKEN * (name != "local")) for name, mean in norms.items()}


def scaled(shares):
    """Log-odds of shares of 128 answers, half of one added: the evaluations of a configuration that does not say."""
    right = 128 * np.asarray(shares)
    return np.log((right + 0.5) / (128 - right + 0.5))


def both(tmp_path, first, second, margin=None, **question):
    answers = [
        answer(load(write_sweep(tmp_path / name, each, steps=4)), Question(**question))
        for name, each in (("toy", first), ("real", second))
    ]
    return set_side_by_side(tuple(answers), ("toy", "real"), margin)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("higher", "higher", "agree"),
        ("lower", "lower", "agree"),
        ("equal", "equal", "agree"),
        ("higher", "lower", "opposite"),
        ("lower", "higher", "opposite"),
        ("higher", "equal", "only in toy"),
        ("equal", "lower", "only in real"),
        ("unclear", "higher", "open"),
        ("equal", "unclear", "open"),
        ("unclear", "unclear", "open"),
    ],
)
def test_what_two_findings_say_of_each_other(first, second, said):
    found = [Effect(0.0, 0.0, 0.0, 1.0, 10, says) for says in (first, second)]
    assert agreement(found, ("toy", "real")) == said


def test_differences_and_their_signs(tmp_path):
    toy = scores({"local": 0.0, "up": 0.1, "down": -0.1, "same": 0.0, "turned": 0.1})
    real = scores({"local": 0.0, "up": 0.2, "down": -0.2, "same": 0.0, "turned": -0.1}, "model=llama,")
    found = both(tmp_path, toy, real, margin=0.05)
    said = {each.label: (each.found[0].says, each.found[1].says, each.agreement) for each in found.differences}
    assert said == {
        "up": ("higher", "higher", "agree"),
        "down": ("lower", "lower", "agree"),
        "same": ("equal", "equal", "agree"),
        "turned": ("higher", "lower", "opposite"),
    }
    for each in found.differences:
        for one, sweep, prefix in zip(each.found, (toy, real), ("", "model=llama,"), strict=True):
            differences = np.subtract(sweep[f"{prefix}norm={each.label}"], sweep[f"{prefix}norm=local"])
            assert one.difference == pytest.approx(differences.mean(), abs=1e-12) and one.n == 10
            half = 2.262157 * differences.std(ddof=1) / np.sqrt(10)  # t of 9 degrees of freedom
            assert (one.low, one.high) == pytest.approx(
                (differences.mean() - half, differences.mean() + half), abs=1e-6
            )
    assert (found.baseline, found.axis) == ("norm=local", "norm")
    assert len(transfer_frame(found)) == 4


def test_without_a_margin_nothing_is_equal(tmp_path):
    norms = {"local": 0.0, "same": 0.0}
    assert [each.agreement for each in both(tmp_path, scores(norms), scores(norms)).differences] == ["open"]


def test_the_probability_of_the_same_order_is_that_of_all_resamples(tmp_path):
    rng = np.random.default_rng(1)
    sweeps = [{f"norm={name}": list(rng.normal(0.5, 0.1, 4)) for name in "abc"} for _ in range(2)]
    (order,) = both(tmp_path, *sweeps).orders
    odds = []
    for sweep in sweeps:
        table = np.array([scaled(values) for values in sweep.values()])
        counts = {}
        for seeds in product(range(4), repeat=4):
            drawn = table.mean(1) + np.sqrt(4 / 3) * (table[:, seeds].mean(1) - table.mean(1))
            ranks = tuple(np.argsort(-drawn, kind="stable"))
            counts[ranks] = counts.get(ranks, 0) + 1 / 4**4
        odds.append(counts)
    exact = sum(odds[0][ranks] * odds[1].get(ranks, 0) for ranks in odds[0])
    assert order.same == (pytest.approx(exact, abs=0.03),)  # 2,000 resamples of each: three standard errors
    assert order.chance == pytest.approx(1 / 6)
    best = [sorted(sweep, key=lambda name: -scaled(sweep[name]).mean()) for sweep in sweeps]  # noqa: B023
    assert [[f"norm={label}" for label in labels] for labels in order.orders] == best


def test_strata_are_set_side_by_side_each_with_its_own(tmp_path):
    toy = scores({"local": 0.0, "up": 0.1}, "start=a,") | scores({"local": 0.0, "up": -0.1}, "start=b,")
    real = scores({"local": 0.0, "up": 0.1}, "start=b,") | scores({"local": 0.0, "up": 0.1}, "start=c,")
    found = both(tmp_path, toy, real, within=("start",))
    assert [(each.stratum, each.agreement) for each in found.differences] == [("start=b", "opposite")]


def written(tmp_path: Path) -> tuple[str, str]:
    toy, real = scores({"local": 0.0, "up": 0.1}), scores({"local": 0.0, "up": 0.2}, "model=llama,")
    return str(write_sweep(tmp_path / "toy", toy, steps=4)), str(write_sweep(tmp_path / "real", real, steps=4))


def test_the_command_prints_and_writes(tmp_path, capsys):
    toy, real = written(tmp_path)
    assert transfer.main([toy, real]) == 0
    out = capsys.readouterr().out
    assert "Of 1 signs: 1 agree. Of 1 orders: 1 the same." in out and "order: up > local in both" in out
    names = {"transfer.csv", "decisions.csv", "transfer.json", "transfer.svg", "transfer.pdf", "transfer.png"}
    assert {path.name for path in (tmp_path / "real" / "analysis" / "transfer").iterdir()} == names
    assert transfer.main([toy, real, "--json", "--names", "small,llama"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["sweeps"] == ["small", "llama"]
    assert printed["counts"] == {"agree": 1} and printed["differences"][0]["found"][1]["says"] == "higher"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["toy", "toy"], "toy: is both sweeps; name two"),
        (["toy", "real", "toy"], "toy: is named twice; name each sweep once"),
        (["toy"], "toy: is one sweep; name two or more, in order of size"),
        (
            ["toy", "real", "--sizes", "9,8"],
            "--sizes 9,8: expected 2 numbers of weights, each larger than the one before",
        ),
        (["toy", "none"], "'none' is not a folder"),
        (["toy", "real", "--names", "one"], "--names one: expected two different names, as small,llama"),
        (["toy", "real", "--margin", "-1"], "--margin -1: must be at least 0"),
        (["toy", "other"], "the baselines differ, norm=local and clip=a; name one with --baseline"),
        (["toy", "alone"], "no other arm than norm=local is in both sweeps"),
    ],
)
def test_what_cannot_be_set_side_by_side_is_said_in_a_line(tmp_path, capsys, monkeypatch, arguments, line):
    written(tmp_path)
    write_sweep(tmp_path / "other", {f"clip={name}": list(BASE) for name in "ab"}, steps=4)
    write_sweep(tmp_path / "alone", scores({"local": 0.0, "left": 0.1}), steps=4)
    monkeypatch.chdir(tmp_path)
    assert transfer.main(arguments) == 2
    assert capsys.readouterr().err == f"error: {line}\n"
