"""What is allowed but seldom meant is said in one line on standard error, once, and then trained."""

import pytest
from command import command  # noqa: F401 (a fixture)
from small_runs import values

from rlexp.config.checks import remarks
from rlexp.config.schema import read

TINY = ["preset=tiny", "steps=1", "logger=none"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["clip=gspo"], ["-m", "seed=0,1", "clip=gspo,luspo,symmetric"]], ids=["run", "sweep"]
)
def test_a_remark_is_one_line_and_stops_nothing(command, arguments):
    result = command(*arguments, *TINY)
    notes = [line for line in result.err.splitlines() if line.startswith("note: clip")]
    assert result.code == 0, result.err
    assert len(notes) == 1 and notes[0].startswith("note: clip=gspo agg=token: ")


CASES = [
    ([], None),
    (["clip=gspo", "agg=sequence"], None),
    (["clip=luspo", "agg=luspo"], None),
    (["clip=gspo"], "clip=gspo agg=token: the loss of a completion counts once for each token"),
    (["clip=dpo", "norm=none"], "clip=dpo agg=token: the loss of a completion counts once for each token"),
    (["clip=dpo", "agg=sequence"], "clip=dpo norm=local: this loss ranks rewards and uses no advantages"),
    (["clip=ipo", "agg=sequence", "norm=none", "minibatches=1"], None),
    (["clip=gmpo", "agg=dr_grpo"], "clip=gmpo agg=dr_grpo: "),
    (["mismatch=token_mask", "sampler=bf16"], None),
    (["mismatch=token_mask", "sampler=top_p"], None),
    (["sampler.training=truncated"], "sampler.training=truncated sampler.top_k=null sampler.top_p=null: nothing is"),
    (["sampler=top_p", "sampler.top_p=1.0"], "sampler.top_p=1: leaves no token out"),
    (["sampler=top_k", "sampler.top_k=11"], "sampler.top_k=11 task=sort: it has 11 tokens, and none is left out"),
    (["sampler=top_k"], None),
    (["mismatch=token_mask"], "mismatch=token_mask: sampler=exact leaves nothing to correct"),
    (["clip=naive", "minibatches=1"], None),
    (["clip=clip_cov", "minibatches=1"], None),
    (["clip=higher", "minibatches=1"], "clip=ppo inner_steps=1 minibatches=1: with one update on each rollout"),
    (["clip=higher", "minibatches=1", "inner_steps=2"], None),
    (["prompts=easy_to_hard", "task.prompt_set=8", "filter=dynamic"], None),
    (
        ["prompts=difficulty_pools", "task.prompt_set=8", "filter=dynamic"],
        "prompts=difficulty_pools filter.refill=zero_variance: groups that are dropped are not remembered",
    ),
    (["kl.place=reward"], "kl.place=reward: kl=none has no penalty to place"),
    (["clip.low=2"], "clip.low=2: no ratio is below 1 − 2, so nothing is clipped on that side"),
    (["clip=opsm", "clip.low=1.0"], "clip.low=1: no ratio is below 1 − 1"),
    (["clip=gmpo", "clip.low=2", "agg=sequence"], None),
    (["kl=k3", "kl.coef=0"], "kl=k3 kl.coef=0: the penalty weighs nothing, and it trains as kl=none does"),
    (["reference=polyak"], "reference=follow: without a kl nothing is trained against it"),
    (["reference=polyak", "kl=k3"], None),
    (["reference=polyak", "kl=k2_sampler"], "kl=k2_sampler reference=follow: it is about the reference"),
    (["kl_control=adaptive", "kl=k2_sampler"], "kl=k2_sampler kl_control=adaptive: it is about the reference"),
    (["kl=k2_sampler"], None),
    (["kl_stop=0.01", "minibatches=1", "clip=naive"], "kl_stop=0.01 inner_steps=1 minibatches=1: with one update"),
    (["kl_stop=0.01"], None),
    (["advantage_entropy_weight=0.1"], None),
    (
        ["clip=dpo", "norm=none", "agg=sequence", "advantage_entropy_weight=0.1"],
        "clip=dpo advantage_entropy_weight=0.1: does not look at the advantages that it weighs",
    ),
    (
        ["teacher=alone", "teacher.network=reference", "norm=none", "advantage_entropy_weight=0.1"],
        "teacher=alone advantage_entropy_weight=0.1: does not look",
    ),
    (["kl=k1", "norm=rloo"], None),
    (["kl=k1", "kl.place=loss"], "kl=k1 kl.place=loss: its gradient is zero in expectation"),
    (["kl=k3_plus", "kl.place=reward", "norm=rloo"], "kl=k3_plus kl.place=reward: penalties in the reward have no"),
    (["kl=k1"], "norm=local kl.place=reward: where only the penalties differ in a group"),
    (["kl=k1", "norm=rloo", "filter=zero_variance"], "filter.loss=zero_variance kl.place=reward: judges rewards less"),
    (["kl=k1", "norm=hybrid", "filter=overlong_both"], None),
    (["norm=pass_at_k", "shaping=overlong"], "norm=pass_at_k shaping=overlong: advantages do not depend on rewards"),
    (["norm=nsr", "kl=k1"], "norm=w_reinforce kl.place=reward: advantages do not depend on rewards"),
    (["norm=pass_at_k"], None),
    (["norm=maxrl", "task=token_preference"], "norm=maxrl: divides by the mean reward of a group"),
    (["norm=dbb", "task.prompt_set=8"], None),
    (["norm=dbb", "task.prompt_set=8", "shaping=overlong"], "norm=dbb shaping=overlong: takes rewards for shares of a"),
    (["norm=maxrl"], None),
    (["norm=gae_length_adaptive", "critic=value"], "norm.alpha=0.05: no completion is longer than task.cap=6, so λ is"),
    (["norm=gae_length_adaptive", "critic=value", "norm.alpha=0.2"], None),
    (["shaping=overlong", "shaping.cap=9"], "shaping.cap=9 shaping.cache=2: no completion is longer than task.cap=6"),
    (["shaping=overlong"], None),
    (
        ["shaping=overlong", "task=token_preference"],
        "shaping=overlong task=token_preference: every completion has task.cap=15 tokens, so all rewards of a group",
    ),
    (
        ["shaping=overlong", "task=token_preference", "shaping.cap=99"],
        "shaping.cap=99 shaping.cache=2: no completion is",
    ),
    (["filter=overlong", "task=token_preference"], "filter.loss=overlong task=token_preference: every completion has"),
    (["filter=overlong"], None),
]


@pytest.mark.parametrize(("overrides", "start"), CASES, ids=[" ".join(overrides) for overrides, _ in CASES])
def test_what_is_seldom_meant_gets_a_remark(overrides, start):
    found = list(remarks(read(values(*overrides))))
    assert [line.startswith(start) for line in found] == ([True] if start else [])


def test_a_teacher_in_place_of_the_rewards_gets_a_remark_if_they_are_shaped():
    (line,) = remarks(read(values("shaping=length_cost", "teacher=alone", "teacher.network=reference")))
    assert line.startswith("teacher=alone shaping=length_cost: advantages do not depend on rewards")
