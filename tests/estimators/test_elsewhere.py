"""Estimators take data that are larger than memory or on a cluster, with the answers of data in memory."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import ellzero as ez
from ellzero._core.arrays import to_host


@pytest.fixture(scope="module")
def data():
    problem = ez.datasets.make_regression(160, 20, 3, snr=3.0)
    return problem.X, problem.y


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="pip install ellzero[dask]")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(params=["blocks", "file", "dask"])
def there(request, data, tmp_path):
    """X elsewhere."""
    X = data[0]
    if request.param == "blocks":
        return ez.Blocks([X[:70], X[70:]])
    if request.param == "file":
        np.save(tmp_path / "X.npy", X)
        return str(tmp_path / "X.npy")
    request.getfixturevalue("client")
    return pytest.importorskip("dask.array").from_array(X, chunks=(70, 20))


MODELS = {
    "regression": (ez.SparseRegressor(k=3), lambda y: y),
    "huber": (ez.SparseRegressor(k=3, loss=("huber", 5.0), constraint="nonnegative"), lambda y: y),
    "targets": (ez.SparseRegressor(k=3), lambda y: np.column_stack([y, -y])),
    "groups": (ez.SparseRegressor(k=2, groups=np.arange(20) // 2, select="groups"), lambda y: y),
    "classes": (ez.SparseClassifier(k=3), lambda y: np.where(y > 0, "yes", "no")),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_fits_are_those_of_memory(name, data, there):
    X, y = data
    model, targets = MODELS[name]
    known, fitted = clone(model).fit(X, targets(y)), clone(model).fit(there, targets(y))
    np.testing.assert_allclose(fitted.coef_, known.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fitted.intercept_, known.intercept_, rtol=1e-7, atol=1e-9)
    assert fitted.result_.n_sweeps and fitted.n_features_in_ == 20
    assert fitted.score(there, targets(y)) == pytest.approx(known.score(X, targets(y)))
    np.testing.assert_array_equal(fitted.get_support(), known.get_support())
    np.testing.assert_array_equal(to_host(np.asarray(fitted.predict(there))).shape, known.predict(X).shape)
    assert fitted.predict(X[:5]).shape == known.predict(X[:5]).shape


def test_weights_offsets_and_proofs(data, there):
    X, y = data
    weights, offset = np.linspace(0.0, 2.0, len(y)), np.cos(np.arange(len(y)))
    known = ez.SparseRegressor(k=3).fit(X, y, sample_weight=weights, offset=offset)
    fitted = ez.SparseRegressor(k=3).fit(there, y, sample_weight=weights, offset=offset)
    np.testing.assert_allclose(fitted.coef_, known.coef_, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(there, offset=offset), known.predict(X, offset=offset))
    ours, theirs = (m.certify(Z, y, weights, offset) for m, Z in ((fitted, there), (known, X)))
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-6)


def test_cross_validation_on_blocks(data):
    X, y = data
    blocks = ez.Blocks([X[:70], X[70:]])
    for model, targets, near in (
        (ez.SparseRegressorCV(ks=[1, 3, 5], ridge=[0.0, 0.1], cv=3), y, 1e-8),
        (ez.SparseRegressorCV(ks=[1, 3], ridge=0.1, cv=3, scoring="r2"), y, 1e-8),
        # in memory the folds of classes are fitted all at once, as closely as a choice among models needs
        (ez.SparseClassifierCV(ks=[1, 3], ridge=0.1, cv=3), y > 0, 1e-4),
    ):
        known, fitted = clone(model).fit(X, targets), clone(model).fit(blocks, targets)
        assert (fitted.k_, fitted.ridge_) == (known.k_, known.ridge_)
        np.testing.assert_allclose(fitted.coef_, known.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            fitted.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"], rtol=near
        )


@pytest.mark.slow
def test_cross_validation_on_a_cluster(data, client):
    X, y = data
    dask = pytest.importorskip("dask.array").from_array(X, chunks=(70, 20))
    model = ez.SparseRegressorCV(ks=[1, 3], ridge=0.1, cv=2)
    known, fitted = clone(model).fit(X, y), clone(model).fit(dask, y)
    np.testing.assert_allclose(fitted.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"], rtol=1e-8)
    np.testing.assert_allclose(fitted.coef_, known.coef_, rtol=1e-8, atol=1e-10)


def test_the_same_client_serves_folds_and_black_boxes(data, client):
    """As a backend of joblib, and as workers."""
    X, y = data
    model = ez.SparseRegressorCV(ks=[1, 3], ridge=0.1, cv=2)
    known = clone(model).fit(X, y)
    with joblib.parallel_config(backend="dask"):
        fitted = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, known.coef_)

    def f(w):
        return float(np.sum((w - np.arange(6)) ** 2))

    runs = [
        ez.minimize(ez.risks.BlackBox(f, 6, workers=workers), 2, max_queries=120, rng=0) for workers in (client, None)
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)


def test_predictions_of_dask_arrays_stay_where_the_rows_are(data, client):
    X, y = data
    da = pytest.importorskip("dask.array")
    dask = da.from_array(X, chunks=(70, 10))
    model = ez.SparseClassifier(k=3).fit(X, np.digitize(y, [-1, 1]))
    for f in (model.predict, model.predict_proba, model.decision_function, model.predict_log_proba):
        lazy = f(dask)
        assert isinstance(lazy, da.Array) and lazy.chunks[0] == (70, 70, 20)
        np.testing.assert_allclose(lazy.compute(), f(X))
    empty = dask[dask[:, 0] > 1e9]
    assert model.predict(empty).compute().shape == (0,)
    with pytest.raises(ValueError, match="X has 5 features, and the model was fitted to 20"):
        model.predict(dask[:, :5])


def test_frames_keep_their_names(data, client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X[:, :6], columns=list("abcdef"))
    there = dd.from_pandas(frame, npartitions=2)
    model = ez.SparseRegressor(k=2, constraint={"a": (0, 3)}, keep=["b"]).fit(there, y)
    known = ez.SparseRegressor(k=2, constraint={"a": (0, 3)}, keep=["b"]).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(there[list("fedcba")]).compute(), known.predict(frame))
    with pytest.raises(ValueError, match="column 0 of X is 'f', and was 'a' when the model was fitted"):
        model.certify(there[list("fedcba")], y)


def test_files_with_names(data, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X, y = data
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(5)}, "y": y}), tmp_path / "data.parquet")
    blocks = ez.Blocks(tmp_path / "data.parquet", target="y")
    model = ez.SparseRegressor(k=2, groups={"x0": 1, "x1": 1}, constraint=ez.sets.L1Ball(5.0)).fit(blocks, blocks.y)
    np.testing.assert_allclose(
        model.coef_,
        ez.SparseRegressor(k=2, groups=[1, 1, None, None, None], constraint=ez.sets.L1Ball(5.0)).fit(X[:, :5], y).coef_,
    )


def test_what_needs_all_entries_is_refused(data):
    X, y = data
    blocks = ez.Blocks([X[:70], X[70:]])
    with pytest.raises(ValueError, match="X has 160 rows, and y 3 entries"):
        ez.SparseRegressor(k=2).fit(blocks, y[:3])
    blocks.names = [f"c_{j}" for j in range(20)]
    with pytest.raises(TypeError, match='groups="onehot" looks at all entries of X, which are elsewhere'):
        ez.SparseRegressor(k=2, groups="onehot", select="groups").fit(blocks, y)
    model = ez.SparseRegressor(k=2).fit(X, y)
    with pytest.raises(ValueError, match="X has 5 features, but SparseRegressor is expecting 20 features"):
        model.predict(ez.Blocks([X[:, :5]]))


def test_folds_of_blocks_in_other_processes(data, tmp_path):
    """Blocks of files are read by whoever needs them."""
    X, y = data
    np.save(tmp_path / "X.npy", X)
    model = ez.SparseRegressorCV(ks=[1, 3], ridge=0.1, cv=2)
    fitted = clone(model).set_params(n_jobs=2).fit(ez.Blocks(tmp_path / "X.npy", rows=50), y)
    np.testing.assert_allclose(fitted.coef_, clone(model).fit(X, y).coef_, rtol=1e-9)


def test_survival_on_blocks(data):
    X, y = data
    outcome = np.column_stack([np.exp(y / 20), np.arange(len(y)) % 3 > 0])
    known, fitted = (ez.SparseCox(k=2).fit(Z, outcome) for Z in (X, ez.Blocks([X[:70], X[70:]])))
    np.testing.assert_allclose(fitted.coef_, known.coef_, rtol=1e-6, atol=1e-9)
    assert fitted.score(ez.Blocks([X]), outcome) == pytest.approx(known.score(X, outcome))
