"""A checkpoint names the files of its own folder only."""

import pytest

pytest.importorskip("transformers")

from rlexp.backends.trl.run import damage  # noqa: E402


@pytest.mark.parametrize("name", ["../../mine", "{}/mine", "a/../../mine"])
def test_a_model_that_lies_elsewhere_is_none(tmp_path, name):
    (tmp_path / "mine").write_text("x")
    folder = tmp_path / "run" / "model"
    folder.mkdir(parents=True)
    assert damage(folder, {name.format(tmp_path): "digest"}) == f"{folder} is not in the run's own folder"
    assert damage(folder / ".." / ".." / "mine", {}).endswith("is not in the run's own folder")
    assert damage(folder, {}) is None
