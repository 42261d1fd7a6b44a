"""rlexp: which post-training trick matters, by how much, and would it hold over seeds?

rlexp.Config(norm="global", seed=1)                 a run's settings, complete and checked, without Hydra
for event in rlexp.train(configs): ...              training as a stream of events
rlexp.register("norm", mad)                         a function of your own as a choice: norm=mad
rlexp.sweep(norm=["local", mad], seeds=range(6))    recorded runs, as `rlexp -m` trains them
rlexp.ablate("preset=dapo", against="preset=grpo")  which part of a recipe matters
rlexp.ask("question.yaml")                          a declared question, pooled over conditions, in a word
rlexp.functional.norm.local(rewards, keep)          the formulas, for a trainer of your own
"""

import os
from importlib import import_module

# One run must give the same bits alone and in a batch (the rule: core/exact.py). MKL reads its mode once, before its
# first product; without this one a product of [30, 10] by [10, 5] differs in the last bit between R = 1 and R = 2.
MKL_MODE = "AUTO,STRICT"
os.environ.setdefault("MKL_CBWR", MKL_MODE)

__version__ = "0.1.0"

# Where each public name is; imported when it is first asked for.
PUBLIC = {
    "Config": "rlexp.config.schema",
    "register": "rlexp.config.plugins",
    "add_config_dir": "rlexp.config.plugins",
    "load": "rlexp.api",
    "compare": "rlexp.api",
    "ablate": "rlexp.ablation.train",
    "ask": "rlexp.question.ask",
    "main": "rlexp.__main__",
    "ConfigError": "rlexp.core.errors",
    "RunFailed": "rlexp.core.exits",
}
MODULES = ("analysis", "api", "functional", "testing", "train", "sweep")  # the last two can be called


def __getattr__(name: str) -> object:
    """Return a public name; what it needs is imported now."""
    if name in MODULES:
        return import_module(f"rlexp.{name}")
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'rlexp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, too, imported or not."""
    return sorted({*globals(), *PUBLIC, *MODULES})
