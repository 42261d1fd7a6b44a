"""The formulas of rlexp as functions of tensors, for a trainer of your own; nothing but torch is needed to call them.

Namespaces are called like the groups of the command line: who knows ``norm=local clip=higher`` writes::

    import rlexp.functional as F

    advantages = F.norm.local(rewards)                                   # [P, G]
    losses = F.clip.higher(log_probs, old_log_probs, advantages, mask)   # [P, G, T]
    loss = F.agg.token(losses, mask)                                     # a number

``dir(F.clip)`` has what there is, ``help(F.clip.higher)`` says what it computes, where it is from and what it takes.
A name that Python has taken ends in ``_``: ``F.norm.global_``.

Shapes: P prompts with G completions of at most T tokens, ``[..., P, G, T]``, ``[..., P, G]`` for what a completion has
once. Or flat, B completions as ``[B, T]`` and ``[B]``: then ``group_ids`` ``[B]`` says which of them answer the same
prompt, by any integers in any order, as many of each as there are. What compares nobody within a group (``kl``, nearly
all of ``clip`` and ``agg``) takes flat tensors without. Results have the shape and the order of what was given.
Advantages may have a number a token, or one a completion.

Tensors are given by position or name, hyperparameters by name; these have the defaults of ``conf/``. ``mask`` says
which tokens count and ``keep`` which completions, all unless told; what stands elsewhere, NaN included, reaches neither
results nor gradients, and results there are 0. Device and dtype are those of the tensors.

What cannot be ends in a ``TypeError`` (a tensor is missing, an argument is unknown or of the wrong kind) or a
``ValueError`` (a shape, a range), each of one line.
"""

from __future__ import annotations

from rlexp.core.pass_at_k import pass_at_k
from rlexp.functional.namespaces import Namespace, ValueTargets

norm = Namespace("norm")
clip = Namespace("clip")
agg = Namespace("agg")
kl = Namespace("kl")
filter = Namespace("filter")
shaping = Namespace("shaping")
mismatch = Namespace("mismatch")
anchor = Namespace("anchor")
teacher = Namespace("teacher")
distillation = Namespace("distillation")
imitation = Namespace("imitation")
prompts = Namespace("prompts")
allocation = Namespace("allocation")
kl_control = Namespace("kl_control")
entropy_control = Namespace("entropy_control")
value_target = ValueTargets()

NAMESPACES = [name for name, value in globals().items() if isinstance(value, Namespace)]
gae = norm.gae

__all__ = [*NAMESPACES, "gae", "pass_at_k"]
