"""SparseCox: the forms of y, predictions, survival curves and the concordance index against brute force."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ellzero as ez


def brute_force(time, event, risk, weight, strata):
    """Harrell's C, pair by pair; None where there is no pair."""
    right = pairs = 0.0
    for i in range(len(time)):
        for j in range(len(time)):
            later = time[j] > time[i] or (time[j] == time[i] and not event[j])
            if event[i] and later and strata[i] == strata[j]:
                pairs += weight[i] * weight[j]
                right += weight[i] * weight[j] * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return right / pairs if pairs else None


@pytest.mark.parametrize("seed", range(60))
def test_concordance(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 40)
    time, event, risk = rng.integers(0, 8, n), rng.random(n) < 0.5, rng.integers(0, 6, n).astype(float)
    weight, strata = rng.choice([0.0, 1.0, 2.5], n), rng.integers(0, 1 + seed % 3, n)
    expected = brute_force(time, event, risk, weight, strata)
    if expected is None:
        with pytest.raises(ValueError, match="there is none"):
            ez.concordance_index(time, event, risk, sample_weight=weight, strata=strata)
    else:
        got = ez.concordance_index(time, event, risk, sample_weight=weight, strata=strata)
        assert got == pytest.approx(expected, abs=1e-12)


def test_concordance_of_many_and_what_is_refused():
    rng = np.random.default_rng(0)
    time, event = rng.exponential(size=20_000), rng.random(20_000) < 0.5
    assert ez.concordance_index(time, event, -time) == 1.0
    assert ez.concordance_index(time, event, time) == 0.0
    assert ez.concordance_index(time, event, np.zeros(20_000)) == 0.5
    with pytest.raises(ValueError, match="event must be True or False for each of the 2 times"):
        ez.concordance_index([1, 2], [1, 3], [0.0, 1.0])
    with pytest.raises(ValueError, match="risk must have length 2"):
        ez.concordance_index([1, 2], [1, 0], [0.0])


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 12))
    failure, censored = rng.exponential(np.exp(-X[:, 3] + X[:, 7])), rng.exponential(2.0, 160)
    return X, np.column_stack([np.minimum(failure, censored), failure <= censored])


def test_every_form_of_y_is_the_same_question(study):
    X, y = study
    model = ez.SparseCox(k=2).fit(X, y)
    assert model.get_support(indices=True).tolist() == [3, 7] and model.coef_[3] > 0 > model.coef_[7]
    structured = np.array([(bool(d), t) for t, d in y], dtype=[("cens", "?"), ("survival", "<f8")])
    frame = pd.DataFrame({"event": y[:, 1].astype(bool), "Time": y[:, 0], "ward": "x"})
    for form in (structured, frame, pd.DataFrame(y), y.tolist()):
        np.testing.assert_array_equal(ez.SparseCox(k=2).fit(X, form).coef_, model.coef_)
        assert model.score(X, form) == model.score(X, y)
    assert ez.SparseCox(k=2).fit(sparse.csr_array(X), y).coef_ == pytest.approx(model.coef_)
    named = ez.SparseCox(k=3, keep=["g1"]).fit(pd.DataFrame(X).add_prefix("g"), y)
    assert named.get_feature_names_out().tolist() == ["g1", "g3", "g7"]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (lambda y: y[:, 0], "y must hold a time and an event for each row"),
        (lambda y: y[:, ::-1], "the time in its first column and the event, 0 or 1, in its second"),
        (lambda y: np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]), "a boolean event and a time"),
        (lambda y: y * [np.nan, 1.0], "contains NaN"),
        (lambda y: y * [1.0, 0.0], "event must be True somewhere"),
        (lambda y: np.column_stack([y, y]), "the number of the row's stratum as a third"),
        (lambda y: pd.DataFrame(y).assign(age=1.0), "give strata as an argument of their own"),
        (lambda y: y[:5], "inconsistent numbers of samples"),
    ],
)
def test_other_y_is_refused(study, y, words):
    with pytest.raises(ValueError, match=words):
        ez.SparseCox(k=2).fit(study[0], y(study[1]))


