"""The level of each of a stream of tests, so that at most alpha of all streams have a false finding.

The rule is the fallback procedure (Wiens, 2003; as an online rule Tian and Ramdas, arXiv 1910.04900, section 2): each
test has an equal share of alpha, and one that rejects hands its level on to the next. The error is that of a family,
whatever the dependence of the tests. A test must be chosen without its result: whoever looks at sixty-four differences
and asks about the largest has asked sixty-four questions.
"""

from collections.abc import Sequence


def next_level(rejected: Sequence[bool], questions: int, alpha: float) -> float:
    """Return the level of the test that comes next; 0 where nothing is left.

    Args:
        rejected: whether each test so far rejected its null hypothesis.
        questions: how many tests share alpha.
        alpha: the share of streams that may have a false rejection.
    """
    handed_on = 0.0
    for number, each in enumerate(rejected):
        handed_on = share(number, questions, alpha) + handed_on if each else 0.0
    return share(len(rejected), questions, alpha) + handed_on


def share(number: int, questions: int, alpha: float) -> float:
    """Return what test `number`, from 0, has of alpha by itself."""
    return alpha / questions if number < questions else 0.0
