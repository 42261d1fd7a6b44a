"""Compute the numbers of docs/claims.md and its cards from kept answers, with NumPy, pandas and SciPy: run by a test.

``python recompute_cards.py NOTEBOOK FOLDER …`` prints JSON, by folder. Effects, errors, pooled effects and words are
computed by the notebook that stands beside each answer of ``rlexp ask``; what it leaves out is below.
"""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

DRAWS, SMALL, CONTROL = 40_000, 0.1, 0.01
LOSS = {"agg", "clip", "distillation", "entropy_control", "kl", "norm"}


def cells(notebook):
    """Return the notebook's code without the cell that compares."""
    found = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in found if cell["cell_type"] == "code" and cell["id"] != "same")


def prediction(effects, errors):
    """Return the 95 % interval of one more condition (Nagashima, Noma and Furukawa 2019, algorithm 1)."""
    k, order = len(effects), np.lexsort((effects, errors))
    y, s = effects[order], np.maximum(errors[order], 1e-6 * np.median(errors))
    w = s**-2
    q = (w * (y - np.average(y, weights=w)) ** 2).sum()
    u = np.sqrt(w / w.sum())
    off = np.eye(k) - np.outer(u, u)
    lambdas = np.linalg.eigvalsh(off @ np.diag(w) @ off)[1:]
    rng = np.random.default_rng(0)
    chi = rng.chisquare(1, (DRAWS, k - 1))
    tau2 = np.maximum(q - chi.sum(1), 0) / (chi @ lambdas)
    w = 1 / (s**2 + tau2[:, None])
    mean = w @ y / w.sum(1)
    spread = np.sqrt((w * (y - mean[:, None]) ** 2).sum(1) / ((k - 1) * w.sum(1)))
    drawn = mean + rng.normal(size=DRAWS) * np.sqrt(tau2) - rng.standard_t(k - 1, DRAWS) * spread
    return np.quantile(drawn, [0.025, 0.975])


def arm(overrides, budget):
    return ("+".join(overrides) or "default") + (f" at {budget}" if budget else "")


def table(rows, key):
    """Return the scores that choose, `[values, seeds]`, of the values that all seeds have."""
    return rows.assign(point=rows[key] if key else 1.0).pivot(index="point", columns="seed", values="on_scale").dropna()


def at_an_end(rows, key, smallest):
    """Tell whether the best value is an end of the grid and the curve still rises there."""
    full = rows.pivot(index=key, columns="seed", values="on_scale")
    mean = full.mean(axis=1, skipna=False).fillna(-np.inf).to_numpy()
    best, last = int(mean.argmax()), len(mean) - 1
    if last < 1 or 0 < best < last:
        return False
    beside = 1 if best == 0 else last - 1
    step = full.to_numpy()[best] - full.to_numpy()[beside]
    flat = np.isfinite(mean[beside]) and mean[best] - mean[beside] < smallest / 2
    if flat and last > 1:
        low = step.mean() - t.ppf(0.975, len(step) - 1) * step.std(ddof=1) / math.sqrt(len(step))
        flat = not (low > 0 and step.mean() > 2 * (mean[beside] - mean[2 * beside - best]))
    return not flat


def drift(name, rows, first, at):
    """Return how far an arm ends from its start in a condition, at the value that is best for the first arm."""
    key = at["key"]
    rows = rows[rows[key] == table(first, key).mean(axis=1).idxmax()] if key else rows
    scale = at["scales"][name][0]
    metric = scale["metric"].split(", ")[0]
    curves = at["curves"].dropna(subset=[metric]).sort_values("step").groupby("folder")[metric]
    ends = curves.agg(at["late_mean"], at["package"]["late_share"]), curves.first()
    moved = np.subtract(*(at["forward"](each.reindex(rows["folder"]).dropna(), scale) for each in ends))
    error = moved.std(ddof=1) / math.sqrt(len(moved))
    return {"effect": moved.mean(), "error": error, "n": len(moved)}


