"""Modules that can be called: ``rlexp.train(configs)`` and ``rlexp.sweep(…)`` have the names of modules."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class CallableModule(ModuleType):
    """A module whose ``CALLED`` (``module:name``) is the function that a call of it means, imported then."""

    def __call__(self, *arguments: object, **options: object) -> object:
        module, _, name = self.CALLED.partition(":")
        return getattr(import_module(module), name)(*arguments, **options)
