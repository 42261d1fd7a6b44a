"""Croissant metadata of a data set, which search engines and data loaders read.

Source: the MLCommons Croissant format, version 1.0 (https://docs.mlcommons.org/croissant/docs/croissant-spec.html).
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.analysis.report.kept_files import LICENSE, MEDIA, Table

TYPES = {"string": "sc:Text", "integer": "sc:Integer", "number": "sc:Float", "boolean": "sc:Boolean"}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(
    name: str, about: str, tables: Mapping[str, Table], contents: Mapping[str, bytes], published: str, url: str | None
) -> dict[str, Any]:
    """Describe tables and their files.

    Args:
        name: of the data set.
        about: what it is, in a sentence or more.
        tables: by file name.
        contents: bytes of these files.
        published: the day, as 2026-11-27.
        url: where it is found; None where nobody knows yet.
    """
    files = [
        {
            "@type": "cr:FileObject",
            "@id": file,
            "name": file,
            "contentUrl": file,
            "contentSize": f"{len(contents[file])} B",
            "encodingFormat": MEDIA[Path(file).suffix].replace("vnd.apache.parquet", "x-parquet"),
            "sha256": sha256(contents[file]).hexdigest(),
        }
        for file in tables
    ]
    found = {"@context": CONTEXT, "@type": "sc:Dataset", "name": name, "description": about}
    found |= {"conformsTo": "http://mlcommons.org/croissant/1.0", "license": LICENSE["path"], "version": "1.0.0"}
    found |= {"datePublished": published, "creator": {"@type": "sc:Organization", "name": "users of rlexp"}}
    found |= {"citeAs": f"{name}, runs trained with rlexp"} | ({"url": url} if url else {})
    return found | {"distribution": files, "recordSet": [records(file, table) for file, table in tables.items()]}


def records(file: str, table: Table) -> dict[str, Any]:
    """Describe the rows of a table, a field a column."""
    stem = Path(file).stem
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{stem}/{column}",
            "name": f"{stem}/{column}",
            "description": table.columns[column].about,
            "dataType": TYPES[table.columns[column].type],
            "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
        }
        for column in table.rows
    ]
    key = {"key": [{"@id": f"{stem}/{column}"} for column in table.key]} if table.key else {}
    return {"@type": "cr:RecordSet", "@id": stem, "name": stem, "description": table.about} | key | {"field": fields}
