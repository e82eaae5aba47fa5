"""What is refused, and in which words; what is accepted, however large or small."""

from __future__ import annotations

import bz2
import csv
import datetime
import gzip
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import ellzero as ez
from ellzero import risks, sets

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 5))
Y = X[:, 0] - X[:, 2] + 0.1 * RNG.standard_normal(12)
LABELS, COUNTS = (Y > 0).astype(int), np.abs(np.round(Y))
RISK = risks.LeastSquares(X, Y)

NUMBERS = {
    "text": "a", "complex": 1j, "none": None, "list": [1.0], "nan": np.nan, "inf": np.inf, "negative": -1.0,
    "date": datetime.date(2020, 1, 1), "array": np.ones(3), "object": object(), "too large": 10**400,
}  # fmt: skip
VECTORS = {
    "text": ["a"] * 5, "one text": "abc", "complex": 1j * np.ones(5), "objects": np.array([1, None, 2, 3, 4], object),
    "mapping": {"a": 1}, "dates": np.array(["2020-01-01"] * 5, "datetime64[D]"), "ragged": [[1, 2], [3]],
    "table": np.ones((5, 5)), "nan": [1, np.nan, 1, 1, 1], "spans": np.array([1] * 5, "timedelta64[D]"),
    "masked": np.ma.masked_array(np.ones(5), mask=[1, 0, 0, 0, 0]), "bytes": b"abc", "too large": [10**400] * 5,
}  # fmt: skip
MATRICES = {
    "ragged": [[1, 2], [3]], "text": [["a", "b"]] * 3, "complex": 1j * X, "objects": np.array([[1, None], [2, 3]], object),
    "none": None, "number": 5, "vector": np.ones(5), "block": np.ones((2, 2, 2)), "nan": np.full((12, 5), np.nan),
    "masked": np.ma.masked_array(X, mask=X > 1), "empty": np.empty((0, 5)), "one text": "abc", "mapping": {"a": [1]},
    "dates": np.full((12, 5), np.datetime64("2020-01-01")), "too large": [[10**400] * 5] * 12,
}  # fmt: skip
GROUPS = {
    "number": 5, "one text": "abc", "beyond": [[0, 99]], "negative": [[-1, 0]], "fractions": [[0.5, 1]],
    "overlapping": [[0, 1], [1, 2]], "none at all": [], "texts": [["a", "b"]], "nested": {"a": [[0, 1]]},
    "a number for a group": {"a": 5}, "a text for a group": {"a": "xy"}, "truths": [[True, False]], "huge": [[10**30]],
}  # fmt: skip

TABLE = [
    ("radius", lambda b: sets.L1Ball(b), NUMBERS),
    ("radius", lambda b: sets.Ellipsoid(np.ones(5), b), NUMBERS),
    ("total", lambda b: sets.Simplex(b), NUMBERS),
    ("lower", lambda b: sets.Box(b, 1e9), VECTORS),
    ("upper", lambda b: sets.Portfolio(1.0, upper=b), VECTORS),
    ("weights", lambda b: sets.WeightedL1Ball(b, 1.0), VECTORS),
    ("scales", lambda b: sets.L1Ball(1.0).rescaled(b), VECTORS),
    ("A", lambda b: sets.PackingPolytope(b, np.ones(12)), {k: v for k, v in MATRICES.items() if k != "empty"}),
    ("b", lambda b: sets.PackingPolytope(np.ones((5, 5)), b), VECTORS),
    ("budget", lambda b: sets.Portfolio(b), {"array": np.array(1.0), "text": "a", "complex": 1j, "nan": np.nan}),
    ("group", lambda b: ez.minimize(RISK, 2, sets.GroupWise(sets.L1Ball(1.0), b)), GROUPS),
    ("group", lambda b: ez.minimize(RISK, 2, sets.Portfolio(1.0, groups=b, caps=0.6)), GROUPS),
    (
        "group",
        lambda b: ez.restricted_projection(Y[:5], 2, sets.Intersection(sets.GroupWise(sets.L1Ball(1.0), b))),
        GROUPS,
    ),
    ("X", lambda b: risks.LeastSquares(b, Y), MATRICES),
    ("X", lambda b: risks.Multinomial(b, LABELS), MATRICES),
    ("y", lambda b: risks.Poisson(X, b), VECTORS),
    ("y", lambda b: risks.Logistic(X, b), {k: VECTORS[k] for k in ("ragged", "masked", "mapping", "table")}),
    ("sample_weight", lambda b: risks.Logistic(X, LABELS, sample_weight=b), VECTORS),
    ("ridge", lambda b: risks.Poisson(X, COUNTS, ridge=b), NUMBERS),
    ("y", lambda b: risks.Gamma(X, b), VECTORS),
    ("offset", lambda b: risks.LeastSquares(X, Y, offset=b), VECTORS),
    ("offset", lambda b: risks.Poisson(X, COUNTS, offset=b), VECTORS),
    ("quantile", lambda b: risks.Quantile(X, Y, quantile=b), NUMBERS),
    ("smoothing", lambda b: risks.Quantile(X, Y, smoothing=b), {k: v for k, v in NUMBERS.items() if v is not None}),
    ("x0", lambda b: ez.minimize(RISK, 2, x0=b), VECTORS),
    ("constraint", lambda b: ez.minimize(RISK, 2, b), VECTORS),
    ("keep", lambda b: ez.minimize(RISK, 2, keep=b), VECTORS),
    ("v", lambda b: ez.hard_threshold(b, 2), VECTORS),
    ("v", lambda b: ez.euclidean_projection(b, 2, sets.L1Ball(1.0)), VECTORS),
    ("w", lambda b: sets.L1Ball(1.0).contains(b), {k: v for k, v in VECTORS.items() if k != "nan"}),
    ("w", lambda b: RISK.value(b), {k: v for k, v in VECTORS.items() if k != "nan"}),
    (
        "X",
        lambda b: ez.SparseRegressor(2).fit(b, Y),
        {k: MATRICES[k] for k in ("ragged", "masked", "dates", "too large")},
    ),
    ("keep", lambda b: ez.SparseRegressor(2, keep=b).fit(X, Y), {**VECTORS, "number": 5, "point": np.array(1)}),
    ("keep", lambda b: ez.IndexTracker(2, keep=b).fit(X / 100, Y / 100), {"number": 5, "beyond": [99], "complex": 1j}),
    ("index_returns", lambda b: ez.IndexTracker(2).fit(X / 100, b), VECTORS),
    ("returns", lambda b: ez.IndexTracker(2).fit(b, Y / 100), MATRICES),
    ("risk", lambda b: ez.testing.check_risk(b), VECTORS),
]


