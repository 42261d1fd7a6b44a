"""What the fuzzer types: override lists and YAML fragments made of what there really is, and then spoiled."""

from __future__ import annotations

import re
from functools import cache

from hypothesis import strategies as st
from omegaconf import OmegaConf

from rlexp.config.choices import choices_of, groups
from rlexp.config.compose import CONF, composed
from rlexp.core.errors import format_value

NUMBERS = ["0", "1", "-1", "2", "0.5", "1e-3", "1e400", "-1e308", "nan", "inf", "1_000", "0x10", "01", "9" * 25, "1.0"]
TEXTS = ["null", "true", "[]", "{}", "[1,2]", "{a:1}", "''", '"a b"', "a b", "é", "漢字", "\u202e", "None", "~"]
TEXTS += ["a" * 300, "a" * 3000, f"'{'a b ' * 700}'", f"[{','.join(map(str, range(700)))}]"]
INTERPOLATED = ["${steps}", "${nope}", "${oc.env:NOPE}", "${task.cap}", "${", "${now:%Y}", "${hydra.job.num}"]
SWEPT = "0,1 1,1 range(0,3) range(3,0) range(0,1e9) choice(1,2) glob(*) shuffle(1,2) sort(2,1) 1,".split()
SWEPT += ["range(0,100000)", "range(0,3,0)"]
PIECES = list("=,'\"[]{}()$@+~#:./\\ \t-*&")
OPTIONS = "-m --multirun --cfg job --foo -x --info --help --steps --resolve -p --version".split()
HYDRA = ["hydra/launcher=basic", "hydra/launcher=typo", "hydra.launcher.max_replicas=0", "hydra.x=1"]
HYDRA += ["hydra.launcher.max_runs=1"]
HYDRA += ["hydra.sweeper.max_batch_size=1", "hydra.output_subdir=null", "hydra.run.dir=here", "hydra.sweep.dir=here"]
HYDRA += ["hydra.mode=MULTIRUN", "hydra.job.chdir=true", "hydra/job_logging=none", "hydra.launcher.workers=0"]
OUTSIDE = re.compile(r"hydra.*=.*(/|\.\.)|^(-sc|--shell|--exp|-cp|--config-p)|_target_")  # leaves the scratch folder


@cache
def leaves() -> list[tuple[str, str]]:
    """Every key of the default run below no `hydra`, and its value as one types it."""
    found: list[tuple[str, str]] = []

    def walk(node: object, path: str) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                walk(value, f"{path}{key}.")
        else:
            found.append((path.rstrip("."), format_value(node)))

    tree = OmegaConf.to_container(composed(), resolve=False)
    walk({key: value for key, value in tree.items() if key != "hydra"}, "")
    return found


@cache
def files() -> list[tuple[str, str]]:
    """Every YAML of a group: the group, and the text."""
    return [(path.parent.name, path.read_text(encoding="utf-8")) for path in sorted(CONF.glob("*/*.yaml"))]


def choice() -> st.SearchStrategy[str]:
    """`norm=global`."""
    return st.sampled_from([f"{group}={name}" for group in groups() for name in choices_of(group)])


def value() -> st.SearchStrategy[str]:
    """`clip.high=0.28`, or another value of that key."""
    own = st.sampled_from([f"{key}={value}" for key, value in leaves()])
    others = st.sampled_from(NUMBERS * 3 + TEXTS + INTERPOLATED + SWEPT)
    keys = st.sampled_from([*(key for key, _ in leaves()), *groups()])
    return own | st.builds("{}={}".format, keys, others)


@st.composite
def spoiled(draw: st.DrawFn, text: st.SearchStrategy[str]) -> str:
    """A text with up to three pieces put in, taken out or doubled."""
    found = draw(text)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(found)))
        kind = draw(st.sampled_from(["insert", "insert", "drop", "double", "swap"]))
        piece = draw(st.sampled_from(PIECES) | st.characters(codec="utf-8", exclude_characters="\x00"))
        if kind == "insert":
            found = found[:place] + piece + found[place:]
        elif kind == "drop":
            found = found[:place] + found[place + 1 :]
        else:
            found = found[:place] + found[place : place + 4] * 2 + found[place + 4 * (kind == "double") :]
    return found[:2000]


def arguments() -> st.SearchStrategy[list[str]]:
    """What follows the name of the program."""
    whole = choice() | value() | st.sampled_from(HYDRA)
    prefixed = st.builds("{}{}".format, st.sampled_from(["+", "~", "++", "~~", "-"]), whole)
    one = whole | whole | spoiled(whole) | prefixed | st.sampled_from(OPTIONS)
    return st.lists(one, min_size=1, max_size=5).filter(lambda found: not any(map(OUTSIDE.search, found)))


@st.composite
def fragments(draw: st.DrawFn) -> tuple[str, str]:
    """A group, and the text of a YAML that somebody has written for it."""
    group, text = draw(st.sampled_from(files()))
    lines = text.splitlines()
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(lines)))
        line = draw(st.sampled_from([line for _, text in files() for line in text.splitlines()]))
        lines = draw(st.sampled_from([lines[:place] + lines[place + 1 :], [*lines[:place], line, *lines[place:]]]))
    text = draw(spoiled(st.just("\n".join(lines))))
    odd = ["a: &a [*a]", "? [1]\n: 2", "a: !!python/object:os.system x", "\t- a", "a: 2001-99-99", "- 1", "%YAML 9"]
    return group, draw(st.just(text) | st.just(text) | st.just(text) | st.sampled_from(odd)) + "\n"
