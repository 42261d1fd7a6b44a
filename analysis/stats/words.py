"""From the effects of conditions to one word for an assertion, by a rule that is fixed before any study.

An assertion says of one effect, on its scale and with + as claimed, that it is superior (above 0, by about δ or more),
equivalent (within ±δ) or not inferior (above −δ). δ is the smallest effect that counts. The effects of its conditions
are pooled (`pooling.py`), and one interval [L, U] of the pooled effect says the word. The lines of a kind are tried
from top to bottom:

superior      no material effect     −δ/10 < L and U < δ/10
              contradicted           U < 0
              no material effect     −δ < L ≤ 0 and U < δ
              smaller than claimed   0 < L and U < δ
              supported              0 < L
equivalent    supported              −δ < L and U < δ
              contradicted           L ≥ δ or U ≤ −δ
not inferior  supported              −δ < L
              contradicted           U < −δ
all           open                   none of these, or fewer than half of the redraws (below) say the same word
              cannot answer          more than a third of the conditions fail a check, or none is left

The interval has 95 %; that of equivalence 90 %, which is two one-sided tests at 5 %. The p beside it is of the same t
distribution: of no effect (superior), of ±δ (equivalent), of −δ (not inferior). It is below 0.05 exactly where the
interval excludes that. The two assertions of a question are corrected once, by Holm: the one with the smaller p has an
interval of 97.5 % (equivalence: 95 %), and the other one of 95 % (90 %) if the first p, doubled, is below 0.05, else of
97.5 % (95 %) too. So corrected p and interval agree as well.

The first line is for arms that are all but equal, as losses that differ by rounding or by the ε of an optimizer: their
difference is tiny and the same on every seed, so an interval leaves 0 out without anything to it. Where both arms are
the same bit by bit the effect is exactly 0, and that is an answer, too (`_errors`).

A finer rule could also say "not the claimed size" (U < δ, L ≤ −δ), "differs, by how much is open" (equivalent, 0
outside [L, U]), "and better" (not inferior, L > 0), "by at least δ" (superior, L ≥ δ). The interval says all of these.

Redraws: the effect of each condition is drawn 1,000 times around its estimate, and the rule applied. A word that is not
said by half of them is `open`, leaning to that word. Asking for more redraws opens more words and keeps those that are
left no better: of two sets of seeds in the same conditions the second repeats a word of the first as often at a half as
at .8, and a fifth fewer words are said at .8 (`python -m benchmarks.words`). The random stream is fixed.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.estimates import Interval
from rlexp.analysis.stats.pooling import FEWEST, Moderation, Pooled, moderation, pool, prediction_interval
from rlexp.analysis.stats.significance import ALPHA, holm

Array = np.ndarray

SUPERIOR, EQUIVALENT, NOT_INFERIOR = KINDS = ("superior", "equivalent", "not inferior")
SUPPORTED, SMALLER, NO_EFFECT = "supported", "smaller than claimed", "no material effect"
CONTRADICTED, OPEN, CANNOT = "contradicted", "open", "cannot answer"
WORDS = (SUPPORTED, SMALLER, NO_EFFECT, CONTRADICTED, OPEN, CANNOT)

REDRAWS = 1000
STABLE = 0.5  # of the redraws
DROPPED = 1 / 3  # of the conditions, at most
NEGLIGIBLE = (
    0.1  # of the smallest effect that counts: an interval within says that there is nothing, on whatever side of 0
)
SAME = 1e-9  # the error of an effect that is 0 on every seed, in smallest effects that count
MOST_ASSERTIONS = MOST_MODERATORS = 2


class Condition(NamedTuple):
    """The effect of an assertion in one of its conditions."""

    name: str
    effect: float
    """Mean over paired seeds, on the scale, + as claimed."""
    error: float
    """Its standard error."""
    degrees: float = np.inf
    """Of freedom of the error: seeds − 1."""
    levels: Mapping[str, str] = {}
    """Its level of each moderator that the assertion declares."""
    fails: str = ""
    """The check that it fails, in a few words; empty if it is valid."""


class Assertion(NamedTuple):
    """What a question says of an effect."""

    kind: str
    smallest: float
    """δ, above 0, on the scale."""
    conditions: Sequence[Condition]
    moderators: Sequence[str] = ()


class Moderator(NamedTuple):
    """The test of one declared moderator."""

    name: str
    test: Moderation
    p_holm: float
    """Corrected over the assertion's moderators."""
    depends: bool
    """Whether p (Holm) is below 0.05 and the levels' effects lie δ apart: the effect depends on it."""


