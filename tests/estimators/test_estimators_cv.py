"""The choice of k and ridge by cross-validation, and the page about the estimators."""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, cross_val_score

import ellzero as ez
from common import assert_printed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def problem():
    return ez.datasets.make_regression(120, 30, 4, snr=5.0)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 6))
    scores = X[:, :3] * [1.0, 2.0, 2.0]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.mark.parametrize("method", ["IHT-2SP", ez.Method(step="adaptive"), "exact"])
def test_methods_of_ones_own_choose_too(problem, method):
    X, y = problem.X * np.geomspace(0.01, 100, 30), problem.y
    options = {"constraint": "nonnegative", "ridge": 0.0, "method": method, "max_iter": 3000}
    model = ez.SparseRegressorCV(ks=[2, 4], cv=3, **options).fit(X, y)
    single = ez.SparseRegressor(k=model.k_, **options).fit(X, y)
    assert model.result_.method == single.result_.method != "auto"
    assert model.result_.fun <= single.result_.fun * (1 + 1e-6)
    assert (model.coef_ >= 0).all() and model.result_.violation <= 1e-12


def test_scores_are_those_of_single_fits(problem, monkeypatch):
    """Along the path nothing is found that fits of single k would not find, and the other way round.

    But for the damped starts, which only cold starts have.
    """
    monkeypatch.setattr("ellzero.solver.finishes.from_damped", lambda *_: None)
    X, y = problem.X, problem.y
    folds = KFold(4)
    model = ez.SparseRegressorCV(ks=[1, 3, 4, 6], ridge=[0.0, 0.5], cv=folds).fit(X, y)
    results = model.cv_results_
    assert results["k"].tolist() == [1, 3, 4, 6] * 2
    for i, (k, ridge) in enumerate(zip(results["k"], results["ridge"], strict=True)):
        single = ez.SparseRegressor(k=int(k), ridge=ridge)
        scores = cross_val_score(single, X, y, cv=folds, scoring="neg_mean_squared_error")
        np.testing.assert_allclose([results[f"split{j}_test_score"][i] for j in range(4)], scores, rtol=1e-6)
        assert results["mean_test_score"][i] == pytest.approx(scores.mean())
        assert results["std_test_score"][i] == pytest.approx(scores.std())
    best = results["mean_test_score"].argmax()
    assert (model.k_, model.ridge_) == (results["k"][best], results["ridge"][best])
    refitted = ez.SparseRegressor(k=model.k_, ridge=model.ridge_).fit(X, y)
    np.testing.assert_allclose(model.coef_, refitted.coef_, rtol=1e-8, atol=1e-12)
    assert [res.k for res in model.path_] == [k for k in (1, 3, 4, 6) if k <= model.k_]
    assert model.result_ is model.path_[-1]


def test_the_answer_is_no_worse_than_a_single_fit():
    """On problems where searches get stuck; in some of them the path alone would be worse."""
    lagging = 0
    for seed in range(6):
        problem = ez.datasets.make_regression(60, 80, 8, correlation=0.95, snr=2.0, rng=seed)
        model = ez.SparseRegressorCV(ks=[2, 8], ridge=0.0, cv=3).fit(problem.X, problem.y)
        single = ez.SparseRegressor(k=model.k_, ridge=0.0).fit(problem.X, problem.y)
        assert model.result_.fun <= single.result_.fun * (1 + 1e-12) and model.result_ is model.path_[-1]
        risk = ez.risks.LeastSquares(problem.X, problem.y, fit_intercept=True)
        lagging += ez.minimize_path(risk, [2, 8])[8].fun > ez.minimize(risk, 8).fun * (1 + 1e-9)
    assert lagging > 0


def test_one_standard_error(problem):
    X, y = problem.X, problem.y
    best, smaller = (ez.SparseRegressorCV(ks=12, ridge=0.0, rule=rule).fit(X, y) for rule in ("best", "1se"))
    means, ks = best.cv_results_["mean_test_score"], best.cv_results_["k"]
    folds = np.array([best.cv_results_[f"split{j}_test_score"] for j in range(5)])
    error = folds.std(axis=0, ddof=1)[means.argmax()] / np.sqrt(5)
    assert best.k_ == ks[means.argmax()]
    assert smaller.k_ == min(ks[means >= means.max() - error]) <= best.k_
    assert smaller.get_support(indices=True).tolist() == np.flatnonzero(problem.truth).tolist()
    with pytest.raises(ValueError, match="rule must be one of 'best', '1se'"):
        ez.SparseRegressorCV(rule="2se").fit(X, y)


