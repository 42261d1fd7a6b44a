"""Choices from outside the package: what is registered is a choice like any other, and what cannot be is refused."""

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.config_store import ConfigStore
from small_runs import SHORT, SMALL, rows

import rlexp
from rlexp.analysis.figures import gallery
from rlexp.analysis.figures.inputs import NoData
from rlexp.axes import AXES
from rlexp.config import plugins, schema
from rlexp.config.checks import remarks
from rlexp.config.choices import choices_of
from rlexp.config.compose import compose
from rlexp.config.explain_choice import explained
from rlexp.core.errors import ConfigError
from rlexp.core.facts import LossFacts, NormFacts, ordered
from rlexp.core.memory import Memory
from rlexp.core.registry import METRICS, REGISTERED, registered
from rlexp.core.types import CompletionMask, PerCompletion, PerReplica, PerToken, Positive, TokenMask
from rlexp.record import provenance
from rlexp.tasks import TASKS

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(autouse=True)
def nothing_stays():
    """Take away after a test what it has registered."""
    tables = [TASKS, METRICS, *(table for axis in AXES.values() for table in (axis.functions, axis.memories))]
    before = [dict(table) for table in tables]
    folders, store = list(plugins.FOLDERS), ConfigStore.instance()
    yield
    changed = [each.group.partition(".")[0] for each in registered()]
    for each in registered():
        if each.values:
            del store.repo[each.group.partition(".")[0]][f"{each.name}.yaml"]
    REGISTERED.clear()
    plugins.FOLDERS[:] = folders
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    for group in {*changed} & schema.Config.model_fields.keys():
        schema.refresh(group)


def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    """A = (r − median) / (MAD + eps)."""
    distances = rewards - rewards.median(-1, keepdim=True).values
    return distances / (distances.abs().median(-1, keepdim=True).values + eps)


def untyped(rewards, *, power=2, root=0.5):
    """Types come from the defaults, shapes from what the axis is offered."""
    return rewards**power * root


def ended(finished):
    return finished


def level(reward_level: PerReplica, rewards: PerCompletion, *, decay: float = 0.5) -> PerReplica:
    return decay * reward_level + (1 - decay) * rewards.mean((-1, -2))


def zero(*, decay: float = 0.5) -> float:
    return 0.0


def above(rewards: PerCompletion, reward_level: PerReplica, *, decay: float = 0.5) -> PerCompletion:
    """A = r − the mean reward of earlier steps."""
    return rewards - reward_level[..., None, None]


def of_a_loss(rewards: PerCompletion) -> PerCompletion:
    return rewards


LEVEL = Memory("reward_level", zero, level, "mean reward of earlier steps")


def test_a_registered_function_is_a_choice_for_hydra_for_config_and_for_explain():
    assert rlexp.register("norm", mad) is mad
    assert "mad" in choices_of("norm")
    assert compose("norm=mad", "norm.eps=0.5") == rlexp.Config(norm="mad", **{"norm.eps": 0.5})
    assert "A = (r − median) / (MAD + eps)." in "\n".join(explained("norm=mad"))
    with pytest.raises(ConfigError, match=r"^norm\.eps=-1: must be above 0$"):
        compose("norm=mad", "norm.eps=-1")


@pytest.mark.parametrize(("group", "function"), [("norm", untyped), ("filter.loss", ended)])
def test_configs_that_were_made_before_stay_what_they_are(group, function, recwarn):
    before = rlexp.Config()
    rlexp.register(group, function)
    assert before == rlexp.Config() and before.model_dump() == rlexp.Config().model_dump() and not recwarn.list


def test_as_a_decorator_with_another_name_and_other_defaults():
    rlexp.register("norm", name="mine", defaults={"eps": 2.0})(mad)
    assert rlexp.Config(norm="mine").norm.model_dump() == {"name": "mine", "eps": 2.0}


