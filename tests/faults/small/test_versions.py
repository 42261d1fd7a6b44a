"""Which environments the quick suite runs in; making one takes minutes and is left to the command."""

from tests.faults import versions


def test_every_python_and_both_ends_of_every_bound():
    found = [*versions.places(["python3.11", "/somewhere/python3.13"], apart=False)]
    assert [place.name for place in found] == ["python3.11", "/somewhere/python3.13", "all lowest", "all highest"]
    assert {"hydra-core==1.3.2", "wandb==0.31", "numpy<2.3"} <= {*found[2].wanted}
    assert "hydra-core>=1.3.2,<1.5" in found[3].wanted and "numpy<2.3" not in found[3].wanted


def test_each_package_apart(tmp_path):
    found = [*versions.places(["python3.11"], apart=True)]
    ends = {f"{name} {end}" for name in (*versions.VARIED, "all") for end in ("lowest", "highest")}
    assert {place.name for place in found[1:]} == ends
    lowest = next(place for place in found if place.name == "hydra-core lowest")
    assert lowest.wanted == ("hydra-core==1.3.2",)
    lines = versions.constraints(lowest, tmp_path).read_text().splitlines()
    assert "hydra-core==1.3.2" in lines and not any(line.startswith("omegaconf==") for line in lines)
    assert any(line.startswith("torch==") for line in lines)


def test_an_environment_that_cannot_be_made_is_a_finding(tmp_path):
    result = versions.run(versions.Place("none", "/no/such/python"), tmp_path / "x", ["tests"])
    assert result["exit_code"] == 127 and result["ended"] == "venv"