def test_scoring_weights_and_jobs(problem):
    X, y = problem.X, problem.y
    weight = 1.0 + np.arange(120) % 3
    plain = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=3).fit(X, y, sample_weight=weight)
    same = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=3, scoring="neg_mean_squared_error", n_jobs=2)
    with parallel_config("threading"):
        same.fit(sparse.csr_array(X), y, sample_weight=weight)
    np.testing.assert_allclose(same.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=1e-8)
    absolute = make_scorer(mean_absolute_error, greater_is_better=False)
    model = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=3, scoring=absolute).fit(X, y)
    single = cross_val_score(ez.SparseRegressor(k=4, ridge=0.1), X, y, cv=3, scoring=absolute)
    assert model.cv_results_["mean_test_score"][1] == pytest.approx(single.mean())


def test_scoring_of_a_data_frame_is_quiet_and_the_same(problem):
    """The rows of a fold come without names; warnings are errors in these tests."""
    frame = pd.DataFrame(problem.X, columns=[f"f{j}" for j in range(problem.X.shape[1])])
    ask = {"ks": [2, 4], "ridge": 0.0, "scoring": "r2", "cv": 3}
    named, plain = (ez.SparseRegressorCV(**ask).fit(X, problem.y) for X in (frame, problem.X))
    np.testing.assert_array_equal(named.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert named.feature_names_in_.tolist() == frame.columns.tolist()


@pytest.mark.parametrize("scoring", [None, "r2"])
@pytest.mark.parametrize("rows", [slice(0, 40), slice(40, 120)], ids=["left out", "fitted"])
def test_a_fold_without_weight_is_refused(problem, scoring, rows):
    weights = np.ones(120)
    weights[rows] = 0
    with pytest.raises(ValueError, match="sample_weight is 0 on all rows of a fold of cv"):
        ez.SparseRegressorCV(ks=[2], ridge=0.0, cv=KFold(3), scoring=scoring).fit(problem.X, problem.y, weights)


def test_default_levels_go_on_while_the_largest_is_best():
    many = ez.datasets.make_regression(300, 60, 45, snr=100.0)
    model = ez.SparseRegressorCV(ridge=0.01, cv=3).fit(many.X, many.y)
    assert model.k_ >= 40 and max(model.cv_results_["k"]) == 60
    few = ez.datasets.make_regression(300, 60, 3, snr=10.0)
    model = ez.SparseRegressorCV(ridge=0.01, cv=3).fit(few.X, few.y)
    assert model.k_ < 20 == max(model.cv_results_["k"])
    kept = ez.SparseRegressorCV(ridge=0.01, cv=3, keep=range(25)).fit(few.X, few.y)
    assert min(kept.cv_results_["k"]) == 25


def test_default_ridges_follow_the_units(problem):
    X, y = problem.X, problem.y
    here, there = (ez.SparseRegressorCV(ks=[3], cv=3).fit(Z, y) for Z in (X, 100 * X))
    np.testing.assert_allclose(there.cv_results_["ridge"], 1e4 * here.cv_results_["ridge"])
    np.testing.assert_allclose(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_other_losses_and_constraints(problem, loss):
    y = np.random.default_rng(0).poisson(np.exp(0.3 * problem.y)) if loss == "poisson" else problem.y
    model = ez.SparseRegressorCV(ks=[1, 4], ridge=0.01, loss=loss, constraint="nonnegative", cv=3).fit(problem.X, y)
    assert model.coef_.min() >= 0
    assert (model.cv_results_["mean_test_score"] < 0).all()


def test_classes(classes):
    X, y = classes
    model = ez.SparseClassifierCV(ks=[1, 2, 5], ridge=[0.01, 0.1], cv=3).fit(X, y)
    best = model.cv_results_["mean_test_score"].max()
    single = cross_val_score(ez.SparseClassifier(k=model.k_, ridge=model.ridge_), X, y, cv=3, scoring="neg_log_loss")
    assert single.mean() == pytest.approx(best, rel=1e-5)
    accurate = ez.SparseClassifierCV(ks=[3], ridge=0.1, cv=3, scoring="accuracy").fit(X, y)
    single = cross_val_score(ez.SparseClassifier(k=3, ridge=0.1), X, y, cv=3)
    assert accurate.cv_results_["mean_test_score"][0] == pytest.approx(single.mean())
    first = np.arange(90) < 60
    with pytest.raises(ValueError, match="cv leaves no row of class 2 to fit on"):
        ez.SparseClassifierCV(cv=[(np.flatnonzero(first & (y != 2)), np.flatnonzero(~first))]).fit(X, y)


def test_rows_in_groups_through_metadata_routing(problem):
    X, y = problem.X, problem.y
    rows = np.arange(120) % 6
    with config_context(enable_metadata_routing=True):
        splitter = GroupKFold(3).set_split_request(groups=True)
        model = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=splitter)
        model.fit(X, y, groups=rows)
    other = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=list(GroupKFold(3).split(X, y, rows))).fit(X, y)
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="metadata_routing"):
        clone(other).fit(X, y, groups=rows)


