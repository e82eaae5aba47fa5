"""Bad input, for every public name: what is refused names the argument, the value, and what to do instead."""

import importlib
import inspect
import warnings

import numpy as np
import pytest

import ellzero as ez
from ellzero import datasets, estimators, portfolio, report, risks, sets, sparsity, theory

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 4))
Y = X[:, 0] + 0.1 * RNG.standard_normal(20)
SIGNS = (Y > 0).astype(int)
OUTCOME = np.column_stack([np.exp(Y), SIGNS])
RISK = risks.LeastSquares(X, Y)
ANSWER = ez.minimize(RISK, 2)
NEG = -np.abs(Y)
ROOMS = ("", "risks", "sets", "sparsity", "datasets", "displays", "estimators", "portfolio", "report", "testing", "theory",
         "experiments")  # fmt: skip

#: names that hand nothing over, or are made by the library and not by users
NOT_CALLED = {
    "History", "Result", "Status", "SparsePath", "Certificate", "Stability", "Beats",  # answers
    "BlackBoxError", "EmptySlice", "InfeasibleMandate",  # errors
    "Point", "Curvature", "Risk", "LinearModel", "Constant", "ConstraintSet", "Sparsity",  # bases and parts
    "Backtest", "Mandate", "Reason", "Guarantee", "Premise", "Prescription", "RestrictedConstants", "SampleComplexity",
    "TradeOff", "Classification", "Dataset", "DiagonalExample", "IHTCounterexample", "Market", "Report",  # answers too
    "PROBLEMS", "THEOREMS", "NAMES",  # tables
    "Html", "Page", "claim", "code", "columns", "facts", "figure", "fragment", "paragraph", "table",  # blocks of pages
    "Everywhere", "NonNegative",  # sets without arguments
    "diagonal_example", "iht_counterexample", "fetch_dna", "load_dna",  # no arguments that could be wrong, or a download
    "FullGradient", "LastProjection",
    "plot", "schedules", "as_sparsity", "rebalancing_days",
}  # fmt: skip


def fit(kind, y=Y, **options):
    return lambda: kind(**options).fit(X, y)


def run(oracle):
    return ez.minimize(RISK, 2, method=ez.Method(oracle=oracle))