def test_types_that_are_not_written_are_those_of_the_defaults():
    rlexp.register("norm", untyped)
    assert rlexp.Config(norm="untyped").norm.model_dump() == {"name": "untyped", "power": 2, "root": 0.5}
    with pytest.raises(ConfigError, match=r"^norm\.power=0\.5: must be a whole number$"):
        compose("norm=untyped", "norm.power=0.5")


def test_a_function_that_is_defined_anew_replaces_itself_as_in_a_notebook():
    cell = "def mine(rewards, *, by={}):\n    return rewards - by\nrlexp.register('norm', mine)"
    for default in (0.5, 2.0):
        exec(cell.format(default), {"rlexp": rlexp, "__name__": "__main__"})
        assert rlexp.Config(norm="mine").norm.by == default


def test_a_choice_of_a_part_leaves_the_other_parts_and_has_the_settings_of_its_axis():
    rlexp.register("filter.loss", ended)
    assert rlexp.Config(filter="ended").filter.model_dump() == {
        "refill": {"name": "none", "rounds": 1},
        "loss": {"name": "ended"},
        "statistics": {"name": "none"},
    }
    rlexp.register("kl", lambda log_probs, ref_log_probs: (log_probs - ref_log_probs).abs(), "absolute")
    assert rlexp.Config(kl="absolute").kl.model_dump() == {"name": "absolute", "coef": 0.04, "place": "loss"}


