"""The stacked transformer of the training runs: fused attention, a cache for decoding and for the first update."""

from rlexp.models.transformer.policy import Transformer

__all__ = ["Transformer"]
