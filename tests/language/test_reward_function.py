"""Which functions are reward functions, and what they are given of a file that somebody else has written."""

from __future__ import annotations

import json
import sys

import pytest
from pydantic import TypeAdapter
from task_choices import FILES

from rlexp.core.registry import schema
from rlexp.core.streams import Purpose
from rlexp.language import TEXT_TASKS, text_task
from rlexp.language.jsonl import imported

FUNCTIONS = """
import functools, hydra.utils, operator, os, pathlib, pickle, shutil, subprocess, torch

call = hydra.utils.instantiate
bound = functools.partial(hydra.utils.call)
cached = functools.lru_cache(os.system)
method = pathlib.Path("here").write_text
named = operator.methodcaller("write_text")
loads, load, started, removed, evaluated = pickle.loads, torch.load, subprocess.run, shutil.rmtree, eval
joined = "".join

class Caller:
    __call__ = staticmethod(hydra.utils.instantiate)

caller = Caller()

class Judge:
    def __call__(self, completions, **_):
        return [1.0] * len(completions)

    def judge(self, completions, **_):
        return self(completions)

seen = []

def zero(completions, nested, **more):
    seen.append((nested, more))
    return [0.0] * len(completions)

judge = Judge()
judges = judge.judge
partly = functools.partial(judges, extra=1)
remembered = functools.wraps(zero)(lambda **_: [])
"""
ANYTHING = "call bound cached method named loads load started removed evaluated joined caller Caller".split()
ELSEWHERE = ["hydra.utils:instantiate", "builtins:exec", "os:system", "pathlib:Path", "torch:load", "subprocess:Popen"]


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)


@pytest.mark.parametrize("name", [*(f"theirs:{name}" for name in ANYTHING), *ELSEWHERE])
def test_what_does_as_its_arguments_say_is_none_by_any_name(name):
    with pytest.raises(ValueError, match=f"reward={name}: is (of [a-z_]+, and could run|a class; name a function)"):
        imported(name)


@pytest.mark.parametrize("name", ["zero", "judge", "judges", "partly", "remembered"])
def test_objects_methods_and_decorated_functions_are_some(name):
    assert callable(imported(f"theirs:{name}"))


def kinds(value):
    """All types in nested values."""
    inner = value.values() if type(value) is dict else value if type(value) is list else []
    return {type(value)}.union(*map(kinds, inner))


def test_columns_are_handed_on_as_they_stand_in_the_file(tmp_path):
    nested = {"_target_": "pathlib.Path.touch", "_args_": ["${oc.env:HOME}", 1, 0.5, None, True, {"a": []}]}
    rows = [{"prompt": f"{i}", "answer": i, "nested": nested, "plain": "${oc.env:HOME}"} for i in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = FILES["jsonl"] | {"path": "rows.jsonl", "reward": "theirs:zero"}
    task = text_task(TypeAdapter(schema(TEXT_TASKS)).validate_python(values))
    task.score(task.examples(0, Purpose.PROMPTS, 0, 2, False), ["a", "b"], [True] * 2)
    ((given, more),) = sys.modules["theirs"].seen
    assert given == [nested] * 2 and more["plain"] == ["${oc.env:HOME}"] * 2
    assert kinds([given, more]) == {dict, list, str, int, float, bool, type(None)}
