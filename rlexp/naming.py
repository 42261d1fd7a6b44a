"""Names of runs and variants, made of the overrides that tell them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from omegaconf import OmegaConf

LONGEST = 80
# Keys that change nothing that a run computes: a sweep can be continued with other threads or another logger, and with
# `resume=failed`, in the folders that it has.
FREE = {"logger", "threads", "resume", "checkpoint_every", "baseline"}
NOT_IN_NAMES = re.compile(r"[^\w=.,+~@\[\]{}-]+")


def key_of(override: str) -> str:
    """`+norm.eps=1` → `norm.eps`."""
    return override.partition("=")[0].lstrip("+~")


def telling(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that results depend on."""
    return [override for override in overrides if key_of(override).partition(".")[0] not in FREE]


def variant_name(overrides: Sequence[str]) -> str:
    """The telling overrides without the seed, joined by commas; `default` if there are none."""
    return ",".join(override for override in telling(overrides) if key_of(override) != "seed") or "default"


def run_name(overrides: Sequence[str]) -> str:
    """A folder's name for the run with these overrides, the seed last: `norm=local,seed=3`."""
    variant = [override for override in telling(overrides) if key_of(override) != "seed"]
    seed = [override for override in overrides if key_of(override) == "seed"]
    return ",".join(folder_name(",".join(part)) for part in (variant, seed) if part) or "default"


def folder_name(text: str) -> str:
    """`text` if it can be a folder's name, else what can be kept of it and a hash: different texts stay different."""
    safe = NOT_IN_NAMES.sub("_", text)
    if safe == text and len(text) <= LONGEST:
        return text
    return f"{safe[:LONGEST]}~{sha256(text.encode()).hexdigest()[:8]}"


OmegaConf.register_new_resolver("run_name", run_name, replace=True)
