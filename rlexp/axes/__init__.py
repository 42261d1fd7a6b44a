"""The axes: pure functions of tensors and numbers, one file (or folder) an axis, here in the order of the data flow.

The module of an axis has ``FUNCTIONS``, its choices by name; ``OFFERED``, what they may ask for by name (see
``offered``); and ``MEMORIES``, what choices remember from step to step, if one does (see ``rlexp.core.memory``).
"""

from rlexp.axes import (
    agg,
    clip,
    entropy_control,
    filter,
    kl,
    kl_control,
    mismatch,
    norm,
    optimizer,
    reference,
    reward,
    sampler,
    shaping,
    teacher,
)

AXES = {
    "sampler": sampler,
    "reward": reward,
    "shaping": shaping,
    "filter": filter,
    "norm": norm,
    "teacher": teacher,
    "clip": clip,
    "mismatch": mismatch,
    "agg": agg,
    "kl": kl,
    "kl_control": kl_control,
    "reference": reference,
    "entropy_control": entropy_control,
    "optimizer": optimizer,
}