def test_survival_curves(study):
    """Breslow's and Efron's estimator, written out, by stratum."""
    X, y = study
    y = np.column_stack([np.ceil(5 * y[:, 0]), y[:, 1]])
    strata = np.where(np.arange(160) % 3, "north", "south")
    for ties in ("breslow", "efron"):
        model = ez.SparseCox(k=2, ties=ties).fit(X, y, strata=strata)
        z, times = model.predict(X), np.array([0.0, 1.0, 2.5, 7.0, 1e9])
        np.testing.assert_allclose(z, X @ model.coef_)
        curves = model.predict_survival_function(X[:6], times, strata=strata[:6])
        for i in range(6):
            for curve, until in zip(curves[i], times, strict=True):
                hazard = 0.0
                for t in np.unique(y[y[:, 1] == 1, 0]):
                    here = strata == strata[i]
                    dead = here & (y[:, 0] == t) & (y[:, 1] == 1)
                    at_risk, dying, d = np.exp(z[here & (y[:, 0] >= t)]).sum(), np.exp(z[dead]).sum(), dead.sum()
                    jumps = [1 / (at_risk - (j / d * dying if ties == "efron" else 0)) for j in range(d)]
                    hazard += sum(jumps) if t <= until else 0.0
                assert curve == pytest.approx(np.exp(-hazard * np.exp(z[i])), rel=1e-9, abs=1e-300)
        every = model.predict_survival_function(X, strata=strata)
        assert (np.diff(every, axis=1) <= 0).all() and every.min() >= 0 and every.max() <= 1
        with pytest.raises(ValueError, match="strata must be given"):
            model.predict_survival_function(X)
        with pytest.raises(ValueError, match="one of the labels \\['north', 'south'\\]"):
            model.predict_survival_function(X[:1], strata=["east"])
    with pytest.raises(ValueError, match="strata must be left out"):
        ez.SparseCox(k=2).fit(X, y).predict_survival_function(X, strata=strata)


def test_score_weights_and_strata(study):
    X, y = study
    strata = np.arange(160) % 2
    model = ez.SparseCox(k=2).fit(X, y, strata=strata)
    third = np.column_stack([y, strata])
    np.testing.assert_array_equal(ez.SparseCox(k=2).fit(X, third).coef_, model.coef_)
    assert model.score(X, y, strata=strata) == model.score(X, third)
    weight = np.arange(160) % 3
    expected = brute_force(y[:, 0], y[:, 1], model.predict(X), weight, np.zeros(160))
    assert model.score(X, y, weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="strata are given twice"):
        ez.SparseCox(k=2).fit(X, third, strata=strata)
    rows = np.repeat(np.arange(160), weight)
    doubled = ez.SparseCox(k=2, ridge=0.01).fit(X[rows], y[rows])
    np.testing.assert_allclose(ez.SparseCox(k=2, ridge=0.01).fit(X, y, weight).coef_, doubled.coef_, rtol=1e-6)


def test_it_is_an_estimator(study, tmp_path):
    X, y = study
    model = ez.SparseCox(k=2, ties="efron", constraint="nonnegative").fit(X, y)
    assert "fit_intercept" not in model.get_params() and not hasattr(model, "intercept_")
    assert model.coef_.min() >= 0 and clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)
    assert model.certificate_ is model.certify(X, y, time_limit=1) or model.certificate_.relative_gap < 0.1
    with pytest.raises(ValueError, match="must be those of the fit"):
        model.certify(X, y, strata=np.arange(160) % 2)
    pipe = make_pipeline(StandardScaler(), ez.SparseCox())
    assert cross_val_score(pipe, X, y).mean() > 0.7
    grid = GridSearchCV(ez.SparseCox(), {"k": [1, 2]}).fit(X, y)
    assert grid.best_params_ == {"k": 2}
    assert "hazard ratio" in model._repr_html_inner() and "intercept" not in model._repr_html_inner()
    page = ez.write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "SparseCox" in page


def test_k_by_cross_validation(study):
    X, y = study
    strata = np.where(np.arange(160) % 2, "a", "b")
    model = ez.SparseCoxCV(ks=4, ridge=0.01, cv=4, rule="1se").fit(X, y, strata=strata)
    assert model.k_ == 2 and model.get_support(indices=True).tolist() == [3, 7]
    assert model.strata_.tolist() == ["a", "b"] and len(model.path_) == 2
    fold = np.arange(0, 40)  # by hand: what the first rows add to the likelihood of the others
    folds = [(np.arange(40, 160), fold)]
    given = ez.SparseCoxCV(ks=[2], ridge=0.01, cv=folds).fit(X, y)
    w = ez.SparseCox(k=2, ridge=0.01).fit(X[40:], y[40:]).coef_
    whole, rest = (ez.risks.Cox(X[s:], *y[s:].T).value(w) * y[s:, 1].sum() for s in (0, 40))
    expected = -(whole - rest) / y[fold, 1].sum()
    assert given.cv_results_["mean_test_score"][0] == pytest.approx(expected, rel=1e-6)
    by_order = ez.SparseCoxCV(ks=3, ridge=0.01, scoring=lambda model, X, y: model.score(X, y)).fit(X, y)
    assert 0.6 < by_order.cv_results_["mean_test_score"].max() <= 1
    late = [(np.flatnonzero(y[:, 1] == 1), np.flatnonzero(y[:, 1] == 0))]
    with pytest.raises(ValueError, match="a fold without an event"):
        ez.SparseCoxCV(ks=2, cv=late).fit(X, y)
