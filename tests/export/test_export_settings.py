"""Single configurations in TRL, verl and OpenRLHF: their settings, what is said to differ, what the command prints."""

import pytest
from exports import FRAMEWORKS, exported

from rlexp.export import __main__

VERL = "actor_rollout_ref.actor."
EXAMPLES = [
    ("trl", ["preset=lite_ppo"], {"scale_rewards": "batch", "loss_type": "dapo", "epsilon_high": 0.2, "beta": 0.0}),
    ("trl", ["preset=gspo"], {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4}),
    ("trl", ["preset=luspo"], {"importance_sampling_level": "sequence", "loss_type": "luspo"}),
    ("trl", ["preset=cispo"], {"loss_type": "cispo", "epsilon_high": 5.0}),
    ("trl", ["preset=grpo"], {"beta": 0.04, "use_bias_correction_kl": False}),
    ("trl", ["kl=k3_corrected"], {"use_bias_correction_kl": True}),
    ("trl", ["inner_steps=3", "minibatches=4"], {"num_iterations": 3, "steps_per_generation": 4, "max_steps": 4800}),
    ("trl", ["kl=k3", "reference=trl", "minibatches=4"], {"ref_model_mixup_alpha": 0.6, "ref_model_sync_steps": 200}),
    ("trl", ["lr_final=0.25", "lr=1.0"], {"lr_scheduler_kwargs": {"lr_end": 0.25, "power": 1.0}}),
    ("trl", ["lr_final=1.0"], {"lr_scheduler_type": "constant_with_warmup"}),
    ("trl", ["agg=dr_grpo", "task.cap=9"], {"loss_type": "dr_grpo", "max_completion_length": 9}),
    ("verl", ["preset=verl"], {VERL + "clip_ratio_c": 3.0, VERL + "ppo_mini_batch_size": 4, VERL + "entropy_coeff": 0}),
    ("verl", ["clip=cispo_two_sided"], {VERL + "clip_ratio_low": 0.2, VERL + "clip_ratio_high": 0.2}),
    ("verl", ["clip=higher"], {VERL + "clip_ratio_low": 0.2, VERL + "clip_ratio_high": 0.28}),
    ("verl", ["filter=dynamic"], {"algorithm.filter_groups.max_num_gen_batches": None}),
    ("verl", ["norm=remax"], {"trainer.use_v1": False}),
    ("verl", ["norm=gdpo"], {"+algorithm.gdpo_reward_weights": [0.5, 0.5]}),
    ("verl", ["preset=gspo"], {VERL + "loss_agg_mode": "seq-mean-token-mean", VERL + "optim.clip_grad": 1.0}),
    ("verl", ["mismatch=sequence_mask"], {"algorithm.rollout_correction.rollout_is_threshold": "1e-09_3.0"}),
    ("verl", ["mismatch=token_mask"], {"algorithm.rollout_correction.rollout_is_threshold": "0.5_5.0"}),
    ("verl", ["kl=k1"], {VERL + "use_kl_loss": False, "algorithm.use_kl_in_reward": True}),
    ("verl", ["kl=k2"], {VERL + "kl_loss_type": "mse", "algorithm.use_kl_in_reward": False}),
    ("verl", ["warmup_steps=5", "minibatches=4"], {VERL + "optim.lr_warmup_steps": 2}),
    ("verl", ["mismatch=token_truncate"], {"actor_rollout_ref.rollout.calculate_log_probs": True}),
    ("openrlhf", ["lr_final=1.0", "warmup_steps=8"], {"--actor.lr_scheduler": "constant_with_warmup"}),
    ("openrlhf", ["preset=openrlhf"], {"--algo.advantage.estimator": "reinforce", "--algo.kl.init_coef": 0.01}),
    ("openrlhf", ["norm=reinforce_pp_baseline"], {"--algo.advantage.gamma": None}),
    ("openrlhf", ["clip=dual"], {"--actor.eps_clip_low_high": [0.2, 0.2], "--actor.dual_clip": 3.0}),
    ("openrlhf", ["shaping=zero_truncated"], {"--reward.stop_properly_penalty_coef": 0.0}),
    ("openrlhf", ["filter=dynamic_difficulty"], {"--algo.dynamic_filtering_range": [0.1, 0.9]}),
]


@pytest.mark.parametrize(("to", "overrides", "expected"), EXAMPLES, ids=[f"{to} {o}" for to, o, _ in EXAMPLES])
def test_settings_are_those_of_the_framework(to, overrides, expected):
    settings = exported(to, *overrides).settings
    assert {name: settings.get(name) for name in expected} == expected