def null(control, at):
    """Return in how many conditions a control moved, and the word of it as an effect over all of them."""
    asked, runs, found, moved = at["asked"], at["runs"], [], 0
    labels = [arm(control[side], asked["budget"]) for side in ("arm", "versus") if control[side] is not None]
    first = arm(asked["assertions"][0]["versus"], asked["assertions"][0]["budget"])
    for name, rows in runs.groupby("condition", sort=False):
        own = [rows[rows["arm"] == label] for label in labels]
        if len(own) == 2:
            grids = [table(each, at["key"]).to_numpy() for each in own]
            order = at["seed_order"](grids)
            best = {place: at["at_best"](grid[:, order]) for place, grid in enumerate(grids)}
            each = at["estimate"]({0: 1.0, 1: -1.0}, best)
        else:
            each = drift(name, own[0], rows[rows["arm"] == first], at)
        smallest = asked["smallest"] or SMALLEST[at["scales"][name][0]["name"]]
        low, high = at["interval"](each["effect"], each["error"], each["n"] - 1, 1 - CONTROL)
        moved += bool((low > 0 or high < 0) and max(-low, high) >= SMALL * smallest)
        found.append(each | {"fails": ""})
    values, errors, degrees = at["valid"](pd.DataFrame(found), 1, smallest)
    said, shares = redrawn(values, errors, degrees, "superior", smallest, 0.95, at)
    return {"word": said if shares[said] >= 0.5 else "open", "moved": moved, "conditions": len(found)}


SMALLEST = {"log-odds": 0.25, "log": math.log(1.25)}


def redrawn(values, errors, degrees, kind, smallest, confidence, at):
    """Return the word of pooled effects, and the share of 1,000 redraws with each word."""
    said = str(at["word"](*at["interval"](*at["pool"](values, errors, degrees), confidence), kind, smallest))
    drawn = values + errors * np.random.default_rng(0).normal(size=(1000, len(values)))
    words = at["word"](*at["interval"](*at["pool"](drawn, errors, degrees), confidence), kind, smallest)
    return said, {said: 0.0} | pd.Series(words).value_counts(normalize=True).to_dict()


def natural(numbers, level, scale, at):
    """Return effects on the scale in the units of the page: points, ratios, or those of the metric."""
    if scale["name"] == "log":
        return np.exp(numbers).tolist()
    start = at["forward"](level, scale)
    change = at["backward"](start + np.array(numbers), scale) - at["backward"](start, scale)
    return (change * (100 if scale["name"] == "log-odds" else 1)).tolist()


def in_conditions(place, labels, at):
    """Return an assertion in each condition as a row of a card's table has it."""
    runs, found = at["runs"], {}
    for name, row in at["effects"].loc[place].query("n > 0").iterrows():
        rows = runs[runs["condition"] == name]
        chosen = [float(table(rows[rows["arm"] == label], at["key"]).mean(axis=1).idxmax()) for label in labels]
        half = t.ppf(0.975, row["n"] - 1) * row["error"]
        ends = [row["effect"], row["effect"] - half, row["effect"] + half]
        shown = natural(ends, row["level"], at["scales"][name][place], at)
        found[name] = {"n": row["n"], "values": chosen, "shown": shown, "level": row["level"], "fails": row["fails"]}
    for name, why in at["failed"].loc[place].items():  # in some an arm has no number
        found.setdefault(name, {"n": 0, "fails": why})
    return found


def small(at):
    """Return whether a question is about a small transformer."""
    settings = [*at["asked"]["with"], *(each for one in at["asked"]["conditions"] for each in one["overrides"])]
    return not {"backend=trl", "model=tabular"} & {*settings}


def one_rate(at):
    """Return of tuned arms in valid settings: same best rate, difference there, differences that count at a rate."""
    asked, runs, found = at["asked"], at["runs"], {}
    for place, declared in enumerate(asked["assertions"], 1) if at["key"] and small(at) else ():
        labels = tuple(arm(declared[side], declared["budget"]) for side in ("arm", "versus"))
        effects = at["effects"]
        for name, row in effects.loc[place].iterrows() if place in effects.index.get_level_values(0) else ():
            rows = runs[runs["condition"] == name]
            first, second = (table(rows[rows["arm"] == label], at["key"]) for label in labels)
            shared = first.index.intersection(second.index)
            if row["fails"] == "" and at["scales"][name][0]["name"] == "log-odds" and len(shared) > 2:
                means, smallest = [each.mean(axis=1) for each in (first, second)], asked["smallest"] or 0.25
                paired = (first - second).dropna()
                half = t.ppf(0.975, paired.shape[1] - 1) * paired.std(axis=1, ddof=1) / math.sqrt(paired.shape[1])
                size = paired.mean(axis=1)
                counts = size[(size.abs() >= smallest) & (size.abs() > half)]
                best = (means[0].max() - means[1].max()) / smallest
                found[labels, name] = [means[0].idxmax() == means[1].idxmax(), float(best), counts.tolist()]
    return [[bool(same), *rest] for same, *rest in found.values()]


