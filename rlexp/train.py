"""The entry point: one run, or with -m a sweep. Nothing heavy is imported before the overrides are known to exist."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rlexp.compose import CONF, plain
from rlexp.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, leave, reason
from rlexp.naming import variant_name


@hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")
def hydra_main(settings: DictConfig) -> float:
    """Train one run in the folder that Hydra made; return its score."""
    from rlexp.config import read

    config, node = read(plain(settings)), HydraConfig.get()
    folder = Path(node.runtime.output_dir)
    try:
        from rlexp.engine import Job, train_jobs

        (result,) = train_jobs([Job(config, folder, folder.name, variant_name(node.overrides.task))])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"hydra.run.dir={folder}") from None
    except Exception as error:
        result = error
    if isinstance(result, Exception):
        raise RunFailed(reason(result)) from result
    return result


def how_to_continue(arguments: list[str], place: str = "") -> list[str]:
    """Return the command that goes on in ``place``, the override that names the folder; nothing without one."""
    if not place:
        return []
    others = [argument for argument in arguments if not argument.startswith(place.partition("=")[0])]
    return [f"go on with: python -m rlexp.train {shlex.join([*others, place])}"]


def main() -> None:
    """Let Hydra do what the command line says; end whatever is wrong with it in one line and exit code 2."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then leaves its exceptions to us
    try:
        hydra_main()
    except KeyboardInterrupt as stop:
        leave("; ".join(["interrupted", *how_to_continue(sys.argv[1:], *stop.args)]), INTERRUPTED)
    except RunFailed as error:
        leave(f"run failed: {reason(error)}", FAILED, error)
    except Exception as error:
        from rlexp.explain import explain

        leave(explain(error, [argument for argument in sys.argv[1:] if "=" in argument]), BAD_INPUT, error)
    finally:
        os.environ.pop("HYDRA_FULL_ERROR")
        if before is not None:
            os.environ["HYDRA_FULL_ERROR"] = before


if __name__ == "__main__":
    main()