@pytest.mark.parametrize(("name", "make", "bad"), TABLE, ids=[f"{i}-{row[0]}" for i, row in enumerate(TABLE)])
def test_bad_values_are_refused_by_the_name_of_the_argument(name, make, bad):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for what, value in bad.items():
            with pytest.raises((ValueError, TypeError, IndexError)) as caught:
                make(value)
            assert name in str(caught.value), f"{what}: {caught.value}"


def test_a_mask_over_nothing_is_no_mask():
    masked = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    assert ez.minimize(risks.LeastSquares(masked, Y), 2).fun == ez.minimize(RISK, 2).fun
    assert ez.SparseRegressor(2).fit(masked, Y).result_.fun == ez.SparseRegressor(2).fit(X, Y).result_.fun


@pytest.mark.parametrize("size", [1e308, 1e-300, 5e-324])
def test_weights_of_any_size_count_by_their_ratios(size):
    share = np.array([1.0, 0.0, 2.0] * 4) if size < 1e308 else np.tile([0.5, 0.0, 1.0], 4)
    plain = ez.minimize(risks.LeastSquares(X, Y, sample_weight=share), 2)
    risk = risks.LeastSquares(X, Y, sample_weight=share * size)
    result = ez.minimize(risk, 2)
    assert result.fun > 1e-4
    assert result.fun == pytest.approx(plain.fun)
    np.testing.assert_allclose(result.x, plain.x)
    for model in (ez.SparseRegressor(2), ez.SparseRegressor(2, loss="huber"), ez.SparseClassifier(2)):
        y = LABELS if isinstance(model, ez.SparseClassifier) else Y
        coef = model.fit(X, y, sample_weight=share).coef_.copy()
        np.testing.assert_allclose(model.fit(X, y, sample_weight=share * size).coef_, coef, rtol=1e-6)


def test_one_large_column_does_not_decide_the_ridge():
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import cross_val_score

    data, target = load_breast_cancer(return_X_y=True)
    assert cross_val_score(ez.SparseClassifier(k=5), data, target, cv=5).mean() > 0.95
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal((200, 8)), 1e6 * rng.standard_normal(200), np.full(200, 3.0)])
    y = table[:, 0] + table[:, 1] > 0
    assert 0.005 < ez.SparseClassifier(k=2).fit(table, y).ridge_ < 0.02
    assert ez.SparseClassifier(k=2).fit(np.ones((4, 2)), [0, 1, 0, 1]).ridge_ == 0.01  # nothing varies


