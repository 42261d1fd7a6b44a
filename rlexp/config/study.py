"""A study: the question of a sweep and what is expected of it, written down before it runs.

``analysis`` judges the expectations once the sweep is over. Here they are read strictly, so that one that cannot be
judged is refused before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field, FiniteFloat, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from rlexp.core.registry import StrictModel
from rlexp.core.types import FiniteNonNegative, PositiveInt, Seed


class WrittenModel(StrictModel):
    """A node that is saved as it was written: keys that were left out stay out."""

    @model_validator(mode="before")
    @classmethod
    def known_keys(cls, values: Any) -> Any:
        """Refuse a key that does not exist, with those that do: the node itself has only some of them."""
        unknown = [key for key in values if key not in cls.model_fields] if isinstance(values, Mapping) else []
        if unknown:
            facts = {"key": unknown[0], "value": values[unknown[0]], "valid": list(cls.model_fields)}
            raise PydanticCustomError("no_such_key", "no such key", facts)
        return values

    @model_serializer(mode="wrap")
    def written_keys(self, serialize: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Drop the defaults."""
        return {key: value for key, value in serialize(self).items() if key in self.model_fields_set}


class Expectation(WrittenModel):
    """The variant that an expectation is about, and the part that it has in the study."""

    control: bool | None = None  # whether it claims nothing, and must hold for the claims to be judged
    variant: str


class Pair(WrittenModel):
    """Two variants whose difference is taken from another one."""

    variant: str
    versus: str


class Difference(Expectation):
    """Over the shared seeds, ``variant`` scores higher or lower than ``versus``, or equal to it."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["higher", "lower", "equal"]
    minimum_effect: FiniteNonNegative | None = None  # None for the study's
    less: Pair | None = None  # an interaction: by how much more variant and versus differ than these two do
    metric: str | None = None  # None for the study's
    at: str | None = None  # None for the study's
    matched: str | None = None  # None for the study's


class Level(Expectation):
    """Every seed of ``variant`` scores above or below ``value``."""

    direction: Literal["above", "below"]
    value: FiniteFloat
    metric: str | None = None  # None for the study's


class Flips(Expectation):
    """With so few of the seeds the two would be in the other order than with all, in at least so many of the cases."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["flips"]
    seeds: PositiveInt
    value: Annotated[float, Ge(0), Le(1)]
    metric: str | None = None  # None for the study's


class Identity(Expectation):
    """Every seed of ``variant`` leaves the rows that it leaves with ``versus``, bit by bit but for the clock."""

    versus: str | None = None  # None for the study's baseline
    direction: Literal["identical"]


class Study(WrittenModel):
    """What is asked of a sweep; ``analysis`` has the rules by which each expectation is judged."""

    name: str
    question: str | None = None
    source: str | None = None
    metric: str | None = None  # None for the runs' score
    at: str | None = None  # an equal budget, as rollouts or tokens=5000; None for equal steps
    matched: str | None = None  # where a metric is first so high, as accuracy=0.5; None for the end
    baseline: str | None = None
    minimum_effect: FiniteNonNegative | None = None  # None for 0
    best_of: list[str] | None = None  # axes such as lr, of which each arm gets its best point
    worked: str | None = None  # a document of docs/tour, whose numbers `rlexp worked` prints
    choose_seeds: list[Seed] | None = None  # on which that point is chosen; None for the lower half
    choose_first: bool | None = None  # whether the other seeds train at the chosen points alone
    within: list[str] | None = None  # axes whose values are compared apart; None for the task
    expect: list[Annotated[Difference | Level | Flips | Identity, Field(discriminator="direction")]]

    @model_validator(mode="after")
    def something_to_choose(self) -> Study:
        """Refuse to choose first where nothing is chosen."""
        if self.choose_first and not self.best_of:
            raise PydanticCustomError("nothing_to_choose", "choose_first needs best_of, as best_of: [lr]")
        return self

    @property
    def hash(self) -> str:
        """A name for what was written down: 16 hexadecimal digits that are others if any word of it is another."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def choosing(self, seeds: Collection[int]) -> set[int]:
        """Return the seeds of a sweep on which points are chosen; none if there is no grid."""
        if not self.best_of:
            return set()
        named = self.choose_seeds
        return {*sorted(seeds)[: len(seeds) // 2]} if named is None else {*seeds} & {*named}

    def variant_names(self) -> Iterator[tuple[str, str | None]]:
        """Yield every key of a claim that names a variant, and the name; None for a comparison with no variant."""
        for place, expectation in enumerate(self.expect):
            yield f"study.expect[{place}].variant", expectation.variant
            if not isinstance(expectation, Level):
                yield f"study.expect[{place}].versus", expectation.versus or self.baseline
            if isinstance(expectation, Difference) and expectation.less:
                yield f"study.expect[{place}].less.variant", expectation.less.variant
                yield f"study.expect[{place}].less.versus", expectation.less.versus
