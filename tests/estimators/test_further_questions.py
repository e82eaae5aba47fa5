"""Offsets, class weights and further losses of the estimators, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, QuantileRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.class_weight import compute_sample_weight

import ellzero as ez


def table(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 1] - X[:, 4] + 0.3, rng


def test_the_offset_of_counts_is_their_exposure():
    X, z, rng = table()
    time = rng.uniform(0.1, 10.0, len(z))
    y = rng.poisson(time * np.exp(0.7 * z))
    model = ez.SparseRegressor(k=2, loss="poisson").fit(X, y, offset=np.log(time))
    # the same model as weights: rates y/time with the weight time
    same = ez.SparseRegressor(k=2, loss="poisson").fit(X, y / time, sample_weight=time)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), same.predict(X), rtol=1e-5)
    np.testing.assert_allclose(model.predict(X, offset=np.log(time)), time * same.predict(X), rtol=1e-5)
    assert model.score(X, y, offset=np.log(time)) > model.score(X, y)
    assert model.certify(X, y, offset=np.log(time)).lower_bound <= model.result_.fun
    with pytest.raises(ValueError, match="X, y and sample_weight must be those of the fit"):
        model.certify(X, y)


def test_an_offset_of_least_squares_is_taken_from_y():
    X, z, rng = table()
    offset, y = 3 * rng.standard_normal(len(z)), z + 0.1 * rng.standard_normal(len(z))
    for loss in ("squared", "huber", ("quantile", 0.7)):
        moved = y + offset
        one = ez.SparseRegressor(k=2, loss=loss).fit(X, moved, offset=offset)
        other = ez.SparseRegressor(k=2, loss=loss).fit(X, y)
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-7)
        np.testing.assert_allclose(one.predict(X, offset), other.predict(X) + offset, atol=1e-6)
        assert one.certificate_.lower_bound <= one.result_.fun  # with the data of the fit, offset and all


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
def test_folds_have_their_own_part_of_the_offset(scoring):
    X, z, rng = table(90)
    offset, y = 5 * rng.standard_normal(90), z + 0.3 * rng.standard_normal(90)
    options = {"ks": 4, "ridge": 0.0, "scoring": scoring, "cv": KFold(3)}
    one = ez.SparseRegressorCV(**options).fit(X, y + offset, offset=offset)
    other = ez.SparseRegressorCV(**options).fit(X, y)
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-9)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-9)
    assert not hasattr(one, "_scored_offset")


@pytest.mark.parametrize("classes", [2, 3])
def test_offsets_of_classifiers(classes):
    X, z, rng = table()
    y = np.digitize(z + rng.logistic(size=len(z)), [0.0] if classes == 2 else [-1.0, 1.0])
    shape = (len(z),) if classes == 2 else (len(z), classes)
    offset = rng.standard_normal(shape)
    model = ez.SparseClassifier(k=6).fit(X, y, offset=offset)
    plain = model.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X, offset), plain + offset)
    assert np.abs(model.predict_proba(X, offset).sum(axis=1) - 1).max() < 1e-12
    assert model.score(X, y, offset=offset) == np.mean(model.predict(X, offset) == y)
    ez.SparseClassifierCV(ks=2, ridge=0.1, cv=3).fit(X, y, offset=offset)


@pytest.mark.parametrize(
    "offset", [np.ones(3), np.ones((200, 2)), np.full(200, np.inf), "many", np.ma.masked_array(np.ones(200), True)]
)
def test_errors_name_the_offset(offset):
    X, z, _ = table()
    for call in (
        lambda: ez.SparseRegressor(k=2).fit(X, z, offset=offset),
        lambda: ez.SparseRegressor(k=2).fit(X, z).predict(X, offset=offset),
    ):
        with pytest.raises((ValueError, TypeError), match="offset"):
            call()


# Class weights


@pytest.mark.parametrize("weight", ["balanced", {0: 5.0}, {0: 0.2, 1: 2.0}])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", [ez.SparseClassifier, ez.SparseClassifierCV])
def test_class_weights_multiply_those_of_the_rows(weight, weighted, model):
    X, z, rng = table()
    y = (z + rng.logistic(size=len(z)) > 1.5).astype(int)
    weights = rng.integers(1, 4, len(z)).astype(float) if weighted else np.ones(len(z))
    if weight == "balanced":  # each row of weight 2 is two rows
        rows = np.repeat(np.arange(len(z)), weights.astype(int))
        of_class = dict(zip([0, 1], [len(rows) / (2 * np.sum(y[rows] == c)) for c in (0, 1)], strict=True))
        total = weights * np.array([of_class[c] for c in y])
    else:
        total = weights * compute_sample_weight(weight, y)
    options = {"ridge": 0.1, "ks": [3]} if model is ez.SparseClassifierCV else {"ridge": 0.1, "k": 3}
    one = model(class_weight=weight, **options).fit(X, y, sample_weight=weights if weighted else None)
    other = ez.SparseClassifier(k=3, ridge=0.1).fit(X, y, sample_weight=total)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-6)


def test_balanced_classes_as_scikit_learn_has_them():
    X, z, rng = table()
    y = np.where(z + rng.logistic(size=len(z)) > 1.5, "rare", "usual")
    other = LogisticRegression(class_weight="balanced", C=1 / 20, tol=1e-10, max_iter=1000).fit(X, y)
    # theirs is Σω ℓ + ||w||²/(2C), and balanced weights add up to n
    model = ez.SparseClassifier(k=6, class_weight="balanced", ridge=20 / len(y)).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)
    assert np.mean(model.predict(X) == "rare") > np.mean(ez.SparseClassifier(k=6).fit(X, y).predict(X) == "rare")


def test_folds_are_balanced_by_their_own_rows(monkeypatch):
    X, z, _ = table(60)
    y = (z > 0.8).astype(int)
    seen, risk = [], ez.SparseClassifierCV._risk

    def watched(self, maker, X, y, sample_weight, offset, ridge):
        made = risk(self, maker, X, y, sample_weight, offset, ridge)
        seen.append([float(made.double_share[y == c].sum()) for c in (0, 1)])
        return made

    monkeypatch.setattr(ez.SparseClassifierCV, "_risk", watched)
    ez.SparseClassifierCV(ks=[1, 2], ridge=0.1, cv=KFold(4), class_weight="balanced").fit(X, y)
    assert len(seen) == 5
    np.testing.assert_allclose(seen, 0.5)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({2: 1.0}, r"class_weight names the class 2, which y does not hold; it holds \[0, 1\]"),
        ({0: -1.0}, "class_weight of 0 must lie in"),
        ("even", "class_weight must be \"balanced\", a mapping from label to weight, or None; got 'even'"),
        ({0: 0.0}, "y must hold at least two classes with positive sample_weight"),
    ],
)
def test_errors_of_class_weights(weight, message):
    X, z, _ = table()
    with pytest.raises(ValueError, match=message):
        ez.SparseClassifier(class_weight=weight).fit(X, (z > 0).astype(int))


# Losses


def test_amounts():
    X, z, rng = table()
    y = rng.gamma(3.0, np.exp(0.5 * z))
    model = ez.SparseRegressor(k=6, loss="gamma", ridge=0.1).fit(X, y)
    other = GammaRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-5)
    assert ez.SparseRegressor(k=2, loss="gamma").fit(X, y).get_support().nonzero()[0].tolist() == [1, 4]
    with pytest.raises(ValueError, match="y must be positive for Gamma"):
        ez.SparseRegressor(loss="gamma").fit(X, y - 5)


@pytest.mark.parametrize(("loss", "level"), [("quantile", 0.5), (("quantile", 0.9), 0.9)])
def test_quantiles(loss, level):
    X, z, rng = table(400)
    y = z + rng.standard_exponential(400)
    model = ez.SparseRegressor(k=6, loss=loss).fit(X, y)
    other = QuantileRegressor(quantile=level, alpha=0).fit(X, y)
    assert np.mean(y > model.predict(X)) == pytest.approx(1 - level, abs=0.02)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=0.02)
    held_out = cross_val_predict(ez.SparseRegressor(k=2, loss=loss), X, y, cv=5)
    assert np.mean(y > held_out) == pytest.approx(1 - level, abs=0.06)
    ez.SparseRegressorCV(ks=3, ridge=0.0, loss=loss, cv=3).fit(X, y)
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\)"):
        ez.SparseRegressor(loss=("quantile", 2.0)).fit(X, y)


@pytest.mark.parametrize("loss", ["cubic", ("gamma", 2.0), None])
def test_unknown_losses_are_refused(loss):
    X, z, _ = table()
    with pytest.raises(ValueError, match="loss must be"):
        ez.SparseRegressor(loss=loss).fit(X, z)
    with pytest.raises(ValueError, match="loss must be one of 'logistic', 'squared_hinge'"):
        ez.SparseClassifier(loss=loss).fit(X, z > 0)


def test_a_classifier_without_probabilities():
    X, z, rng = table()
    y = np.where(z + 0.5 * rng.standard_normal(len(z)) > 0, "yes", "no")
    model = ez.SparseClassifier(k=2, loss="squared_hinge").fit(X, y)
    assert model.score(X, y) > 0.8 and model.get_support().nonzero()[0].tolist() == [1, 4]
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)
    assert hasattr(ez.SparseClassifier(), "predict_proba")
    assert ez.SparseClassifierCV(ks=3, ridge=0.1, loss="squared_hinge").fit(X, y).k_ >= 2
    with pytest.raises(ValueError, match="y must hold two labels for SquaredHinge, got 3"):
        ez.SparseClassifier(loss="squared_hinge").fit(X, np.arange(len(z)) % 3)
