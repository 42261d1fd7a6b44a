"""rlexp doctor: what it prints, and that it finds bits that do not hold."""

import sys

import pytest
import torch
from schemas import check_schema

from rlexp import doctor
from rlexp.core import exact


@pytest.fixture(autouse=True)
def nothing_tried(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rlexp"])
    yield
    exact.PATHS.clear()


@pytest.mark.slow
def test_it_says_what_is_here_and_that_bits_hold(capsys):
    with pytest.raises(SystemExit) as end:
        doctor.main()
    said = " ".join(capsys.readouterr().out.split())
    assert not end.value.code
    assert f"PyTorch {torch.__version__}" in said and "MKL_CBWR=" in said
    assert said.count("alone = together (") == len(doctor.CONFIGS)
    assert "extra test" in said and "processor" in said and "GPU" in said


@pytest.mark.slow
def test_json_has_what_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rlexp doctor", "--json"])
    monkeypatch.setattr(doctor, "CONFIGS", {"gru": doctor.CONFIGS["gru"]})
    with pytest.raises(SystemExit) as end:
        doctor.main()
    found = check_schema("doctor", capsys.readouterr().out)
    assert not end.value.code and found["holds"] and found["bits"]["gru"].startswith("alone = together")
    assert found["packages"]["torch"] == torch.__version__ and "ray" in found["extras"]


@pytest.mark.slow
def test_it_names_the_metrics_whose_bits_do_not_hold(monkeypatch):
    monkeypatch.setattr(exact, "holds", lambda *_: True)
    bmm, matmul = torch.bmm, torch.matmul
    monkeypatch.setattr(torch, "bmm", lambda x, weight: bmm(x, weight) * (1 + 1e-6 * (len(x) == 1)))
    monkeypatch.setattr(torch, "matmul", lambda x, weight: matmul(x, weight) * (1 + 1e-6 * (len(x) == 1)))
    name, said = doctor.check_bits("transformer")
    assert name == "transformer" and said.startswith("alone ≠ together: ") and "policy/entropy" in said


def test_an_extra_that_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: None if name == "ray" else "1.0")
    extras = dict(text.split(maxsplit=1) for name, text in doctor.packages() if name == "extra")
    assert extras["ray"] == "pip install 'rlexp[ray]'" and extras["slurm"] == "submitit 1.0"


def test_other_words_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rlexp doctor", "all"])
    with pytest.raises(SystemExit) as end:
        doctor.main()
    assert end.value.code == 2 and "usage: rlexp doctor" in capsys.readouterr().err
