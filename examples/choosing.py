"""k by cross-validation with both rules, and how stable the choice is.

    python examples/choosing.py [--out docs/figures/choosing.png]

Cells of breast tumours, 569 x 30 (scikit-learn's copy). On the left the held-out loss with its standard error, and the
k that each rule takes; on the right how often each feature is chosen on halves of the rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import ellzero as ez


def main(out: str | Path = "docs/figures/choosing.png") -> ez.SparseClassifierCV:
    """Choose, count, draw."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = StandardScaler().set_output(transform="pandas").fit_transform(X)
    model = ez.SparseClassifierCV().fit(X, y)
    few = ez.SparseClassifierCV(rule="1se").fit(X, y)
    auto = ez.SparseClassifier(k="auto").fit(X, y)
    print(f"k = {model.k_} is best, {few.k_} is within one standard error, {auto.criterion_} takes {auto.k_}")
    print(auto.stability(X, y, random_state=0))
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    ez.PathDisplay.from_estimator(model, ax=left)
    ez.StabilityDisplay.from_estimator(auto, ax=right, most=10)
    right.set_title(f"k = {auto.k_}", fontsize="medium", loc="left")
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/figures/choosing.png")
    main(**vars(parser.parse_args()))
