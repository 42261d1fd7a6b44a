"""The folder ``analysis`` of this project, also where a user's own package or module has that name.

``python -m rlexp.train`` puts the current folder in front of the path, so an ``analysis.py`` there would be what
``import analysis`` finds. Ours stands beside ``rlexp``, in a checkout and installed, and is loaded from there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

NAME = "analysis"
FOLDER = Path(__file__).resolve().parents[2] / NAME

_ours: dict[str, ModuleType] = {}  # while the name belongs to another one


@contextmanager
def own_analysis() -> Iterator[None]:
    """Context in which ``import analysis`` means ours; afterwards it means what it meant before."""
    if is_ours():
        yield
        return
    theirs = take_modules()
    sys.modules.update(_ours)
    try:
        if not _ours:
            load_package()
        yield
    finally:
        _ours.update(take_modules())
        sys.modules.update(theirs)


def is_ours() -> bool:
    """Whether the name means ours anyway."""
    try:
        spec = find_spec(NAME)
    except ValueError:  # a module in sys.modules that was made by hand
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent == FOLDER


def take_modules() -> dict[str, ModuleType]:
    """Remove the modules of the name from those that are imported, and return them."""
    names = [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]
    return {name: sys.modules.pop(name) for name in names}


def load_package() -> None:
    """Import ours from where it stands; its modules are then found through it."""
    spec = spec_from_file_location(NAME, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
    package = sys.modules[NAME] = module_from_spec(spec)
    spec.loader.exec_module(package)