@pytest.mark.parametrize(
    ("group", "function", "more", "line"),
    [
        ("nrm", mad, {}, "register('nrm'): no such group; there are prompts, allocation, reward, "),
        ("preset", mad, {}, "register('preset'): no such group; there are "),
        ("norm", mad, {"name": "local"}, "norm=local: there is one already; take another name: name=..."),
        ("norm", mad, {"name": "my norm"}, "register('norm'): 'my norm' cannot be a name; take one like mad: name=..."),
        ("norm", lambda rewards: rewards, {}, "register('norm'): '<lambda>' cannot be a name; take one like mad"),
        ("norm", lambda foo: foo, {"name": "m"}, "norm=m asks for `foo`, which norm is not offered; there are adj"),
        ("norm", lambda rewards, *, k: k, {"name": "m"}, "norm=m: the hyperparameter `k` of `<lambda>` in "),
        ("norm", mad, {"name": "m", "defaults": {"epps": 1.0}}, "norm=m: no hyperparameter epps; there are eps"),
        ("shaping", above, {}, "shaping=above asks for `reward_level`, which shaping is not offered; there are "),
        ("norm", LossFacts(unit="completion")(of_a_loss), {}, "@LossFacts beside `of_a_loss`: must be @NormFacts"),
        ("kl_control", lambda kl_factor: kl_factor, {"name": "m"}, "kl_control=m asks for `kl_factor`, which kl_"),
        ("kl_control", lambda mask: mask, {"name": "m"}, "kl_control=m: every kl_control remembers something; give me"),
        ("metric", lambda foo: foo, {"name": "a/b"}, "metric=a/b asks for `foo`, which metric is not offered; there"),
        ("metric", lambda mask: mask, {"name": "m"}, "register('metric'): 'm' cannot be a name; take one like advant"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_one_line_and_leaves_nothing(group, function, more, line):
    with pytest.raises(ConfigError) as error:
        rlexp.register(group, function, **more)
    assert str(error.value).startswith(line) and "\n" not in str(error.value) and registered() == []
    assert "m" not in choices_of("norm")


def by_advantage(losses: PerToken, mask: TokenMask, advantages: PerToken) -> PerReplica:
    return (losses * advantages.abs()).where(mask, 0.0).sum((-1, -2, -3))


def test_right_answers_are_refused_an_aggregation_by_what_they_have_not():
    rlexp.register("agg", by_advantage)
    rlexp.register("imitation", lambda log_probs: log_probs.square(), "squared")
    assert rlexp.Config(imitation="squared").imitation.mu_peak == 0.1
    with pytest.raises(ConfigError, match="imitation=squared agg=by_advantage: asks for `advantages`, and right answ"):
        rlexp.Config(agg="by_advantage", imitation="squared")


def test_a_choice_may_bring_its_own_checks():
    def slow(key, node, config):
        if config.group_size.completions > 4:
            yield f"{key}={node.name}: sorts every group, which takes long with so many completions"

    @NormFacts(compares="group", problems=(ordered("low", "high"),), remarks=(slow,))
    def between(rewards: PerCompletion, *, low: float = 0.0, high: float = 1.0) -> PerCompletion:
        return rewards.clamp(low, high)

    rlexp.register("norm", between)
    with pytest.raises(ConfigError, match=r"^norm\.low=2: must be at most norm\.high=1$"):
        rlexp.Config(norm="between", **{"norm.low": 2.0})
    with pytest.raises(ConfigError, match="^norm=between: compares a completion with others"):
        rlexp.Config(norm="between", **{"group_size.completions": 1})
    assert [*remarks(rlexp.Config(norm="between"))] == [*slow("norm", SimpleNamespace(name="between"), rlexp.Config())]


def test_a_hyperparameter_without_a_default_is_asked_for():
    def bounded(rewards: PerCompletion, *, bound: Positive) -> PerCompletion:
        return rewards.clamp(-bound, bound)

    line = r"^norm=bounded: bound has no default; write bound=\.\.\. in the signature, or defaults=$"
    with pytest.raises(ConfigError, match=line):
        rlexp.register("norm", bounded)
    rlexp.register("norm", bounded, defaults={"bound": 1.0})


def test_a_folder_of_ones_own_serves_choices_to_hydra_and_to_config(tmp_path):
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm" / "mad_shrunk.yaml").write_text("# Less for groups of nearly one reward.\nname: mad\neps: 0.1\n")
    rlexp.register("norm", mad)
    rlexp.add_config_dir(tmp_path)
    assert compose("norm=mad_shrunk") == rlexp.Config(norm="mad_shrunk") == rlexp.Config(norm=mad, **{"norm.eps": 0.1})
    assert "Less for groups of nearly one reward." in "\n".join(explained("norm=mad_shrunk"))
    with pytest.raises(ConfigError, match="is no folder with YAML files"):
        rlexp.add_config_dir(tmp_path / "none")


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"preset": "dapo"},
        {"preset": "dapo", "clip": "symmetric", "seed": 3},
        {"norm": "hybrid", "group_size": 4, "clip.high": 0.3, "eval.ks": [1, 2]},
        {"task": "bandit", "model": "tabular", "kl": "k3", "kl.place": "reward", "grad_clip": None},
        {"filter": "dynamic", "filter.refill.rounds": 3, "critic": "value", "norm": "gae"},
        {"reward": "learned", "optimizer": "sgd", "lr": 1},
    ],
)
def test_a_config_from_python_is_the_one_of_the_command_line(overrides):
    written = [f"{key}={'null' if value is None else str(value).replace(' ', '')}" for key, value in overrides.items()]
    assert rlexp.Config(**overrides) == compose(*written)


def test_a_config_takes_nodes_of_another_and_says_what_is_wrong_as_the_command_line_does():
    first = rlexp.Config(clip="higher", **{"clip.high": 0.4})
    assert rlexp.Config(clip=first.clip) == first
    for given, line in [
        ({"norm": "locl"}, "norm=locl: no such choice; did you mean local?"),
        ({"lr": -1.0}, "lr=-1: must be above 0"),
        ({"nrm": "local"}, "nrm=local: no such key"),
        ({"critic": "value"}, "critic=value: norm=local asks for no values"),
    ]:
        with pytest.raises(ConfigError) as error:
            rlexp.Config(**given)
        assert str(error.value).startswith(line)


