"""The choice of k: by a criterion, by cross-validation of all folds at once, and how stable it is."""

import itertools
import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold

import ellzero as ez
from ellzero.estimators import folds as folds_module
from ellzero.estimators.curves import Search, chosen, portions, standard_error
from ellzero.estimators.folds import AllAtOnce
from ellzero.estimators.stability import _halves

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 7))
Y = 2 * X[:, 1] - X[:, 4] + 0.5 * RNG.standard_normal(60)
CLASSES = (X[:, 1] - X[:, 4] + 0.5 * RNG.standard_normal(60) > 0).astype(int)


# ---- criteria ----


def best_by_enumeration(X, y, price):
    """min over all supports of n log(RSS/n) + price(size), by least squares with an intercept; its size."""
    n, p = X.shape
    found = {}
    for k in range(p + 1):
        for support in itertools.combinations(range(p), k):
            A = np.column_stack([np.ones(n), X[:, list(support)]])
            rss = float(np.linalg.lstsq(A, y, rcond=None)[1].sum() if A.shape[1] > 1 else ((y - y.mean()) ** 2).sum())
            found[support] = n * math.log(rss / n) + price(k)
    return min(found, key=found.get)


@pytest.mark.parametrize("rule", ["ebic", "bic", "aic"])
@pytest.mark.parametrize("seed", range(3))
def test_a_criterion_takes_what_enumeration_takes(rule, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 6)) + rng.standard_normal((50, 1))
    y = X[:, 0] - 0.4 * X[:, 3] + rng.standard_normal(50)
    prices = {
        "ebic": lambda k: k * math.log(50) + 2 * math.log(math.comb(6, k)),
        "bic": lambda k: k * math.log(50),
        "aic": lambda k: 2 * k,
    }
    model = ez.SparseRegressor(k=rule).fit(X, y)
    assert tuple(model.get_support(indices=True)) == best_by_enumeration(X, y, prices[rule])
    assert model.criterion_ == rule and model.k_ == model.result_.support.size == model.path_[-1].k
    assert model.criteria_["k"].tolist() == list(range(7))
    assert model.criteria_["k"][model.criteria_[rule].argmin()] == model.k_


def test_auto_is_ebic_and_may_choose_nothing():
    assert ez.SparseRegressor(k="auto").fit(X, Y).get_support(indices=True).tolist() == [1, 4]
    model = ez.SparseRegressor(k="auto").fit(X, np.random.default_rng(5).standard_normal(60))
    assert (model.k_, model.criterion_) == (0, "ebic") and not model.coef_.any()
    assert ez.SparseRegressor(k="auto", keep=[6]).fit(X, Y).get_support()[6]
    assert ez.SparseRegressor(k="auto", constraint="simplex").fit(X, Y).k_ >= 1  # 0 is not in Γ
    model.set_params(k=2).fit(X, Y)
    assert not {"criterion_", "criteria_", "path_"} & set(vars(model))


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (ez.SparseClassifier(k="auto"), CLASSES),
        (ez.SparseClassifier(k="auto", class_weight="balanced"), CLASSES + (X[:, 1] > 1)),
        (ez.SparseRegressor(k="auto", loss="poisson"), np.round(np.exp(Y / 2))),
        (ez.SparseRegressor(k="auto", loss="gamma"), np.exp(Y / 2)),
        (ez.SparseRegressor(k="auto"), np.column_stack([Y, X[:, 4] + Y])),
        (ez.SparseRegressor(k="auto", constraint="nonpositive"), Y),
        (ez.SparseRegressor(k="auto", groups=list("aabbccc"), select="groups"), Y),
        (ez.SparseRegressor(k="auto", method="IHT-2SP"), Y),
        (ez.SparseCox(k="auto"), np.column_stack([np.exp(-Y), np.ones(60)])),
    ],
)
def test_auto_works_wherever_there_is_a_likelihood(model, y):
    model.fit(X, y)
    assert model.result_.k == model.k_ == [res.k for res in model.path_][-1]
    best = model.criteria_["k"][model.criteria_["ebic"].argmin()]
    assert model.k_ == best and {1, 4} & set(model.get_support(indices=True))


def test_auto_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="k='auto' needs a likelihood, and loss='huber' has none.*cross-validation"):
        ez.SparseRegressor(k="auto", loss="huber").fit(X, Y)
    with pytest.raises(ValueError, match="k must be a number.*'ebic', 'bic', 'gic', 'aic'; got 'best'"):
        ez.SparseRegressor(k="best").fit(X, Y)
    exact = np.random.default_rng(0).standard_normal((30, 100))
    with pytest.warns(UserWarning, match="took the largest k that it tries, 10, a third of the rows"):
        ez.SparseRegressor(k="aic").fit(exact, exact[:, :25].sum(axis=1))


