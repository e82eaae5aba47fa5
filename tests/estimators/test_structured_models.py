"""What is counted: features of several classes or targets, whole groups, quotas, dummies; by enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_linnerud
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ellzero as ez
from ellzero.estimators import onehot_groups
from ellzero.estimators.onehot import dummy_groups

NAMES = list("abcdef")
GROUPS = ["u", "u", "v", "v", "w", None]


@pytest.fixture
def targets():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((50, 6)) + 1, columns=NAMES)
    noise = rng.standard_normal((50, 3))
    Y = X.to_numpy()[:, [1, 2, 4]] @ np.array([[2.0, 1, 0], [0, 2, -1], [0.4, 0, 0.5]]) + noise + [0, 5, -5]
    return X, pd.DataFrame(Y, columns=["p", "q", "r"])


def lowest(X, Y, choices, weights=None):
    """The smallest mean squared error over choices of columns, with the choice."""
    X, Y = np.asarray(X), np.asarray(Y)

    def error(columns):
        fit = LinearRegression().fit(X[:, columns], Y, weights)
        square = (fit.predict(X[:, columns]) - Y) ** 2
        return np.average(square.reshape(len(Y), -1).sum(axis=1), weights=weights)

    return min((error(list(columns)), list(columns)) for columns in choices)


# ---- several targets ----


def test_several_targets_share_their_features(targets):
    X, Y = targets
    model = ez.SparseRegressor(k=2).fit(X, Y)
    value, columns = lowest(X, Y, itertools.combinations(range(6), 2))
    assert model.result_.fun == pytest.approx(value, rel=1e-10)
    assert model.get_support(indices=True).tolist() == columns
    assert model.coef_.shape == (3, 6) and model.intercept_.shape == (3,) and model.k_ == 2
    assert model.targets_ == ["p", "q", "r"]
    fit = LinearRegression().fit(X.iloc[:, columns], Y)
    np.testing.assert_allclose(model.predict(X), fit.predict(X.iloc[:, columns]))
    assert model.score(X, Y) == pytest.approx(fit.score(X.iloc[:, columns], Y))
    assert model.transform(X).shape == (50, 2)
    page = model._repr_html_()
    assert all(f">{name}<" in page for name in "pqr")
    plain = ez.SparseRegressor(k=2).fit(X.to_numpy(), Y.to_numpy())
    assert plain.targets_ == ["y0", "y1", "y2"]
    np.testing.assert_array_equal(plain.coef_, model.coef_)


def test_entries_of_several_targets_can_be_counted_too(targets):
    X, Y = targets
    model = ez.SparseRegressor(k=ez.sparsity.Coordinates(4)).fit(X, Y)
    assert np.count_nonzero(model.coef_) == 4


def test_one_column_of_targets_is_as_in_scikit_learn(targets):
    X, Y = targets
    one, flat = (ez.SparseRegressor(k=2).fit(X, y) for y in (Y[["q"]], Y["q"]))
    assert one.coef_.shape == (1, 6) and one.intercept_.shape == (1,)
    assert one.predict(X).shape == (50, 1) and flat.predict(X).shape == (50,)
    np.testing.assert_array_equal(one.coef_[0], flat.coef_)
    assert one.get_support().tolist() == flat.get_support().tolist()
    assert "selected features" in one._repr_html_()
    again = one.fit(X, Y["q"])
    assert again.coef_.shape == (6,) and not hasattr(again, "targets_")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda X: np.asarray(X, np.float32)])
def test_weights_constant_targets_and_containers(targets, kind):
    X, Y = targets
    Y = Y.assign(r=7.0).to_numpy()
    weights = np.random.default_rng(1).integers(0, 3, 50)
    model = ez.SparseRegressor(k=2).fit(kind(X), Y, sample_weight=weights)
    value, columns = lowest(X, Y, itertools.combinations(range(6), 2), weights)
    assert model.result_.fun == pytest.approx(value, rel=1e-4)
    assert model.get_support(indices=True).tolist() == columns
    np.testing.assert_allclose(model.coef_[2], 0, atol=1e-6)
    assert model.intercept_[2] == pytest.approx(7.0)
    repeated = ez.SparseRegressor(k=2).fit(np.repeat(X.to_numpy(), weights, axis=0), np.repeat(Y, weights, axis=0))
    np.testing.assert_allclose(repeated.coef_, model.coef_, atol=1e-4)


def test_keep_and_constraints_hold_for_every_target(targets):
    X, Y = targets
    model = ez.SparseRegressor(k=2, keep=["f"], constraint="nonnegative").fit(X, Y)
    assert model.coef_.min() >= 0 and model.get_support()[5] and model.get_support().sum() == 2
    with pytest.raises(ValueError, match="k=1 is less than the 2 features that keep, or bounds without 0, ask for"):
        ez.SparseRegressor(k=1, keep=["a", "f"]).fit(X, Y)
    with pytest.warns(UserWarning, match="k=7 is more than there are features"):
        everything = ez.SparseRegressor(k=7).fit(X, Y)
    np.testing.assert_allclose(everything.coef_, LinearRegression().fit(X, Y).coef_)
    assert ez.SparseRegressor(k=0.5).fit(X, Y).k_ == 3  # of the features


def test_other_losses_take_one_target(targets):
    X, Y = targets
    with pytest.raises(ValueError, match="several targets are for loss=.squared., got loss='huber' and y of shape"):
        ez.SparseRegressor(k=2, loss="huber").fit(X, Y)
    with pytest.raises(TypeError, match="y must be an array, got a sparse matrix"):
        ez.SparseRegressor(k=2).fit(X, sparse.csr_array(Y))


def test_k_of_several_targets_is_chosen(targets, tmp_path):
    X, Y = targets
    model = ez.SparseRegressorCV(ks=5, ridge=0.01).fit(X, Y)
    assert model.coef_.any(axis=0).sum() == model.k_ <= 5
    assert [res.sparsity.count(res.x) for res in model.path_] == list(range(1, model.k_ + 1))
    single = cross_val_score(ez.SparseRegressor(k=model.k_, ridge=model.ridge_), X, Y, scoring="neg_mean_squared_error")
    assert 3 * single.mean() == pytest.approx(model.cv_results_["mean_test_score"].max(), rel=1e-6)
    by_score = ez.SparseRegressorCV(ks=5, ridge=0.01, scoring="r2").fit(X, Y)
    assert by_score.cv_results_["mean_test_score"].max() < 1
    page = ez.write_report(model, tmp_path / "report.html", data=X).read_text(encoding="utf-8")
    assert "p: b" in page
    assert set(ez.SparseRegressorCV(ridge=0.0).fit(X, Y).cv_results_["k"]) == {1, 2, 3, 4, 5, 6}  # features, not 18


def test_linnerud():
    X, Y = load_linnerud(return_X_y=True, as_frame=True)
    model = ez.SparseRegressor(k=1).fit(X, Y)
    assert model.result_.fun == pytest.approx(lowest(X, Y, [[0], [1], [2]])[0])


def test_what_is_proved_of_several_targets_is_said_or_refused_with_words(targets):
    X, Y = targets
    model = ez.SparseRegressor(k=2).fit(X, Y)
    certificate = model.certify(X, Y, time_limit=5)
    best = lowest(X, Y, itertools.combinations(range(6), 2))[0]
    assert certificate.lower_bound <= best * (1 + 1e-9)
    assert certificate.words


# ---- several classes ----


def test_digits_from_thirty_pixels():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X[:700], y[:700], random_state=0, stratify=y[:700])
    quick = ez.Method(step="pursuit")  # without the exchanges
    model = ez.SparseClassifier(k=30, method=quick, max_iter=5).fit(X_train, y_train)
    assert model.get_support().sum() <= 30
    assert model.score(X_test, y_test) > 0.85


def test_features_of_classes_are_kept_by_name_and_chosen():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.standard_normal((120, 6)), columns=NAMES)
    y = (X.to_numpy()[:, [0, 3]] @ rng.standard_normal((2, 3)) * 2 + rng.gumbel(size=(120, 3))).argmax(axis=1)
    model = ez.SparseClassifier(k=3, keep=["e"]).fit(X, y)
    assert model.get_feature_names_out().tolist() == ["a", "d", "e"]
    assert model.coef_[:, 4].any()
    chosen = ez.SparseClassifierCV(ks=4, ridge=0.01, cv=3, keep="e").fit(X, y)
    assert chosen.cv_results_["k"].tolist() == [1, 2, 3, 4] and chosen.get_support()[4]
    assert ez.SparseClassifier(k=0.5).fit(X, y).k_ == 3
    with pytest.warns(UserWarning, match="k=7 is more than there are features"):
        ez.SparseClassifier(k=7).fit(X, y)
    with pytest.warns(UserWarning, match=r"k=99 is more than there are coefficients \(n_features = \d+\)"):
        ez.SparseClassifier(k=ez.sparsity.Coordinates(99)).fit(X, y)


def test_a_class_of_one_row():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), np.array([0] * 20 + [1] * 19 + [2])
    model = ez.SparseClassifier(k=2).fit(X, y)
    assert model.coef_.shape == (3, 5) and model.coef_.any(axis=0).sum() == 2


# ---- groups ----


@pytest.mark.parametrize("several", [False, True])
def test_whole_groups(targets, several):
    X, Y = targets
    y = Y if several else Y["p"]
    model = ez.SparseRegressor(k=1, groups=GROUPS, select="groups").fit(X, y)
    value, columns = lowest(X, y, [[0, 1, 5], [2, 3, 5], [4, 5]])  # f is in no group, and always there
    assert model.result_.fun == pytest.approx(value, rel=1e-10)
    assert model.get_support(indices=True).tolist() == columns and model.k_ == 1
    by_name = dict(zip(NAMES, GROUPS, strict=True))
    for groups in (by_name, pd.Series(by_name)):
        np.testing.assert_array_equal(
            ez.SparseRegressor(k=1, groups=groups, select="groups").fit(X, y).coef_, model.coef_
        )
    kept = ez.SparseRegressor(k=1, groups=GROUPS, select="groups", keep=["c"]).fit(X, y)
    assert kept.get_support(indices=True).tolist() == [2, 3, 5]
    walked = ez.SparseRegressorCV(ks=3, ridge=0.0, groups=GROUPS, select="groups").fit(X, y)
    assert walked.cv_results_["k"].tolist() == [1, 2, 3]
    with pytest.warns(UserWarning, match="k=4 is more than there are groups"):
        ez.SparseRegressor(k=4, groups=GROUPS, select="groups").fit(X, y)


def test_whole_groups_of_classes_with_a_constraint_in_each(targets):
    X, Y = targets
    y = np.digitize(Y["p"], [2.0, 4.0])
    ball = ez.sets.L1Ball(0.4)
    model = ez.SparseClassifier(k=1, groups=GROUPS, select="groups", constraint=ball).fit(X, y)
    assert model.coef_.shape == (3, 6)
    used = {GROUPS[j] for j in np.flatnonzero(model.coef_.any(axis=0))} - {None}
    assert len(used) == 1
    for label in "uvw":
        mine = [group == label for group in GROUPS]
        assert all(np.abs(row[mine]).sum() <= 0.4 * (1 + 1e-9) for row in model.coef_)


@pytest.mark.parametrize("several", [False, True])
def test_quotas(targets, several):
    X, Y = targets
    y = Y if several else Y["p"]
    choices = [c for c in itertools.combinations(range(6), 3) if {0, 1} - set(c) and {2, 3} - set(c)]
    model = ez.SparseRegressor(k=3, groups=GROUPS, at_most=1).fit(X, y)
    assert model.result_.fun == pytest.approx(lowest(X, y, choices)[0], rel=1e-10)
    unlike = ez.SparseRegressor(k=3, groups=GROUPS, at_most={"u": 0}).fit(X, y)
    value, _ = lowest(X, y, itertools.combinations([2, 3, 4, 5], 3))
    assert unlike.result_.fun == pytest.approx(value, rel=1e-10)
    with pytest.warns(UserWarning, match="k=5 is more than there are"):
        ez.SparseRegressor(k=5, groups=GROUPS, at_most=1).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "columns", "groups": GROUPS}, 'select must be "features" or "groups", got \'columns\''),
        ({"select": "groups"}, 'select="groups" needs groups'),
        ({"at_most": 2}, "at_most needs groups"),
        ({"select": "groups", "at_most": 2, "groups": GROUPS}, "leave one of them out"),
        ({"at_most": {"z": 1}, "groups": GROUPS}, "at_most names the group 'z'"),
        ({"k": ez.sparsity.Rows(2), "select": "groups", "groups": GROUPS}, "says itself what is counted"),
        ({"groups": GROUPS}, 'or select="groups"'),
        ({"groups": [None] * 6, "select": "groups"}, "groups must name at least one coordinate"),
        ({"groups": "onehot", "select": "groups"}, "found no dummies"),
    ],
)
def test_errors_name_the_remedy(targets, options, message):
    X, Y = targets
    with pytest.raises(ValueError) as raised:
        ez.SparseRegressor(**{"k": 2, **options}).fit(X, Y["p"])
    assert message in str(raised.value)


# ---- dummies ----


def table(n=80):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "color": rng.choice(["red", "dark_blue", "dark_red", "green"], n),
            "size": rng.choice(["S", "M"], n),
            "age": rng.normal(40, 10, n),
        }
    )
    frame["flag"] = rng.integers(0, 2, n)
    return frame, 2.0 * (frame["color"] == "dark_blue") + 0.02 * frame["age"] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_groups_of_an_encoder_and_by_names_agree(drop):
    frame, y = table()
    encode = make_column_transformer(
        (OneHotEncoder(drop=drop, sparse_output=False), ["color", "size"]), remainder="passthrough"
    ).set_output(transform="pandas")
    X = encode.fit_transform(frame)
    exact = onehot_groups(encode)
    by_name = dummy_groups(X.to_numpy(), X.columns.to_numpy())
    assert len(exact) == X.shape[1]
    together = [[a == b for b in labels] for labels in (exact, by_name) for a in labels]
    assert together[: len(exact)] == together[len(exact) :]
    model = ez.SparseRegressor(k=2, groups="onehot", select="groups").fit(X, y)
    assert {name.split("_")[2] for name in model.get_feature_names_out()} == {"color", "age"}
    assert sum("color" in name for name in model.get_feature_names_out()) == (3 if drop == "first" else 4)
    same = ez.SparseRegressor(k=2, groups=exact, select="groups").fit(X, y)
    np.testing.assert_array_equal(same.coef_, model.coef_)
    assert model.predict(X).std() > 0.5


def test_dummies_of_pandas_and_rare_categories():
    frame, y = table()
    X = pd.get_dummies(frame)
    assert dummy_groups(X.to_numpy(float), X.columns.to_numpy()) == ["age", "flag", *["color"] * 4, *["size"] * 2]
    assert dummy_groups(sparse.csr_array(X.to_numpy(float)), X.columns.to_numpy())[2] == "color"
    model = ez.SparseRegressor(k=1, groups="onehot", select="groups").fit(X, y)
    assert model.get_support(indices=True).tolist() == [2, 3, 4, 5]
    rare = OneHotEncoder(max_categories=2).fit(frame[["color", "size"]])
    assert onehot_groups(rare) == ["color", "color", "size", "size"]
    assert onehot_groups(make_pipeline(rare)) == ["color", "color", "size", "size"]
    X = X.rename(columns={"age": "color"})
    labels = dummy_groups(X.to_numpy(float), X.columns.to_numpy())
    assert labels[0] == "color" and set(labels[2:6]) == {"color_"}  # not one group
    with pytest.raises(ValueError, match="X has none; give X as a DataFrame"):
        ez.SparseRegressor(k=1, groups="onehot", select="groups").fit(X.to_numpy(), y)
    with pytest.raises(TypeError, match="encoder must be a fitted OneHotEncoder"):
        onehot_groups(StandardScaler())
