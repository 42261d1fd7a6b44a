"""The rule by which a study's expectations, written down before it ran, get their verdicts.

There is one rule of evidence, here and in every table: a difference is there if its p (Holm) is below 0.05, sign flips
corrected over all differences of the tables and of the study. Intervals show size and decide nothing. With the mean
difference of two variants over shared seeds and the `minimum_effect` fixed in the study's YAML (an expectation's own,
else the study's, else 0; in the unit of whatever number is compared):

higher        reproduced         p (Holm) < 0.05 and mean > 0 and mean ≥ minimum
              reversed           p (Holm) < 0.05 and mean < 0 and mean ≤ -minimum
              practically equal  the difference is smaller than the minimum and larger than -minimum
              not reproduced     the difference is smaller than the minimum
lower         as higher, with the sign of the difference changed
equal         reproduced         practically equal, as above
              not reproduced     p (Holm) < 0.05 and |mean| ≥ minimum
below, above  reproduced         every seed's score is below (above) `value`
              not reproduced     some seed's score is not
flips         reproduced         with `seeds` of the seeds the two are in the other order than with all, in at least the
                                 share `value` of the subsets (`ranking_flips`)
              not reproduced     in fewer of them
identical     reproduced         all rows of both are the same on every seed that both have, but for the clock
              not reproduced     some are not

"Smaller than the minimum" is the same test of the differences less the minimum: its p, times the number of differences,
is below 0.05 and their mean is below 0. "Larger than -minimum" is that of the differences plus the minimum. Lines are
tried from top to bottom. Whatever fits none is `underpowered`: the data allow both the claim and its opposite; so are a
seed without a score (below, above), no more seeds than `seeds`, and too few seeds for any p to be so small. What names
no variant or no direction is `not judged`, and so is everything else where a control, an expectation that must hold, is
not `reproduced`.

Where `less` names two more variants, the difference is the difference of two differences, on the seeds of all four.

The cost of a target that a run never reaches is infinite, and so is its difference to one that did; the difference of
two that never reach it is 0. Such differences are ranked by size: sign flips are of their signed ranks (Wilcoxon), the
sum of which, in place of the mean, says which way they point, and their median says how large they are. The minimum
is in the unit of the cost; a difference that is infinite stays so, whatever is subtracted.
"""

import numpy as np

from rlexp.analysis.stats.inference.paired import MEAN_TEST, PairedTest
from rlexp.analysis.stats.inference.significance import ALPHA
from rlexp.analysis.stats.verdicts.hypotheses import LEVELS, TESTED

DIRECTIONS = (*TESTED, *LEVELS, "flips", "identical")
REPRODUCED, REVERSED, EQUAL, NOT_REPRODUCED = "reproduced", "reversed", "practically equal", "not reproduced"
UNDERPOWERED, NOT_JUDGED = "underpowered", "not judged"
OUTCOMES = (REPRODUCED, REVERSED, EQUAL, NOT_REPRODUCED, UNDERPOWERED, NOT_JUDGED)


def difference_verdict(
    direction: str, differences: np.ndarray, minimum: float, p_holm: float, family: int, test: PairedTest = MEAN_TEST
) -> str:
    """The verdict on higher, lower or equal for paired differences `[n]`, by the rule above."""
    if direction == "lower":
        return difference_verdict("higher", -differences, minimum, p_holm, family, test)
    size, side = float(test.estimate(differences).mean), test.side(differences)
    significant = p_holm < ALPHA
    smaller, larger = (test.is_above(each, family) for each in (minimum - differences, differences + minimum))
    if direction == "equal":
        rules = {REPRODUCED: smaller and larger, NOT_REPRODUCED: significant and abs(size) >= minimum}
    else:
        rules = {
            REPRODUCED: significant and side > 0 and size >= minimum,
            REVERSED: significant and side < 0 and size <= -minimum,
            EQUAL: smaller and larger,
            NOT_REPRODUCED: smaller,
        }
    return next((verdict for verdict, holds in rules.items() if holds), UNDERPOWERED)


def level_verdict(direction: str, scores: np.ndarray, value: float) -> str:
    """The verdict on below or above for the scores `[n]` of all seeds, NaN where a run has none."""
    missing = np.isnan(scores)
    holds = scores < value if direction == "below" else scores > value
    if not (holds | missing).all():
        return NOT_REPRODUCED
    return UNDERPOWERED if missing.any() or not scores.size else REPRODUCED
