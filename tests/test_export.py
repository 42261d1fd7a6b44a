"""A configuration in the settings of TRL, verl and OpenRLHF: what is printed is valid there, nothing is left unsaid."""

import dataclasses
import importlib.util
from functools import cache
from types import SimpleNamespace

import pytest
from axis_choices import CONF
from small_runs import TAUGHT

from rlexp.compose import compose as composed_anew
from rlexp.config import Config
from rlexp.export import __main__, openrlhf, trl, verl
from rlexp.export.rule import OF_THE_PENALTY, PARTS, export, implications, kind, parts, text

compose = cache(composed_anew)
FRAMEWORKS = {"trl": trl.FRAMEWORK, "verl": verl.FRAMEWORK, "openrlhf": openrlhf.FRAMEWORK}
AXES = sorted({part.partition(".")[0] for part in PARTS})
PRESETS = sorted(f"preset={path.stem}" for path in CONF.glob("preset/*.yaml"))
CHOICES = sorted(f"{axis}={path.stem}" for axis in AXES for path in CONF.glob(f"{axis}/*.yaml"))

# Keys of every run, each a setting in every framework; and keys that no framework is told.
OF_A_RUN = "group_size seed inner_steps minibatches lr lr_final warmup_steps grad_clip entropy_coef temperature steps"
OF_THIS_PROJECT = (
    "task model logger log_every checkpoint_every resume threads device matmul_precision compile eval score baseline "
    "study"
)
# Knobs that have no counterpart, and of which the note says so without a number.
UNSAID = {("openrlhf", "filter.refill", "rounds"), ("trl", "kl_control", "target"), ("trl", "kl_control", "horizon")}

needs_trl = pytest.mark.skipif(
    importlib.util.find_spec("trl") is None, reason="TRL is not installed: pip install '.[trl]'"
)


@cache
def configuration(choice):
    """Compose a choice; a part of the penalty is not looked at without one, a teacher needs the folder of a run."""
    if choice in TAUGHT:
        return compose().model_copy(update={"teacher": SimpleNamespace(name=choice.partition("=")[2])})
    return compose(choice, *(["kl=k3"] if choice.partition("=")[0] in OF_THE_PENALTY else []))


def kind_of(config, part):
    return kind(part, parts(config)[part])


def exported(to, *overrides):
    return export(compose(*overrides), FRAMEWORKS[to])


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("choice", PRESETS + CHOICES)
def test_every_preset_and_every_choice_has_settings_or_a_reason(to, choice):
    config = configuration(choice)
    settings, differs, missing = export(config, FRAMEWORKS[to])
    table = FRAMEWORKS[to].table
    rules = {part: table.get(part, {}).get(kind(part, node), "") for part, node in parts(config).items()}
    implied = {part for rule in rules.values() for part, names in implications(rule) if kind_of(config, part) in names}
    passed_over = implied | (OF_THE_PENALTY if config.kl.name == "none" else set())
    without = {f"{part}={kind_of(config, part)}" for part, rule in rules.items() if isinstance(rule, str)}
    named = {line.partition(": ")[0] for line in missing}
    assert {each for each in without if each.partition("=")[0] not in passed_over} <= named
    written = text([choice], config, FRAMEWORKS[to])
    assert all(line.startswith("#") for line in written.splitlines()[: 1 + len(differs) + len(missing)])
    assert settings and all(name in written for name, value in settings.items() if value is not False)


def shifted(value):
    return value + 1 if isinstance(value, int) else 1.5 * value + 0.1


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("choice", [choice for choice in CHOICES if not choice.startswith("start")])
def test_no_knob_is_passed_over_in_silence(to, choice):
    config, framework = configuration(choice), FRAMEWORKS[to]
    before = export(config, framework)
    for part, node in parts(config).items():
        axis, _, place = part.partition(".")
        if axis != choice.partition("=")[0] or any(line.startswith(f"{part}=") for line in before.missing):
            continue
        for knob, value in node:
            if isinstance(value, str) or node.name == "none" or (to, part, knob) in UNSAID:
                continue
            changed = node.model_copy(update={knob: shifted(value)})
            changed = getattr(config, axis).model_copy(update={place: changed}) if place else changed
            assert export(config.model_copy(update={axis: changed}), framework) != before, f"{part}.{knob}"