def test_sample_weight_is_routed_to_a_scorer(problem):
    X, y = problem.X, problem.y
    weight = np.where(np.arange(120) < 60, 1.0, 0.1)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(mean_absolute_error, greater_is_better=False).set_score_request(sample_weight=True)
        model = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=3, scoring=scorer)
        model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weight)
    plain = ez.SparseRegressorCV(ks=[2, 4], ridge=0.1, cv=3, scoring="neg_mean_absolute_error")
    plain.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"ks": []}, ValueError, "ks must name at least one k"),
        ({"ks": "many"}, TypeError, "ks must be an integer K"),
        ({"ridge": []}, ValueError, "ridge must name at least one number"),
        ({"scoring": "roc"}, ValueError, "roc"),
    ],
)
def test_errors_name_the_remedy(problem, options, kind, message):
    with pytest.raises(kind, match=message):
        ez.SparseRegressorCV(**options).fit(problem.X, problem.y)


def test_more_nonzeros_than_coefficients_are_all_of_them(problem):
    with pytest.warns(UserWarning, match="ks=31 is more than there are coefficients"):
        model = ez.SparseRegressorCV(ks=[2, 31], ridge=0.1, cv=2).fit(problem.X, problem.y)
    assert model.cv_results_["k"].tolist() == [2, 30]


def test_fractions_and_other_splitters(problem):
    model = ez.SparseRegressorCV(ks=[0.1, 0.2, 5], ridge=0.1, cv=ShuffleSplit(2, random_state=0))
    model.fit(problem.X, problem.y)
    assert model.cv_results_["k"].tolist() == [3, 5, 6]


@pytest.mark.parametrize(("name", "least"), [("estimators", 5), ("choosing", 3)])
def test_the_page_runs_and_prints_what_it_says(tmp_path, monkeypatch, name, least):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    names, printed, said = {"__name__": "page"}, "", 0
    for language, block in re.findall(r"^```(python|text)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        if language == "text":
            assert_printed(block, printed)
            said += 1
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(block, f"{name}.md", "exec"), names)
        printed = output.getvalue()
    assert said >= least


# ---- the benchmark ----


def test_the_table_of_gene_expression_has_every_method():
    bench = pytest.importorskip("benchmarks.gene_expression")
    text = bench.TARGET.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    assert rows == ["method", *bench.METHODS] * 2


def test_errors_of_the_benchmark():
    bench = pytest.importorskip("benchmarks.gene_expression")
    y = np.array([0, 1, 1])
    p = np.array([[0.2, 0.9, 0.4], [0.5, 1.0, 1.0]])
    sure = bench.score(p > 0.5, p, y, classify=True, on_signs=False)
    assert sure["error"] == pytest.approx([1 / 3, 0])
    assert sure["loss"][0] == pytest.approx(-np.mean(np.log([0.8, 0.9, 0.4])))
    assert bench.score(np.array([[-0.2, 0.4, 0.1]]), None, y, classify=True, on_signs=True) == {"error": [0.0]}
    assert bench.score(np.array([[0.0, 1.0, 3.0]]), None, y, classify=False, on_signs=False)["error"] == pytest.approx(
        [4 / 3]
    )


def test_the_page_about_choosing_says_what_was_stored():
    bench = pytest.importorskip("benchmarks.choosing")
    stored = json.loads(bench.STORE.read_text(encoding="utf-8"))
    assert bench.page(stored) == bench.TARGET.read_text(encoding="utf-8")
    assert {*stored["others"]} == {f"{data}: {method}" for data in bench.DATASETS for method in bench.METHODS}
