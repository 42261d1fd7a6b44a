"""``rlexp doctor``: what this machine is, which kernels train here, whether its bits hold, and what is installed.

    $ rlexp doctor
    processor   Intel(R) Xeon(R) Processor, 2 cores, 12 GB for batches
    kernels     PyTorch 2.13.0 AVX512, MKL 2024.2, MKL_CBWR=AUTO,STRICT
    bits        transformer  alone = together (all 102 kinds of product hold)
    …

Exit code 1 where a run has other bits alone than together. `--json` prints the same as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version

import torch
from rich.console import Console
from rich.table import Table

from rlexp import __version__
from rlexp.config.compose import compose
from rlexp.core import exact
from rlexp.loop.evaluation import evaluate
from rlexp.loop.step import train_step
from rlexp.record.provenance import SETTINGS, code, cpu, setting_notes
from rlexp.sweep.build import build
from rlexp.sweep.machine import available_bytes, usable_cores
from rlexp.testing.contract import same

PACKAGES = ("torch", "hydra-core", "omegaconf", "numpy", "scipy", "pandas", "wandb")
SMALL = ["steps=2", "group_size.prompts=3", "group_size.completions=5", "minibatches=1"]
# What trains with all kinds of product: both bodies, and heads of one column.
CONFIGS = {"transformer": ["model=transformer"], "gru": ["model=gru"], "critic": ["norm=gae", "critic=value"]}
SEEDS = (0, 1, 2)
Line = tuple[str, str]


def main() -> None:
    """Print what there is; exit with 1 where bits do not hold."""
    arguments = sys.argv[1:]
    if arguments not in ([], ["--json"]):
        asked = arguments[0] in ("-h", "--help")
        print("usage: rlexp doctor [--json]\n\n" + (__doc__ or ""), file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    held = dict(map(check_bits, CONFIGS))
    holds = not any(said.startswith("alone ≠") for said in held.values())
    if arguments:
        about: dict[str, list[str]] = {}
        for name, text in machine():
            about.setdefault(name or "kernels", []).append(text)  # notes on the kernels have no name
        found = {"holds": holds, "bits": held, "machine": about}
        found |= {"packages": {name: version(name) for name in PACKAGES}, "extras": extras()}
        print(json.dumps(found, ensure_ascii=False))
    else:
        table = Table.grid(padding=(0, 3))
        for name, text in [*machine(), *(("bits", f"{name:13}{said}") for name, said in held.items()), *packages()]:
            table.add_row(name, text)
        Console(highlight=False, markup=False).print(table)
    sys.exit(not holds)


def machine() -> Iterator[Line]:
    """Yield what trains here, and what is set that changes bits."""
    yield "processor", f"{cpu()}, {usable_cores()} cores, {available_bytes('cpu') / 1e9:.0f} GB for batches"
    mkl = re.search(r"Math Kernel Library Version ([\d.]+)", torch.__config__.show())
    kernels = f"PyTorch {torch.__version__} {torch.backends.cpu.get_cpu_capability()}"
    modes = [f"{key}={os.environ[key]}" for key in SETTINGS if key in os.environ]
    yield "kernels", ", ".join([kernels, f"MKL {mkl[1]}" if mkl else "no MKL", *modes])
    yield from (("", note) for note in setting_notes())
    found = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    yield "GPU", ", ".join(found) or "none that PyTorch sees"
    commit = code()["commit"]
    yield "rlexp", f"{__version__}, {'commit ' + commit[:12] if commit else 'no git checkout'}"
    yield "Python", f"{platform.python_version()}, {platform.platform()}"


def packages() -> Iterator[Line]:
    """Yield the versions of the main packages, and for each extra whether it is there."""
    yield "packages", ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    for extra, found in extras().items():
        there = ", ".join(f"{name} {number}" for name, number in found.items())
        missing = None in found.values()
        yield "extra", f"{extra:13}{f'pip install {chr(39)}rlexp[{extra}]{chr(39)}' if missing else there}"


def extras() -> dict[str, dict[str, str | None]]:
    """Return the packages of each extra with their versions, None where one is not installed."""
    found: dict[str, dict[str, str | None]] = {}
    for line in distribution("rlexp").requires or []:
        if (extra := re.search(r"extra == ['\"]([\w-]+)['\"]", line)) and not line.startswith("rlexp["):
            name = re.match(r"[\w-]+", line)[0]
            found.setdefault(extra[1], {})[name] = installed(name)
    return dict(sorted(found.items()))


def installed(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_bits(name: str) -> Line:
    """Train three runs of two steps, each alone and all together; say whether every metric has the same bits."""
    exact.forget()
    together = train(CONFIGS[name], SEEDS)
    alone = [train(CONFIGS[name], [seed]) for seed in SEEDS]
    differing = {key for key, values in together.items() if not same(values, torch.cat([own[key] for own in alone]))}
    paths = exact.paths_taken() or f"all {len(exact.PATHS)} kinds of product hold"
    return name, f"alone ≠ together: {', '.join(sorted(differing))}" if differing else f"alone = together ({paths})"


def train(overrides: list[str], seeds: tuple[int, ...] | list[int]) -> dict[str, torch.Tensor]:
    """Train as one batch; return every metric of the last step ``[R]``, and of an evaluation."""
    torch.set_num_threads(1)
    state = build([compose(*SMALL, *overrides, f"seed={seed}") for seed in seeds])
    train_step(state, 1, False)
    return train_step(state, 2, True) | evaluate(state, 2, prompts=6, samples=2, ks=[1, 2])


if __name__ == "__main__":
    main()
