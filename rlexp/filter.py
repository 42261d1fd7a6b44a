"""Which completions count: ``filter(rewards, lengths, finished, *, knobs) -> keep``, all ``[*R P G]``.

One filter decides about the loss, another about the statistics of ``norm``: masking a truncated completion in the
loss (TRL ``mask_truncated_completions``, DAPO's overlong filtering) leaves its reward in the group's mean unless the
statistics are filtered too.
"""

from __future__ import annotations

from torch import ones_like

from rlexp.types import CompletionMask, PerCompletion


def none(rewards: PerCompletion, lengths: PerCompletion, finished: CompletionMask) -> CompletionMask:
    """Keep every completion."""
    return ones_like(finished)


def overlong(rewards: PerCompletion, lengths: PerCompletion, finished: CompletionMask) -> CompletionMask:
    """Drop completions that were cut off at the cap before they ended.

    Source: overlong filtering of DAPO (arXiv 2503.14476, §3.4); TRL ``mask_truncated_completions``. Setting the
    reward of such a completion to zero instead is a penalty, not a filter: that is ``shaping``.
    """
    return finished


FUNCTIONS = {"none": none, "overlong": overlong}