#: the public name, what is called, and words of the error: of the argument, of the value, of the remedy
TABLE = [
    ("minimize", lambda: ez.minimize(RISK, -1), ("k", "-1", "at least 0")),
    ("minimize", lambda: ez.minimize(RISK, "two"), ("k", "two", "integer")),
    ("minimize", lambda: ez.minimize("risk", 2), ("risk", "'risk'", "")),
    ("minimize", lambda: ez.minimize(RISK, 2, "round"), ("constraint", "round", "")),
    ("minimize", lambda: ez.minimize(RISK, 2, method="Newton"), ("method", "Newton", "there are auto")),
    ("minimize", lambda: ez.minimize(RISK, 2, max_iter=-1), ("max_iter", "-1", "at least")),
    ("minimize", lambda: ez.minimize(RISK, 2, x0=[1.0]), ("x0", "(1,)", "4")),
    ("minimize", lambda: ez.minimize(RISK, 1, keep=[0, 1]), ("keep", "2", "k")),
    ("minimize", lambda: ez.minimize(RISK, 2, keep=[9]), ("keep", "9", "")),
    ("minimize", lambda: ez.minimize(RISK, 2, time_limit=-1), ("time_limit", "-1", "")),
    ("minimize_path", lambda: ez.minimize_path(RISK, []), ("ks", "", "at least one")),
    ("minimize_path", lambda: ez.minimize_path(RISK, "many"), ("ks", "many", "")),
    ("minimize_path", lambda: ez.minimize_path(RISK, [1, -2]), ("k", "-2", "at least 0")),
    ("certify", lambda: ez.certify(RISK, ANSWER, time_limit=-1), ("time_limit", "-1", "")),
    ("certify", lambda: ez.certify(RISK, "answer"), ("result", "answer", "")),
    ("preset", lambda: ez.preset("Newton"), ("method", "Newton", "there are auto")),
    ("Method", lambda: ez.Method(step="long"), ("step", "long", "one of")),
    ("Method", lambda: ez.Method(projection="oblique"), ("projection", "oblique", "one of")),
    ("Exchanges", lambda: ez.Exchanges(n_starts=0), ("n_starts", "0", "at least 1")),
    ("MiniBatch", lambda: run(ez.MiniBatch(size=0)), ("size", "0", "at least 1")),
    ("VarianceReduced", lambda: run(ez.VarianceReduced(size=0)), ("size", "0", "at least 1")),
    ("ZerothOrder", lambda: run(ez.ZerothOrder(n_directions=0)), ("n_directions", "0", "at least 1")),
    ("estimate_variance", lambda: ez.estimate_variance(RISK, [1.0]), ("", "(1,)", "4")),
    ("hard_threshold", lambda: ez.hard_threshold([1.0, 2.0], -1), ("k", "-1", "at least 0")),
    ("hard_threshold", lambda: ez.hard_threshold([np.nan, 2.0], 1), ("vector", "nan", "finite")),
    ("euclidean_projection", lambda: ez.euclidean_projection([1.0, 2.0], 1, "ball"), ("constraint", "ball", "")),
    ("two_step_projection", lambda: ez.two_step_projection([1.0, 2.0], -1, sets.L1Ball(1.0)), ("k", "-1", "")),
    ("restricted_projection", lambda: ez.restricted_projection([1.0, 2.0], 1, None), ("constraint", "None", "")),
    ("guarantee", lambda: ez.guarantee(RISK, 2, -2), ("k_bar", "-2", "at least 1")),
    ("guarantee", lambda: ez.guarantee("risk", 2, 1), ("risk", "'risk'", "LeastSquares")),
    ("backtest", lambda: ez.backtest(ez.IndexTracker(2), X[:1], Y[:1]), ("window", "252", "shorten")),
    ("IndexTracker", lambda: ez.IndexTracker(-1).fit(X / 100, Y / 100), ("k", "-1", "at least")),
    ("concordance_index", lambda: ez.concordance_index([1, 2], [1, 2], [0.0, 1.0]), ("event", "2", "True or False")),
    ("write_report", lambda: ez.write_report("answer", "report.html"), ("what", "str", "Result")),
    ("fingerprint", lambda: report.fingerprint("no such file"), ("", "no such file", "")),
    ("SparseRegressor", fit(ez.SparseRegressor, k="best"), ("k", "best", "ebic")),
    ("SparseRegressor", fit(ez.SparseRegressor, k=1.5), ("k", "1.5", "write 1")),
    ("SparseRegressor", fit(ez.SparseRegressor, k=-1), ("k", "-1", "at least 0")),
    ("SparseRegressor", fit(ez.SparseRegressor, loss="cubic"), ("loss", "cubic", "huber")),
    ("SparseRegressor", fit(ez.SparseRegressor, k="auto", loss="huber"), ("k", "huber", "cross-validation")),
    ("SparseRegressor", fit(ez.SparseRegressor, constraint="round"), ("constraint", "round", "nonnegative")),
    ("SparseRegressor", fit(ez.SparseRegressor, ridge=-1.0), ("ridge", "-1", "")),
    ("SparseRegressor", fit(ez.SparseRegressor, select="rows"), ("select", "rows", "groups")),
    ("SparseRegressor", fit(ez.SparseRegressor, at_most=2), ("at_most", "", "groups")),
    ("SparseRegressor", fit(ez.SparseRegressor, keep=["age"]), ("keep", "age", "")),
    ("SparseRegressor", fit(ez.SparseRegressor, feature_names=["a"]), ("feature_names", "1", "4")),
    ("SparseRegressor", fit(ez.SparseRegressor, NEG, loss="poisson"), ("y", "", "0")),
    ("SparseClassifier", fit(ez.SparseClassifier, np.zeros(20)), ("y", "0", "two classes")),
    ("SparseClassifier", fit(ez.SparseClassifier, SIGNS, loss="hinge"), ("loss", "hinge", "squared_hinge")),
    ("SparseClassifier", fit(ez.SparseClassifier, SIGNS, class_weight="heavy"), ("class_weight", "heavy", "balanced")),
    ("SparseClassifier", fit(ez.SparseClassifier, SIGNS, class_weight={7: 1}), ("class_weight", "7", "0, 1")),
    ("SparseCox", fit(ez.SparseCox, Y), ("y", "(20,)", "two columns")),
    ("SparseCox", fit(ez.SparseCox, OUTCOME + [0, 1]), ("event", "2", "0 or 1")),
    ("SparseCox", fit(ez.SparseCox, OUTCOME, ties="none"), ("ties", "none", "breslow")),
    ("SparseRegressorCV", fit(ez.SparseRegressorCV, rule="2se"), ("rule", "2se", "1se")),
    ("SparseRegressorCV", fit(ez.SparseRegressorCV, ks=[]), ("ks", "", "at least one")),
    ("SparseRegressorCV", fit(ez.SparseRegressorCV, ks="all"), ("ks", "all", "integer")),
    ("SparseRegressorCV", fit(ez.SparseRegressorCV, ridge=[]), ("ridge", "", "at least one")),
    ("SparseRegressorCV", fit(ez.SparseRegressorCV, verbose=-1), ("verbose", "-1", "")),
    ("SparseClassifierCV", fit(ez.SparseClassifierCV, [0] + [1] * 19), ("cv", "class 0", "stratified")),
    ("SparseCoxCV", fit(ez.SparseCoxCV, np.column_stack([np.exp(Y), np.zeros(20)])), ("event", "", "True somewhere")),
    ("onehot_groups", lambda: estimators.onehot_groups("encoder"), ("", "encoder", "")),
    *((name, lambda name=name: getattr(risks, name)(X, Y[:5]), ("y", "5", "20"))
      for name in ("LeastSquares", "Huber", "Quantile")),
    ("LeastSquares", lambda: risks.LeastSquares(X, Y, ridge=-1.0), ("ridge", "-1", "")),
    ("LeastSquares", lambda: risks.LeastSquares(X, Y, sample_weight=NEG), ("sample_weight", "", "")),
    ("LeastSquares", lambda: risks.LeastSquares([[np.nan]], [1.0]), ("X", "nan", "impute")),
    ("Huber", lambda: risks.Huber(X, Y, delta=0.0), ("delta", "0", "")),
    ("Quantile", lambda: risks.Quantile(X, Y, quantile=1.5), ("quantile", "1.5", "")),
    ("Logistic", lambda: risks.Logistic(X, np.zeros(20)), ("y", "", "two")),
    ("SquaredHinge", lambda: risks.SquaredHinge(X, np.arange(20) % 3), ("y", "3", "")),
    ("Multinomial", lambda: risks.Multinomial(X, np.zeros(20)), ("y", "", "two")),
    ("Poisson", lambda: risks.Poisson(X, NEG), ("y", "", "0")),
    ("Gamma", lambda: risks.Gamma(X, NEG), ("y", "", "positive")),
    ("Cox", lambda: risks.Cox(X, np.exp(Y), SIGNS, ties="none"), ("ties", "none", "breslow")),
    ("Quadratic", lambda: risks.Quadratic(np.ones((2, 3)), np.ones(2)), ("Q", "(2, 3)", "")),
    ("Smooth", lambda: risks.Smooth("f", "g", 3), ("", "f", "")),
    ("BlackBox", lambda: risks.BlackBox("f", 3), ("", "f", "")),
    *((name, lambda name=name: getattr(sets, name)(-1.0), ("radius", "-1", "")) for name in ("L1Ball", "L2Ball", "LinfBall")),
    ("LpBall", lambda: sets.LpBall(0.5, 1.0), ("p", "0.5", "")),
    ("Box", lambda: sets.Box(2.0, 1.0), ("lower", "", "upper")),
    *((name, lambda name=name: getattr(sets, name)(-1.0), ("total", "-1", "")) for name in ("Simplex", "SubSimplex")),
    ("WeightedL1Ball", lambda: sets.WeightedL1Ball([1.0, -1.0], 1.0), ("weights", "-1", "")),
    ("Ellipsoid", lambda: sets.Ellipsoid([1.0, 0.0], 1.0), ("scales", "0", "")),
    ("PackingPolytope", lambda: sets.PackingPolytope([[-1.0]], [1.0]), ("A", "", "")),
    ("GroupWise", lambda: sets.GroupWise("ball", [0, 1]), ("", "ball", "")),
    ("Intersection", lambda: sets.Intersection("ball"), ("", "ball", "")),
    ("Portfolio", lambda: sets.Portfolio(np.nan), ("budget", "nan", "")),
    ("Spectral", lambda: sets.Spectral("ball", (2, 2)), ("", "ball", "")),
    ("Coordinates", lambda: sparsity.Coordinates(-1), ("k", "-1", "at least 0")),
    ("Rows", lambda: sparsity.Rows(1.5), ("k", "1.5", "integer")),
    ("Groups", lambda: sparsity.Groups(-1, [0, 1]), ("k", "-1", "at least 0")),
    ("PerGroup", lambda: sparsity.PerGroup(2, [0, 1], -1), ("at_most", "-1", "")),
    ("Rank", lambda: sparsity.Rank(1, (2, -2)), ("shape", "-2", "")),
    ("make_regression", lambda: datasets.make_regression(10, 5, 9), ("k", "9", "5")),
    ("make_classification", lambda: datasets.make_classification(10, 5, 9), ("k", "9", "5")),
    ("make_market", lambda: datasets.make_market(n_days=0), ("n_days", "0", "")),
    ("fetch", lambda: datasets.fetch("moon"), ("url", "moon", "https://")),
    *((name, lambda name=name: getattr(datasets, name)("no such file"), ("", "no such file", ""))
      for name in ("read_libsvm", "read_prices", "read_returns", "read_sectors")),
    ("read_table", lambda: datasets.read_table("no such file", "y"), ("", "no such file", "")),
    ("prices_to_returns", lambda: portfolio.prices_to_returns([[1.0], [-1.0]]), ("prices", "-1", "above 0")),
    *((name, lambda name=name: getattr(ez, name).from_estimator(ez.SparseRegressor()), ("estimator", "", "fit"))
      for name in ("ConvergenceDisplay", "PathDisplay", "StabilityDisplay", "WeightsDisplay")),
    ("TrackingDisplay", lambda: ez.TrackingDisplay.from_estimator(ez.IndexTracker(2), X, Y), ("estimator", "", "fit")),
    ("check_set", lambda: ez.testing.check_set("ball", 3, 1), ("constraint", "ball", "ConstraintSet")),
    ("check_risk", lambda: ez.testing.check_risk("risk"), ("risk", "risk", "")),
    ("largest_norm", lambda: theory.largest_norm("ball", 1, 3), ("constraint", "ball", "")),
    ("prescribe", lambda: theory.prescribe("theorem 99", 1.0, 1.0), ("theorem", "theorem 99", "one of")),
    ("restricted_constants", lambda: theory.restricted_constants(RISK, -1), ("s", "-1", "at least 1")),
    ("sample_complexity", lambda: theory.sample_complexity(1, -1), ("d", "-1", "at least 1")),
    ("tradeoff", lambda: theory.tradeoff(0.5, 3), ("kappa", "0.5", "[1, inf)")),
    ("variance_bound", lambda: theory.variance_bound("risk", 3), ("risk", "'risk'", "LeastSquares")),
    ("run", lambda: ez.experiments.run("nothing"), ("", "nothing", "one of")),
    ("beats", lambda: ez.beats("risk", ANSWER), ("risk", "'risk'", "LeastSquares")),
    ("beats", lambda: ez.beats(RISK, 1), ("result", "1", "minimize")),
    ("beats", lambda: ez.beats(RISK, ANSWER, nu=-1.0), ("nu", "-1", "(0, inf)")),
    ("AskTell", lambda: ez.AskTell(RISK, 2), ("risk", "LeastSquares", "BlackBox(None, n_features)")),
    ("SparseProbes", lambda: run(ez.SparseProbes(mu=-1.0)), ("mu", "-1", "(0, inf)")),
    ("VarianceReducedDirections", lambda: run(ez.VarianceReducedDirections(0)), ("n_directions", "0", "at least 1")),
    ("Blocks", lambda: ez.Blocks([X], rows=0), ("rows", "0", "at least 1")),
    ("Blocks", lambda: ez.Blocks(x for x in [X]), ("blocks", "generator", "")),
    ("Distributed", lambda: ez.Distributed(X), ("client", "", "distributed.Client()")),
    ("SparseProjection", lambda: ez.SparseProjection("model", 3), ("parameters", "'model'", "module")),
    ("from_torch", lambda: risks.from_torch("f", 3), ("f", "'f'", "function of w")),
    ("from_torch", lambda: risks.from_torch(abs, -1), ("n_features", "-1", "at least 1")),
    ("from_jax", lambda: risks.from_jax("f", 3), ("f", "'f'", "function of w")),
]  # fmt: skip

