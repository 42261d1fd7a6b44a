"""Jobs as batches: which runs train together, and their training. Called, it is ``rlexp.api.sweep``."""

import sys

from rlexp.core.callable_module import CallableModule

CALLED = "rlexp.api:sweep"
sys.modules[__name__].__class__ = CallableModule
