"""What a sweep leaves behind, read back."""

import json

from rlexp.runfolder.rows import without_clock


def rows(folder):
    return [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]


def untimed(path):
    """Read a run's metrics without what no two runs share."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [without_clock(line) for line in lines]
