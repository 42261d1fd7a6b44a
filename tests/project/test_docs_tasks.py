"""Pages of tasks: what stands between their marks is what the stored files say."""

import json
from pathlib import Path

import pytest

from benchmarks import tasks
from benchmarks.parts.common import between

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_tasks_page_says_what_was_measured(name):
    page, found = (DOCS / f"{name}.md").read_text("utf-8"), json.loads((DOCS / f"tasks/{name}.json").read_text("utf-8"))
    assert between(page, "python -m benchmarks.tasks", tasks.section(name, found)) == page
    assert len(found["samples"]) >= 10 and (DOCS / f"tasks/{name}.svg").is_file()
