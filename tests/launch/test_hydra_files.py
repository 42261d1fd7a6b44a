"""`.hydra/` says how Hydra was called: no run needs it to train, and that of a run that has ended is left alone."""

import os

import pytest
from command import command  # noqa: F401 (a fixture)
from engine_double import engine_of  # noqa: F401 (a fixture)

from rlexp.analysis.data.load import load
from rlexp.api import train
from rlexp.record.disk import Recorder

pytestmark = pytest.mark.slow  # whole commands

FILES = ["config.yaml", "hydra.yaml", "overrides.yaml"]
RUN = "seed=0"
MODES = {
    "single": (["seed=0", "hydra.run.dir=x/seed=0"], "note: "),
    "sweep": (["-m", "seed=0", "hydra.sweep.dir=x"], ""),
}


def loop(path):
    path.symlink_to(path.name)


FAULTS = {
    "a file that is a loop of links": (lambda folder: [folder.mkdir(), loop(folder / "hydra.yaml")], "hydra.yaml"),
    "a folder in place of a file": (lambda folder: (folder / "config.yaml").mkdir(parents=True), "config.yaml"),
    "a loop of links": (loop, "config.yaml"),
    "a file in its place": (lambda folder: folder.touch(), "config.yaml"),
}


@pytest.fixture
def place(tmp_path):
    """The folder that the run will have."""
    folder = tmp_path / "x" / RUN
    folder.mkdir(parents=True)
    return folder


def completed(job):
    """Train as an engine would, without training."""
    config = job.config.model_dump(mode="json")
    Recorder(job.folder, config, {}).finish("completed", score=0.5, steps=0)
    return 0.5


@pytest.mark.slow  # whole sweeps
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_run_trains_and_a_line_names_the_file(command, place, engine_of, mode, fault):  # noqa: F811
    batches, (words, before) = engine_of(completed), MODES[mode]
    act, name = FAULTS[fault]
    act(place / ".hydra")
    result = command(*words)
    assert result.code == 0 and batches == [[RUN]], result.err
    said = [line for line in result.err.splitlines() if ".hydra" in line]
    if mode == "sweep" and name == "hydra.yaml":  # a link is replaced
        assert said == [] and sorted(os.listdir(place / ".hydra")) == FILES
        return
    (line,) = said
    assert f"{place / '.hydra' / name} cannot be written (" in line and line.startswith(before)
    assert line.endswith("): the run is trained without it")
    assert load(place.parent).runs["status"].tolist() == ["completed"]


def test_the_api_trains_too(place, engine_of, capsys):  # noqa: F811
    engine_of(completed)
    loop(place / ".hydra")
    train("seed=0", folder=place)
    assert f"note: {place / '.hydra' / 'config.yaml'} cannot be written (" in capsys.readouterr().err


def test_links_out_of_the_folder_are_refused(command, place, engine_of, tmp_path):  # noqa: F811
    engine_of(completed)
    (tmp_path / "mine").write_text("of somebody")
    for words, _ in MODES.values():
        (place / ".hydra").mkdir(exist_ok=True)
        (place / ".hydra" / "config.yaml").unlink(missing_ok=True)
        (place / ".hydra" / "config.yaml").symlink_to(tmp_path / "mine")
        refused = command(*words, "resume=failed")
        assert refused.code == 2 and ".hydra/config.yaml is a link to another folder" in refused.err
        assert (tmp_path / "mine").read_text() == "of somebody"


@pytest.mark.slow  # whole sweeps
@pytest.mark.parametrize("mode", MODES)
def test_those_of_a_run_that_has_ended_stay_as_they_are(command, place, engine_of, mode):  # noqa: F811
    engine_of(completed)
    assert command(*MODES[mode][0]).code == 0
    before = {name: (place / ".hydra" / name).read_text() for name in FILES}
    times = {name: (place / ".hydra" / name).stat().st_mtime_ns for name in FILES}
    assert command(*MODES[mode][0], "threads=1").code == 0
    assert {name: (place / ".hydra" / name).read_text() for name in FILES} == before
    assert {name: (place / ".hydra" / name).stat().st_mtime_ns for name in FILES} == times
    (place / "summary.json").unlink()
    assert command(*MODES[mode][0], "threads=1").code == 0
    assert "threads=1" in (place / ".hydra" / "overrides.yaml").read_text()
