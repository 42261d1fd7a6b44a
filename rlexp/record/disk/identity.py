"""Whose a file is: a hash of the config as far as results depend on it, the seed, the format, the code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlexp import __version__
from rlexp.record import provenance
from rlexp.runfolder.files import FORMAT, digest
from rlexp.runfolder.variants import WITHOUT_EFFECT, flatten

Identity = dict[str, Any]
# What configs mean that were saved before there were these keys. A run without a bound has others only beyond it.
MEANT = {"backend": {"name": "replicas"}, "log_ratio_bound": 20.0}


def identity(config: Mapping[str, Any]) -> Identity:
    """Return what a file says of the run that it is of; ``config`` is of plain values."""
    whose = {"format": FORMAT, "config": config_hash(config), "seed": config.get("seed")}
    return whose | {"version": __version__, "files": provenance.code()["files"]}


def config_hash(config: Mapping[str, Any]) -> str:
    """Return a hash of the part of a config that results depend on; a key that is null counts as one that is absent."""
    known = {key: value for key, value in flatten(with_effect(config)) if value is not None}
    return digest(json.dumps(known, sort_keys=True).encode())


def with_effect(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a config that results depend on; what one ``MEANT`` by saying nothing is left out."""
    known = {key: value for key, value in config.items() if key not in WITHOUT_EFFECT | {"study", "format"}}
    known |= {key: "none" for key in MEANT if key in known and known[key] is None}  # null counts as absent
    return {key: value for key, value in known.items() if key not in MEANT or value != MEANT[key]}


def foreign(theirs: Mapping[str, Any] | None, config: Mapping[str, Any]) -> str | None:
    """Say that a file is of another run than that of a config, if so. None, too, for one that does not say."""
    if not theirs:
        return None
    if theirs.get("format") != FORMAT:
        release = f"rlexp {theirs.get('version')} wrote it, and reads it"
        return f"has format {theirs.get('format')!r}, which rlexp {__version__} does not know: {release}"
    if theirs.get("config") != config_hash(config):
        return f"is of a run with another config (its seed is {theirs.get('seed')}): move it away"
    return None
