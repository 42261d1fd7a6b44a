"""Laws of judges: votes at their rates, ties as told, what more votes cure and what they do not."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from axis_choices import bind
from scipy import stats

from rlexp.axes.reward import MOST, NUMBERS, optimal_weight, probability_right, verdict, vote
from rlexp.core.streams import Purpose, uniforms

MANY = 200_000
SURE = 4.5  # deviations of a share: one test in 150,000 fails by chance, and the numbers are always the same
VALUES = torch.tensor([-1.0, 0.0, 1.0])
JUDGES = ("prm", "prm_binary", "prm_persistent", "prm_length", "prm_position")


def luck(count=MANY):
    """Numbers of votes ``[1 count/4 4 N]`` from the stream of training."""
    return uniforms([5], Purpose.VOTES, 1, (count // 4, 4, NUMBERS))


def judged(name, truth=1.0, count=MANY, **hyperparameters):
    """Verdicts about completions of equal quality and length 10."""
    choice, draws = bind("reward", name, **hyperparameters), luck(count)
    offered = dict.fromkeys(("quality", "lengths", "correct"), torch.full(draws.shape[:-1], truth))
    offered |= {"vote_draws": draws, "vote_hashes": draws, "lengths": torch.full(draws.shape[:-1], 10.0)}
    return choice(*(offered[name] for name in choice.needs))


def check_share(found, probability):
    """Whether a share of many is within the deviations of chance."""
    count = found.numel()
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert found.double().mean().item() == pytest.approx(probability, abs=SURE * deviation + 1e-12)


# ---- the majority of a group


@pytest.mark.parametrize(
    ("said", "ended", "rewards"),
    [
        ("ab ab cd ef", "1111", [1, 1, 0, 0]),
        ("cd ab ab cd", "1111", [1, 0, 0, 1]),  # as many: the first sampled
        ("ab ab cd cd", "0011", [0, 0, 1, 1]),  # what was cut off has no vote
        ("ab ab ab cd", "1001", [1, 0, 0, 0]),
        ("ab ab ab ab", "0000", [0, 0, 0, 0]),
        ("ab abx ab abx", "1111", [1, 0, 1, 0]),  # a longer one is another one
    ],
)
def test_what_a_group_says_most_often_is_rewarded(said, ended, rewards):
    words = [list(map(ord, word)) for word in said.split()]
    mask = torch.tensor([[place < len(word) for place in range(3)] for word in words])
    for padding in (0, ord("x")):
        completions = torch.tensor([(word + 3 * [padding])[:3] for word in words])
        finished = torch.tensor([each == "1" for each in ended])
        lengths = mask.sum(-1).float()
        found = bind("reward", "majority")(completions[None], mask[None], finished[None], lengths[None])
        assert found.tolist() == [rewards]


# ---- votes


@pytest.mark.parametrize("truth", [-1.0, 0.0, 1.0])
def test_a_vote_is_right_at_its_accuracy_and_each_error_as_likely(truth):
    votes = vote(torch.full((1, MANY // 4, 4), truth), luck(), [0.7, 0.2], VALUES)
    assert votes.shape[-1] == 2
    for judge, accuracy in enumerate([0.7, 0.2]):
        for place, value in enumerate(VALUES.tolist()):
            check_share(votes[..., judge] == place, accuracy if value == truth else (1 - accuracy) / 2)


def test_two_votes_on_a_completion_err_independently():
    wrong = vote(torch.ones(1, MANY // 4, 4), luck(), [0.7, 0.7], VALUES) != 2
    check_share(wrong.all(-1), 0.09)


def test_the_first_votes_of_eleven_are_those_of_five_and_the_tie_is_drawn_apart():
    truth = torch.ones(1, 25, 4)
    few, many = (vote(truth, luck(100), [0.5] * m, VALUES) for m in (5, 11))
    assert torch.equal(few, many[..., :5])
    changed = luck(100)
    changed[..., MOST:] = 0.5
    assert torch.equal(few, vote(truth, changed, [0.5] * 5, VALUES))


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_without_errors_and_bias_gives_the_quality(name):
    for ties in ("first", "random", "neutral"):
        hyperparameters = dict(accuracy=1.0, votes=3, ties=ties)
        hyperparameters |= {"bias": 0.0} if name.endswith(("length", "position")) else {}
        hyperparameters |= {"cap": 16} if name == "prm_length" else {}
        assert judged(name, 1.0, 400, **hyperparameters).eq(1).all(), ties
        assert judged(name, 0.0, 400, **hyperparameters).eq(-1.0 if name == "prm_binary" else 0.0).all(), ties


def test_the_smallest_and_the_largest_number_of_a_stream_give_a_vote():
    ends = torch.tensor([0.0, 1 - 2.0**-24]).view(1, 1, 2, 1).expand(1, 1, 2, NUMBERS)
    for accuracy in (0.0, 0.3, 1.0):
        votes = vote(torch.zeros(1, 1, 2), ends, [accuracy] * 3, VALUES)
        assert votes.min() >= 0 and votes.max() <= 2


# ---- ties


def decided(votes, ties, weights=None, tie=0.99):
    """Decide one completion's votes, given as values."""
    places = torch.tensor(votes).view(1, 1, 1, -1) + 1
    numbers = torch.zeros(1, 1, 1, NUMBERS)
    numbers[..., -1] = tie
    return verdict(places, numbers, weights or [1.0] * len(votes), VALUES, ties).item()


