"""Conditions whose names do not fit beside a figure are named by what tells them apart."""

from hypothesis import given
from hypothesis import strategies as st

from rlexp.analysis.report.question import told_apart

OF_A_TASK = {"countdown": "task=countdown", "sort": "task=sort,task.cap=16"}


def test_what_tells_nothing_more_is_left_out():
    names = {
        (task, start): f"{OF_A_TASK[task]},start.accuracy={start},lr=1" for task in OF_A_TASK for start in (0.1, 0.3)
    }
    assert told_apart([*names.values()]) == {
        name: f"task={task},start.accuracy={start}" for (task, start), name in names.items()
    }


def test_a_key_that_comes_first_tells_first():
    names = ["start=a,width=1", "start=b,width=2"]
    assert [*told_apart(names, ["width"]).values()] == ["width=1", "width=2"]


def test_brackets_hold_their_commas():
    assert [*told_apart(["layers=[1,2],steps=2", "layers=[1,3],steps=2"]).values()] == ["layers=[1,2]", "layers=[1,3]"]


keys = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), max_size=4)


@given(st.lists(keys, unique_by=lambda each: tuple(sorted(each.items())), max_size=6))
def test_different_conditions_keep_different_names(conditions):
    names = [",".join(f"{key}={value}" for key, value in each.items()) for each in conditions]
    assert len({*told_apart(names).values()}) == len(names)
