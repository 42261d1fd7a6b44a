"""Packages that not every installation has, each in an extra of its own."""

from __future__ import annotations

from importlib.util import find_spec

from rlexp.core.errors import ConfigError

EXTRAS = {"transformers": "trl", "tokenizers": "trl", "peft": "lora"}


def missing(what: str, *packages: str) -> str | None:
    """Say which extra ``what``, as `model=llama`, needs because one of the packages is not installed; None if none."""
    extra = next((EXTRAS[package] for package in packages if find_spec(package) is None), None)
    return f"{what}: needs the extra {extra}: pip install 'rlexp[{extra}]'" if extra else None


def need(what: str, *packages: str) -> None:
    """ConfigError with that line, if there is one."""
    if line := missing(what, *packages):
        raise ConfigError([line])