@pytest.mark.parametrize(("number", "expected"), [("null", 0), ("1", 1), ("3", 3)])
def test_as_many_steps_train_the_critic_alone_there(number, expected):
    """verl (1dda039b) updates the policy where critic_warmup <= global_steps, from 1; OpenRLHF (3c3be623) where
    global_steps > freezing_steps, from 0."""
    overrides = ["norm=gae_whitened", "critic=value", f"critic.critic_warmup={number}"]
    verl = exported("verl", *overrides).settings["trainer.critic_warmup"]
    openrlhf = exported("openrlhf", *overrides).settings["--critic.freezing_steps"]
    assert sum(not verl <= step for step in range(1, 10)) == expected
    assert sum(not step > openrlhf for step in range(9)) == expected
    falls = [exported(to, *overrides, *more).differs for to in ("verl", "openrlhf") for more in ([], ["lr_final=1.0"])]
    line = "critic=value: the policy's learning rate falls over all steps there"
    assert [any(each.startswith(line) for each in said) for said in falls] == [expected > 0, False] * 2


WARNINGS = [
    ("trl", ["clip=cispo"], "clip=cispo: epsilon_high is the bound itself there, not its distance from 1"),
    ("trl", ["clip=cispo_two_sided"], "clip=cispo: lower is 0.8 here and always 0 there"),
    ("trl", [], "mismatch=none: TRL corrects by default wherever vLLM samples"),
    ("trl", [], "agg=token: before TRL 1.16 the denominator was wrong"),
    ("trl", [], "norm=local: eps is 1e-06 here and always 0.0001 there"),
    ("trl", ["clip=naive"], "clip=naive: the loss is −ρA there"),
    ("trl", ["norm=rloo"], "norm=rloo: advantages are (G − 1)/G of ours there"),
    ("trl", ["kl=k3"], "kl=k3 in the loss: use_bias_correction_kl is True there by default"),
    ("verl", [], "clip=ppo: a dual clip is always on there, at 3 by default"),
    ("verl", [], "clip=ppo: clip_ratio alone changes nothing there"),
    ("verl", [], "agg=token: tokens are those of an optimizer step there"),
    ("verl", ["clip=dppo_tv"], "clip=dppo_tv: clip_ratio_c bounds the weight there; its default of 3 stands"),
    ("verl", ["preset=gmpo"], "clip=gmpo: the loss is a plain mean over the completions of each micro-batch"),
    ("verl", ["kl=k3"], "kl=k3 in the loss: k3 is clamped at 10 there"),
    ("verl", ["group_size.completions=1", "norm=remax"], None),
    ("verl", ["norm=optimal_token"], "norm=optimal_token: runs in verl's legacy trainer only (trainer.use_v1=False)"),
    ("verl", ["norm=gdpo", "filter=dynamic"], "norm=gdpo: filter_groups acts in the v1 trainer only"),
    ("verl", ["norm=gdpo", "shaping=overlong"], "norm=gdpo: shaping and KL in the reward are no component there"),
    ("verl", ["preset=remax"], "norm=remax: a token bears the KL of itself and of what follows there"),
    ("verl", ["norm=reinforce_pp_baseline", "kl=k1"], "norm=reinforce_pp_baseline: KL in the reward is in the group's"),
    ("verl", ["clip=gspo", "mismatch=token_mask"], "clip=gspo: the correction weighs each token's own gradient there"),
    ("verl", ["mismatch=sequence_mask"], "mismatch=sequence_mask: a low bound of 0 is refused there"),
    ("verl", ["filter=dynamic"], "filter.refill=zero_variance: the number of rounds has no cap there"),
    *((to, ["warmup_steps=5"], "the warm-up begins at a learning rate of 0 there") for to in FRAMEWORKS),
    ("openrlhf", ["clip=gspo", "mismatch=token_mask"], "mismatch=token_mask: with gspo it multiplies nothing there"),
    ("openrlhf", ["preset=openrlhf"], "norm=reinforce_pp: the variance is at least eps there"),
    ("openrlhf", ["norm=reinforce_pp_baseline", "norm.gamma=0.9"], "norm=reinforce_pp_baseline: gamma is 0.9 here and"),
    ("openrlhf", ["preset=gspo"], "the entropy bonus is a mean over tokens there"),
    ("verl", ["warmup_steps=5"], "the learning rate moves once a rollout there, here at every update"),
    ("trl", ["clip=vespo", "mismatch=token_mask"], "clip=vespo: the correction is inside the weight there"),
    ("openrlhf", [], "completions are shuffled over the updates of a rollout there"),
    ("openrlhf", [], "--reward.clip_range, ±10 by default, clips after the group's mean and deviation"),
    ("openrlhf", ["kl=k1"], "norm=local: KL in the reward is subtracted after the group's mean there"),
    ("openrlhf", ["mismatch=sequence_mask"], "mismatch=sequence_mask: a completion is dropped by the geometric mean"),
]


