"""A configuration in the settings of TRL, verl and OpenRLHF: what is printed is valid there, nothing is left unsaid."""

import dataclasses
import importlib.util
from types import SimpleNamespace

import pytest
from exports import AXES, CHOICES, FRAMEWORKS, OF_A_CORPUS, PRESETS, configured, exported
from small_runs import BESIDE, TAUGHT, compose

from rlexp.config.schema import Config
from rlexp.export.tables import OF_THE_PENALTY, Rule, export, kind, parts, text

pytestmark = pytest.mark.slow  # every choice in three frameworks

# A key that is a setting in one framework, and of which the others say that they lack it.
OF_OPENRLHF = "advantage_clip"
# A key that no framework has, and of which all say so.
OF_NONE = "kl_stop"
OF_NO_OTHER = {
    "whiten_advantages": ((False, True), "advantages are not whitened after the norm there"),
    "advantage_entropy_weight": ((0.0, 0.1), "advantages are not weighed by entropy there"),
    "positive_nll_coef": ((0.0, 0.1), "correct completions have no loss of their own there"),
    "temperature_final": ((None, 0.5), "the temperature is constant there"),
}
# A key that no framework has, and of which each says what it does instead.
OF_FORMULAS = "log_ratio_bound"
# Keys of every run, each a setting in every framework; and keys that no framework is told.
OF_A_RUN = "group_size seed inner_steps minibatches lr lr_final warmup_steps grad_clip entropy_coef temperature steps"
OF_THIS_PROJECT = (
    "task model logger log_every checkpoint_every resume threads device matmul_precision compile eval score baseline "
    "until_decided until_width until_best study backend"
)
# Hyperparameters that have no counterpart, and of which the note says so without a number.
ROUNDS = {(framework, "filter.refill", "rounds") for framework in ("verl", "openrlhf")}
UNSAID = ROUNDS | {("trl", "kl_control", "target"), ("trl", "kl_control", "horizon")}

needs_trl = pytest.mark.skipif(
    importlib.util.find_spec("trl") is None, reason="TRL is not installed: pip install '.[trl]'"
)


def configuration(choice):
    """Compose a choice; a part of the penalty is not looked at without one, a teacher needs the folder of a run."""
    axis, _, name = choice.partition("=")
    if choice in TAUGHT and axis == "reference":
        config = compose("kl=k3")
        return config.model_copy(update={axis: config.reference.model_copy(update={"begin": name})})
    if choice in TAUGHT:
        return compose().model_copy(update={axis: SimpleNamespace(name=name, seed=None)})
    return configured(choice, *(["kl=k3"] if axis in OF_THE_PENALTY else []), *OF_A_CORPUS.get(choice, []))


def kind_of(config, part):
    return kind(part, parts(config)[part])


@pytest.mark.parametrize("choice", PRESETS + CHOICES)
def test_every_preset_and_every_choice_has_settings_or_a_reason(choice):
    for framework in FRAMEWORKS.values():
        has_settings_or_a_reason(choice, configuration(choice), framework)


def has_settings_or_a_reason(choice, config, framework):
    settings, differs, missing = export(config, framework)
    table = framework.table
    rules = {part: table.get(part, {}).get(kind(part, node), "") for part, node in parts(config).items()}
    found = [rule for rule in rules.values() if isinstance(rule, Rule)]
    implied = {part for rule in found for part, names in rule.implies.items() if kind_of(config, part) in names}
    passed_over = implied | (OF_THE_PENALTY if config.kl.name == "none" else set())
    without = {f"{part}={kind_of(config, part)}" for part, rule in rules.items() if isinstance(rule, str)}
    named = {line.partition(": ")[0] for line in missing}
    assert {each for each in without if each.partition("=")[0] not in passed_over} <= named, framework.name
    written = text([choice], config, framework)
    assert all(line.startswith("#") for line in written.splitlines()[: 1 + len(differs) + len(missing)])
    assert settings and all(name in written for name, value in settings.items() if value is not False), framework.name


def shifted(value):
    if value is None:
        return 0.5
    if isinstance(value, list):
        return [shifted(each) for each in value]
    return value + 1 if isinstance(value, int) else 1.5 * value + 0.1


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if not choice.startswith("start")])
def test_no_hyperparameter_is_passed_over_in_silence(choice):
    for to, framework in FRAMEWORKS.items():
        no_hyperparameter_is_passed_over(choice, configuration(choice), to, framework)


def no_hyperparameter_is_passed_over(choice, config, to, framework):
    before = export(config, framework)
    for part, node in parts(config).items():
        axis, _, place = part.partition(".")
        if axis != choice.partition("=")[0] or any(line.startswith(f"{part}=") for line in before.missing):
            continue
        for hyperparameter, value in node:
            if (
                isinstance(value, str)
                or hyperparameter in ("model", "run")
                or node.name == "none"
                or (to, part, hyperparameter) in UNSAID
            ):
                continue
            changed = node.model_copy(update={hyperparameter: shifted(value)})
            changed = getattr(config, axis).model_copy(update={place: changed}) if place else changed
            assert export(config.model_copy(update={axis: changed}), framework) != before, (
                f"{to}: {part}.{hyperparameter}"
            )


