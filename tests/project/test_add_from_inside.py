"""A metric, a figure and a backend, added in a copy of the project in the places that docs/architecture.md names."""

import json

import pytest
from project_copy import Copy
from small_runs import SHORT, SMALL

pytestmark = pytest.mark.rare  # a guide
METRIC = '    row["reward/median"] = rewards.total.flatten(1).nanmedian(-1).values\n'
AFTER = '    row["reward/shaped"] = mean(shaped, ~shaped.isnan(), BATCH)\n'
BACKEND = '''"""Trains runs one after another in our own loop."""

from rlexp.sweep import engine


def train_jobs(jobs, *shown):
    return [result for job in jobs for result in engine.train_jobs([job], *shown)]
'''
SETTINGS = '''
@dataclass(frozen=True, kw_only=True)
class OneByOne:
    """Our own loop, a run at a time."""


BACKENDS["one_by_one"] = OneByOne
CAPABILITIES["one_by_one"] = CAPABILITIES["replicas"]
'''


FIGURE = """from rlexp.analysis.figures.inputs import NoData


def draw_means(inputs):
    raise NoData("a test draws nothing")
"""
ENTRY = """
from rlexp.analysis.figures.means import draw_means

FIGURES["means"] = Entry(RESULTS, "Means", draw_means)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("project"))
    copy.replace("rlexp/loop/metrics.py", AFTER, AFTER + METRIC)
    copy.append("rlexp/backends/one_by_one.py", BACKEND)
    copy.append("rlexp/backends/dispatch.py", 'TRAINERS["one_by_one"] = "rlexp.backends.one_by_one"\n')
    copy.append("rlexp/language/backend.py", SETTINGS)
    copy.append("conf/backend/one_by_one.yaml", "# Our own loop, a run at a time.\nname: one_by_one\n")
    copy.append("analysis/figures/means.py", FIGURE)
    copy.append("analysis/figures/gallery.py", ENTRY)
    words = ["backend=replicas,one_by_one", "seed=0,1", *SHORT, *SMALL, "hydra.sweep.dir=sweep"]
    sweep = copy.run("rlexp.train", "-m", *words)
    assert sweep.returncode == 0, sweep.stderr
    return copy


def rows(copy: Copy, backend: str) -> list[dict]:
    (run,) = copy.folder.glob(f"sweep/backend={backend},*seed=1*")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def test_a_backend_trains_and_has_a_help_text(copy):
    assert rows(copy, "one_by_one") == rows(copy, "replicas")
    assert "Our own loop, a run at a time." in copy.run("rlexp", "explain", "backend").stdout
    refused = copy.run("rlexp.train", "backend=one_by_one", "model=pretrained")
    assert refused.returncode == 2 and "backend=one_by_one has" in refused.stderr


def test_a_metric_is_logged_and_compared(copy):
    assert all("reward/median" in row for row in rows(copy, "replicas")[1:])
    compared = copy.run("rlexp", "compare", "sweep", "--metric", "reward/median")
    assert compared.returncode == 0 and "reward/median" in compared.stdout, compared.stderr


def test_a_figure_is_asked_for_with_the_others(copy):
    assert "left out: Means: a test draws nothing" in copy.run("rlexp", "report", "sweep").stdout