def change(declared, sizes, at):
    """Return whether an assertion about a small transformer's accuracy changes the loss alone, its size and ends."""
    if not small(at) or "warmup_steps=1000000000" in declared["arm"] + declared["versus"]:
        return None
    differ = {*declared["arm"]} ^ {*declared["versus"]}
    return [all(each.split("=")[0].split(".")[0] in LOSS for each in differ), *sizes]


def assertion(place, at):
    """Return all numbers of an assertion."""
    declared, scale = at["asked"]["assertions"][place - 1], next(iter(at["scales"].values()))[place]
    labels = [arm(declared[side], declared["budget"]) for side in ("arm", "versus")]
    found = {"conditions": in_conditions(place, labels, at), "scale": scale["name"]}
    if place not in at["answers"]:
        return found | {"word": "cannot answer", "stays": None}
    answer, smallest = at["answers"][place], at["pooled"].loc[place, "smallest"]
    values, errors, degrees = at["numbers"][place]
    _, shares = redrawn(values, errors, degrees, declared["kind"], smallest, answer["confidence"], at)
    valid = at["effects"].loc[place].query("fails == ''")
    level = float(at["backward"](at["forward"](valid["level"].astype(float), scale).mean(), scale))
    predicted = None
    if len(values) > 2:
        mean = at["interval"](*at["pool"](values, errors, degrees), 0.95)
        low, high = prediction(values, errors)
        sign = at["pooled"].loc[place, "sign"]
        predicted = natural(sorted([sign * min(low, mean[0]), sign * max(high, mean[1])]), level, scale, at)
    shown = natural([answer[name] for name in ("effect", "low", "high")], level, scale, at)
    sign = 1 if answer["effect"] > 0 else -1
    ends = [sign * answer[end] / smallest for end in ("low", "high")]
    sizes = [abs(answer["effect"]) / smallest, min(ends), max(map(abs, ends))]
    found |= {
        "change": change(declared, sizes, at) if scale["name"] == "log-odds" else None,
        "word": answer["word"],
        "said": answer["said"],
        "shares": shares,
        "stays": shares.get(answer["word"], 0.0),
    }
    return found | {"shown": shown, "level": level, "predicted": predicted, "confidence": answer["confidence"]}


def question(code, folder):
    """Return all numbers of a question."""
    os.chdir(folder)
    at = {}
    exec(code, at)  # noqa: S102
    asked, key, runs = at["asked"], at["key"], at["runs"].groupby("condition").filter(lambda rows: rows["best"].any())
    arms = {arm(each[side], each["budget"]) for each in asked["assertions"] for side in ("arm", "versus")}
    ends = 0
    for name, rows in runs.groupby("condition", sort=False) if key else ():
        smallest = asked["smallest"] or SMALLEST.get(at["scales"][name][0]["name"])
        ends += any(at_an_end(rows[rows["arm"] == label], key, smallest) for label in arms)
    return {
        "runs": len(at["runs"]),
        "tuned": runs["condition"].nunique() if key else 0,
        "ends": ends,
        "assertions": [assertion(place, at) for place in range(1, len(asked["assertions"]) + 1)],
        "one_rate": one_rate(at),
        "nulls": [null(control, at) for control in asked["controls"]],
    }


def main():
    code = cells(sys.argv[1])
    folders = [os.path.abspath(folder) for folder in sys.argv[2:]]
    print(json.dumps({folder: question(code, folder) for folder in folders}))


if __name__ == "__main__":
    main()
