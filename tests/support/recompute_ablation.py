"""What `rlexp ablate` prints, computed again from the files it keeps, with pandas and numpy alone.

python tests/support/recompute_ablation.py runs/<sweep>/ablation    # as JSON
"""

import json
import sys
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pandas as pd

T = {1: 12.706205, 2: 4.3026527, 3: 3.1824463, 4: 2.7764451, 7: 2.3646243, 9: 2.2621572}
"""The 97.5 % point of Student's t by degrees of freedom."""


def recomputed(folder: Path) -> dict[str, list]:
    """Return effects (where no key is tuned), response curves (where one is), and late means of the runs' curves."""
    runs, curves = pd.read_csv(folder / "runs.csv"), pd.read_csv(folder / "curves.csv.gz")
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    declared, scale, metric = schema["question"]["declared"], schema["scale"], schema["metric"]["name"]
    assert np.allclose(runs["on_scale"], scale["sign"] * forward(scale, runs["number"].fillna(0).to_numpy()))
    late = curves.sort_values("step").groupby("folder")[metric].agg(lambda y: y.tail(-(-len(y) // 10)).mean())
    return {
        "numbers": late.reindex(runs["folder"]).tolist(),
        "effects": [] if declared["tune"] else effects(runs, declared, scale),
        "curves": response_curves(runs, declared["tune"]["key"]) if declared["tune"] else [],
    }


def forward(scale: dict, number: np.ndarray) -> np.ndarray:
    """Shares to log-odds, with half a completion added."""
    m, share = scale["count"], number / scale["attainable"]
    return np.log((m * share + 0.5) / (m - m * share + 0.5))


def backward(scale: dict, odds: float) -> float:
    """Log-odds to shares."""
    m = scale["count"]
    return scale["attainable"] * ((m + 1) / (1 + np.exp(-odds)) - 0.5) / m


def effects(runs: pd.DataFrame, declared: dict, scale: dict) -> list[dict]:
    """Return each effect by its definition, seed by seed."""
    parts = ["+".join(part) for part in declared["parts"]]
    arms = runs.set_index([*parts, "seed"])["on_scale"].unstack()

    def y(*on: str) -> np.ndarray:
        return arms.loc[tuple(part in on for part in parts)].to_numpy()

    def subsets(of: list[str]) -> list[tuple[str, ...]]:
        return [each for size in range(len(of) + 1) for each in combinations(of, size)]

    found = {("whole recipe", "all parts"): y(*parts) - y()}
    for place, part in enumerate(parts):
        others = [each for each in parts if each != part]
        orders = [order[: order.index(part)] for order in permutations(parts)]
        found["added first", part] = y(part) - y()
        found["removed last", part] = y(*parts) - y(*others)
        found["step", part] = y(*parts[: place + 1]) - y(*parts[:place])
        found["main effect", part] = np.mean([y(part, *rest) - y(*rest) for rest in subsets(others)], axis=0)
        found["Shapley value", part] = np.mean([y(part, *before) - y(*before) for before in orders], axis=0)
        for other in parts[place + 1 :]:
            rests = subsets([each for each in others if each != other])
            four = [(y(part, other, *rest) - y(other, *rest)) - (y(part, *rest) - y(*rest)) for rest in rests]
            found["interaction", f"{part} × {other}"] = np.mean(four, axis=0)
    rows = []
    for (kind, named), each in found.items():
        before = {"removed last": [part for part in parts if part != named]}.get(kind, [])
        before = parts[: parts.index(named)] if kind == "step" else before
        level = y(*before).mean()  # of the arm that another one is compared with, else of the baseline
        error = each.std(ddof=1) / np.sqrt(len(each))
        ends = each.mean() + T[len(each) - 1] * error * np.array([0, -1, 1])
        sizes = [backward(scale, level + end) - backward(scale, level) for end in ends]
        names = ("difference", "low", "high")
        rows.append({"kind": kind, "parts": named, "effect": each.mean(), "error": error, **dict(zip(names, sizes))})  # noqa: B905
    return rows


def response_curves(runs: pd.DataFrame, key: str) -> list[dict]:
    """Return mean and t interval of each arm at each value of a tuned key, and whether its mean is the arm's best."""
    rows = runs.groupby(["arm", key], sort=False)["on_scale"].agg(["mean", "std", "size"]).reset_index()
    half = rows["size"].map(lambda n: T[n - 1]) * rows["std"] / np.sqrt(rows["size"])
    best = rows["mean"] == rows.groupby("arm")["mean"].transform("max")
    rows = rows.assign(low=rows["mean"] - half, high=rows["mean"] + half, best=best)
    return rows.rename(columns={key: "rate"}).to_dict("records")


if __name__ == "__main__":
    found = recomputed(Path(sys.argv[1]))
    assert not [name for name in sys.modules if name.split(".")[0] in ("rlexp", "analysis", "scipy")]
    print(json.dumps(found))
