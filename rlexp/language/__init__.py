"""Language models and tasks of text, for backends that train such models; the extra `trl` has what they import.

What is here is read with every config, so nothing of transformers, TRL or reasoning-gym is imported before it is used.
"""

from rlexp.language.backend import BACKENDS

TEXT_TASKS = {}
LANGUAGE_MODELS = {}

__all__ = ["BACKENDS", "LANGUAGE_MODELS", "TEXT_TASKS"]
