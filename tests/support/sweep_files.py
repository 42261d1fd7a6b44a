"""What a sweep leaves behind, read back."""

import json


def rows(folder):
    return [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]


def untimed(path):
    """Read a run's metrics without what no two runs share."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]