class Judgment(NamedTuple):
    """What is known of an assertion."""

    word: str
    leaning: str = ""
    """The word that is not stable enough, where that is why the answer is open."""
    stability: Mapping[str, float] = {}
    """The share of redraws with each word before it is called unstable, the most frequent first."""
    pooled: Pooled | None = None
    low: float = np.nan
    high: float = np.nan
    confidence: float = np.nan
    """Of the interval that says the word."""
    p: float = np.nan
    p_holm: float = np.nan
    predicted: Interval = Interval(np.float64(np.nan), np.float64(np.nan))
    """95 % prediction interval of one more condition, no narrower than that of the mean; NaN for fewer than three."""
    moderators: Sequence[Moderator] = ()
    untested: Mapping[str, str] = {}
    """Declared moderators that could not be tested, and why."""
    dropped: Mapping[str, str] = {}
    """Conditions that fail a check, and which."""

    @property
    def text(self) -> str:
        """`supported`, or `open (leaning supported)`."""
        return f"{self.word} (leaning {self.leaning})" if self.leaning else self.word


def judge(assertions: Sequence[Assertion]) -> list[Judgment]:
    """Answer a question: judge its one or two assertions, corrected over both.

    Args:
        assertions: One or two.

    Returns:
        A judgment for each, in their order.

    Raises:
        AnalysisError: For another number of assertions, an unknown kind, a smallest effect that is not above 0, no
            condition or two of one name, more than two moderators, or one without a level in some condition.
    """
    if not 1 <= len(assertions) <= MOST_ASSERTIONS:
        raise AnalysisError(f"a question has one or two assertions, not {len(assertions)}")
    for assertion in assertions:
        _check(assertion)
    valid = [[each for each in assertion.conditions if not _failure(each)] for assertion in assertions]
    answered = [
        len(left) > 0 and len(assertion.conditions) - len(left) <= DROPPED * len(assertion.conditions)
        for left, assertion in zip(valid, assertions, strict=True)
    ]
    pooled = [
        pool(*_arrays(left, one.smallest)) if holds else None
        for one, left, holds in zip(assertions, valid, answered, strict=True)
    ]
    p = np.array([_p(one, each) for one, each in zip(pooled, assertions, strict=True)])
    corrected, levels = holm(p), holm_levels(p)
    return [
        _judgment(assertion, left, one, Evidence(*numbers))
        for assertion, left, one, *numbers in zip(assertions, valid, pooled, p, corrected, levels, strict=True)
    ]


class Evidence(NamedTuple):
    """The p of an assertion, and the level that Holm's correction leaves it."""

    p: float
    p_holm: float
    alpha: float


def _judgment(assertion: Assertion, left: Sequence[Condition], pooled: Pooled | None, evidence: Evidence) -> Judgment:
    dropped = {each.name: _failure(each) for each in assertion.conditions if _failure(each)}
    if pooled is None:
        return Judgment(CANNOT, dropped=dropped)
    effects, errors, degrees = _arrays(left, assertion.smallest)
    found = stable_words(effects, errors, degrees, assertion.kind, assertion.smallest, evidence.alpha)
    word, plain = str(found.word), str(found.plain)
    counts = {each: float(share) for each, share in zip(WORDS, found.shares, strict=True) if share > 0}
    confidence = _confidence(assertion.kind, evidence.alpha)
    low, high = pooled.interval(confidence)
    ends, wider = prediction_interval(effects, errors), pooled.interval()
    predicted = Interval(np.minimum(ends.low, wider.low), np.maximum(ends.high, wider.high))  # NaN stays NaN
    tested, untested = _moderators(assertion, left)
    return Judgment(
        word,
        plain if word != plain else "",
        dict(sorted(counts.items(), key=lambda item: -item[1])),
        pooled,
        float(low),
        float(high),
        confidence,
        float(evidence.p),
        float(evidence.p_holm),
        predicted,
        tested,
        untested,
        dropped,
    )


