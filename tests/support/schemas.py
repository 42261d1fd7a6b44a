"""What `--json` prints against the schema of its command."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMAS = {path.name.removesuffix(".schema.json"): path for path in ROOT.glob("[ar]*/**/*.schema.json")}


def check_schema(name: str, printed: str) -> dict:
    """Return what was printed; it is one document, as the schema of that name says."""
    schema, found = json.loads(SCHEMAS[name].read_text("utf-8")), json.loads(printed)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(found)
    return found
