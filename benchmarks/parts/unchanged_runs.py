"""What benchmarks.unchanged trains: every choice of every axis, with whatever makes it do something in three steps.

Overrides are a dict of key and values; a key with several values is swept, ``"*"`` stands for all choices of an axis,
and None takes a key out of ``BASE``. A choice of a group takes the group's hyperparameters out of ``BASE`` too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path

Choices = Mapping[str, list[str]]
Overrides = Mapping[str, list[str]]

# So easy a task that even random weights sort some items right; half of the completions are cut off.
BASE = """seed=0 threads=1 logger=none log_every=1 eval.every=2 eval.prompts=6 eval.samples=2 eval.ks=[1,2]
    inner_steps=2 minibatches=2 lr=0.05 group_size.completions=8 group_size.prompts=8
    task.alphabet=3 task.shortest=1 task.longest=2 task.cap=4 model.width=16 model.feedforward=32"""
KL = "kl=k3 kl.coef=0.3"
SFT = "start=sft start.accuracy=0.3"  # for choices that need right and wrong completions in a group
TAUGHT = "taught"  # name of the sweep whose one run is the teacher of the others
TEACHER = f"teacher.run={TAUGHT}/0"

# What an axis or a single choice needs besides itself; what stands here for a choice replaces what stands for its axis.
# Hydra first composes a multirun without what it sweeps: a key that the default of its axis lacks is a choice() too.
NEEDS = {
    "allocation": f"task.prompt_set=8 {SFT}",
    "anchor": "data=stale data.age=2 sampler=noisy sampler.std=1.0 mismatch=token_truncate",
    "data=pipeline": "data.rollouts=2 data.tokens=1 data.max_age=3",
    "filter": f"norm=global {SFT}",  # some filters only change the statistics of a batch
    "filter=dynamic": "filter.refill.rounds=2,10 group_size.completions=2",
    "filter=dynamic_difficulty": "filter.refill.rounds=2,10 group_size.completions=2",
    "kl": "kl.coef=0.3 kl.place=loss,reward",
    "kl=low_var_kl": "kl.coef=0.3 kl.bound=0.05",  # its own bound is far
    "kl_control=adaptive": f"{KL} kl_control.target=0.12",  # near what the runs have here: at most 20 % off is followed
    "kl_control=ziegler": f"{KL} kl_control.target=0.45",
    "logger=wandb": "logger.mode=offline",
    "mismatch": "sampler=noisy sampler.std=1.0",  # the noise of its own 0.1 reaches no bound
    "critic": f"norm=gae_whitened {SFT}",
    "critic=vapo": f"norm=gae_decoupled critic.critic_warmup=choice(1) {SFT}",  # of three steps
    "norm": SFT,
    "norm=gae": f"critic=value {SFT}",
    "norm=gae_whitened": f"critic=value {SFT}",
    "norm=gae_decoupled": f"critic=value {SFT}",
    "norm=gae_length_adaptive": f"critic=value norm.alpha=choice(0.5) {SFT}",  # by 0.05 no λ is above 0 here
    "norm=value_baseline": f"critic=value {SFT}",
    "norm=dbb": f"task.prompt_set=8 {SFT}",
    "norm=spo": f"task.prompt_set=8 {SFT}",
    "optimizer=sgd": "lr=0.5",
    "optimizer=momentum": "lr=0.1",
    "preset": "inner_steps=2 -minibatches",
    "preset=opsd": "inner_steps=2 -minibatches task=two_habits task.hint=4",
    "preset=sdpo": "inner_steps=2 -minibatches task=two_habits task.hint=4",
    "preset=vapo": "inner_steps=2 -minibatches critic.critic_warmup=choice(1)",
    "prompts": f"task.prompt_set=8 {SFT}",
    "reference": f"{KL} reference.every=choice(2)",  # their own is more than the steps of a run here
    "reference=random": KL,
    "reference=halfway": f"{KL} {SFT}",
    "reference=run": f"{KL} reference.run={TAUGHT}/0",
    "shaping": SFT,
    "shaping=clip": "shaping.low=0.1 shaping.high=0.4",  # its own bounds are those of the rewards
    "start": "start.accuracy=choice(0.3)",
    "start=pretrained_mixture": "task=two_habits start.accuracy=0.01 start.checked=128 start.every=5",
    "start=mixture": "start.accuracy=0.0 start.formed=0.0",
    # one that chooses rates first trains nothing on a seed alone
    "study": "-task -model -group_size -inner_steps -minibatches ++study.choose_first=false",
    "task": "model=gru,positional,transformer,transformer_plain kl=k2 kl.coef=0.1 filter=zero_variance norm=hybrid",
    "task=bandit": "model=gru,tabular kl=k2 kl.coef=0.1 filter=zero_variance norm=hybrid",
    "teacher": f"{TEACHER} teacher.coef=choice(0.7)",  # by 1.0 nothing is weighed
    "teacher=rlsd": f"{TEACHER} teacher.network=null teacher.hint=null",
    "teacher=self": "distillation=jsd teacher.hint=choice(null)",
    "distillation": "teacher.network=reference",
}
# Trained in the runs of all other axes, as the defaults of config.yaml or, model, with the tasks.
ELSEWHERE = (
    *(
        "critic=none",
        "kl=none",
        "kl_control=fixed",
        "logger=none",
        "reference=frozen",
        "start=random",
        "study=none",
        "teacher=none",
    ),
    "model=",
)

# Of language models, whose bits are TRL's affair, and what needs the folder of one.
OF_LANGUAGE = {"backend=trl", "model=pretrained", "start=pretrained", "task=jsonl", "task=reasoning_gym"}

NEEDS_PACKAGE = {"logger=trackio": "trackio"}  # an extra: left out where it is not installed

# What no choice of an axis stands for.
MORE = {
    "kl_in_reward": "kl=k1 kl.coef=0.3 norm=gdpo,optimal_token,reinforce,reinforce_pp,reinforce_pp_baseline,running",
    "discounted": f"norm=reinforce,reinforce_pp,reinforce_pp_baseline norm.gamma=choice(0.9) {SFT}",
    "punished": "shaping=overlong,overlong_quadratic shaping.factor=choice(0.3) shaping.cache=choice(3)",
    "untied": "task=token_preference filter=top_entropy filter.loss.share=0.19,0.21 agg=dr_grpo norm=optimal_token",
    "seeds": "seed=0,1 norm=local,running shaping=noise_persistent hydra.launcher.max_replicas=3",
    "schedules": "lr_final=0.5 warmup_steps=3 grad_clip=null,0.1 clip=scheduled temperature=0.7,1.3 entropy_coef=0.1",
    "conversation": "task=tool task.train_on_environment=false,true critic=value norm=gae,value_baseline kl=k1 "
    "kl.coef=0.3 kl.place=reward sampler=noisy sampler.std=1.0 mismatch=sequence_truncate",
    "sizes": "model=llama,llama_10k,llama_70k,llama_300k,llama_5m",
    "updates": "inner_steps=1,3 minibatches=1,4",
    "penalised": f"{KL} kl.place=reward,loss kl_control=adaptive reference=polyak reference.every=1 norm=local,rloo",
    "everything": f"{KL} shaping=overlong filter=overlong norm=hybrid clip=higher sampler=noisy mismatch=token_mask",
}


@dataclass(frozen=True)
class Sweep:
    """Runs of one command; ``name`` is their folder. One run is trained without a multirun, a study never."""

    name: str
    overrides: Overrides

    @property
    def runs(self) -> int:
        """How many runs the overrides make; a study makes more of them."""
        return prod(map(len, self.overrides.values()))

    def arguments(self) -> list[str]:
        """Return what follows ``python -m rlexp.train``; folders are relative, tables and figures are left out."""
        texts = [f"{key}={','.join(values)}" for key, values in self.overrides.items()]
        if self.runs == 1 and "study" not in self.overrides:
            texts = [re.sub(r"=choice\((.*)\)$", r"=\1", text) for text in texts]
            return [*texts, f"hydra.run.dir={self.name}/0"]
        places = [f"hydra.sweep.dir={self.name}", "hydra.sweep.subdir=${hydra.job.num}"]
        return ["-m", "~hydra.callbacks.rlexp", *texts, *places]


def choices(tree: Path) -> Choices:
    """Return the names of the choices of every axis of a checkout, without those of language models."""
    found = defaultdict(list)
    for path in sorted(tree.glob("conf/*/*.yaml")):
        choice = f"{path.parent.name}={path.stem}"
        if choice not in OF_LANGUAGE and find_spec(NEEDS_PACKAGE.get(choice, "torch")):
            found[path.parent.name].append(path.stem)
    for path in sorted(tree.glob("conf/study/claims/*.yaml")):  # the studies of a claim, by their names
        found["study"] += re.findall(r"^(\w+):", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found


def sweeps(known: Choices, steps: int, only: str = "") -> list[Sweep]:
    """Return everything there is to train, or what has ``only`` in its name, such as ``norm=local``."""
    found = [*of_axes(known, only), *((name, words) for name, words in MORE.items() if only in name)]
    if any(f"{TAUGHT}/0" in words for _, words in found):
        found.insert(0, (TAUGHT, "seed=7"))
    return [Sweep(name, overrides(f"{words} steps={steps}", known)) for name, words in found]


def of_axes(known: Choices, only: str) -> Iterator[tuple[str, str]]:
    """Name and words of a sweep for each set of choices of an axis that need the same."""
    for axis, names in known.items():
        by_needs = defaultdict(list)
        for name in names:
            if only in f"{axis}={name}" and not f"{axis}={name}".startswith(ELSEWHERE):
                alone = name if axis == "study" else ""  # a study is a sweep of its own
                by_needs[NEEDS.get(f"{axis}={name}", NEEDS.get(axis, "")), alone].append(name)
        for number, ((needs, _), group) in enumerate(by_needs.items()):
            yield f"{axis}{number + 1 if number else ''}", f"{axis}={','.join(group)} {needs}"


def overrides(words: str, known: Choices) -> Overrides:
    """Return ``BASE`` as these words change it: ``key=value``, ``key=one,other``, ``axis=*``, ``-key`` without it."""
    base, changes = parsed(BASE), parsed(words)
    left = {key: values for key, values in base.items() if key.partition(".")[0] not in changes}
    chosen = {key: known[key] if values == ["*"] else values for key, values in changes.items()}
    return {key: values for key, values in (left | chosen).items() if values}


def parsed(words: str) -> dict[str, list[str]]:
    """Read overrides; one that is left out has no values."""
    found = {}
    for word in words.split():
        key, _, values = word.partition("=")
        found[key.removeprefix("-")] = [values] if values.startswith("[") else values.split(",") if values else []
    return found
