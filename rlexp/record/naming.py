"""Names of runs and variants, made of the overrides that tell them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from rlexp.core.hydra_compat import register_resolver
from rlexp.runfolder.variants import DEFAULT, WITHOUT_EFFECT, without_seed

LONGEST = 80
NOT_IN_NAMES = re.compile(r"[^\w=.,+~@\[\]{}-]+")


def key_of(override: str) -> str:
    """`+norm.eps=1` → `norm.eps`."""
    return override.partition("=")[0].lstrip("+~")


def result_overrides(overrides: Sequence[str]) -> list[str]:
    return [override for override in overrides if key_of(override).partition(".")[0] not in WITHOUT_EFFECT]


def variant_name(overrides: Sequence[str]) -> str:
    """The overrides that results depend on, without the seed, joined by commas; `default` if there are none."""
    return ",".join(without_seed(result_overrides(overrides))) or DEFAULT


def run_name(overrides: Sequence[str]) -> str:
    """A folder's name for the run with these overrides, the seed last: `norm=local,seed=3`."""
    variant = without_seed(result_overrides(overrides))
    seed = [override for override in overrides if key_of(override) == "seed"]
    return ",".join(folder_name(",".join(part)) for part in (variant, seed) if part) or DEFAULT


def folder_name(text: str) -> str:
    """`text` if it can be a folder's name, else what of it can be, and a hash: different texts stay different."""
    safe = NOT_IN_NAMES.sub("_", text)
    if safe == text and len(text) <= LONGEST:
        return text
    return f"{safe[:LONGEST]}~{sha256(text.encode()).hexdigest()[:8]}"


register_resolver("run_name", run_name, replace=True)
