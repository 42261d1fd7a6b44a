"""Small commands that between them pass through every part that can be killed."""

from __future__ import annotations

from pathlib import Path

LITTLE = "steps=24 log_every=1 checkpoint_every=2 eval.every=4 eval.prompts=6 eval.samples=2 eval.ks=[1,2]"
BASE = f"{LITTLE} logger=none threads=1 group_size.completions=4 group_size.prompts=4".split()
GRU = "model=gru model.hidden=8".split()
TRANSFORMER = "model=transformer model.width=16 model.layers=1 model.heads=2 model.feedforward=16".split()
STARTS = "start=flattened start.accuracy=0.01 start.checked=8 start.prompts=4".split()
LONG_START = ["start=sft", "start.accuracy=0.01", "start.prompts=16", "start.every=200", "start.checked=64"]
SUMS = "task=addition task.longest=2 task.cap=24 start=pretrained_mixture start.accuracy=0.001 start.checked=16".split()
HINTS = "task.hint=4 start.hinted=0.5 reference=polyak teacher=self".split()
JUDGE = "reward=ensemble_mean reward.model.members=2 reward.model.pairs=16 reward.model.updates=3".split()
SEEDS = ["-m", "seed=0,1"]
ANALYSED = ("analysis",)  # the others end without the seconds of a table and a page
STARTING = ("long starts", "long judges")  # killed while that is trained from which they start, or who judges them

COMMANDS: dict[str, list[str]] = {
    "one run": [*BASE, *GRU, "norm=ema"],
    "memories": [*SEEDS, *BASE, *GRU, "norm=ema,running,spo,dbb", "task.prompt_set=64"],
    "dynamic sampling": [*SEEDS, *BASE, *TRANSFORMER]
    + ["filter=dynamic", "filter.refill.rounds=3", "shaping=flips_persistent"],
    "critic": [*SEEDS, *BASE, *GRU, "preset=ppo", "group_size.completions=4", "group_size.prompts=8"],
    "replayed data": [*SEEDS, *BASE, *TRANSFORMER, "data=replay", "data.capacity=4"],
    "groups that vary": [*SEEDS, *BASE, *TRANSFORMER, "data=replay_variance", "data.capacity=4"],
    "reward models": [*SEEDS, *BASE, *GRU, *JUDGE],
    "loss memories": [*SEEDS, *BASE, *GRU, "norm=global", "kl=k1", "kl_control=adaptive,ziegler", "reference=polyak"],
    "starts": [*SEEDS, *BASE, *TRANSFORMER, *STARTS, "norm=local,global"],
    "long starts": [*SEEDS, *BASE, *TRANSFORMER, *LONG_START, "start.updates=4000"],
    "long judges": [*SEEDS, *BASE, *TRANSFORMER, *JUDGE, "reward.model.updates=200"],
    "teacher": [*SEEDS, *BASE, *GRU, "teacher=added", "teacher.run={teacher}"],
    "long answers": [*SEEDS, *BASE, *TRANSFORMER, *SUMS, "filter=overlong,none", "hydra.launcher.workers=2"],
    "hinted teachers": [*SEEDS, *BASE, *TRANSFORMER, *SUMS, *HINTS]
    + ["distillation=jsd,sampled", "teacher.hint=success", "hydra.launcher.workers=2"],
    "pipelines": [*SEEDS, *BASE, *TRANSFORMER, "data=pipeline", "data.rollouts=3", "data.tokens=2", "data.max_age=3"]
    + ["anchor=proximal,loglinear", "sampler=noisy"],
    "two processes": [*SEEDS, *BASE, *GRU, "norm=local,running", "hydra.launcher.workers=2"],
    "two processes and starts": [*SEEDS, *BASE, *TRANSFORMER, *STARTS, "hydra.launcher.workers=2"],
    "analysis": [*SEEDS, *BASE, *GRU, "norm=local,ema"],
}
TEACHER = [*BASE, *GRU, "hydra.run.dir=teacher"]


def arguments(name: str, teacher: Path, folder: str = "x") -> list[str]:
    """Return the command line of a command that writes to a folder; ``teacher`` is a finished run."""
    words = [word.replace("{teacher}", str(teacher)) for word in COMMANDS[name]]
    return [*words, f"hydra.{'sweep' if '-m' in words else 'run'}.dir={folder}"]


def alone(words: list[str]) -> list[str]:
    """Return a command that trains the same in one process."""
    return [word.replace("workers=2", "workers=1") for word in words]
