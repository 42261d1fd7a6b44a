"""What an answer keeps so that others can compute it again: tables, a description of each column, a card, a notebook.

Runs and curves are Parquet, small tables CSV. `datapackage.json` describes all of them by a standard
(datapackage.org, version 2), and each Parquet file describes its own columns. The same tables give the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import unlinked
from rlexp.analysis.report.tables import csv_text, plain
from rlexp.analysis.stats.scales import Scale

PACKAGE_FILE, CARD_FILE, NOTEBOOK_FILE = "datapackage.json", "README.md", "recompute.ipynb"
LICENSE = {"name": "Apache-2.0", "title": "Apache License 2.0", "path": "https://www.apache.org/licenses/LICENSE-2.0"}
DTYPES = {"string": "object", "integer": "Int64", "number": "float64", "boolean": "boolean"}
MEDIA = {".parquet": "application/vnd.apache.parquet", ".csv": "text/csv"}


class Column(NamedTuple):
    """What a column is."""

    type: Literal["string", "integer", "number", "boolean"]
    about: str
    required: bool = False
    """Whether each row has a value."""
    allowed: Sequence[str] = ()
    """The values that it may have; empty: any."""


class Table(NamedTuple):
    """A table with what it says of itself."""

    rows: pd.DataFrame
    about: str
    columns: Mapping[str, Column]
    """Of each column of the rows; others may be named, too."""
    key: Sequence[str] = ()
    """Columns that tell each row from all others."""
    refers: tuple[str, str] | None = None
    """A column, and the table in which each of its values is one, too."""


RUN_COLUMNS = {
    "condition": Column("string", "where the arms were compared, as a task", required=True),
    "arm": Column("string", "what is compared", required=True),
    "best": Column("boolean", "whether the arm is judged at this point of its grid; true where no key is tuned", True),
    "seed": Column("integer", "shared by all arms: runs of one seed are compared with each other", required=True),
    "folder": Column("string", "of the run, beside the folder of this file", required=True),
    "status": Column("string", "how the run ended, as completed or diverged; missing: it has no folder", required=True),
    "number": Column("number", "the run's own number, in the metric's units; empty: it has none"),
    "on_scale": Column(
        "number",
        "that number on the scale of the effects, larger is better; a share that is empty counts as 0, unless it is "
        "matched",
    ),
    "config": Column("string", "hash of the part of the run's config that results depend on, its seed included"),
    "code": Column("string", "hash of the code that trained it; of several, in their order, joined by +"),
    "commit": Column("string", "of that code; + at its end: with changes"),
    "machine": Column("string", "what else its bits depend on"),
    "wall_time_s": Column("number", "seconds that it took; runs that trained as one batch share a clock"),
}
CURVE_COLUMNS = {
    "folder": Column("string", "of the run, as in runs", required=True),
    "seed": Column("integer", "of the run", required=True),
    "step": Column("integer", "after so many steps", required=True),
    **{
        unit: Column("integer", f"{unit} that the run had spent by then")
        for unit in ("updates", "completions", "tokens")
    },
    "verdicts": Column("number", "verdicts that the run had asked for by then"),
    "seconds": Column("number", "seconds that the run had taken by then"),
}


def runs_table(
    roles: pd.DataFrame,
    facts: pd.DataFrame,
    numbers: pd.Series,
    tuned: str | None = None,
    own: Mapping[str, Column] | None = None,
) -> Table:
    """Return a row a run: its role in the comparison, its number, and what trained it.

    Args:
        roles: a row a run: `arm`, `best`, `seed`, `folder`, `on_scale`; `condition` where there are several; the tuned
            key where there is one; and what `own` describes.
        facts: the runs that are there, as `SweepData.runs` has them, by `name`. One that is not there is `missing`.
        numbers: of each run that has one, by name.
        tuned: a key of which each arm is trained at several values.
        own: other columns of the roles, as whether a part is on.
    """
    tuned_column = {tuned: Column("number", "value of the tuned key", required=True)} if tuned else {}
    columns = RUN_COLUMNS | tuned_column | dict(own or {})
    known = facts.drop_duplicates("name").set_index("name").reindex(roles["folder"])
    trained = {name: known[name].to_numpy() for name in ("config", "code", "commit", "machine", "wall_time_s")}
    number = numbers.reindex(roles["folder"]).to_numpy()
    rows = roles.assign(status=known["status"].fillna("missing").to_numpy(), number=number, **trained)
    order = dict.fromkeys(("condition", "arm", *(own or {}), *tuned_column, *RUN_COLUMNS))
    key = [name for name in ("condition", "arm", *tuned_column, "seed") if name in rows]
    return Table(rows[[name for name in order if name in rows]], "a row a run", columns, key)


def curves_table(rows: pd.DataFrame) -> Table:
    """Return a row a run and evaluation: `folder, seed, step`, what had been spent by then, and metrics by name."""
    metrics = {name: Column("number", f"the metric {name}") for name in rows if name not in CURVE_COLUMNS}
    return Table(rows, "a row a run and evaluation", CURVE_COLUMNS | metrics, ("folder", "step"), ("folder", "runs"))


def typed(name: str, table: Table) -> pd.DataFrame:
    """Return the rows with the types that are declared.

    Raises:
        AnalysisError: a column without a description, or rows that are not as they are described.
    """
    if strange := [column for column in table.rows if column not in table.columns]:
        raise AnalysisError(f"{name}: nothing says what {', '.join(strange)} is")
    described = {column: table.columns[column] for column in table.rows}
    rows = table.rows.reset_index(drop=True)
    for column, is_ in described.items():
        try:
            rows[column] = rows[column].astype(DTYPES[is_.type])
        except (TypeError, ValueError) as error:
            raise AnalysisError(f"{name}: {column} is no {is_.type}: {error}") from None
        if is_.required and rows[column].isna().any():
            raise AnalysisError(f"{name}: {column} is empty in row {int(rows[column].isna().argmax())}")
        if is_.allowed and (other := {*rows[column].dropna()} - {*is_.allowed}):
            raise AnalysisError(f"{name}: {column} is {min(other)}; allowed: {', '.join(is_.allowed)}")
    if table.key and (twice := rows.duplicated(list(table.key))).any():
        raise AnalysisError(f"{name}: {rows.loc[twice.idxmax(), list(table.key)].to_dict()} is there twice")
    return rows


def resource(file: str, table: Table, content: bytes) -> dict[str, Any]:
    """Describe a table and its file as a resource of a data package."""
    fields = []
    for name in table.rows:
        is_ = table.columns[name]
        constraints = ({"required": True} if is_.required else {}) | ({"enum": [*is_.allowed]} if is_.allowed else {})
        field = {"name": name, "type": is_.type, "description": is_.about}
        fields.append(field | ({"constraints": constraints} if constraints else {}))
    schema: dict[str, Any] = {"fields": fields} | ({"primaryKey": [*table.key]} if table.key else {})
    if table.refers:
        column, other = table.refers
        schema["foreignKeys"] = [{"fields": [column], "reference": {"resource": other, "fields": [column]}}]
    path = Path(file)
    return {
        "name": path.stem,
        "type": "table",
        "path": file,
        "description": table.about,
        "format": path.suffix[1:],
        "mediatype": MEDIA[path.suffix],
        "hash": f"sha256:{sha256(content).hexdigest()}",
        "schema": schema,
    }


def parquet(name: str, table: Table) -> bytes:
    """Return a table as Parquet; its schema says what the table and each column is."""
    import pyarrow as pa  # where a file is written, and nowhere else
    from pyarrow.parquet import write_table

    types = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    described = {column: table.columns[column] for column in table.rows}
    fields = [
        pa.field(column, types[is_.type], nullable=not is_.required, metadata={"description": is_.about})
        for column, is_ in described.items()
    ]
    about = {"name": Path(name).stem, "description": table.about, "license": LICENSE["name"]}
    schema, rows, buffer = pa.schema(fields, metadata=about), typed(name, table), BytesIO()
    columns = [pa.array(rows[field.name], field.type, from_pandas=True) for field in schema]
    write_table(pa.Table.from_arrays(columns, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


def write_kept(
    place: Path, tables: Mapping[str, Table], facts: Mapping[str, Any], card: str, notebook: str | None = None
) -> list[Path]:
    """Write tables, their description, the card and the notebook into a folder that is there; return the files.

    Args:
        place: the folder.
        tables: by file name, `.parquet` or `.csv`.
        facts: what else the description says, beside the standard's keys: `name`, `title`, what was asked, the scale.
        card: see `card_text`.
        notebook: text of a notebook that computes what was printed from these files.
    """
    contents, resources = {}, []
    for file, table in tables.items():
        is_parquet = file.endswith(".parquet")
        contents[file] = parquet(file, table) if is_parquet else csv_text(typed(file, table), index=False).encode()
        resources.append(resource(file, table, contents[file]))
    profile = "https://datapackage.org/profiles/2.0/datapackage.json"
    package = plain({"$schema": profile, **facts, "licenses": [LICENSE], "resources": resources})
    contents[PACKAGE_FILE] = (json.dumps(package, indent=2, ensure_ascii=False) + "\n").encode()
    contents[CARD_FILE] = card.encode()
    contents |= {NOTEBOOK_FILE: notebook.encode()} if notebook else {}
    for name, content in contents.items():
        unlinked(place / name).write_bytes(content)
    return [place / name for name in contents]


def scale_facts(scale: Scale, sign: int) -> dict[str, Any]:
    """Return what a data package says of a scale: its name, its formula, and the numbers in it.

    Args:
        scale: of a run's number.
        sign: 1 where larger numbers are better, −1 where smaller ones are.
    """
    share = "number" if scale.attainable == 1 else f"number / {scale.attainable:g}"
    formula = {
        "log-odds": f"log((m·s + 1/2) / (m − m·s + 1/2)), s = {share}, m = {scale.count:g}",
        "log": "log(number), of at least 0.001",
    }.get(scale.name, "number")
    formula = f"−({formula})" if sign < 0 else formula
    return {"name": scale.name, "formula": formula, "count": scale.count, "attainable": scale.attainable, "sign": sign}


def card_text(title: str, tables: Mapping[str, str], sections: Mapping[str, Sequence[str]]) -> str:
    """Return the card of a folder as Markdown; its first lines tell the Hugging Face Hub which tables there are.

    Args:
        title: of the card.
        tables: the files with what each is; those in Parquet are shown on the Hub.
        sections: paragraphs by heading; those without one come first.
    """
    shown = [name for name in tables if name.endswith(".parquet")]
    configs = [line for name in shown for line in (f"- config_name: {Path(name).stem}", f"  data_files: {name}")]
    head = ["---", f"license: {LICENSE['name'].lower()}", "configs:", *configs, "---"]
    files = "\n".join(f"- `{name}`: {about}" for name, about in tables.items())
    license = f"{LICENSE['title']}, as rlexp, which made these files; change it here and in `{PACKAGE_FILE}`."
    paragraphs = [f"# {title}"]
    for heading, texts in {**sections, "Files": [files], "License": [license]}.items():
        paragraphs += [f"## {heading}"] * bool(heading) + [text for text in texts if text]
    return "\n".join(head) + "\n\n" + "\n\n".join(paragraphs) + "\n"
