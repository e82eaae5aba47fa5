"""The cross-entropy of several classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array, finfo_eps, namespace, to_host
from .._validation import check_indices
from ._design import Design
from ._linear import LinearModel, check_labels
from .base import Restricted, Risk


class Multinomial(LinearModel):
    """R(w) = Σ_i ω_i [log Σ_j exp(z_ij) - z_{i,y_i}] / Σ_i ω_i + (ridge/2)||w||², z_ij = x_iᵀw_j + b_j.

    w holds the classes' coefficients one after the other: w.reshape(n_classes, p)[j] are those of class j.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept
        As for `LeastSquares`; the intercepts add up to 0.
    y : array of shape (n,)
        Labels of any kind, at least two of them.

    Attributes
    ----------
    classes_ : array
        The labels, sorted: class j is classes_[j].

    Examples
    --------
    >>> from ellzero.risks import Multinomial
    >>> risk = Multinomial([[1.0], [0.0], [-1.0]], y=["a", "b", "c"])
    >>> risk.n_features
    3
    >>> round(risk.value([0.0, 0.0, 0.0]), 4)
    1.0986
    """

    # Böhning 1992: diag(π) - ππᵀ ⪯ ½(I - 11ᵀ/c), whose largest eigenvalue is ½
    _curvature = 0.5

    def __init__(
        self, X: Any, y: Any, ridge: float = 0.0, sample_weight: Any = None, fit_intercept: bool = False
    ) -> None:
        super().__init__(X, y, ridge, sample_weight, fit_intercept)
        self.n_features = self.design.shape[1] * self.classes_.size
        self._column_share = self.share if isinstance(self.share, float) else self.share[:, None]
        if self.fit_intercept:
            self._class_share = to_host(self._xp.sum(self._column_share * self.y, axis=0)).astype(np.float64)
            if self._class_share.min() == 0:
                missing = self.classes_[self._class_share.argmin()]
                raise ValueError(
                    "sample_weight must be positive for some row of each label when fit_intercept=True: "
                    f"label {missing!r} has none, so its intercept would be -inf"
                )
