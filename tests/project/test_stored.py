"""What is read of docs/ is what stands there: each study, each finding, each run."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stored import stored_studies

from benchmarks.explorer.data import config_of
from benchmarks.stored import printed
from benchmarks.stored.folders import command_in, shared_of
from benchmarks.stored.study import parts_of, unshared, without
from benchmarks.stored.world import world

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def studies():
    """All of them, composed: what asks for this is rare."""
    return {study.name: study for study in stored_studies()}


@pytest.mark.rare
def test_every_stored_study_is_there_once(studies):
    assert len(studies) == len(stored_studies())
    assert {file.stem for file in (DOCS / "claims" / "results").glob("*.json")} <= {*studies}
    answers = [*DOCS.glob("**/answer.json")]
    assert len(answers) == sum(study.kind == "question" for study in studies.values()) > 8
    tables = {file.parent for file in DOCS.glob("**/runs.parquet")} - {file.parent for file in answers}
    several = {file.parent for file in DOCS.glob("ablations/*/effects.csv")}  # a folder each, and one a condition below
    named = {folder.parent.name if folder.parent in several else str(folder.relative_to(DOCS)) for folder in tables}
    assert named == {n for n, s in studies.items() if s.kind == "ablation"}
    sweeps = [len(json.loads((DOCS / each / "results.json").read_text())) for each in ("readme", "studies", "transfer")]
    worlds = {file.stem.partition("-")[0] for file in DOCS.glob("speedrun/records/*.json")}
    assert worlds == {name.partition("/")[2] for name, study in studies.items() if study.kind == "speedrun"}
    counted = sum(len(study.runs) > 0 for study in studies.values() if study.kind in ("claim", "sweep"))
    assert counted == sum(sweeps) + len([*DOCS.glob("dynamics/*.json")])


@pytest.mark.rare
def test_every_run_has_its_score_and_every_arm_its_runs(studies):
    for study in studies.values():
        runs = study.runs
        key = ["condition", "arm", "metric", "value", "seed"]
        assert not runs.duplicated(key).any(), study.name
        bare = runs[(runs["status"] == "completed") & runs["score"].isna()]  # a run may begin beyond a matched level
        assert bare["metric"].str.contains("matched:").all(), study.name
        known = {*runs["arm"], *study.levels["arm"]}
        if len(runs):
            for found in study.findings:
                assert {found.arm, found.versus} - {""} <= known, (study.name, found.arm, found.versus)
            judged = runs[runs["best"]].groupby(["condition", "arm", "metric"])["value"].nunique(dropna=True)
            assert (judged <= 1).all(), study.name
        if study.curves is not None:
            assert {*study.runs["run"]} & {*study.curves["run"]}, study.name


@pytest.mark.rare
def test_effects_are_those_of_the_runs(studies):
    """The difference of the judged runs, seed by seed, is what was printed, to its digits."""
    checked = 0
    for study in studies.values():
        for found in study.findings if study.kind in ("sweep", "claim") and len(study.runs) else ():
            runs = study.runs.query("best and condition == @found.condition and metric == @found.metric")
            scores = runs.pivot(index="seed", columns="arm", values="score")
            if found.effect is None or found.versus not in scores or found.arm not in scores:
                continue  # of another metric, whose numbers are not stored
            effect = (scores[found.arm] - scores[found.versus]).mean()
            printed_to = 10.0 ** -len(np.format_float_positional(found.effect).partition(".")[2])  # its last digit
            assert abs(effect - found.effect) < 0.51 * printed_to + 1e-9, (study.name, found)
            checked += 1
    assert checked > 90


@pytest.mark.rare
def test_numbers_of_conditions_with_different_scores_stand_under_the_metric_that_they_are(studies):
    """On sums of `sharpening_tasks` the score is the accuracy of samples, on sorting that of greedy answers."""
    kept = pd.read_parquet(DOCS / "asked" / "sharpening_tasks" / "runs.parquet").set_index("folder")
    by_metric = dict(iter(studies["sharpening_tasks"].runs.groupby("metric")))
    assert {*by_metric} == {"eval/sampled_accuracy", "eval/pass@128"}
    for metric, column in (("eval/sampled_accuracy", "assertion_1"), ("eval/pass@128", "assertion_2")):
        values = by_metric[metric].set_index("run")["score"]
        assert values.to_dict() == kept[column].to_dict()


@pytest.mark.rare
def test_settings_of_all_runs_are_not_the_defaults_of_those_that_conditions_have(studies):
    shared = config_of(studies["self_distillation_tasks"])
    assert shared["start.name"] == "pretrained_mixture" and "start.accuracy" not in shared
    assert shared["task.hint"] == "3"  # which no default task has


@pytest.mark.rare
def test_as_many_verdicts_are_read_as_were_printed(studies):
    for file in [*DOCS.glob("studies/*.txt"), *DOCS.glob("readme/*.txt")]:
        text = " ".join(file.read_text("utf-8").split())
        if said := re.search(r"Of the study's (\d+) expectations: (.+?)\. ?(?: [A-Z\d]|$)", text):
            study = next(each for each in studies.values() if each.name in (file.stem, *named(file.stem)))
            words = [found.verdict for found in study.findings]
            assert len(words) == int(said[1]), file
            for number, word in re.findall(r"(\d+) ([a-z ]+)", said[2]):
                assert words.count(word.strip()) == int(number), (file, word)


def named(stem):
    return {"lecture": ["lecture17"], "lecture_again": ["lecture17_again"]}.get(stem, [])


@pytest.mark.rare
def test_weights_of_the_ladder_are_those_that_are_stored(studies):
    stored = json.loads((DOCS / "transfer/ladder/transfer.json").read_text("utf-8"))
    for size, weights in zip(stored["sweeps"], stored["weights"], strict=True):
        study = studies[f"transfer/ladder/{size}"]
        assert world(tuple(study.overrides), []).weights == weights == study.weights


def test_verdicts_are_read_over_wrapped_lines():
    text = (
        "table\nunderpowered: norm=global,model=gru equal to norm=local,model=gru, within\n±0.02\n"
        "    +0.051 [+0.00704, +0.095], p (Holm) = 0.062, n = 10; about\n30 seeds would settle it\n"
        "reproduced: norm=max below 4.9 on every seed\n    10/10 seeds below 4.9\n"
        "not reproduced: agg=token higher than agg=prompt, by at least 0.5, in length/wrong\n"
        "    -0.1 [-0.2, +0.1], p (Holm) = 1, n = 4\n- A note.\n"
    )
    equal, below, longer = printed.verdicts(text, "eval/accuracy")
    assert (equal.arm, equal.versus) == ("norm=global,model=gru", "norm=local,model=gru")
    assert (equal.effect, equal.low, equal.high, equal.p, equal.n) == (0.051, 0.00704, 0.095, 0.062, 10)
    assert equal.smallest == 0.02 and equal.said.endswith("about 30 seeds would settle it")
    assert (below.arm, below.versus, below.effect, below.n) == ("norm=max", "", None, 10)
    assert (longer.metric, longer.smallest, longer.verdict) == ("length/wrong", 0.5, "not reproduced")


def test_parts_that_are_wrapped_are_read_in_their_order():
    text = (
        "added first: the part alone − the baseline\npart   difference [95 %]  p (Holm)  speed-up\n───\n"
        "clip=gspo+agg=  −0.0528 [−0.0702, −0.0346]     0.061   < 0.95×             open \nsequence\n"
        "entropy_coef=0  −0.0036 [−0.0189, +0.0122]     <0.001     0.97×      no material \n.02      effect \narms: x\n"
    )
    first, second = printed.parts(text, ["clip=gspo+agg=sequence", "entropy_coef=0.02"], "score", 3)
    assert (first.arm, first.effect, first.low, first.high, first.p, first.verdict) == (
        *("clip=gspo+agg=sequence", -0.0528, -0.0702, -0.0346, 0.061, "open"),
    )
    assert (second.verdict, second.p, second.n) == ("no material effect", 0.001, 3)
    with pytest.raises(ValueError, match="2 rows for 1 parts: a"):
        printed.parts(text, ["a"], "score", 3)


def test_tricks_are_what_two_arms_do_not_share():
    assert unshared("norm=local,lr=1", "norm=global,lr=1") == ["norm=local", "norm=global"]
    assert unshared("clip=gspo+agg=sequence", "baseline") == ["clip=gspo", "agg=sequence"]
    assert unshared("group_size.prompts=8 at completions=20480", "default") == ["group_size.prompts=8"]
    assert parts_of("task.weights={easy:0,hard:1}+norm=max") == ["task.weights={easy:0,hard:1}", "norm=max"]
    assert without("norm=local,lr=1", "lr=1") == "norm=local" and without("lr=1", "lr=1") == "default"


def test_commands_are_read_from_pages():
    text = "x\n```\nrlexp ablate --parts a=1 --add-one \\\n  --with task=sort model=tabular --folder runs/x\n```\n"
    command = command_in(text, "--folder runs/x")
    assert command == "rlexp ablate --parts a=1 --add-one --with task=sort model=tabular --folder runs/x"
    assert shared_of(command) == ("task=sort", "model=tabular")
    assert shared_of("rlexp ablate --parts a=1 --against preset=grpo --seeds 3") == ("preset=grpo",)


@pytest.mark.rare
def test_a_main_effect_is_the_mean_with_a_part_less_the_mean_without_it(studies):
    """Up to the luck of the best rate, which is taken off what was printed: less than a tenth of what counts."""
    study = studies["dapo_factorial"]
    best = study.runs[study.runs["best"]]
    found = [
        f for f in study.findings if f.role == "part of a recipe" and f.metric == study.metric and "main" in f.said
    ]
    assert len(found) == 5
    for each in found:
        effects = []
        for _, runs in best.groupby("condition"):
            means = runs.groupby("arm")["on_scale"].mean()
            full = (means.index.str.startswith("recipe")) & (means.index != f"recipe without {each.arm}")
            there = np.array([each.arm in arm.split(" + ") for arm in means.index]) | full
            assert there.sum() == len(means) / 2
            effects.append(means[there].mean() - means[~there].mean())
        assert each.effect == pytest.approx(np.mean(effects), abs=each.smallest / 10)
