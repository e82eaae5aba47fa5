"""Linear models with several outputs: a vector of coefficients for each class or target."""

from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.validation import check_indices
from ..design import Design
from .base import Restricted, Risk, changed
from .linear import LinearModel


class SeveralOutputs(LinearModel):
    """R(w) of the predictions z_ij = x_iᵀw_j + b_j; w.reshape(n_outputs, p)[j] are the coefficients of output j."""

    def _predict(self, design: Design, w: Array, support: Array | None = None) -> Array:
        p = design.shape[1]
        features = None
        if support is not None:
            features = np.unique(support % p) if isinstance(w, np.ndarray) else self._xp.unique_values(support % p)
        z = design.forward(self._xp.reshape(w, (self.n_outputs, p)).T, features)
        # output by output in memory, sums over the few of them are several times faster
        return np.asfortranarray(z) if isinstance(z, np.ndarray) else z

    def _collect(self, design: Design, slopes: Array) -> Array:
        return self._xp.reshape(design.adjoint(slopes).T, (-1,))

    def intercept(self, w: Array) -> np.ndarray:
        """The b that is best for w, on the host; zeros without an intercept."""
        if not self.fit_intercept:
            return np.zeros(self.n_outputs)
        return to_host(self._best_intercept(self._with_offset(self._predict(self.design, self.as_vector(w)))))

    def restrict(self, support: Any) -> Risk:
        """The same model on the features that some output uses; coefficients not in the support stay zero."""
        support = check_indices(support, self.n_features, "support")
        p = self.design.shape[1]
        features = np.unique(support % p)
        part = changed(self, design=self.design.columns(features), n_features=self.n_outputs * features.size)
        if support.size == part.n_features:
            return part
        return Restricted(part, (support // p) * features.size + np.searchsorted(features, support % p))
