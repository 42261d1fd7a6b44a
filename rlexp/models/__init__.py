"""Policies: R independent networks as one stack.

What the rest of the package asks of a policy is small:

    tape(prompts, group)                   -> room for what decoding keeps for the gradient, or None
    prefill(prompts, group, tape)          -> logits of the first completion token, state
    decode(tokens, state)                  -> logits of the next one, state; no gradients
    policy(prompts, completions, tape)     -> logits of every completion token, with gradients
    head_parameters()                      -> parameters in which all logits are linear

with prompts ``[R, P, L]`` (left-padded), tokens ``[R, P, G]``, completions ``[R, P, G, T]``, logits ``[..., V]``.
"""

from rlexp.models.gru import GRU
from rlexp.models.positional import Positional
from rlexp.models.transformer import Transformer

MODELS = {"gru": GRU, "transformer": Transformer, "positional": Positional}
