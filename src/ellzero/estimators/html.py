"""What notebooks show of a fitted estimator: the selected features and their coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.blocks import facts, fragment, table

_MOST = 50


def table_of_coefficients(model: Any) -> str:
    """The answer as HTML: what was selected, the largest coefficients first."""
    result, coefficients, selected = model.result_, np.atleast_2d(model.coef_), model.get_support(indices=True)
    names = getattr(model, "feature_names_in_", np.array([f"x{j}" for j in range(model.n_features_in_)], dtype=object))
    order = selected[np.argsort(-np.abs(coefficients[:, selected]).max(axis=0), kind="stable")]
    shown = order[:_MOST]
    if len(coefficients) == 1:
        columns = {"coefficient": coefficients[0, shown].tolist()}
    else:
        columns = {f"{label}": row[shown].tolist() for label, row in zip(model.classes_, coefficients, strict=True)}
    more = f" (the {_MOST} largest coefficients)" if selected.size > _MOST else ""
    summary = {
        "nonzeros": result.sparsity.describe(result.x),
        "constraint": "none" if result.constraint.whole_space else repr(result.constraint),
        "objective": f"{result.fun:.6g}",
        "intercept": ", ".join(f"{b:.4g}" for b in np.atleast_1d(model.intercept_)),
        "status": result.message,
    }
    data = {"feature": [str(name) for name in names[shown]], **columns}
    body = table(data, f"selected features{more}", sort=False, bar="coefficient" if len(columns) == 1 else None)
    return fragment(facts(summary), body)
