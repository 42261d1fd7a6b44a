"""Language models and tasks of text, for backends that train such models; the extra `trl` has what they import.

What is here is read with every config, so nothing of transformers, TRL or reasoning-gym is imported before it is used.
"""

from pydantic import BaseModel

from rlexp.core.registry import bind_choice
from rlexp.language.backend import BACKENDS
from rlexp.language.jsonl import JsonLines
from rlexp.language.models import LANGUAGE_MODELS
from rlexp.language.reasoning_gym import ReasoningGym
from rlexp.language.text_task import Example, Score, TextTask, as_text
from rlexp.tasks import TASKS

TEXT_TASKS = {"reasoning_gym": ReasoningGym, "jsonl": JsonLines}


def text_task(settings: BaseModel) -> TextTask:
    """Return the task that the ``task`` of a config chooses, as text; ValueError, in one line, where it cannot be."""
    if settings.name in TEXT_TASKS:
        return bind_choice(TEXT_TASKS, settings)()
    return as_text(bind_choice(TASKS, settings)())


__all__ = ["BACKENDS", "LANGUAGE_MODELS", "TEXT_TASKS", "Example", "TextTask", "Score", "text_task"]
