"""Settings of all tests, and the discovery of the axis choices.

A test that asks for ``norm_choice`` (``clip_choice``, …) runs once for each YAML of that axis, one that asks for
``any_choice`` once for each YAML of every axis. A new variant is therefore tested on the day its YAML is written.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import jaxtyping
import pytest
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


class Unchecked(PathFinder):
    """Finds the analysis ahead of jaxtyping's hook: its annotations are those of PEP 484, where an int is a float."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return super().find_spec(name, path, target) if name.startswith("rlexp.analysis") else None


sys.meta_path.insert(0, Unchecked)
QUICK = "not slow"  # what a developer runs; make test runs what is not rare, make test-all runs all
LONG = 2  # seconds
NEED_MORE = {"browser", "ray", "slurm"}  # marks of what needs more than the tests' requirements: rare, too


def pytest_itemcollected(item):
    """Let what is rare be slow, too: whoever leaves out the slow tests means these as well. Skip what lacks a GPU."""
    if NEED_MORE & {mark.name for mark in item.iter_markers()}:
        item.add_marker("rare")
    if item.get_closest_marker("rare"):
        item.add_marker("slow")
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        item.add_marker(pytest.mark.skip(reason="PyTorch sees no CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Check shapes and types of every call, but in the tests that are whole runs: they take twice as long with it."""
    jaxtyping.config.update("jaxtyping_disable", item.get_closest_marker("slow") is not None)
    return (yield)


def pytest_addoption(parser):
    parser.addoption("--write-long", metavar="FILE", help=f"write the tests that passed in more than {LONG} s")
    parser.addoption("--leave-out", metavar="FILE", help="leave out the tests that such a file names")


def pytest_collection_modifyitems(config, items):
    if file := config.getoption("leave_out"):
        known = set(Path(file).read_text("utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid not in known]


def pytest_terminal_summary(terminalreporter, config):
    if file := config.getoption("write_long"):
        passed = terminalreporter.stats.get("passed", [])
        Path(file).write_text("".join(f"{each.nodeid}\n" for each in passed if each.duration > LONG), "utf-8")


def pytest_configure(config):
    settings.load_profile("quick" if config.getoption("markexpr") == QUICK else "whole")
    config.addinivalue_line("markers", "only(*names): the axis choices, by function name, that a law is about")


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``<axis>_choice`` or ``any_choice`` once for each, or for those that ``only`` names."""
    marker = metafunc.definition.get_closest_marker("only")
    for wanted in [*(f"{axis}_choice" for axis in AXES), "any_choice"]:
        if wanted in metafunc.fixturenames:
            axes = AXES if wanted == "any_choice" else [wanted.removesuffix("_choice")]
            found = [choice for axis in axes for choice in choices(axis)]
            if wanted == "any_choice":  # what several YAML files call by other names is one function with one setting
                settings_of = {str(c): (c.axis, c.name, repr(c.hyperparameters)) for c in found}
                found = [c for at, c in enumerate(found) if [*settings_of.values()].index(settings_of[str(c)]) == at]
            metafunc.parametrize(wanted, [c for c in found if marker is None or c.name in marker.args], ids=str)