@pytest.mark.holds("S1.8", "E12")
@pytest.mark.parametrize(("ties", "expected"), [("first", 1), ("neutral", 0)], ids=["as the notebook", "neutral"])
def test_s1_8_a_tie_makes_a_bad_response_good_if_the_first_vote_wins(ties, expected):
    """1B-12: votes [1, −1, −1, 0, 1] of the notebook's last trial."""
    assert decided([1, -1, -1, 0, 1], ties) == expected


def test_a_tie_is_drawn_from_those_that_tie():
    assert [decided([1, -1, -1, 0, 1], "random", tie=luck) for luck in (0.0, 0.49, 0.5, 0.99)] == [-1, -1, 1, 1]
    assert [decided([1, -1, 0], "random", tie=luck) for luck in (0.3, 0.34, 0.67)] == [-1, 0, 1]


@pytest.mark.holds("S1.3")
@pytest.mark.parametrize("ties", ["first", "random", "neutral"])
def test_s1_3_the_mode_of_the_votes(ties):
    assert decided([1, 1, -1, 1, 0], ties) == 1


def test_which_of_the_tied_is_first_is_fair_on_average():
    """The order of votes is exchangeable: the notebook's rule has the rate of fair ties."""
    check_share(judged("prm", accuracy=0.7, votes=5, ties="first") == 1, probability_right(0.7, 5))


# ---- how often a plurality is right (S1.2, S1.9)

TABLE = {1: 0.700, 3: 0.8155, 5: 0.88653, 7: 0.93474, 9: 0.96081, 11: 0.97604, 15: 0.99125, 21: 0.99798}
STRICT = {3: 0.784, 5: 0.83692, 7: 0.91043, 9: 0.94714}
BINARY = {3: 0.784, 5: 0.83692, 7: 0.87396, 9: 0.90119, 11: 0.92178, 15: 0.95, 21: 0.97361}


@pytest.mark.holds("S1.9")
@pytest.mark.parametrize(("votes", "expected"), TABLE.items())
def test_s1_9_plurality_with_fair_ties(votes, expected):
    assert probability_right(0.7, votes) == pytest.approx(expected, abs=6e-6)
    check_share(
        judged("prm", accuracy=0.7, votes=votes, ties="random", truth=-1.0) == -1, probability_right(0.7, votes)
    )


@pytest.mark.parametrize(("votes", "expected"), STRICT.items())
def test_s1_9_strict_plurality(votes, expected):
    assert probability_right(0.7, votes, tie=0.0) == pytest.approx(expected, abs=6e-6)
    check_share(judged("prm", accuracy=0.7, votes=votes, ties="neutral") == 1, probability_right(0.7, votes, tie=0.0))