def test_every_key_of_a_run_is_exported_or_of_this_project_alone():
    assert set(Config.model_fields) == {*AXES, *OF_A_RUN.split(), *OF_THIS_PROJECT.split()}


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize(
    "override",
    "group_size=4 seed=7 inner_steps=3 minibatches=4 lr=0.5 lr_final=0.5 warmup_steps=3 grad_clip=null entropy_coef=0 "
    "temperature=0.5 steps=7".split(),
)
def test_every_key_of_a_run_is_a_setting(to, override):
    if (to, override) == ("openrlhf", "steps=7"):
        pytest.skip("OpenRLHF counts epochs of its data, no steps")
    assert exported(to, override).settings != exported(to).settings


@needs_trl
@pytest.mark.parametrize("choice", PRESETS + CHOICES)
def test_trl_takes_the_settings(choice, tmp_path):
    from trl import GRPOConfig

    settings = export(configuration(choice), trl.FRAMEWORK).settings
    made = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", **settings)
    for name, value in settings.items():
        assert getattr(made, name) == value, name


@needs_trl
def test_the_preset_trl_is_what_trl_ships(tmp_path):
    from trl import GRPOConfig

    ours = exported("trl", "preset=trl")
    shipped = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none")
    batch = {"per_device_train_batch_size", "max_completion_length", "max_steps", "learning_rate"}  # of our tiny task
    own = {"seed", "warmup_steps", "epsilon_high", "vllm_importance_sampling_correction"}  # unset, or only with vLLM
    for name, value in ours.settings.items():
        if name not in batch | own:
            assert (getattr(shipped, name) or value) == value, name
    assert (shipped.epsilon_high or shipped.epsilon) == ours.settings["epsilon_high"]
    assert not ours.missing


@needs_trl
def test_every_setting_of_the_table_exists():
    from trl import GRPOConfig

    known = {each.name for each in dataclasses.fields(GRPOConfig)}
    rules = [rule for part in trl.TABLE.values() for rule in part.values() if not isinstance(rule, str)]
    assert {name for rule in [trl.RUN, *rules] for name in rule.settings} <= known


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
    ("verl", ["mismatch=token_mask"], {"algorithm.rollout_correction.rollout_is_threshold": "0.5_5"}),
    ("verl", ["kl=k1"], {VERL + "use_kl_loss": False, "algorithm.use_kl_in_reward": True}),
    ("verl", ["kl=k2"], {VERL + "kl_loss_type": "mse", "algorithm.use_kl_in_reward": False}),
    ("verl", ["warmup_steps=5", "minibatches=4"], {VERL + "optim.lr_warmup_steps": 2}),
    ("verl", ["mismatch=token_truncate"], {"actor_rollout_ref.rollout.calculate_log_probs": True}),
    ("openrlhf", ["lr_final=1.0", "warmup_steps=8"], {"--actor.lr_scheduler": "constant_with_warmup"}),
    ("openrlhf", ["preset=openrlhf"], {"--algo.advantage.estimator": "reinforce", "--algo.kl.init_coef": 0.01}),
    ("openrlhf", ["clip=dual"], {"--actor.eps_clip_low_high": [0.2, 0.2], "--actor.dual_clip": 3.0}),
    ("openrlhf", ["shaping=zero_truncated"], {"--reward.stop_properly_penalty_coef": 0.0}),
    ("openrlhf", ["filter=dynamic_difficulty"], {"--algo.dynamic_filtering_range": [0.1, 0.9]}),
]


@pytest.mark.parametrize(("to", "overrides", "expected"), EXAMPLES, ids=[f"{to} {o}" for to, o, _ in EXAMPLES])
def test_settings_are_those_of_the_framework(to, overrides, expected):
    settings = exported(to, *overrides).settings
    assert {name: settings.get(name) for name in expected} == expected


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
        ("trl", ["agg=prompt"], "agg=prompt: no framework averages by prompt"),
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