#: packages that a name needs
NEEDED = {"Distributed": "distributed", "SparseProjection": "torch", "from_torch": "torch", "from_jax": "jax"}


def public_names():
    for room in ROOMS:
        module = importlib.import_module(f"ellzero.{room}" if room else "ellzero")
        yield from (name for name in module.__all__ if not inspect.ismodule(getattr(module, name)))


@pytest.mark.parametrize(("name", "call", "words"), TABLE, ids=[f"{i}-{row[0]}" for i, row in enumerate(TABLE)])
def test_bad_input_is_refused_in_words_that_help(name, call, words):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError, IndexError, OSError, KeyError)) as caught:
            call()
    told = str(caught.value)
    assert all(word in told for word in words), f"{name}: {told!r} does not say {words}"
    assert "missing" not in told.split(":")[0] and "unexpected keyword" not in told, "the call itself is wrong"


def test_every_public_name_is_in_the_table(capsys):
    names, there = {row[0] for row in TABLE}, set(public_names())
    assert there - names - NOT_CALLED == set(), "public names without a row"
    assert names <= there, "rows without a public name"
    assert there >= NOT_CALLED - {"plot", "schedules"}, "names that are no more"
    with capsys.disabled():
        print(f"\nbad input: {len(TABLE)} calls of {len(names)} public names")
