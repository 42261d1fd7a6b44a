"""Settings of all tests, and the discovery of the axis choices.

A test that asks for ``norm_choice`` (``clip_choice``, …) runs once for each YAML of that axis, one that asks for
``any_choice`` once for each YAML of every axis. A new variant is therefore tested on the day its YAML is written.
"""

from __future__ import annotations

import os
import signal

import torch
from axis_choices import AXES, choices
from hypothesis import settings

settings.register_profile("whole", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=10)
torch.set_num_threads(1)
# Ray lets its workers wait for everybody else's processes, which beside the other tests is a minute.
os.environ.setdefault("RAY_worker_niceness", "0")
# Whatever is started below nohup, or as a job in the background, ignores signals: tests that send them would hang.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "whole")
    config.addinivalue_line("markers", "only(*names): the axis choices, by function name, that a law is about")


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``<axis>_choice`` or ``any_choice`` once for each, or for those that ``only`` names."""
    marker = metafunc.definition.get_closest_marker("only")
    for wanted in [*(f"{axis}_choice" for axis in AXES), "any_choice"]:
        if wanted in metafunc.fixturenames:
            axes = AXES if wanted == "any_choice" else [wanted.removesuffix("_choice")]
            found = [choice for axis in axes for choice in choices(axis)]
            metafunc.parametrize(wanted, [c for c in found if marker is None or c.name in marker.args], ids=str)