@pytest.mark.parametrize(("votes", "expected"), BINARY.items())
def test_s1_9_binary_majority_is_condorcets_sum(votes, expected):
    exact = probability_right(0.7, votes, values=2)
    assert exact == pytest.approx(expected, abs=1.3e-5)  # that of 15 is printed as .95 and is .949987
    assert exact == pytest.approx(stats.binom.sf(votes // 2, votes, 0.7), abs=1e-12)
    check_share(judged("prm_binary", accuracy=0.7, votes=votes, ties="first") == 1, exact)


@pytest.mark.holds("S1.2")
def test_s1_2_the_answer_of_the_question_is_that_of_two_values():
    """70 %, five votes: 83.7 % is a majority of two values; the code has three and 88.7 %."""
    assert (round(probability_right(0.7, 5, values=2), 5), round(probability_right(0.7, 5), 5)) == (0.83692, 0.88653)


def test_the_sum_over_counts_is_that_over_all_sequences_of_votes():
    right = 0.0
    for votes in product(range(3), repeat=4):  # 0 is the truth
        probability = math.prod(0.5 if each == 0 else 0.25 for each in votes)
        best = [value for value in range(3) if votes.count(value) == max(map(votes.count, range(3)))]
        right += probability * (0 in best) / len(best)
    assert probability_right(0.5, 4) == pytest.approx(right, abs=1e-15)


# ---- weights


@pytest.mark.holds("S1.27")
def test_s1_27_weights_are_log_odds():
    assert optimal_weight(0.7, 2) == pytest.approx(math.log(7 / 3))
    assert optimal_weight(0.7, 3) == pytest.approx(math.log(14 / 3))
    assert optimal_weight(1 / 3, 3) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("ternary", [True, False])
def test_optimal_weights_are_right_as_often_as_bayes_and_oftener_than_equal_ones(ternary):
    accuracies, values = [0.9, 0.6, 0.6, 0.55], 3 if ternary else 2
    name, others = ("prm_weighted", "") if ternary else ("prm_weighted_binary", "_binary")
    found = judged(name, accuracies=accuracies, ties="random") == 1
    best = 0.0  # Σ over votes of the largest likelihood, with equal priors: what Bayes' rule is right about
    for votes in product(range(values), repeat=len(accuracies)):
        likelihoods = [
            math.prod(a if each == value else (1 - a) / (values - 1) for each, a in zip(votes, accuracies, strict=True))
            for value in range(values)
        ]
        best += max(likelihoods) / values
    check_share(found, best)
    equal = vote(torch.ones(1, MANY // 4, 4), luck(), accuracies, VALUES if ternary else VALUES[[0, 2]])
    plain = verdict(equal, luck(), [1.0] * 4, VALUES if ternary else VALUES[[0, 2]], "random") == 1
    assert others in name and found.double().mean() > plain.double().mean() + 0.01


# ---- what is shared by all votes


@pytest.mark.holds("S1.25")
@pytest.mark.parametrize("name", ["prm_length", "prm_position"])
@pytest.mark.parametrize("votes", [1, MOST])
def test_more_votes_do_not_cure_a_bias(name, votes):
    """Of bad completions: the length has 10 of 20 tokens, places of a group of four have 1, 2/3, 1/3, 0 of the bias."""
    hyperparameters = dict(accuracy=0.9, votes=votes, ties="random", bias=0.6) | (
        {"cap": 20} if name == "prm_length" else {}
    )
    good = judged(name, -1.0, **hyperparameters) == 1
    fair = judged("prm", -1.0, accuracy=0.9, votes=votes, ties="random") == 1
    for place in range(4):
        bias = 0.3 if name == "prm_length" else 0.6 * (1 - place / 3)
        check_share(good[..., place], bias + (1 - bias) * fair[..., place].double().mean().item())