def test_every_key_of_a_run_is_exported_or_of_this_project_alone():
    assert set(Config.model_fields) == {
        *AXES,
        *OF_A_RUN.split(),
        OF_OPENRLHF,
        OF_NONE,
        *OF_NO_OTHER,
        OF_FORMULAS,
        *OF_THIS_PROJECT.split(),
    }


CHANGED = dict(
    seed=7, inner_steps=3, minibatches=4, lr=0.5, lr_final=0.5, warmup_steps=3, grad_clip=None, entropy_coef=0.0
) | dict(temperature=0.5, steps=7, group_size=SimpleNamespace(completions=4, prompts=16))


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("key", CHANGED)
def test_every_key_of_a_run_is_a_setting(to, key):
    if (to, key) == ("openrlhf", "steps"):
        pytest.skip("OpenRLHF counts epochs of its data, no steps")
    changed = compose().model_copy(update={key: CHANGED[key]})
    assert export(changed, FRAMEWORKS[to]).settings != exported(to).settings


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_a_bound_of_advantages_is_a_setting_or_said_to_be_none(to):
    settings, differs, _ = export(compose().model_copy(update={OF_OPENRLHF: 2.5}), FRAMEWORKS[to])
    assert settings.get("--reward.clip_range") == ([-2.5, 2.5] if to == "openrlhf" else None)
    assert ("advantages have no bound there" in differs) == (to != "openrlhf")


@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("key", OF_NO_OTHER)
def test_what_nobody_else_has_is_said_to_be_missing(to, key):
    values, line = OF_NO_OTHER[key]
    said = [export(compose().model_copy(update={key: value}), FRAMEWORKS[to])[1].count(line) for value in values]
    assert said == [0, 1]


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_a_stop_is_said_to_be_missing(to):
    text_of_stops = "updates on a rollout are never stopped there"
    assert text_of_stops in export(compose().model_copy(update={OF_NONE: 0.1}), FRAMEWORKS[to]).differs
    assert text_of_stops not in export(compose(), FRAMEWORKS[to]).differs


@pytest.mark.parametrize(
    ("to", "choice", "bounded"),
    [
        ("trl", "clip=symmetric", False),
        ("trl", "clip=vespo", None),
        ("verl", "clip=symmetric", True),
        ("verl", "clip=cispo", True),
        ("verl", "clip=kl_cov", False),
        ("verl", "clip=dro", None),
        ("openrlhf", "clip=dual", True),
        ("openrlhf", "clip=gspo", False),
    ],
)
def test_what_bounds_a_log_ratio_there_is_said_where_it_differs(to, choice, bounded):
    """By core_algos.py of verl and loss.py of OpenRLHF: None for losses that have no bound of ours."""
    said = {}
    for bound in (20.0, 10.0, None):
        _, differs, _ = export(configured(choice).model_copy(update={OF_FORMULAS: bound}), FRAMEWORKS[to])
        said[bound] = [line.rpartition(": ")[2] for line in differs if "log-ratios" in line]
    there, nowhere = ["log-ratios are bounded at ±20 there"], ["log-ratios have no bound there"]
    expected = {True: ([], there, there), False: (nowhere, nowhere, []), None: ([], [], [])}[bounded]
    assert tuple(said.values()) == expected


def test_every_key_of_a_run_is_tried():
    assert set(CHANGED) == set(OF_A_RUN.split())


@pytest.mark.slow
def test_these_configurations_are_those_of_the_command_line():
    """Of all choices a quarter: Hydra takes a fifth of a second for each."""
    for choice in [choice for choice in PRESETS + CHOICES if choice not in TAUGHT | set(BESIDE)][::4]:
        assert configured(choice) == compose(choice), choice


@needs_trl
@pytest.mark.slow
def test_trl_takes_the_settings(tmp_path):
    """Each set of settings once: many choices have the same, as what TRL lacks is not among them."""
    from trl import GRPOConfig

    tried = {}
    for choice in PRESETS + CHOICES:
        settings = export(configuration(choice), FRAMEWORKS["trl"]).settings
        tried.setdefault(repr(settings), (choice, settings))
    for choice, settings in tried.values():
        made = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", **settings)
        assert {name: getattr(made, name) for name in settings} == settings, choice


@needs_trl
@pytest.mark.slow
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
@pytest.mark.slow
def test_every_setting_of_the_table_exists():
    from trl import GRPOConfig

    known = {each.name for each in dataclasses.fields(GRPOConfig)}
    rules = [rule for part in FRAMEWORKS["trl"].table.values() for rule in part.values() if not isinstance(rule, str)]
    assert {name for rule in [FRAMEWORKS["trl"].run, *rules] for name in rule.settings} <= known
