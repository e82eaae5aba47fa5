"""Bounds and signs by name, lists of constraints, and names for arrays."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ellzero as ez

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = pandas.DataFrame(RNG.standard_normal((50, 5)), columns=["age", "bmi", "bp", "s1", "s2"])
Y = X @ [2.0, -1.0, 0.5, 0.0, 3.0] + 0.1 * RNG.standard_normal(50)


def test_bounds_and_signs_by_name_are_a_box():
    model = ez.SparseRegressor(5, constraint={"age": (0, 1), "bmi": "+", "s2": (None, 2.5)}, fit_intercept=False).fit(
        X, Y
    )
    inf = np.inf
    referee = lsq_linear(X.to_numpy(), Y, ([0, 0, -inf, -inf, -inf], [1, inf, inf, inf, 2.5]))
    np.testing.assert_allclose(model.coef_, referee.x, atol=1e-6)


def test_a_list_means_all_of_it():
    parts = ["nonnegative", {"age": (None, 1)}, ez.sets.L1Ball(2.0), {"s2": (0.5, 5)}]
    model = ez.SparseRegressor(3, constraint=parts).fit(X, Y)
    gamma = model.result_.constraint
    assert isinstance(gamma, ez.sets.Intersection)
    assert len(gamma.sets) == 2  # boxes are one box
    assert (model.coef_ >= 0).all()
    assert model.coef_[0] <= 1
    assert np.abs(model.coef_).sum() <= 2 + 1e-12
    assert model.coef_[4] >= 0.5
    one = ez.SparseRegressor(3, constraint=["nonnegative"]).fit(X, Y)
    assert repr(one.result_.constraint) == "NonNegative()"


def test_sets_of_groups_and_bounds_by_name_together():
    groups = ["u", "u", "v", "v", "v"]
    model = ez.SparseRegressor(4, groups=groups, constraint=[{"u": ez.sets.L1Ball(1.0)}, {"s2": "-"}]).fit(X, Y)
    assert np.abs(model.coef_[:2]).sum() <= 1 + 1e-12
    assert model.coef_[4] <= 0


def test_names_survive_transformers_that_return_arrays():
    names = list(X)
    question = {"constraint": {"bmi": "+"}, "keep": ["s1"]}
    with pytest.raises(ValueError, match="X has no names; give X as a DataFrame, let the transformer"):
        make_pipeline(StandardScaler(), ez.SparseRegressor(3, constraint={"bmi": "+"})).fit(X, Y)
    told = make_pipeline(StandardScaler(), ez.SparseRegressor(3, feature_names=names, **question)).fit(X, Y)
    kept = make_pipeline(StandardScaler().set_output(transform="pandas"), ez.SparseRegressor(3, **question)).fit(X, Y)
    np.testing.assert_array_equal(told[-1].coef_, kept[-1].coef_)
    assert "s1" in told[-1].get_feature_names_out()
    np.testing.assert_array_equal(told[-1].get_feature_names_out(), kept[-1].get_feature_names_out())
    assert "s2" in told[-1]._repr_html_inner()


def test_names_in_cross_validation():
    model = ez.SparseRegressorCV(ks=[1, 2], cv=3, feature_names=list(X), constraint={"s2": (0, 1)}).fit(X.to_numpy(), Y)
    assert 0 <= model.coef_[4] <= 1


def test_a_report_tells_how_well_an_estimator_fits(tmp_path):
    model = ez.SparseRegressor(3).fit(X, Y)
    page = ez.write_report(model, tmp_path / "r.html", data=X, target=Y).read_text(encoding="utf-8")
    assert f"{model.score(X, Y):.4g}" in page
    assert "wσ/σ(y)" in page
    with pytest.raises(ValueError, match="target needs what the model says of its rows"):
        ez.write_report(model.result_, tmp_path / "r.html", data=X, target=Y)
    with pytest.raises(ValueError, match="must have the same shape"):
        ez.write_report(model, tmp_path / "r.html", data=X, target=Y[:-1])


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            [{"bmi": (1, 3)}, {"bmi": (5, 6)}],
            "contradict each other: the coefficient of 'bmi' is at least 5 and at most 3",
        ),
        ([{"bmi": (5, 6)}, ez.sets.LinfBall(1.0)], "the coefficient of 'bmi' is at least 5 and at most 1"),
        ({"bmi": (1, 3), "age": (1, 2)}, "k=1 is less than the 2 coefficients that keep, or bounds without 0, ask for"),
    ],
)
def test_what_cannot_be_met_is_told_by_name(constraint, message):
    X, y = pandas.DataFrame(RNG.standard_normal((30, 3)), columns=["age", "bmi", "sex"]), RNG.standard_normal(30)
    with pytest.raises(ValueError, match=message):
        ez.SparseRegressor(k=1, constraint=constraint).fit(X, y)


def test_cross_validation_begins_where_bounds_leave_a_choice():
    X, y = pandas.DataFrame(RNG.standard_normal((30, 3)), columns=["age", "bmi", "sex"]), RNG.standard_normal(30)
    model = ez.SparseRegressorCV(ks=3, constraint={"bmi": (1, 3), "age": (1, 2)}).fit(X, y)
    assert sorted({*model.cv_results_["k"]}) == [2, 3]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"age": [1, 2, 3], "town": ["Bern", "Rom", "Rom"]}, "no numbers in column 'town', but 'Bern'; encode text"),
        ({"age": [1, 2, "three"]}, "no numbers in column 'age', but 'three'"),
        ({"age": [1, 2, 3], "day": pandas.date_range("2024-01-01", periods=3)}, "in column 'day', but '2024-01-01"),
    ],
)
def test_columns_without_numbers_are_told_by_name(frame, message):
    with pytest.raises(ValueError, match=message):
        ez.SparseRegressor(k=1).fit(pandas.DataFrame(frame), [1.0, 2.0, 3.0])


def test_columns_of_one_name_are_refused():
    frame = pandas.DataFrame(RNG.standard_normal((3, 2)), columns=["age", "age"])
    with pytest.raises(ValueError, match="two columns called 'age'; rename or drop one"):
        ez.SparseRegressor(k=1).fit(frame, [1.0, 2.0, 3.0])


def test_a_frame_without_rows_is_told_to_be_empty():
    with pytest.raises(ValueError, match="0 sample"):
        ez.SparseRegressor(k=1).fit(pandas.DataFrame({"age": [], "bmi": []}, dtype=float), [])


def test_a_class_of_one_row_has_no_folds():
    X = RNG.standard_normal((12, 2))
    with (
        pytest.warns(UserWarning, match="least populated"),
        pytest.raises(ValueError, match="y has 1.; leave the class"),
    ):
        ez.SparseClassifierCV(ks=1).fit(X, ["a"] * 11 + ["b"])


def test_bounds_are_told_by_name(tmp_path):
    X, y = pandas.DataFrame(RNG.standard_normal((30, 3)), columns=["age", "bmi", "sex"]), RNG.standard_normal(30)
    model = ez.SparseRegressor(k=2, constraint=[{"bmi": (0, 3), "age": "+"}, ez.sets.L2Ball(9.0)]).fit(X, y)
    page = ez.write_report(model, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "0 ≤ age, 0 ≤ bmi ≤ 3 and L2Ball(radius=9" in page
    assert ez.sets.Box(0, np.r_[np.inf, 2.0]).words(["a", "b"]) == "0 ≤ a, 0 ≤ b ≤ 2"
    assert ez.sets.Box(-1, 1).words(["a", "b"]) == "Box(lower=-1, upper=1)"
    assert ez.sets.Box(np.zeros(10)).words(list("abcdefghij")).endswith("0 ≤ h and 2 more")
