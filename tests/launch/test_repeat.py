"""`rlexp --from <folder>` repeats a run from its config.yaml, whoever wrote it, and executes nothing of the file."""

import json

import pytest
import yaml
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, rows

from rlexp.runfolder.files import CONFIG_FILE
from rlexp.sweep import training

TINY = [*SHORT, *SMALL, "model=gru", "model.hidden=6", "norm=center"]


@pytest.fixture
def source(command, tmp_path):  # noqa: F811
    """Return the folder of a run, as it is typed."""
    assert command(*TINY, "hydra.run.dir=first/center").code == 0
    return "first/center"


def rewritten(folder, **values):
    """Write a config.yaml as somebody else would."""
    config = yaml.safe_load((folder / CONFIG_FILE).read_text())
    config.pop("format", None)
    (folder / CONFIG_FILE).write_text(yaml.safe_dump(config | values))


@pytest.mark.slow
def test_a_run_is_repeated_bit_by_bit_into_a_new_folder(command, tmp_path, source):  # noqa: F811
    done = command("--from", source)
    score, folder = done.out.splitlines()
    assert done.code == 0 and score.startswith("eval/") and folder.startswith("runs/") and folder.endswith("/center")
    assert rows(tmp_path / folder) == rows(tmp_path / source)
    first, second = (json.loads((tmp_path / place / "summary.json").read_text()) for place in (source, folder))
    assert [second[key] for key in ("variant", "seed", "score")] == [first[key] for key in ("variant", "seed", "score")]
    assert "completed" in (tmp_path / folder / "train.log").read_text()
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_it_is_checked_like_any_run(command, tmp_path, source, monkeypatch):  # noqa: F811
    same = command(f"--from={source}", f"hydra.run.dir={source}")
    assert same.code == 0 and "finished already: skipped" in same.err and same.out.endswith(f"{source}\n")
    never = command("--from", source, f"hydra.run.dir={source}", "resume=never")
    assert never.code == 2 and "holds a run already" in never.err
    assert command(*TINY, "lr=0.5", "hydra.run.dir=other").code == 0
    other = command("--from", source, "hydra.run.dir=other")
    assert other.code == 2 and "holds a run with another config (lr: 0.5 there, 0.001 here)" in other.err
    (tmp_path / "file").touch()
    assert "is not a folder" in command("--from", source, "hydra.run.dir=file/x").err

    def stopping(state, now, measure):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_step", stopping)
    stopped = command("--from", source, "hydra.run.dir=again")
    assert (
        stopped.code == 130 and f"go on with: python -m rlexp.train --from {source} hydra.run.dir=again" in stopped.err
    )


@pytest.mark.slow
def test_nothing_of_the_file_is_executed_or_looked_up(command, tmp_path, source, monkeypatch):  # noqa: F811
    monkeypatch.setenv("SECRET", "told")
    rewritten(tmp_path / source, baseline="${oc.env:SECRET}")
    assert command("--from", source, "hydra.run.dir=text").code == 0
    text = (tmp_path / "text" / CONFIG_FILE).read_text()
    assert "${oc.env:SECRET}" in text and "told" not in text
    rewritten(tmp_path / source, hydra={"callbacks": {"x": {"_target_": "os.system", "command": "touch ran"}}})
    refused = command("--from", source)
    assert refused.code == 2 and "hydra" in refused.err and len(refused.err.splitlines()) == 1
    rewritten(tmp_path / source, norm={"_target_": "os.system", "name": "center"})
    assert command("--from", source).code == 2 and not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--config-path", "-cp", "--config-p", "--config-name"])
def test_the_former_way_names_this_one(command, tmp_path, source, option):  # noqa: F811
    for arguments in ([option, source], [f"{option}={source}"], [option, source, "--config-name", "config"]):
        done = command(*arguments)
        assert done.code == 2 and "no other config is read" in done.err
        assert f"rlexp --from {source}" in done.err and len(done.err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]


@pytest.mark.slow
def test_a_changed_config_is_refused_unless_its_seal_is_taken_off(command, tmp_path, source):  # noqa: F811
    path = tmp_path / source / CONFIG_FILE
    lines = path.read_text().replace("lr: 0.001\n", "lr: 0.002\n").splitlines(keepends=True)
    path.write_text("".join(lines))
    refused = command("--from", source)
    assert refused.code == 2 and "config.yaml is damaged" in refused.err and "read without the lines" in refused.err
    path.write_text("".join(lines[1:-1]))
    done = command("--from", source)
    assert done.code == 0 and rows(tmp_path / done.out.splitlines()[1]) != rows(tmp_path / source)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--from"], "--from: names no folder"),
        (["--from", "nowhere"], "nowhere is not the folder of a run: it has no config.yaml"),
        (["--from", "nowhere", "norm=local"], "norm=local: --from repeats a run as it was"),
        (["-m", "--from", "nowhere"], "-m: --from repeats a run as it was"),
        (["--from", "-m"], "--from: names no folder"),
    ],
)
def test_what_makes_no_sense_is_one_line(command, arguments, line):  # noqa: F811
    done = command(*arguments)
    assert done.code == 2 and done.err.startswith(line) and len(done.err.splitlines()) == 1
