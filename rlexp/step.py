"""One training step, from prompts to new weights, in the order of the algorithm box.

Everything up to the advantages happens once for a rollout (``judge``), clip, kl, agg and the update once for every
inner step and minibatch (``learn``). Each variant owns a contiguous block of replicas and applies its own functions to
it; the policy, the sampling and the update are one call for all.
"""

from __future__ import annotations

from rlexp import metrics
from rlexp.blocks import by_block, minibatches
from rlexp.fleet import Fleet
from rlexp.judge import judged, measured
from rlexp.learn import lead, remembered, update
from rlexp.masked import count

TOKENS = (-1, -2, -3)


def train_step(fleet: Fleet, step: int, measure: bool) -> metrics.Row:
    """Sample, judge, learn; return what was sampled and, if ``measure``, the metrics of the step."""
    found = judged(fleet, step, measure)
    groups, batch = found.groups, found.batch
    row = {"tokens": groups.tokens, "completions": groups.rounds * fleet.prompts * fleet.group}
    if measure:
        row |= measured(fleet, found)
    mean_tokens = count(batch.mask, TOKENS, batch.advantages.dtype).squeeze(TOKENS).clamp(min=1) / fleet.minibatches
    parts = [*minibatches(batch, fleet.prompts, fleet.minibatches)] * fleet.inner_steps
    tape = groups.tape and groups.tape.of(slice(fleet.prompts // fleet.minibatches))
    rows = [update(fleet, parts[0], mean_tokens, measure, tape)]
    rows += [update(fleet, part, mean_tokens, measure) for part in parts[1:]]
    lead(fleet, step)
    fleet.memory.update(by_block(remembered, fleet.blocks, fleet.memory, batch))
    return row | metrics.over_updates(rows) if measure else row
