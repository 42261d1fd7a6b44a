"""What Hydra 1.3 (OmegaConf 2.3) and Hydra 1.4 (OmegaConf 2.4) spell differently; each warns of the other's way."""

from __future__ import annotations

import warnings

import hydra
from omegaconf import OmegaConf

__all__ = ["VERSION_BASE", "register_resolver"]

OLD = hydra.__version__.startswith("1.3.")
# for hydra.main and initialize_config_dir: 1.3 asks whose behaviour is meant, 1.4 has only the one of 1.3
VERSION_BASE = {"version_base": "1.3"} if OLD else {}
# 2.3 has a register_resolver as well: an older one, whose functions are given texts
register_resolver = OmegaConf.register_new_resolver if OLD else OmegaConf.register_resolver

# 1.4 warns of every class that a config names, unless the program lists all that are allowed. A list would shut out
# callbacks and sweepers of users; they are still warned of, the callback of this project is not.
warnings.filterwarnings("ignore", r"hydra\.utils\.instantiate\(\) resolved _target_='rlexp\.", UserWarning)