# ---- cross-validation ----


def test_cv_results_have_the_names_of_a_grid_search():
    ks, ridges, cv = [1, 2, 3], [0.01, 0.1], KFold(3)
    model = ez.SparseRegressorCV(ks=ks, ridge=ridges, cv=cv).fit(X, Y)
    grid = GridSearchCV(ez.SparseRegressor(), {"ridge": ridges, "k": ks}, cv=cv, scoring="neg_mean_squared_error").fit(
        X, Y
    )
    ours, theirs = model.cv_results_, grid.cv_results_
    assert {name for name in theirs if "time" not in name} <= set(ours)
    place = [ours["params"].index(params) for params in theirs["params"]]
    assert ours["param_k"][place].tolist() == theirs["param_k"].tolist()
    np.testing.assert_allclose(ours["param_ridge"][place].astype(float), theirs["param_ridge"].astype(float))
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_allclose(ours[name][place], theirs[name], rtol=1e-8)
    assert ours["rank_test_score"][place].tolist() == theirs["rank_test_score"].tolist()
    assert model.best_params_ == grid.best_params_ == ours["params"][model.best_index_]
    assert model.best_score_ == pytest.approx(grid.best_score_) and model.n_splits_ == 3


def test_every_k_is_tried_where_there_are_few():
    assert portions(1, 10) == [list(range(1, 11))] and portions(3, 20) == [list(range(3, 21))]
    assert portions(1, 21)[0] == [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20] and portions(1, 21)[-1] == [21]
    assert portions(25, 30) == [[25], [30]]
    assert sorted(set(ez.SparseRegressorCV().fit(X, Y).cv_results_["k"])) == [1, 2, 3, 4, 5, 6, 7]


class Known:
    """Folds whose answers are (ridge, k); what was asked for is written down."""

    def __init__(self):
        self.asked = []

    def solve(self, jobs, ks, starts):
        self.asked.append((sorted({ridge for ridge, _ in jobs}), ks))
        return [[(ridge, k) for k in ks] for ridge, _ in jobs]


def test_a_search_goes_on_gives_up_and_looks_closer():
    """Scores -|k - 70| - 100·ridge: a ridge is hopeless, k rises as long as one of the last two is best."""
    folds = Known()
    noise = [0.0, 0.1, -0.1]
    search = Search(
        folds, 3, [0.0, 1.0], lambda answer, fold: -abs(answer[1] - 70) - 100 * answer[0] + noise[fold], lambda *_: None
    )
    scores = search.along(portions(1, 400), "best")
    assert folds.asked[0][0] == [0, 1] and folds.asked[1] == ([0], [32])
    assert [ks for _, ks in folds.asked[1:-1]] == [[32], [50], [80], [130], [200]]
    assert folds.asked[-1][0] == [0] and 50 < min(folds.asked[-1][1]) < max(folds.asked[-1][1]) < 130
    assert abs(chosen(scores, [0.0, 1.0], "best")[1] - 70) <= 10
    assert standard_error(np.array([1.0, 2.0, 3.0])) == pytest.approx(1 / math.sqrt(3))


def test_one_standard_error_is_drawn():
    model = ez.SparseRegressorCV(ridge=0.0).fit(X, Y)
    ax = ez.PathDisplay.from_estimator(model, ax=Figure().subplots()).ax_
    told = " ".join(text.get_text() for text in ax.get_legend().get_texts())
    assert "± 1 standard error" in told
    means = model.cv_results_["mean_test_score"]
    height = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
    folds = [model.cv_results_[f"split{i}_test_score"][means.argmax()] for i in range(5)]
    assert any(value == pytest.approx(-means.max() + np.std(folds, ddof=1) / math.sqrt(5)) for value in height)
    auto = ez.PathDisplay.from_estimator(ez.SparseRegressor(k="auto").fit(X, Y), ax=Figure().subplots()).ax_
    assert "chosen by ebic: k = 2" in [text.get_text() for text in auto.get_legend().get_texts()]


