"""Who survived the Titanic? A table of categories, its dummies in or out together.

    python examples/categorical.py [--k 4] [--seed 0] [--out docs/figures/categorical.png]

Eight facts of each of 1309 passengers (title, class, sex, deck, port, age, companions, fare), each a category with a
dummy for every value, 43 in all. A model with k dummies asks for pieces of many facts; one with k groups
(`select="groups"`) asks for k facts and may use all of their values. On the left how well rows that were held out are
predicted, against the number of facts that have to be known: whole facts are better while there are few, later it makes
no difference. On the right the facts that are chosen and what each of their values is worth.

The table comes with scikit-learn: OpenML's data set 40945, which its tests carry with them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

import ellzero as ez

FOLDER, FILE = "sklearn.datasets.tests.data.openml.id_40945", "data-v1-dl-16826755.arff.gz"
WHOLE, PIECES = "#0072B2", "#D55E00"
TITLES = {"Mr": "Mr", "Miss": "Miss", "Mlle": "Miss", "Ms": "Miss", "Mrs": "Mrs", "Mme": "Mrs", "Master": "Master"}
AGES, FARES = [0, 6, 14, 20, 30, 45, 60, 99], [-1, 7.8, 10, 20, 40, 600]


def read() -> tuple[pd.DataFrame, np.ndarray]:
    """The facts, all as categories, and who survived."""
    try:
        text = gzip.decompress(files(FOLDER).joinpath(FILE).read_bytes()).decode()
    except (ModuleNotFoundError, FileNotFoundError):
        raise SystemExit("the table is in the tests of scikit-learn, which are not installed; use its wheel") from None
    names = re.findall(r"@attribute '(\S+)'", text, flags=re.IGNORECASE)
    lines = re.split("@data", text, flags=re.IGNORECASE)[1].strip().splitlines()
    table = pd.DataFrame(list(csv.reader(lines)), columns=names).replace("?", None)
    age = pd.cut(table["age"].astype(float), AGES, right=False, labels=_between(AGES))
    fare = pd.cut(table["fare"].astype(float), FARES, labels=["below 8", "8-10", "10-20", "20-40", "above 40"])
    together = table["sibsp"].astype(int) + table["parch"].astype(int)
    facts = {
        "title": table["name"].str.extract(r", *([^.]*)\.")[0].map(TITLES).fillna("other"),
        "class": table["pclass"].map({"1": "first", "2": "second", "3": "third"}),
        "sex": table["sex"],
        "deck": table["cabin"].str[0].replace("T", None).fillna("unknown"),
        "port": table["embarked"].map({"C": "Cherbourg", "Q": "Queenstown", "S": "Southampton"}),
        "age": age.astype(object).fillna("unknown"),
        "companions": together.clip(upper=4).map({0: "none", 1: "one", 2: "two", 3: "three", 4: "four or more"}),
        "fare": fare.astype(object).fillna("8-10"),
    }
    return pd.DataFrame(facts).fillna("unknown"), table["survived"].astype(int).to_numpy()


def _between(edges: list[int]) -> list[str]:
    return [f"{low}-{high - 1}" for low, high in pairwise(edges[:-1])] + [f"{edges[-2]} and older"]


def main(k: int = 4, seed: int = 0, out: str | Path = "docs/figures/categorical.png") -> dict[str, Any]:
    """Walk along k with whole groups and with single dummies, print, draw."""
    facts, y = read()
    encoder = OneHotEncoder(sparse_output=False).set_output(transform="pandas")
    X = encoder.fit_transform(facts)
    groups = np.array(ez.estimators.onehot_groups(encoder))
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))
    paths = {}
    for name, options in {"whole facts": {"groups": groups, "select": "groups"}, "single dummies": {}}.items():
        levels = range(1, facts.shape[1] + 1)
        paths[name] = [_held_out(X, y, groups, folds, level, options) for level in levels]
        print(f"\n{name:<16}{'k':>3}{'facts asked':>13}{'held-out log-loss':>19}{'accuracy':>10}")
        for level, row in zip(levels, paths[name], strict=True):
            print(f"{'':<16}{level:>3}{row[0]:>13.1f}{row[1]:>19.4f}{row[2]:>10.3f}")
    model = ez.SparseClassifier(k=k, groups="onehot", select="groups").fit(X, y)
    print(f"\nthe best {k} facts: {', '.join(dict.fromkeys(groups[model.get_support()]))}")
    print(f"picture: {draw(paths, model, groups, X, out)}")
    return {"paths": paths, "model": model}


def _held_out(X: pd.DataFrame, y: np.ndarray, groups: np.ndarray, folds: Any, k: int, options: Any) -> np.ndarray:
    """Facts that are asked, log-loss and accuracy on the rows left out, means over the folds."""
    rows = []
    for train, test in folds:
        model = ez.SparseClassifier(k=k, **options).fit(X.iloc[train], y[train])
        guess = model.predict_proba(X.iloc[test])
        rows.append(
            [np.unique(groups[model.get_support()]).size, log_loss(y[test], guess), np.mean(guess.argmax(1) == y[test])]
        )
    return np.mean(rows, axis=0)


def draw(paths: dict[str, Any], model: Any, groups: np.ndarray, X: pd.DataFrame, out: str | Path) -> Path:
    """Losses on the left, what was chosen on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.15))
    for (name, rows), color, marker in zip(paths.items(), (WHOLE, PIECES), "os", strict=True):
        asked, loss, _ = np.array(rows).T
        left.plot(asked, loss, f"{marker}-", color=color, ms=5, lw=1.6, label=f"at most k {name}")
    left.set(xlabel="facts that have to be known of a passenger", ylabel="log-loss on rows held out")
    left.set_title("all values of a fact, or a dummy here and there", fontsize=11)
    left.legend(frameon=False)
    chosen = model.get_support(indices=True)
    order = list(dict.fromkeys(groups[chosen]))
    place, ticks, labels = 0.0, [], []
    for label in sorted(order, key=lambda g: -np.ptp(model.coef_[0, groups == g])):
        mine = np.flatnonzero(groups == label)
        mine = mine[np.argsort(model.coef_[0, mine])]
        at = place + np.arange(mine.size)
        worth = model.coef_[0, mine]
        right.barh(at, worth, color=np.where(worth > 0, WHOLE, PIECES), height=0.75)
        right.text(-0.012, place - 1.1, label, transform=right.get_yaxis_transform(), ha="right", va="center",
                   fontweight="bold", fontsize=10)  # fmt: skip
        ticks += at.tolist()
        labels += [X.columns[j].removeprefix(f"{label}_") for j in mine]
        place += mine.size + 1.6
    right.set_yticks(ticks, labels, fontsize=8.5)
    right.invert_yaxis()
    right.axvline(0, color="0.3", lw=0.8)
    right.tick_params(axis="y", length=0)
    right.set(xlabel="log-odds of survival")
    right.set_title(f"the {model.k_} facts that are chosen, with all their values", fontsize=11)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
        ax.grid(axis="y" if ax is left else "x", color="0.9", lw=0.8)
    right.spines["left"].set_visible(False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=4, help="how many facts the model may ask for (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="which rows are held out (default 0)")
    parser.add_argument("--out", default="docs/figures/categorical.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
