"""Number ranges: what the annotations of hyperparameters and config keys mean. Imports neither torch nor jaxtyping."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AllowInfNan

Positive = Annotated[float, Gt(0), AllowInfNan(False)]
AboveOne = Annotated[float, Gt(1), AllowInfNan(False)]
NonNegative = Annotated[float, Ge(0)]  # or infinity: the bound of a clip that stops nothing
FiniteNonNegative = Annotated[float, Ge(0), AllowInfNan(False)]
# Numbers that torch and numpy can count with. A size is of something that is held in memory or made one by one.
LARGEST_SIZE = 2**16
PositiveInt = Annotated[int, Ge(1), Le(2**31 - 1)]
NonNegativeInt = Annotated[int, Ge(0), Le(2**31 - 1)]
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]
Size = Annotated[int, Ge(1), Le(LARGEST_SIZE)]
Depth = Annotated[int, Ge(1), Le(1024)]
Count = Annotated[int, Ge(0), Le(LARGEST_SIZE)]
Ddof = Annotated[int, Ge(0), Le(1)]
Level = Share = Annotated[float, Gt(0), Le(1)]
Discount = Probability = Annotated[float, Ge(0), Le(1)]
Decay = Annotated[float, Ge(0), Lt(1)]
# Of matrix products; float8 e4m3 with a scale for each tensor, or for each row and column.
Precision = Literal["bfloat16", "float8_tensor", "float8_channel"]
