"""Copies of configs and files of configs, as OmegaConf and Hydra make and read them, in a fraction of the time."""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import Container, DictConfig, Node


def copy_tree(node: Node, parent: Container | None = None) -> Node:
    """Return a copy of a config below another parent: what ``copy.deepcopy`` gives, in a fifth of the time.

    Values, types and keys are immutable and shared; deepcopy copies them one by one.
    """
    metadata = object.__new__(type(node._metadata))
    metadata.__dict__.update(node._metadata.__dict__)
    metadata.flags = None if metadata.flags is None else dict(metadata.flags)
    resolved = metadata.resolver_cache
    metadata.resolver_cache = copy.deepcopy(resolved) if resolved else defaultdict(dict)
    twin = object.__new__(type(node))
    twin.__dict__.update(node.__dict__, _parent=parent, _metadata=metadata, _flags_cache=None)
    content = node.__dict__.get("_content")
    if isinstance(content, dict):
        twin.__dict__["_content"] = {key: copy_tree(child, twin) for key, child in content.items()}
    elif isinstance(content, list):
        twin.__dict__["_content"] = [copy_tree(child, twin) for child in content]
    elif isinstance(content, Node):  # of a union
        twin.__dict__["_content"] = copy_tree(content, twin)
    return twin


def masked_copy(settings: DictConfig, keys: Sequence[str]) -> DictConfig:
    """Return what ``OmegaConf.masked_copy`` gives, in a fifth of the time."""
    part = DictConfig({})
    part.__dict__["_content"] = {key: copy_tree(settings._get_node(key), part) for key in keys}
    return part


def read_once(source: ConfigSource, kept: dict[tuple, tuple[Any, ConfigResult]] | None = None) -> None:
    """Let a place of configs keep what it has read: each composition reads 30 files anew, and changes what it got.

    Args:
        source: changed in place.
        kept: what several places of files keep together; a file that was written meanwhile is read anew. None: what
            was read once stays, so that all compositions of this place see the same files.
    """
    load, found = source.load_config, {} if kept is None else kept

    def load_config(config_path: str) -> ConfigResult:
        key, now = (source.path, config_path), kept is not None and stamp(source, config_path)
        if key not in found or found[key][0] != now:
            found[key] = now, load(config_path)
        result = copy.copy(found[key][1])
        result.config, result.header = copy_tree(result.config), dict(result.header)
        return result

    source.load_config = load_config


def stamp(source: ConfigSource, config_path: str) -> tuple[int, ...] | None:
    """Return what changes when a file is written or replaced; None for what is no file of its own."""
    try:
        found = os.stat(os.path.join(source.path, f"{config_path.removesuffix('.yaml')}.yaml"))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
