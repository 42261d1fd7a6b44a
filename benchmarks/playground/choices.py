"""What the page says of each choice of ``norm``, ``clip`` and ``agg``, and how its hyperparameters are moved."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from pydantic import TypeAdapter

from benchmarks.playground.graphs import AXES, TIMES, Graph, NotTraceable, graphs, structural
from rlexp.config.choices import choices_of
from rlexp.core.registry import hyperparameters
from rlexp.functional.defaults import REQUIRED, Settings, settings_of

SOURCE = re.compile(r"Source: (.+?)(?<!et al)(?<!eq)(?<!alg)(?<!Dr)\.(?= [A-Z`0-9]|$)")
TAKEN_FROM_ELSEWHERE = {"length": TIMES}  # of hyperparameters whose default is another key of a run's config
SMALL, LARGE = 1e-3, 1e3  # what a slider moves by factors: defaults up to one, from the other on
STEPS = [10.0**power * digit for power in range(3, -7, -1) for digit in (5, 2, 1)]


def page_data() -> dict[str, Any]:
    """Return all that the page knows of the library: graphs by name, choices by axis, and what is left out and why."""
    all_graphs: dict[str, Graph] = {}
    left_out: dict[str, str] = {}
    for axis, module in AXES.items():
        for name, function in module.FUNCTIONS.items():
            try:
                all_graphs |= {key(axis, name, chosen): graph for chosen, graph in graphs(axis, function)}
            except NotTraceable as error:
                left_out[f"{axis}.{name}"] = str(error)
    axes = {}
    for axis, module in AXES.items():
        settings = [settings_of(axis, module.FUNCTIONS, name) for name in choices_of(axis)]
        axes[axis] = {each.choice: choice(axis, each, all_graphs) for each in settings if each.name in module.FUNCTIONS}
    missing = {
        f"{axis}={name}": left_out[f"{axis}.{one['function']}"]
        for axis, found in axes.items()
        for name, one in found.items()
        if f"{axis}.{one['function']}" in left_out
    }
    axes = {
        axis: {name: one for name, one in found.items() if f"{axis}={name}" not in missing}
        for axis, found in axes.items()
    }
    return {"axes": axes, "graphs": all_graphs, "left_out": missing}


def key(axis: str, name: str, chosen: Mapping[str, Any]) -> str:
    """Return the name of a graph: ``clip.ctpo over=sum``."""
    return " ".join([f"{axis}.{name}", *(f"{each}={value}" for each, value in chosen.items())])


def choice(axis: str, settings: Settings, known: Mapping[str, Graph]) -> dict[str, Any]:
    """Return what the page says of a choice: its function, formula, source, and controls of its hyperparameters."""
    fixed = structural(settings.function)
    used = {
        name
        for each, graph in known.items()
        for name in graph["inputs"]
        if each.split()[0] == f"{axis}.{settings.name}"
    }
    values = {name: TAKEN_FROM_ELSEWHERE[name] if v is REQUIRED else v for name, v in settings.values.items()}
    kinds = {name: TypeAdapter(kind).json_schema() for name, kind in hyperparameters(settings.function).items()}
    first, *rest = re.split(r"\n\n", cleandoc(settings.function.__doc__ or ""))
    found = SOURCE.search(plain(" ".join([first, *rest])))
    return {
        "function": settings.name,
        "fixed": list(fixed),
        "text": plain(first),
        "source": found[1] if found else "",
        "about": plain(settings.about) if settings.choice != settings.name else "",
        "controls": [
            {"name": name, "default": values[name], "options": list(fixed[name])}
            if name in fixed
            else {"name": name, "default": values[name]} | slider(values[name], kinds[name])
            for name in values
            if name in fixed or name in used
        ],
    }


def plain(text: str) -> str:
    """Return a docstring's text on one line, as the page shows it."""
    return " ".join(text.split()).replace("``", "")


def slider(default: float, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the range of a slider that has the default on it: by factors where that is very small or very large."""
    if schema["type"] == "integer" and schema.get("maximum", 2) < 2:
        return {"options": [0, 1]}
    if schema["type"] == "integer":
        return {"min": schema["minimum"], "max": 3 * default, "step": 1}
    if default and not SMALL < abs(default) < LARGE:
        power = round(math.log10(default))
        return {"log": True, "min": power - 3 if default < 1 else 0, "max": max(power, 0), "step": 0.1}
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum", ceiling(4 * abs(default))))
    low = -most if least is None else least
    step = next(each for each in STEPS if each <= (most - low) / 100 and on_grid((default - low) / each))
    high = most - step if "exclusiveMaximum" in schema else most
    return {"min": round(low + step, 9) if "exclusiveMinimum" in schema else low, "max": round(high, 9), "step": step}


def ceiling(number: float) -> float:
    """Return the next number of one digit, at least 1."""
    digit = 10.0 ** math.floor(math.log10(max(number, 1)))
    return max(1.0, math.ceil(number / digit) * digit)


def on_grid(number: float) -> bool:
    return abs(number - round(number)) < 1e-6
