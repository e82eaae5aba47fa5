"""Columns of a data frame that no model can use, by their names."""

from typing import Any

import numpy as np

from ..design import is_dask


def refuse_columns(X: Any) -> None:
    """Raise ValueError if X is a frame two of whose columns share a name, or one of which holds no numbers."""
    if is_dask(X) or not (hasattr(X, "columns") and hasattr(X, "iloc")):
        return
    names = list(X.columns)
    for j, name in enumerate(names):
        if name in names[:j]:
            raise ValueError(f"X has two columns called {name!r}; rename or drop one of them")
    for j, name in enumerate(names):
        column = X.iloc[:, j]
        try:
            dated = np.asarray(column).dtype.kind in "mM"
            np.asarray(column, dtype=float)
        except (ValueError, TypeError):
            shown = repr(_odd(column))
        else:
            if not (dated and len(column)):
                continue
            shown = repr(str(column.iloc[0]))
        raise ValueError(
            f"X has no numbers in column {name!r}, but {shown}; encode text (OneHotEncoder, or "
            'ellzero.datasets.read_table(..., text="onehot")), turn dates into numbers, or drop the column'
        )


def _odd(column: Any) -> Any:
    """The first entry that is no number."""
    for value in column.tolist():
        try:
            float(value)
        except (ValueError, TypeError):
            return value
    return column.dtype