def test_shares_in_reports_do_not_depend_on_units(tmp_path):
    def shares(scale, more):
        table = X * scale
        result = ez.minimize(risks.LeastSquares(table, Y), 2)
        page = ez.write_report(result, tmp_path / "page.html", **more(table)).read_text(encoding="utf-8")
        selected = page.split("What was selected")[-1].split("How it was found")[0]
        return re.findall(r"[0-9.]+%", selected), page

    grams = np.array([1.0, 1.0, 1000.0, 1.0, 1.0])
    plain, page = shares(np.ones(5), more=lambda table: {"data": table})
    other, _ = shares(grams, more=lambda table: {"data": table})
    assert "share of Σ|w|σ" in page
    assert "share of Σ|w|<" not in page
    assert len(plain) == 2
    assert sorted(plain) == sorted(other)
    assert "share of" not in shares(np.ones(5), more=lambda table: {})[1]  # nothing is known about the columns
    assert "share of Σ|w|σ" in shares(np.ones(5), more=lambda table: {"spread": table.std(axis=0)})[1]


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", "ellzero", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_files_are_damaged_in_their_own_ways(tmp_path):
    csv.field_size_limit(131_072)  # pandas, say, may have raised it
    table = b"a,b\n" + b"1,2\n" * 500
    files = {
        "cut.csv.gz": gzip.compress(table)[:-12],
        "cut.csv.bz2": bz2.compress(table)[:-12],
        "no.csv.bz2": b"BZh9" + b"x" * 50,
        "no.csv.gz": b"no archive",
        "cut.svm.gz": gzip.compress(b"1 1:2\n" * 500)[:-12],
        "long.csv": b"a,b\n1," + b"9" * 200_000 + b"\n",
        "open.csv": b'a,b\n1,"2\n' + b"3,4\n" * 60_000,
        "latin.csv": "a,b\n1,2\né,4\n".encode("latin-1"),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=name) as caught:
            if ".svm" in name:
                ez.datasets.read_libsvm(tmp_path / name)
            else:
                ez.datasets.read_table(tmp_path / name, "a")
        expected = "UTF-8" if name == "latin.csv" else "characters" if name in ("long.csv", "open.csv") else "damaged"
        assert expected in str(caught.value), name
    code, screen = run("fit", tmp_path / "cut.csv.gz", "--target", "a", "--k", 1)
    assert code == 3
    assert "cut off or damaged" in screen
    csv.field_size_limit(10**9)
    with pytest.raises(ValueError, match=r"long\.csv, line 2, column 'b': '9{40}\.\.\.' is not finite"):
        ez.datasets.read_table(tmp_path / "long.csv", "a")
    csv.field_size_limit(131_072)


def test_as_many_columns_as_there_are(tmp_path):
    """The header was compared with itself column by column: 1e5 columns took more than a minute, 1e6 for ever."""
    names = [f"x{i}" for i in range(100_000)]
    row = ",".join(map(str, RNG.integers(0, 9, len(names))))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(["y", *names]), f"1,{row}", f"2,{row[::-1]}"]) + "\n")
    data, y, found = ez.datasets.read_table(path, "y")
    assert data.shape == (2, 100_000)
    assert y.tolist() == [1, 2]
    assert found == names
    path.write_text(",".join(["y", *names, "x7"]) + "\n")
    with pytest.raises(ValueError, match=r"column 100002: the name 'x7' is taken"):
        ez.datasets.read_table(path, "y")


@pytest.mark.parametrize("ks", [np.array(3), b"3", "3", -1, [1.5], ["2"], 3.0, [-1], {}, True], ids=repr)
def test_levels_of_a_path_are_refused_by_name(ks):
    with pytest.raises((TypeError, ValueError), match=r"^ks must"):
        ez.minimize_path(RISK, ks)


def test_a_path_far_beyond_the_features_ends_there():
    with pytest.warns(UserWarning, match="ks goes up to 1000000000000000000000000000000"):
        assert ez.minimize_path(RISK, 10**30).ks.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "bounds", [{"max_weights": -1}, {"min_weights": 0.6, "max_weights": 0.5}, {"max_weights": True}], ids=repr
)
def test_weights_of_a_tracker_are_refused_by_name(bounds):
    with pytest.raises((TypeError, ValueError), match="max_weights"):
        ez.IndexTracker(k=2, **bounds).fit(0.01 * X, 0.01 * Y)


def test_no_violation_is_a_plain_zero():
    result = ez.minimize(risks.LeastSquares(X, -Y), 2)
    assert "violation 0" in str(result) and np.copysign(1.0, result.violation) == 1.0


@pytest.mark.parametrize("gamma", [None, sets.L2Ball(1.0), sets.L1Ball(1.0)], ids=repr)
@pytest.mark.parametrize("seed", [1, 4, 5])
@pytest.mark.slow
def test_columns_of_all_sizes_at_once(gamma, seed):
    """From 1e-170 to 1e149: an answer, and never a raw error."""
    scaled = X * 10.0 ** np.random.default_rng(seed).uniform(-170, 149, 5)
    for risk in (risks.LeastSquares(scaled, Y), risks.Logistic(scaled, LABELS), risks.Huber(scaled, Y)):
        result = ez.minimize(risk, 2, gamma)
        assert (
            result.fun <= risk.value(np.zeros(5)) and ez.certify(risk, result, time_limit=1.0).lower_bound <= result.fun
        )
