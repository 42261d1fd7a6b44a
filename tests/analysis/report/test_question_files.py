"""What a question keeps: the effects of each condition follow from the numbers of its runs."""

import json

import pandas as pd
import pytest

from rlexp.analysis.report.question import write_files
from rlexp.question.ask import ask

pytestmark = pytest.mark.slow  # a sweep

PAIR = {"arm": "entropy_coef=1", "versus": "entropy_coef=0", "kind": "superior"}
QUESTION = {
    "question": "Does a bonus for entropy cost accuracy?",
    "assertions": [PAIR, PAIR | {"metric": "eval/exact/reward", "smallest": 0.1}],
    "conditions": {"group_size.completions": [4, 8]},
    "with": "task=bandit+model=tabular+steps=20+eval.every=2+logger=none+lr=0.1",
    "seeds": 3,
}


def test_runs_and_curves_of_all_conditions_are_kept(tmp_path):
    answer = ask(QUESTION, folder=tmp_path / "q")
    write_files(answer)
    place = tmp_path / "q" / "answer"
    runs, curves = (pd.read_parquet(place / f"{name}.parquet") for name in ("runs", "curves"))
    assert len(runs) == 2 * 2 * 3 and runs["condition"].nunique() == 2 and runs["best"].all()
    assert {*curves["folder"]} == {*runs["folder"]} and {"eval/exact/reward", "eval/exact/accuracy"} <= {*curves}
    assert runs["assertion_1"].equals(runs["number"].rename("assertion_1")) and runs["assertion_2"].notna().all()
    effects = pd.read_csv(place / "effects.csv").query("assertion == 1").set_index("condition")
    for condition, rows in runs.groupby("condition"):
        by_arm = rows.pivot(index="seed", columns="arm", values="on_scale")
        difference = by_arm["entropy_coef=1"] - by_arm["entropy_coef=0"]
        kept = effects.loc[condition, ["effect", "error", "n"]].tolist()
        assert kept == pytest.approx([difference.mean(), difference.sem(), 3])  # sums in another order
    package = json.loads((place / "datapackage.json").read_text(encoding="utf-8"))
    assert package["question"]["hash"] == answer.hash
    assert [each["name"] for each in package["resources"]] == ["runs", "curves", "effects"]
    assert package["resources"][0]["schema"]["primaryKey"] == ["condition", "arm", "seed"]
    assert answer.hash in (place / "README.md").read_text(encoding="utf-8")


def test_each_score_has_its_curve_where_conditions_differ_in_it(tmp_path):
    scores = ["eval/exact/accuracy", "eval/exact/entropy"]
    own = {"assertions": [PAIR | {"metric": "eval/exact/reward", "smallest": 0.1}]}
    conditions = [f"score.metric={score}+score.floor=0" for score in scores]
    write_files(ask(QUESTION | own | {"conditions": conditions, "seeds": 2}, folder=tmp_path / "q"))
    curves = pd.read_parquet(tmp_path / "q" / "answer" / "curves.parquet")
    assert {*scores, "eval/exact/reward"} <= {*curves}