def _check(assertion: Assertion) -> None:
    kind, smallest, conditions, moderators = assertion
    if kind not in KINDS:
        raise AnalysisError(f"an assertion of kind '{kind}'; choose one of: {'  '.join(KINDS)}")
    if not (np.isfinite(smallest) and smallest > 0):
        raise AnalysisError(f"a smallest effect that counts of {smallest:g}: it must be above 0")
    names = [each.name for each in conditions]
    if not names or len(set(names)) < len(names):
        raise AnalysisError(f"{len(names)} conditions with {len(set(names))} names: at least one, each named once")
    if len(moderators) > MOST_MODERATORS:
        raise AnalysisError(f"{len(moderators)} moderators: at most {MOST_MODERATORS} are declared")
    for moderator in moderators:
        if without := [each.name for each in conditions if moderator not in each.levels]:
            raise AnalysisError(f"condition {without[0]} has no level of the moderator {moderator}")


def _failure(condition: Condition) -> str:
    """The check that a condition fails; whatever has no effect and error to be pooled fails one that is here."""
    if condition.fails:
        return condition.fails
    if not (np.isfinite(condition.effect) and np.isfinite(condition.error)):
        return "has no effect with an error: too few seeds, or a number that is not finite"
    if condition.error > 0 or condition.effect == 0:
        return ""
    return "the same difference on every seed, which says nothing of its error"


def _arrays(conditions: Sequence[Condition], smallest: float) -> tuple[Array, Array, Array]:
    """Effects, errors and degrees of freedom `[k]`, in an order that is always the same."""
    rows = sorted((each.effect, each.error, each.degrees) for each in conditions)
    effects, errors, degrees = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return effects, errors_to_pool(errors, smallest), degrees


def errors_to_pool(errors: Array, smallest: float) -> Array:
    """Errors by which conditions can be pooled, above 0.

    Where both arms are the same on every seed the effect is 0, and so is its error, of which no weight can be made: it
    counts as the middle error of the other conditions, or as next to nothing where there are no others.
    """
    known = errors[errors > 0]
    return np.where(errors > 0, errors, np.median(known) if known.size else SAME * smallest)


def _p(pooled: Pooled | None, assertion: Assertion) -> float:
    if pooled is None:
        return np.nan
    if assertion.kind == EQUIVALENT:
        return float(pooled.p_equal(assertion.smallest))
    return float(pooled.p(0.0 if assertion.kind == SUPERIOR else -assertion.smallest))


def holm_levels(p: Array, alpha: float = ALPHA) -> Array:
    """The level at which each of the p `[m]` is compared by Holm's procedure; a test of NaN is not counted.

    p ≤ its level exactly where `holm(p)` ≤ alpha. From the first p above its level on, all have that level.
    """
    p = np.asarray(p, dtype=float)
    levels, left = np.full(p.size, alpha), int((~np.isnan(p)).sum())
    for place in np.argsort(p)[:left]:
        levels[place] = level = alpha / left
        if p[place] > level:
            levels[p >= p[place]] = level
            break
        left -= 1
    return levels


def _confidence(kind: str, alpha: float) -> float:
    return 1 - (2 if kind == EQUIVALENT else 1) * alpha


def word_codes(low: Array, high: Array, kind: str, smallest: float) -> Array:
    """The word that an interval says by the rule above, as its place in `WORDS`, `[...] → [...]`."""
    low, high = np.asarray(low), np.asarray(high)
    inside = (low > -smallest) & (high < smallest)
    nothing = (low > -NEGLIGIBLE * smallest) & (high < NEGLIGIBLE * smallest)
    if kind == SUPERIOR:
        no_effect = nothing | (inside & (low <= 0) & (high >= 0))
        rules = {NO_EFFECT: no_effect, CONTRADICTED: high < 0, SMALLER: inside, SUPPORTED: low > 0}
    elif kind == EQUIVALENT:
        rules = {SUPPORTED: inside, CONTRADICTED: (low >= smallest) | (high <= -smallest)}
    else:
        rules = {SUPPORTED: low > -smallest, CONTRADICTED: high < -smallest}
    return np.select(list(rules.values()), [WORDS.index(word) for word in rules], WORDS.index(OPEN))


