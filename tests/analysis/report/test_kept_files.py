"""Tables as others get them: typed, described, the same bytes; of any arms, grid and conditions."""

import json

import numpy as np
import pandas as pd
import pytest

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.report.kept_files import Column, Table, card_text, curves_table, runs_table, typed, write_kept


def question() -> dict[str, Table]:
    """Two conditions × two arms × two rates × three seeds, one run of which is not there and one of which diverged."""
    index = pd.MultiIndex.from_product(
        [["sort", "bandit"], ["local", "none"], [0.1, 0.2], [7, 8, 9]], names=["condition", "arm", "lr", "seed"]
    )
    roles = index.to_frame(index=False)
    roles["folder"] = [f"{task}-{arm},{lr},{seed}" for task, arm, lr, seed in index]
    roles["best"], roles["on_scale"] = roles["lr"] == 0.2, np.linspace(-1, 1, len(roles))
    facts = pd.DataFrame({"name": roles["folder"][1:], "status": "completed", "code": "8b1f", "commit": "6d59"})
    facts = facts.assign(config=facts["name"].str.upper(), machine=None, wall_time_s=1.5)
    facts.loc[5, "status"] = "diverged"
    numbers = pd.Series(np.linspace(0, 1, 22), facts["name"].drop(5))
    curves = pd.DataFrame({"folder": facts["name"], "seed": 7, "step": 0, "completions": 128.0, "eval/reward": 0.5})
    return {
        "runs.parquet": runs_table(roles, facts, numbers, "lr"),
        "curves.parquet": curves_table(curves),
        "answer.csv": Table(pd.DataFrame({"word": ["open"]}), "a row", {"word": Column("string", "what is known")}),
    }


def test_a_run_has_its_condition_its_point_and_what_trained_it():
    table = question()["runs.parquet"]
    assert [*table.rows] == ["condition", "arm", "lr", *"best seed folder status number on_scale".split()] + [
        *"config code commit machine wall_time_s".split()
    ]
    assert table.key == ["condition", "arm", "lr", "seed"] and table.rows["best"].sum() == 12
    assert table.rows["status"].value_counts().to_dict() == {"completed": 22, "diverged": 1, "missing": 1}
    assert table.rows["status"][[0, 5]].tolist() == ["missing", "diverged"]
    assert table.rows["number"].isna()[[0, 5]].all() and table.rows["number"].notna().sum() == 22


def test_parquet_has_the_declared_types_and_says_what_they_are(tmp_path):
    from pyarrow.parquet import read_schema

    tables = question()
    write_kept(tmp_path, tables, {"name": "x"}, "card")
    for file in ("runs.parquet", "curves.parquet"):
        schema, rows = read_schema(tmp_path / file), typed(file, tables[file])
        assert schema.names == [*rows] and schema.metadata[b"description"] == tables[file].about.encode()
        for field in schema:
            column = tables[file].columns[field.name]
            named = {"string": "string", "integer": "int64", "number": "double", "boolean": "bool"}[column.type]
            assert str(field.type) == named and field.nullable == (not column.required)
            assert field.metadata == {b"description": column.about.encode()}
        read = pd.read_parquet(tmp_path / file)
        for name in rows:
            assert [None if pd.isna(each) else each for each in read[name]] == [
                None if pd.isna(each) else each for each in rows[name]
            ]


def test_the_package_is_one_by_the_standard(tmp_path):
    """Names, types and constraints as datapackage.org has them; the validator `frictionless` reads the same keys."""
    write_kept(tmp_path, question(), {"name": "x", "scale": {"count": np.int64(3), "start": np.nan}}, "card", "{}")
    package = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert package["$schema"].startswith("https://datapackage.org/profiles/2") and package["name"] == "x"
    assert package["scale"] == {"count": 3, "start": None} and package["licenses"][0]["name"] == "Apache-2.0"
    runs, curves, answer = package["resources"]
    assert [each["mediatype"] for each in (runs, answer)] == ["application/vnd.apache.parquet", "text/csv"]
    assert curves["schema"]["foreignKeys"] == [
        {"fields": ["folder"], "reference": {"resource": "runs", "fields": ["folder"]}}
    ]
    fields = {field["name"]: field for field in runs["schema"]["fields"]}
    assert fields["condition"]["constraints"] == {"required": True} and "constraints" not in fields["number"]
    assert {field["type"] for field in fields.values()} == {"string", "integer", "number", "boolean"}
    assert (tmp_path / "recompute.ipynb").read_text() == "{}" and (tmp_path / "README.md").read_text() == "card"


def test_the_same_tables_are_the_same_bytes(tmp_path):
    for place in (tmp_path / "a", tmp_path / "b"):
        place.mkdir()
        paths = write_kept(place, question(), {"name": "x"}, "card")
    assert len(paths) == 5
    assert all(path.read_bytes() == (tmp_path / "a" / path.name).read_bytes() for path in paths)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"seed": [1, None]}, "x: seed is empty in row 1"),
        ({"seed": [1, 1]}, "x: .'seed': 1.* is there twice"),
        ({"seed": [1, 1.5]}, "x: seed is no integer: "),
        ({"seed": [1, 2], "side": ["low", "left"]}, "x: side is left; allowed: low, high"),
        ({"seed": [1, 2], "odd": [1, 2]}, "x: nothing says what odd is"),
    ],
)
def test_rows_that_are_not_as_described_end_in_a_line(rows, said):
    columns = {"seed": Column("integer", "of the run", True), "side": Column("string", "end", allowed=("low", "high"))}
    with pytest.raises(AnalysisError, match=said):
        typed("x", Table(pd.DataFrame(rows), "rows", columns, ("seed",)))


def test_the_card_names_the_parquet_files_to_the_hub():
    text = card_text("T", {"runs.parquet": "a row a run", "arms.csv": "a row an arm"}, {"": ["Found."], "How": ["So."]})
    head, body = text.removeprefix("---\n").split("---\n\n")
    assert head == "license: apache-2.0\nconfigs:\n- config_name: runs\n  data_files: runs.parquet\n"
    assert body.startswith("# T\n\nFound.\n\n## How\n\nSo.\n\n## Files\n\n- `runs.parquet`: a row a run\n- `arms.csv`")
