"""What the estimators share: reading the data, asking the question, keeping the answer, selecting, certifying."""

import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.arrays import is_array, is_tensor, like, namespace, to_host
from .._core.blocks import facts, fragment, table
from .._core.validation import as_array, as_numbers, check_finite, check_real, is_masked
from ..design import elsewhere, here
from ..risks import LinearModel
from ..solver.methods import Method
from ..solver.result import Result, Status
from .certified import beats_fitted, certify_fitted
from .columns import refuse_columns
from .criterion import choose_by_criterion, read_criterion
from .elsewhere import check_columns, read_elsewhere
from .onehot import dummy_groups
from .request import Maker, Request
from .stability import Stability, stability_of

#: features that notebooks show
_MOST = 50
#: what is computed when first read
_PROOFS = ("certificate_", "beats_")


@dataclass(eq=False, repr=False, kw_only=True)  # its __init__ is what scikit-learn asks of estimators
class SparseLinearModel(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """min R(w) subject to ||w||_0 <= k, w in Γ, as a scikit-learn estimator; subclasses choose R."""

    constraint: Any = None
    groups: Any = None
    select: str = "features"
    at_most: Any = None
    keep: Any = None
    ridge: Any = None
    fit_intercept: bool = True
    standardize: bool = True
    method: str | Method = "auto"
    max_iter: int = 1000
    random_state: Any = None
    feature_names: Any = None

    # Reading.

    def _maker(self, y: np.ndarray, sample_weight: np.ndarray | None, offset: np.ndarray | None) -> Maker:
        """What makes the risk of any rows, of a y that it can be made of."""
        raise NotImplementedError

    def _default_ridge(self, X: Any, sample_weight: np.ndarray | None) -> float:
        """Where none is asked for."""
        return 0.0

    def _read(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True
    ) -> tuple[Any, Any, Any, Any]:
        for name, given in (("X", X), ("y", y), ("sample_weight", sample_weight), ("offset", offset)):
            if is_masked(given):
                as_array(given, name)  # says what to do
            if getattr(getattr(given, "dtype", None), "kind", None) in ("m", "M"):
                raise TypeError(f"{name} must be numbers, got dtype {given.dtype}; encode or drop dates first")
        X = X.detach() if is_tensor(X) else X
        tags, dtypes = self.__sklearn_tags__(), _floats(X)
        about_y = {"y_numeric": "regressor" in tags.estimator_type, "multi_output": tags.target_tags.multi_output}
        try:
            if (design := elsewhere(X)) is not None:
                X, y = read_elsewhere(self, design, y, reset, **about_y)
            else:
                y = as_array(y, "y") if is_array(y) and not isinstance(X, np.ndarray) else y
                X, y = validate_data(self, X, y, reset=reset, accept_sparse=("csr", "csc"), dtype=dtypes, **about_y)
        except Exception as error:  # of NumPy, which does not say whose numbers these are
            refuse_columns(X)
            if isinstance(error, OverflowError) or "inhomogeneous" in str(error):
                raise ValueError(f"X and y must be numbers, X with rows of one length: {error}") from None
            raise
        if issparse(y):
            raise TypeError("y must be an array, got a sparse matrix; use y.toarray()")
        if sample_weight is not None:
            sample_weight = to_host(sample_weight) if is_array(sample_weight) else sample_weight
            rows = np.broadcast_to(0.0, (X.shape[0], 1))  # X may be on a device
            sample_weight = _check_sample_weight(sample_weight, rows, dtype=np.float64)
            with np.errstate(over="ignore"):
                if np.isinf(sample_weight.sum()):  # only ratios matter
                    sample_weight = sample_weight / sample_weight.max()
        axes = 2 if tags.estimator_type == "classifier" or y.ndim == 2 else 1
        return X, y, sample_weight, None if offset is None else _rows(offset, X.shape[0], axes)

    def _risk(self, maker: Maker, X: Any, y: Any, sample_weight: Any, offset: Any, ridge: float) -> LinearModel:
        weights = self._weights(y, sample_weight)
        return maker(X, y, ridge=ridge, sample_weight=weights, offset=offset, fit_intercept=self.fit_intercept)

    def _weights(self, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        """The weights of rows that are fitted."""
        return sample_weight

    def _request(self, risk: LinearModel, X: Any) -> Request:
        names = self._names()
        groups = dummy_groups(X, names) if isinstance(self.groups, str) and self.groups == "onehot" else self.groups
        counted = {"k": getattr(self, "ks", getattr(self, "k", None)), "select": self.select, "at_most": self.at_most}
        return Request.read(risk, self.constraint, groups, self.keep, self.standardize, names, **counted)

    def _names(self) -> np.ndarray | None:
        """Those of the columns of X, or those that were given for an X without names."""
        seen: np.ndarray | None = getattr(self, "feature_names_in_", None)
        if self.feature_names is None:
            return seen
        names = np.array([str(name) for name in self.feature_names], dtype=object)
        if len({*names}) != self.n_features_in_ or names.size != self.n_features_in_:
            raise ValueError(
                f"feature_names must be {self.n_features_in_} different names, one for each column of X, got "
                f"{names.size}"
            )
        if seen is not None and (names != seen).any():
            j = int(np.flatnonzero(names != seen)[0])
            raise ValueError(f"feature_names[{j}] is {names[j]!r}, and that column of X is called {seen[j]!r}")
        return names

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the selected features."""
        check_is_fitted(self)
        given = self._names() if input_features is None else input_features
        return np.asarray(super().get_feature_names_out(given))

    def _answers(self, risk: LinearModel, ks: list[int], request: Request, x0: Any = None) -> list[Result]:
        rng = None if self.random_state is None else check_random_state(self.random_state).randint(2**31)
        return request.path(risk, ks, self.method, max_iter=self.max_iter, rng=rng, x0=x0).results

    # Fitting.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Find the coefficients.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features), `Blocks`, or Dask array or DataFrame
        y : array of shape (n_samples,), for the squared loss also (n_samples, n_targets)
        sample_weight : array of shape (n_samples,), optional
            At least 0; a row of weight 2 counts as two rows.
        offset : array of shape (n_samples,), optional
            Added to each x_iᵀw + b: the logarithm of the exposure for losses of counts, say.
        """
        read = self._read(X, y, sample_weight, offset)
        maker = self._maker(*read[1:])
        ridge = self._default_ridge(read[0], read[2]) if self.ridge is None else self.ridge
        risk = self._risk(maker, *read, ridge)
        request = self._request(risk, read[0])
        for name in ("criterion_", "criteria_", "path_"):
            self.__dict__.pop(name, None)
        if isinstance(self.k, str):
            rule = read_criterion(self.k, risk, getattr(self, "loss", None))
            self.path_, self.criteria_ = choose_by_criterion(self, maker, risk, read, request, rule)
            self.criterion_, result = rule, self.path_[-1]
        else:
            result = self._answers(risk, [request.k(self.k, risk)], request)[-1]
        self._keep_answer(risk, result, request, (X, y, sample_weight, offset))
        return self

    def _keep_answer(self, risk: LinearModel, result: Result, request: Request, data: tuple[Any, ...]) -> None:
        for name in (*_PROOFS, "stability_"):
            self.__dict__.pop(name, None)
        self.result_, self.k_, self.ridge_, self.n_iter_ = result, result.k, risk.ridge, max(1, result.nit)
        self._selected = request.selected(result, self.n_features_in_)
        self._data = tuple(map(_weakly, data))
        self._set_coefficients(to_host(result.x), risk.intercept(result.x), risk)
        noisy = getattr(request.method(self.method), "stochastic", False)  # nothing but noise would stop it earlier
        if result.status is Status.MAX_ITER and not noisy:
            warnings.warn(f"{result.message}; raise max_iter", ConvergenceWarning, stacklevel=3)
        elif result.status is Status.DIVERGED:
            warnings.warn(f"{result.message}, or a ridge", ConvergenceWarning, stacklevel=3)

    def _set_coefficients(self, x: np.ndarray, intercept: Any, risk: LinearModel) -> None:
        raise NotImplementedError

    # Using.

    def _validated(self, X: Any) -> Any:
        X = X.detach() if is_tensor(X) else X
        return validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype=_floats(X))

    def _linear(self, X: Any, offset: Any = None) -> np.ndarray:
        """XWᵀ + b + offset, from the columns that W needs."""
        check_is_fitted(self)
        b = getattr(self, "intercept_", 0.0)
        needed = np.flatnonzero(np.atleast_2d(self.coef_).any(axis=0))
        if (design := elsewhere(X)) is not None:
            check_columns(self, X := design)
            z = np.asarray(here(design.spanned(needed, self.coef_[..., needed].T)), dtype=float) + b
        elif issparse(X := self._validated(X)):
            z = np.asarray(X @ self.coef_.T + b)
        else:
            z = np.asarray(to_host(X[:, needed]) @ self.coef_[..., needed].T + b)
        offset = self.__dict__.get("_scored_offset") if offset is None else _rows(offset, X.shape[0], z.ndim)
        if offset is None:
            return z
        return np.asarray(z + (offset if offset.ndim == z.ndim else offset[:, None]))

    def _get_support_mask(self) -> np.ndarray:
        """Features with a nonzero coefficient and, where groups are selected, the rest of these; and what is kept."""
        check_is_fitted(self)
        mask: np.ndarray = np.any(np.atleast_2d(self.coef_) != 0, axis=0)
        mask[self._selected] = True
        return mask

    def certify(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        time_limit: float | None = None,
        target_gap: float | None = None,
    ) -> Any:
        """How far the objective is from the best one that k nonzeros in Γ allow, proved.

        Parameters
        ----------
        X, y, sample_weight, offset
            The data of the fit: an estimator does not keep them.
        time_limit, target_gap : float, optional
            As for `ellzero.certify`.

        Returns
        -------
        Certificate
            Also in ``certificate_`` and ``result_.certificate``; and beside it ``beats_`` and ``result_.beats``.
        """
        risk, given = self._risk_again(X, y, sample_weight, offset)
        found = certify_fitted(self, risk, given, time_limit=time_limit, target_gap=target_gap)
        beats_fitted(self, risk, given)
        return found

    def _risk_again(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> tuple[LinearModel, str]:
        """The risk of data that are given once more, and what they are called."""
        check_is_fitted(self)
        read = self._read(X, y, sample_weight, offset, reset=False)
        given = "X, y and sample_weight" if offset is None else "X, y, sample_weight and offset"
        return self._risk(self._maker(*read[1:]), *read, self.ridge_), given

    def stability(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        n_pairs: int = 50,
        random_state: Any = None,
        verbose: int | None = None,
    ) -> Stability:
        """How often each feature is chosen on random halves of the rows, by fits with the k and the ridge of this one.

        Parameters
        ----------
        X, y, sample_weight, offset
            The data of the fit: an estimator does not keep them.
        n_pairs : int
            Pairs of halves without a common row; twice as many fits.
        random_state : int, RandomState or None
            For the halves.
        verbose : int, optional
            As for the estimators that cross-validate.

        Returns
        -------
        Stability
            Also in ``stability_``, where reports look for it.
        """
        check_is_fitted(self)
        data = self._read(X, y, sample_weight, offset, reset=False)
        self.stability_ = stability_of(self, data, n_pairs, random_state, verbose)
        return self.stability_

    def _layers(self, y: np.ndarray) -> np.ndarray | None:
        """Labels of rows each kind of which must be there in every part of them."""
        return None

    def __getattr__(self, name: str) -> Any:
        # no properties: those are evaluated by whoever lists the members of an estimator, and these take time
        if name not in _PROOFS or "result_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        known = self.result_.certificate if name == "certificate_" else None  # of the exact method
        data = tuple(refer() for refer in self.__dict__.get("_data", ()))
        if known is None and (len(data) != 4 or data[0] is None or data[1] is None):
            known = self.result_.beats if name == "beats_" else None
            if known is None:
                raise AttributeError(
                    f"{name} needs the data of the fit, which the estimator does not keep and nobody else does any "
                    "more; use certify(X, y)"
                )
        if known is not None:
            return known
        return self.certify(*data) if name == "certificate_" else beats_fitted(self, *self._risk_again(*data))

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_data", None)
        return state

    # Showing.

    def _more_columns(self, shown: np.ndarray) -> dict[str, list[float]]:
        """What else is told of the features beside their coefficients."""
        return {}

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and below it what was selected."""
        diagram: str = super()._repr_html_inner()
        return diagram + table_of_coefficients(self) if hasattr(self, "result_") else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _rows(offset: Any, n: int, most: int) -> np.ndarray:
    """An offset: a number for each row, or where there may be two axes one for each row and class."""
    values = as_numbers(offset, "offset").astype(np.float64)
    if not 1 <= values.ndim <= most or len(values) != n:
        raise ValueError(f"offset must have one entry for each of the {n} rows of X, got shape {values.shape}")
    check_finite(values, "offset")
    return values


def _floats(X: Any) -> tuple[Any, Any]:
    """The dtypes that X may have: of its own library where scikit-learn dispatches to it, else NumPy's."""
    if not (get_config()["array_api_dispatch"] and is_array(X)):
        return np.float64, np.float32
    xp = namespace(check_real(X, "X"))
    return xp.float64, xp.float32


def like_given(values: np.ndarray, X: Any) -> np.ndarray:
    """Predictions in the library of X and on its device, where scikit-learn dispatches to it.

    In the precision of X, and in double precision where X holds integers or halves.
    """
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"] or not is_array(X):
        return values
    xp, kind = namespace(X), values.dtype.kind
    if kind not in "fiub":  # labels may be words
        return values
    floats = X.dtype if X.dtype in (xp.float32, xp.float64) else xp.float64
    given: np.ndarray = like(values, X, dtype=floats if kind == "f" else xp.bool if kind == "b" else xp.int64)
    return given


def _weakly(thing: Any) -> Callable[[], Any]:
    """What was handed in, as long as somebody else keeps it too; lists, which nobody can watch, are kept."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def table_of_coefficients(model: Any) -> str:
    """The answer as HTML: what was selected, the largest coefficients first."""
    result, coefficients, selected = model.result_, np.atleast_2d(model.coef_), model.get_support(indices=True)
    names = model._names()
    names = np.array([f"x{j}" for j in range(model.n_features_in_)], dtype=object) if names is None else names
    order = selected[np.argsort(-np.abs(coefficients[:, selected]).max(axis=0), kind="stable")]
    shown = order[:_MOST]
    if len(coefficients) == 1:
        columns = {"coefficient": coefficients[0, shown].tolist(), **model._more_columns(shown)}
    else:
        labels = model.classes_ if hasattr(model, "classes_") else model.targets_
        columns = {f"{label}": row[shown].tolist() for label, row in zip(labels, coefficients, strict=True)}
    more = f" (the {_MOST} largest coefficients)" if selected.size > _MOST else ""
    summary = {
        result.sparsity.label: result.sparsity.describe(result.x),
        "constraint": "none" if result.constraint.whole_space else repr(result.constraint),
        "objective": f"{result.fun:.6g}",
        "intercept": ", ".join(f"{b:.4g}" for b in np.atleast_1d(getattr(model, "intercept_", []))),
        "status": result.message,
    }
    if not hasattr(model, "intercept_"):
        del summary["intercept"]
    data = {"feature": [str(name) for name in names[shown]], **columns}
    body = table(data, f"selected features{more}", sort=False, bar="coefficient" if len(coefficients) == 1 else None)
    return fragment(facts(summary), body)