class StableWords(NamedTuple):
    """Words, and how stable they are, `[...]`."""

    word: Array
    plain: Array
    """Before what is unstable is called open."""
    shares: Array
    """Of redraws, by word `[..., len(WORDS)]`."""


def stable_words(
    effects: Array,
    errors: Array,
    degrees: Array | float,
    kind: str,
    smallest: float,
    alpha: float = ALPHA,
    redraws: int = REDRAWS,
) -> StableWords:
    """The word of effects `[..., k]` of valid conditions, and of redraws around them: normal, with their errors.

    Args:
        effects: Of conditions, on the scale, + as claimed.
        errors: Their standard errors `[..., k]`.
        degrees: Degrees of freedom of these.
        kind: Of the assertion.
        smallest: Effect that counts.
        alpha: Level that the correction leaves to the assertion.
        redraws: How many.

    Raises:
        AnalysisError: As `pool`.
    """
    effects, errors = np.broadcast_arrays(np.asarray(effects, dtype=float), np.asarray(errors, dtype=float))
    confidence = _confidence(kind, alpha)
    noise = np.random.default_rng(0).normal(size=(redraws, effects.shape[-1]))
    drawn = effects[..., None, :] + errors[..., None, :] * noise
    free = np.broadcast_to(np.asarray(degrees, dtype=float), effects.shape)
    plain = word_codes(*pool(effects, errors, free).interval(confidence), kind, smallest)
    again = pool(drawn, np.broadcast_to(errors[..., None, :], drawn.shape), free[..., None, :])
    codes = word_codes(*again.interval(confidence), kind, smallest)
    shares = (codes[..., None] == np.arange(len(WORDS))).mean(-2)
    kept = np.take_along_axis(shares, plain[..., None], -1)[..., 0]
    word = np.where(kept >= STABLE, plain, WORDS.index(OPEN))
    names = np.array(WORDS)
    return StableWords(names[word], names[plain], shares)


def _moderators(assertion: Assertion, left: Sequence[Condition]) -> tuple[Sequence[Moderator], Mapping[str, str]]:
    ordered = sorted(left, key=lambda each: each.name)
    numbers = (np.array([getattr(each, field) for each in ordered]) for field in ("effect", "error", "degrees"))
    effects, errors, degrees = numbers
    errors = errors_to_pool(errors, assertion.smallest)
    tests, untested = {}, {}
    for moderator in assertion.moderators:
        labels = [each.levels[moderator] for each in ordered]
        try:
            tests[moderator] = moderation(effects, errors, labels, degrees)
        except AnalysisError as error:
            untested[moderator] = str(error)
    corrected = holm(np.array([test.p for test in tests.values()]))
    found = [
        Moderator(name, test, float(p), bool(p < ALPHA and test.span >= assertion.smallest))
        for (name, test), p in zip(tests.items(), corrected, strict=True)
    ]
    return found, untested


def spread_text(judgment: Judgment, smallest: float) -> str:
    """Say how an effect varies over conditions: on what it depends, else from where to where it varies, on the scale.

    `depends on start: +0.10 [-0.02, +0.22] at 0.2, +0.61 [+0.40, +0.82] at 0`; `varies between settings: 95 % of them
    within [-0.31, +0.52]` where the prediction interval holds 0 or ±δ and the pooled interval does not; else
    `about the same in all 9 conditions`. Of one or two conditions: nothing.
    """
    on = [each for each in judgment.moderators if each.depends]
    if on:
        return "; ".join(f"depends on {each.name}: {_levels_text(each.test)}" for each in on)
    if judgment.pooled is None or judgment.pooled.k < FEWEST:
        return ""
    low, high = judgment.predicted
    marks = (-smallest, 0.0, smallest)
    if any(low <= mark <= high and not judgment.low <= mark <= judgment.high for mark in marks):
        return f"varies between settings: 95 % of them within [{low:+.2g}, {high:+.2g}]"
    return f"about the same in all {judgment.pooled.k} conditions"


def _levels_text(test: Moderation) -> str:
    rows = zip(test.levels, test.estimates, test.low, test.high, strict=True)
    return ", ".join(f"{effect:+.2g} [{low:+.2g}, {high:+.2g}] at {level}" for level, effect, low, high in rows)
