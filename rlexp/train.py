"""The command line: one run, or with -m a sweep. Nothing heavy is imported before the overrides are known to exist.

In Python ``rlexp.train(configs)`` trains and yields events: see ``rlexp.training.train``.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import hydra
from omegaconf import DictConfig

from rlexp import __version__
from rlexp.config import compose, explain_choice, parse, trust  # noqa: F401 (the first two register with Hydra)
from rlexp.config.choices import CONF
from rlexp.core.callable_module import CallableModule
from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.core.hydra_compat import VERSION_BASE
from rlexp.launch.hydra_private import check_options
from rlexp.record.lock import released_at_the_end
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c


@hydra.main(config_path=str(CONF), config_name="config", **VERSION_BASE)
def hydra_main(settings: DictConfig) -> float:
    """Train one run in the folder that Hydra made; return its score."""
    from rlexp.backends.dispatch import trainer
    from rlexp.launch.checks import checked_job

    job = checked_job(settings)
    try:
        (result,) = trainer(job.config.backend.name)([job], job.name)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"hydra.run.dir={job.folder}") from None
    except Exception as error:
        result = error
    if isinstance(result, Exception):
        raise RunFailed(describe_error(result)) from result
    return result


@safe_stdio()
@signals_as_ctrl_c()
@released_at_the_end()
def main() -> None:
    """Let Hydra do what the command line says; end whatever is wrong with it in one line and exit code 2."""
    arguments, trusted = trust.split_option(sys.argv[1:])
    if arguments[:1] == ["explain"]:
        return explain_choice.main(arguments[1:])
    if "--version" in arguments:
        return print(f"rlexp {__version__}, torch {version('torch')}, hydra-core {version('hydra-core')}")
    try:
        if start_again(arguments, trusted):
            return
        parse.check(arguments)
        with for_hydra(arguments):
            chosen = check_options(sys.argv[1:])
            if not trusted:
                trust.check_folders(chosen.overrides, chosen.config_dir)
            hydra_main()
    except KeyboardInterrupt as stop:
        end_undisturbed()
        text = "interrupted"
        for place in stop.args:  # the override that names the folder
            again = [argument for argument in arguments if not argument.startswith(place.partition("=")[0])]
            again += [*[trust.OPTION] * trusted, place]
            text += f"; go on with: python -m rlexp.train {shlex.join(again)}"
        exit_with(text, INTERRUPTED)
    except RunFailed as error:
        exit_with(f"run failed: {describe_error(error)}", FAILED, error)
    except Exception as error:
        from rlexp.config.messages import explain

        exit_with(explain(error, [argument for argument in arguments if "=" in argument]), BAD_INPUT, error)


def start_again(arguments: Sequence[str], trusted: bool) -> bool:
    """Do what `--from <folder>` asks for, if it is there; ConfigError for Hydra's own ways to another config."""
    if any(argument.partition("=")[0] == "--from" for argument in arguments):
        from rlexp.launch.repeat import repeat

        repeat(arguments, trusted)
        return True
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name.startswith(("--config-p", "--config-n", "-cp", "-cn")):
            folder = value or next(iter(arguments[place + 1 :]), "")
            run = folder if Path(folder, "config.yaml").is_file() else "<folder>"
            raise ConfigError([f"{argument}: no other config is read; rlexp --from {run} repeats the run of a folder"])
        if name.startswith("--e"):  # --experimental-rerun
            raise ConfigError([f"{argument}: no pickle is read, it could run anything; there is rlexp --from <folder>"])
    return False


def mode_of(arguments: Sequence[str]) -> list[str]:
    """Return `-m` for a study, which is a sweep. Its file says so too, but Hydra 1.4 asks before it reads files."""
    studies = [argument for argument in arguments if re.fullmatch(r"study=(?!none$|null$)[^,]+", argument)]
    return ["--multirun"] if studies and not {"-m", "--multirun"} & {*arguments} else []


@contextmanager
def for_hydra(arguments: Sequence[str]) -> Iterator[None]:
    """Context in which Hydra understands the arguments, and leaves its exceptions to us.

    What ``--cfg`` prints holds the arguments as they were typed.
    """
    before, full_error, read = sys.argv, os.environ.get("HYDRA_FULL_ERROR"), parse.for_hydra(arguments)
    shown = any(argument.partition("=")[0] in ("--cfg", "-c", "--info", "-i") for argument in arguments)
    printed = StringIO() if shown and read != [*arguments] else None
    sys.argv = [before[0], *parse.options_first(read), *mode_of(arguments)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        with redirect_stdout(printed) if printed else nullcontext():
            yield
    finally:
        sys.argv = before
        os.environ.pop("HYDRA_FULL_ERROR")
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error
        if printed:
            text = printed.getvalue()
            for each, typed in zip(read, arguments, strict=True):
                text = text.replace(each, typed) if each != typed else text
            print(text, end="")


CALLED = "rlexp.training:train"
sys.modules[__name__].__class__ = CallableModule


if __name__ == "__main__":
    try:
        main()
    finally:
        end_undisturbed()
