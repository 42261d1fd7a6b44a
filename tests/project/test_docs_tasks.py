"""Pages of tasks and docs/dynamics.md: what stands between their marks is what the stored files say."""

import json
from pathlib import Path

import pytest

from benchmarks import dynamics, tasks
from benchmarks.parts.common import between

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_tasks_page_says_what_was_measured(name):
    page, found = (DOCS / f"{name}.md").read_text("utf-8"), json.loads((DOCS / f"tasks/{name}.json").read_text("utf-8"))
    assert between(page, "python -m benchmarks.tasks", tasks.section(name, found)) == page
    assert len(found["samples"]) >= 10 and (DOCS / f"tasks/{name}.svg").is_file()


@pytest.mark.parametrize("name", [name for name in dynamics.SWEEPS if (DOCS / f"dynamics/{name}.json").is_file()])
def test_the_page_of_dynamics_says_what_was_measured(name):
    page = (DOCS / "dynamics.md").read_text("utf-8")
    found = json.loads((DOCS / f"dynamics/{name}.json").read_text("utf-8"))
    tables = {metric: each["table"] for metric, each in found["compared"].items()}
    assert list(tables) == dynamics.SWEEPS[name].metrics
    text = dynamics.section(name, found["command"], tables)
    assert between(page, f"python -m benchmarks.dynamics --only {name}", text) == page
    assert all((DOCS / "dynamics" / dynamics.figure_of(name, metric)).is_file() for metric in tables)