@pytest.mark.slow
def test_what_is_registered_goes_to_a_fresh_process_by_value(tmp_path):
    code = "def lower(rewards, *, by=0.5):\n    return rewards - by\n"
    script = f"{code}\nimport rlexp\nrlexp.register('norm', lower)\nfrom rlexp.config.plugins import as_bytes\n"
    place = tmp_path / "bytes"
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    run([sys.executable, "-c", f"{script}open({str(place)!r}, 'wb').write(as_bytes())"])
    there = f"from rlexp.config.plugins import from_bytes\nfrom_bytes(open({str(place)!r}, 'rb').read())\n"
    there += "import rlexp, torch\nfrom rlexp.axes import AXES\n"
    there += "print(rlexp.Config(norm='lower').norm, AXES['norm'].functions['lower'](torch.ones(1), by=2.0).item())"
    assert run([sys.executable, "-c", there]).stdout == "name='lower' by=0.5 -1.0\n"


def test_provenance_names_what_a_config_chooses_and_nothing_else():
    rlexp.register("norm", mad)
    (line,) = provenance.code_of(rlexp.Config(norm="mad").model_dump())["plugins"]
    assert line.startswith("norm=mad: ") and ", files " in line
    assert "plugins" not in provenance.code_of(rlexp.Config().model_dump())
    known = REGISTERED["norm"]["mad"]
    of_script = type(mad)(mad.__code__, {"__name__": "__main__"})
    assert provenance.origin(replace(known, function=of_script)).startswith("norm=mad: source ")


@dataclass(frozen=True, kw_only=True)
class Constant(TASKS["token_preference"]):
    """A task of one's own, by inheritance."""


def test_a_task_is_registered_as_a_class():
    with pytest.raises(ConfigError, match=r"^task=constant: \w+ has no default"):
        rlexp.register("task", Constant, "constant")
    values = rlexp.Config(task="token_preference").task.model_dump()
    rlexp.register("task", Constant, "constant", defaults={key: values[key] for key in values if key != "name"})
    assert rlexp.Config(task="constant").task.name == "constant"


@pytest.mark.rare  # two processes start
def test_functions_of_a_notebook_are_swept_in_two_processes_and_remember(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rlexp.register("norm", above, memory=LEVEL)
    overrides = [*SHORT, *SMALL, "steps=4", "hydra.launcher.workers=2"]
    found = rlexp.sweep(*overrides, norm=["local", mad, "above"], seeds=[0, 1], folder=tmp_path / "sweep")
    assert found.runs["status"].tolist() == ["completed"] * 6
    alone = rlexp.api.train(*overrides[:-1], norm="above", seed=1, folder=tmp_path / "alone")
    together = dict(zip(zip(found.runs["variant"], found.runs["seed"], strict=True), found.runs["folder"], strict=True))
    (name,) = {variant for variant, _ in together if "norm=above" in variant}
    assert rows(alone) == rows(Path(together[name, 1]))


def negative(advantages, mask):
    """Share of tokens with a negative advantage."""
    return ((advantages < 0) & mask).sum((-1, -2, -3)) / mask.sum((-1, -2, -3))


def doubled(inputs):
    """Twice the scores."""
    raise NoData("a test draws nothing")


@pytest.mark.slow
def test_a_metric_and_a_figure_of_ones_own_are_in_the_rows_and_on_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "OWN", {})
    rlexp.register("metric", negative, "advantage/negative")
    rlexp.register("figure", doubled)
    folder = rlexp.api.train(*SHORT, *SMALL, folder=tmp_path / "run")
    shares = [row["advantage/negative"] for row in rows(folder) if "advantage/negative" in row]
    assert shares and all(0 <= share <= 1 for share in shares)
    omitted = gallery.gallery(SimpleNamespace(comparison=SimpleNamespace(stratum="")), only=["doubled"])[1]
    assert omitted == [("Twice the scores", "a test draws nothing")]


@pytest.mark.slow
def test_a_metric_with_the_name_of_another_one_ends_in_one_line(tmp_path):
    rlexp.register("metric", negative, "clip/high")
    with pytest.raises(rlexp.RunFailed, match="metric=clip/high: there is one already; register it under another name"):
        rlexp.api.train(*SHORT, *SMALL, folder=tmp_path / "run")