def kinds():
    counts, amounts = np.round(np.exp(Y / 2)), np.exp(Y / 2)
    several = CLASSES + (X[:, 1] > 1)
    yield from ((loss, ez.SparseRegressorCV, Y) for loss in ("squared", "huber", "quantile"))
    yield from (("poisson", ez.SparseRegressorCV, counts), ("gamma", ez.SparseRegressorCV, amounts))
    yield from ((loss, ez.SparseClassifierCV, CLASSES) for loss in ("logistic", "squared_hinge"))
    yield from (
        ("logistic", ez.SparseClassifierCV, several),
        ("squared", ez.SparseRegressorCV, np.column_stack([Y, X[:, 2]])),
    )


ODD = itertools.cycle(["plain", "weights", "odd columns", "sparse", "kept", "no intercept", "offset"])


@pytest.mark.parametrize(("loss", "kind", "y", "odd"), [(*row, next(ODD)) for row in [*kinds()] * 2])
def test_all_at_once_finds_what_enumeration_finds(loss, kind, y, odd, monkeypatch):
    """The best values on its support, and a support that is the best of all pairs, or nearly."""
    rng, A, fit = np.random.default_rng(3), X[:, [1, 4, 2, 0, 3]].copy(), {}
    options = {"loss": loss, "ks": [1, 2], "ridge": 0.05}
    if odd == "weights":
        fit["sample_weight"] = rng.integers(1, 4, len(y)) * (np.arange(len(y)) % 7 > 0)
    elif odd == "odd columns":
        A[:, 2], A[:, 3], A[:, 4] = A[:, 1], 3.0, 1e3 * A[:, 4] + 7
    elif odd == "kept":
        options["keep"] = [4]
    elif odd == "no intercept":
        options["fit_intercept"] = False
    elif odd == "offset" and y.ndim == 1:
        fit["offset"] = 0.1 * rng.standard_normal(len(y))
    seen = []
    solve = AllAtOnce.solve
    monkeypatch.setattr(
        AllAtOnce, "solve", lambda self, *asked: seen.append((asked, solve(self, *asked))) or seen[-1][1]
    )
    model = kind(**options)
    even, odds = np.arange(0, 60, 2), np.arange(1, 60, 2)
    splits = [(even, odds), (odds, even)]
    model.set_params(cv=splits).fit(sparse.csr_array(A) if odd == "sparse" else A, y, **fit)
    (jobs, ks, _), found = seen[0]
    for (_, fold), answers in zip(jobs, found, strict=True):
        rows = splits[fold][0]
        part = {name: values[rows] for name, values in fit.items()}
        maker = model._maker(y, fit.get("sample_weight"), fit.get("offset"))
        for k, answer in zip(ks, answers, strict=True):
            best = {}
            for support in itertools.combinations(range(5), k):
                if odd == "kept" and 4 not in support:
                    continue
                risk = maker(A[rows][:, support], y[rows], ridge=0.05, fit_intercept=model.fit_intercept, **part)
                best[support] = ez.minimize(risk, ez.sparsity.Rows(k) if risk.n_outputs > 1 else k).fun
            used = tuple(sorted(np.unique(answer.places % 5).tolist()))
            risk = maker(A[rows], y[rows], ridge=0.05, fit_intercept=model.fit_intercept, **part)
            value = risk.value(answer.dense(risk.n_features))
            assert value <= best[used] * (1 + (1e-3 if loss == "quantile" else 1e-5)), (used, value, best)
            assert value <= min(best.values()) * 1.02, (used, value, best)