@pytest.mark.parametrize(("to", "overrides", "start"), WARNINGS, ids=[f"{to} {o} {s}" for to, o, s in WARNINGS])
def test_known_deviations_are_said(to, overrides, start):
    differs = exported(to, *overrides).differs
    assert start is None or any(line.startswith(start) for line in differs)


@pytest.mark.parametrize(
    ("to", "overrides", "line"),
    [
        ("trl", ["norm=opo"], "norm=opo: has no counterpart"),
        ("trl", ["norm=none"], "norm=none: the group's mean is always subtracted"),
        ("trl", ["agg=prompt"], "agg=prompt: nothing averages by prompt there"),
        ("trl", ["kl=k1"], "kl=k1 in the reward: only RLOOTrainer has KL in the reward, as k1"),
        ("trl", ["clip=cispo", "agg=sequence"], "agg=sequence: clip=cispo comes with agg=token"),
        (
            "trl",
            ["agg=dr_grpo", "agg.length=5", "task.cap=6"],
            "agg=dr_grpo: max_completion_length should be 5, and is 6 for something else",
        ),
        ("verl", ["norm=hybrid"], "norm=hybrid: has no counterpart"),
        ("verl", ["clip=gspo", "agg=token"], "agg=token: clip=gspo comes with agg=sequence"),
        ("openrlhf", ["agg=sequence"], "agg=sequence: tokens are averaged over the optimizer step"),
    ],
)  # fmt: skip
def test_what_cannot_be_expressed_is_named(to, overrides, line):
    assert line in exported(to, *overrides).missing


@pytest.mark.parametrize("overrides", [["preset=trl"], ["clip=naive", "minibatches=1"]])
def test_a_run_with_every_ratio_at_1_is_not_warned_of_ratios(overrides):
    assert not [line for line in exported("trl", *overrides).differs if "ρ" in line or "shuffled" in line]


@pytest.mark.parametrize("framework", ["trl", "verl", "openrlhf"])
def test_a_framework_can_express_its_own_preset(framework):
    assert exported(framework, f"preset={framework}").missing == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["preset=lite_ppo", "to=typo"], "to=typo: no such framework; there are trl, verl, openrlhf"),
        (["preset=lite_ppo"], "to=: no such framework; there are trl, verl, openrlhf"),
        (["preset=typo", "to=trl"], "preset=typo: no such choice; there are "),
        (["clip.hgh=2", "to=trl"], "clip.hgh=2: no such key; did you mean high?"),
        (["lr=0", "to=verl"], "lr=0: must be above 0"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, line):
    with pytest.raises(SystemExit) as end:
        __main__.main(arguments)
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(line)


def test_the_command_prints_comments_and_then_the_settings(capsys):
    __main__.main(["preset=lite_ppo", "to=trl", "lr=0.5"])
    printed = capsys.readouterr().out
    assert printed.startswith("# preset=lite_ppo lr=0.5 as TRL 1.16, trl.GRPOConfig\n# differs:\n")
    code = printed[printed.index("GRPOConfig(\n") :]
    settings = eval(code, {"GRPOConfig": dict})
    assert settings == exported("trl", "preset=lite_ppo", "lr=0.5").settings
    for to, start in (("verl", "python3 -m verl.trainer.main_ppo \\\n"), ("openrlhf", "python3 -m openrlhf.cli")):
        __main__.main(["preset=dapo", f"to={to}"])
        command = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
        assert "\n".join(command).startswith(start)
        assert all(line.endswith("\\") for line in command[:-1]) and not command[-1].endswith("\\")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_usage_targets_and_an_example_that_runs(capsys, flag):
    __main__.main(["preset=typo", flag])
    printed = capsys.readouterr().out
    assert "usage: python -m rlexp.export [axis=choice ...] [key=value ...] to=FRAMEWORK" in printed
    assert all(f"\n  {to}" in printed and framework.name in printed for to, framework in FRAMEWORKS.items())
    command, module, name, *arguments = printed.splitlines()[-1].split()
    assert (command, module, name) == ("python", "-m", "rlexp.export")
    __main__.main(arguments)
    assert "GRPOConfig(" in capsys.readouterr().out
