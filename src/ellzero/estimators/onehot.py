"""Dummies that belong together: the columns that a one-hot encoder makes of one categorical feature."""

from typing import Any

import numpy as np

from ..design import Design


def onehot_groups(encoder: Any) -> list[str]:
    """A label for each column that a fitted encoder makes: that of the feature it comes from.

    Parameters
    ----------
    encoder : fitted OneHotEncoder, ColumnTransformer or Pipeline that ends in one of them
        All other columns of a ColumnTransformer are groups of their own.

    Examples
    --------
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> import ellzero as ez
    >>> encoder = OneHotEncoder().fit([["red", "S"], ["dark_blue", "L"], ["red", "M"]])
    >>> ez.estimators.onehot_groups(encoder)
    ['x0', 'x0', 'x1', 'x1', 'x1']
    """
    while hasattr(encoder, "steps"):
        encoder = encoder.steps[-1][1]
    if hasattr(encoder, "categories_") and hasattr(encoder, "drop_idx_"):
        return _of_encoder(encoder)
    if not hasattr(encoder, "output_indices_"):
        raise TypeError(
            f"encoder must be a fitted OneHotEncoder, or a fitted ColumnTransformer with one, got {encoder!r}"
        )
    labels: list[str] = encoder.get_feature_names_out().tolist()
    for name, part, _ in encoder.transformers_:
        place = encoder.output_indices_[name]
        if hasattr(part, "steps"):
            part = part.steps[-1][1]
        if hasattr(part, "categories_") and hasattr(part, "drop_idx_"):
            labels[place] = [f"{name}__{label}" for label in _of_encoder(part)]
    return labels


def _of_encoder(encoder: Any) -> list[str]:
    """How many columns there are of each feature: its categories, rare ones as one, less the one that is dropped."""
    n = len(encoder.categories_)
    names = getattr(encoder, "feature_names_in_", [f"x{i}" for i in range(n)])
    dropped = [None] * n if encoder.drop_idx_ is None else encoder.drop_idx_
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * n
    labels: list[str] = []
    for name, categories, drop, few in zip(names, encoder.categories_, dropped, rare, strict=True):
        labels += [str(name)] * (len(categories) - (drop is not None) - (0 if few is None else len(few) - 1))
    return labels


def dummy_groups(X: Any, names: np.ndarray | None) -> list[str]:
    """A label for each column, by names such as "color_red" and "color_blue" and by what stands in these columns.

    Columns of zeros and ones are those of one feature if their names begin alike, up to an underscore, and no row has
    two ones; the shortest such beginning counts, so that categories may have underscores themselves. All other columns
    are groups of their own.
    """
    if names is None:
        raise ValueError(
            'groups="onehot" reads the names of the columns, and X has none; give X as a DataFrame '
            '(encoder.set_output(transform="pandas")), or groups=ellzero.estimators.onehot_groups(encoder)'
        )
    if isinstance(X, Design):
        raise TypeError(
            'groups="onehot" looks at all entries of X, which are elsewhere; give groups as labels, or a mapping from '
            "the names of features"
        )
    beginnings: dict[str, list[int]] = {}
    for j in np.flatnonzero(_of_zeros_and_ones(X)).tolist():
        name = str(names[j])
        for end in (i for i, letter in enumerate(name) if letter == "_" and i > 0):
            if "_" not in name[end - 1 : end] + name[end + 1 : end + 2]:  # two of them follow a transformer's name
                beginnings.setdefault(name[:end], []).append(j)
    labels, free = [str(name) for name in names], np.ones(len(names), dtype=bool)
    for beginning in sorted(beginnings, key=len):
        columns = [j for j in beginnings[beginning] if free[j]]
        if len(columns) > 1 and float(X[:, columns].sum(axis=1).max()) <= 1:
            free[columns] = False
            label = beginning if beginning not in labels else f"{beginning}_"  # another column has just this name
            for j in columns:
                labels[j] = label
    if free.all():
        raise ValueError(
            'groups="onehot" found no dummies: no two columns of zeros and ones have names such as "color_red" and '
            '"color_blue"; give groups=ellzero.estimators.onehot_groups(encoder), or a label for each feature'
        )
    return labels


def _of_zeros_and_ones(X: Any) -> np.ndarray:
    if isinstance(X, np.ndarray):
        return np.asarray(((X == 0) | (X == 1)).all(axis=0))
    entries = X.tocoo()
    return ~np.isin(np.arange(entries.shape[1]), entries.col[(entries.data != 0) & (entries.data != 1)])