@pytest.mark.slow
def test_jobs_and_seeds_do_not_change_the_choice():
    one, two = (ez.SparseRegressorCV(n_jobs=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], rtol=1e-9)
    again = ez.SparseRegressorCV(n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(one.coef_, again.coef_)


def test_progress_is_told(capsys):
    ez.SparseRegressorCV(verbose=1).fit(X, Y)
    told = capsys.readouterr().err
    assert "cross-validation: k = 1 to 7, 4 ridges x 5 folds" in told and "the answers on all rows, up to k" in told
    ez.SparseRegressorCV().fit(X, Y)
    assert capsys.readouterr().err == ""  # no terminal
    with pytest.raises(ValueError, match="verbose"):
        ez.SparseRegressorCV(verbose=-1).fit(X, Y)


# ---- stability ----


def test_stability_is_how_often_single_fits_choose():
    model = ez.SparseRegressor(k=2).fit(X, Y)
    found = model.stability(X, Y, n_pairs=6, random_state=0)
    halves = _halves(60, None, None, 6, 0)
    often = np.mean([ez.SparseRegressor(k=2).fit(X[rows], Y[rows]).get_support() for rows in halves], axis=0)
    np.testing.assert_allclose(found.frequencies, often)
    assert model.stability_ is found and found.fixed and found.selected().tolist() == [1, 4]
    again = model.stability(X, Y, n_pairs=6, random_state=0)
    np.testing.assert_array_equal(again.frequencies, found.frequencies)
    assert "stability_" not in vars(model.fit(X, Y))
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert not set(first) & set(second) and first.size == second.size == 30


def test_the_bound_of_stability_holds_on_noise():
    """y is noise, so every feature is chosen with probability k/p: the mean number selected is below the bound."""
    rng, bounds, selected = np.random.default_rng(0), [], []
    for _ in range(30):
        A, y = rng.standard_normal((24, 12)), rng.standard_normal(24)
        found = ez.SparseRegressor(k=2).fit(A, y).stability(A, y, n_pairs=10, random_state=rng.integers(2**31))
        selected.append(found.selected(0.6).size)
        bounds.append(found.bound(0.6))
    np.testing.assert_allclose(bounds, 4 / (0.2 * 12))
    assert 0 < np.mean(selected) < bounds[0]


def test_stability_of_all_kinds():
    kept = ez.SparseRegressor(k=3, keep=[6]).fit(X, Y)
    found = kept.stability(X, Y, n_pairs=4, random_state=0)
    assert found.frequencies[6] == 1 and found.kept.tolist() == [False] * 6 + [True] and 6 not in found.selected()
    assert (found.k, found.n_items) == (2, 6)
    grouped = ez.SparseRegressor(k=1, groups=list("aabbccc"), select="groups").fit(X, Y)
    found = grouped.stability(X, Y, n_pairs=4, random_state=0)
    assert (found.k, found.n_items) == (1, 3) and len(set(found.frequencies[:2])) == len(
        set(found.frequencies[4:])
    ) == 1
    chosen_on_rows = ez.SparseClassifierCV(ks=2, ridge=0.1).fit(X, CLASSES)
    found = chosen_on_rows.stability(X, CLASSES, n_pairs=4, random_state=0)
    assert not found.fixed and ("rule of thumb" in found.words() or "cannot be bounded" in found.words())
    signs = ez.SparseRegressor(k=2, constraint={"b": "-"}, feature_names=list("abcdefg")).fit(X, Y)
    assert signs.stability(X, Y, n_pairs=4, random_state=0).names[1] == "b" and signs.stability_.frequencies[1] == 0
    weights = (np.arange(60) < 40).astype(float)
    few = ez.SparseRegressor(k=2).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(
        few.stability(X, Y, weights, n_pairs=3, random_state=0).frequencies,
        ez.SparseRegressor(k=2).fit(X[:40], Y[:40]).stability(X[:40], Y[:40], n_pairs=3, random_state=0).frequencies,
    )
    y = np.column_stack([np.exp(-Y), np.arange(60) % 3 > 0])
    assert ez.SparseCox(k=2).fit(X, y).stability(X, y, n_pairs=3, random_state=0).frequencies[1] == 1


def test_stability_says_what_is_wrong(tmp_path):
    model = ez.SparseClassifier(k=2).fit(X, CLASSES)
    with pytest.raises(ValueError, match="n_pairs"):
        model.stability(X, CLASSES, n_pairs=0)
    found = model.stability(X, CLASSES, n_pairs=3, random_state=0)
    for threshold in (0.5, 1.1, "often", True):
        with pytest.raises(ValueError, match=r"threshold must lie in \(0.5, 1\]"):
            found.selected(threshold)
    single = np.where(np.arange(60) == 3, 2, CLASSES)
    with pytest.raises(ValueError, match="halves the rows.*give at least 2"):
        ez.SparseClassifier(k=2).fit(X, single).stability(X, single)
    with pytest.raises(ValueError, match="stability_"):
        ez.StabilityDisplay.from_estimator(ez.SparseClassifier(k=2).fit(X, CLASSES))
    page = ez.write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "How stable the choice is" in page and "chosen on this share of 6 halves" in page


def test_folds_are_fitted_all_at_once_where_that_is_possible(monkeypatch):
    """No `minimize` before the choice is made: the counts of the fold-wise way stay 0."""
    calls = []
    monkeypatch.setattr(folds_module.OneByOne, "solve", lambda *_: calls.append(1))
    ez.SparseRegressorCV().fit(X, Y)
    ez.SparseClassifierCV(ks=3).fit(X, CLASSES)
    assert not calls
