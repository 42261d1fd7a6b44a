"""The comparison of two revisions' steps: they take turns, and what counts is the quotient of neighbours."""

import pytest

from benchmarks import revisions


def test_revisions_take_turns_and_neighbours_are_compared():
    asked = []

    class Double:
        def __init__(self, name, factor):
            self.name, self.factor = name, factor

        def ask(self, request, *given):
            asked.append((self.name, request, *given))
            return self.factor * len([name for name, *_ in asked if name == self.name])  # the machine slows down

    seconds = revisions.measure("10 runs, 2 threads", 4, {"old": Double("old", 1.0), "new": Double("new", 0.5)})
    assert asked[:2] == [("old", "build", 10, (), 2), ("new", "build", 10, (), 2)]
    assert [name for name, *_ in asked[2:]] == ["new", "old", "old", "new"] * 2
    assert {tuple(rest) for _, *rest in asked[2:]} == {("train", 3, 2)}
    assert revisions.interval(revisions.ratios(seconds["new"], seconds["old"])) == "0.500 [0.500, 0.500]"


def test_an_interval_holds_its_median():
    centre, low, high = (float(word.strip("[],")) for word in revisions.interval([0.9, 1.0, 1.4, 1.1, 0.8]).split())
    assert (centre, low, high) == (1.0, 0.8, 1.4)


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--pairs", "0"], ["--old", "no-such-revision"]])
def test_bad_input_is_one_line(monkeypatch, capsys, arguments):
    monkeypatch.setattr("sys.argv", ["revisions", *arguments])
    with pytest.raises(SystemExit) as end:
        revisions.main()
    assert end.value.code == 2 and capsys.readouterr().err.count("\n") == 1
