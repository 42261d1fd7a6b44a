"""From the verdicts of a claim's studies to one word for the claim.

Each expectation of each study has a verdict (`analysis/stats/verdicts`). Those that need more seeds, and those that
were not judged, decide nothing; where they are more than half, the claim is `mostly underpowered`, whatever the
others say. If the others all say the same, that is what became of the claim. If an expectation comes out otherwise
where only the start, the optimiser or the model is another, the claim `depends on` that. Otherwise it holds `in part`,
or is `not reproduced` where none of its expectations is. Two verdicts are no contradiction if one of them is
`not reproduced` and the other says more than that. Controls and identity checks are no claims.

A study whose name ends in `_more` asks what ten seeds left underpowered of the study before it again, of seeds that
were never used. Where it asks an expectation, the first answer no longer counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlexp.runfolder.variants import parse_override, split_overrides

UNDECIDED = ("underpowered", "not judged")
NOT_RUN, MOSTLY = "not run", "mostly underpowered"
ORDER = ("reproduced", "reversed", "practically equal", "not reproduced", *UNDECIDED)
OPTIMIZER, MODEL = "the optimiser", "the model"
NAMES = {"start.accuracy": "the start", "task": "the task", "lr": "the learning rate", "group_size": "the group size"}
MORE = "_more"
TWINS = {"_sgd": (OPTIMIZER, "SGD"), "_llama": (MODEL, "Llama")}
USUAL = {OPTIMIZER: "Adam", MODEL: "small"}


class Finding(NamedTuple):
    """One expectation of a study, where it was asked, and its verdict."""

    name: str
    """Of the study that asked."""
    study: str
    """The same without its ending, as it asks what its twins ask."""
    expectation: str
    """In words, without the conditions."""
    conditions: Mapping[str, str]
    """Optimiser, model, and the values of the study's strata."""
    verdict: Mapping[str, Any]

    @property
    def again(self) -> bool:
        """Whether other seeds were asked what the first had left open."""
        return self.name.endswith(MORE)

    @property
    def key(self) -> tuple:
        """What was asked, and where: the same for those that were asked again."""
        return self.study, self.expectation, *sorted(self.conditions.items())

    @property
    def word(self) -> str:
        """The outcome."""
        return self.verdict["verdict"]

    @property
    def decided(self) -> bool:
        """Whether its seeds decide anything."""
        return self.word not in UNDECIDED

    @property
    def place(self) -> str:
        """The conditions that are not the usual ones."""
        told = [f"{key} {value}" for key, value in self.conditions.items() if value != USUAL.get(key)]
        told = [each.removeprefix(f"{OPTIMIZER} ").removeprefix(f"{MODEL} ") for each in told]
        return ", ".join([*told, "other seeds"] if self.again else told)


class Outcome(NamedTuple):
    """What became of a claim."""

    word: str
    counts: Mapping[str, int]
    """How many expectations came out how."""
    boundaries: Sequence[str] = ()
    """For each expectation that depends on something, how."""

    @property
    def text(self) -> str:
        """`reproduced 5, underpowered 1`."""
        return ", ".join(f"{word} {self.counts[word]}" for word in ORDER if self.counts.get(word))

    @property
    def parts(self) -> str:
        """`: 5 reproduced, 1 reversed` where one word does not say it all; what is undecided is left out."""
        listed = [f"{self.counts[word]} {word}" for word in ORDER if word not in UNDECIDED and self.counts.get(word)]
        return f": {', '.join(listed)}" if len(listed) > 1 or self.word == MOSTLY else ""


def findings(records: Sequence[Mapping[str, Any]], checks: bool = False) -> list[Finding]:
    """Return what the studies of a claim found, or of their controls and identity checks, which claim nothing."""
    verdicts = ((record, verdict) for record in records for verdict in record["verdicts"])
    return [
        finding(record, verdict)
        for record, verdict in verdicts
        if checks == (bool(verdict.get("control")) or verdict.get("direction") == "identical")
    ]


def finding(record: Mapping[str, Any], verdict: Mapping[str, Any]) -> Finding:
    """Return a verdict with its conditions taken out of its words."""
    study, conditions = record["study"].removesuffix(MORE), dict(USUAL)
    for ending, (axis, value) in TWINS.items():
        if study.endswith(ending):
            study, conditions[axis] = study.removesuffix(ending), value
    text = verdict["claim"]
    for key, value in (record.get("in_one") or {}).items():
        conditions[NAMES.get(key, key)] = value
    for part in split_overrides(verdict.get("stratum") or ""):
        key, value = parse_override(part)
        conditions[NAMES.get(key, key)] = value
        text = text.replace(f",{part}", "").replace(f"{part},", "")
    return Finding(record["study"], study, text, conditions, verdict)


def latest(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that were asked again."""
    asked_again = {each.key for each in found if each.again}
    return [each for each in found if each.again or each.key not in asked_again]


def outcome(asked: Sequence[Finding]) -> Outcome:
    """Return one word for a claim."""
    found = latest(asked)
    counts = Counter(each.word for each in found)
    decided = {each.word for each in found if each.decided}
    if not found:
        return Outcome(NOT_RUN, counts)
    if not decided:
        return Outcome("underpowered" if counts["underpowered"] else "not judged", counts)
    if sum(each.decided for each in found) * 2 < len(found):
        return Outcome(MOSTLY, counts)
    if len(decided) == 1:
        return Outcome(*decided, counts)
    axes, boundaries = {}, []
    for axis, text in splits(found):
        axes[axis] = None
        boundaries.append(text)
    other = "in part" if "reproduced" in decided else "not reproduced"
    on = " and ".join(filter(None, [", ".join([*axes][:-1]), *[*axes][-1:]]))
    return Outcome(f"depends on {on}" if axes else other, counts, boundaries)


def contradict(words: Collection[str]) -> bool:
    """Whether verdicts cannot all be of one effect: `not reproduced` goes with a reversed one, and with none."""
    told = {*words}
    if "reproduced" not in told:
        told.discard("not reproduced")
    return len(told) > 1


def splits(found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield each condition on which an expectation's outcome turns while all others stay, and where it turns."""
    for axis in dict.fromkeys(key for each in found for key in each.conditions):
        groups: dict[tuple, list[Finding]] = {}
        for each in found:
            others = tuple(sorted(item for item in each.conditions.items() if item[0] != axis))
            groups.setdefault((each.study, each.expectation, *others), []).append(each)
        for (_, expectation, *_), group in groups.items():
            decided = [each for each in group if each.decided]
            if contradict([each.word for each in decided]):
                where = "; ".join(f"{each.word} at {each.conditions[axis]}" for each in decided)
                yield axis, f"`{expectation}`: {where}"
