"""The displays: what is drawn is what was found, on the axes that were given."""

import re

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ellzero as ez


@pytest.fixture(autouse=True)
def no_figure_left_open():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def path():
    problem = ez.datasets.make_regression(80, 20, 3)
    return ez.minimize_path(ez.risks.LeastSquares(problem.X, problem.y), 5)


class Fitted:
    """What displays look for on an estimator."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


def labelled(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_convergence_of_one_and_of_several(answer):
    ax = plt.figure().subplots()
    display = ez.ConvergenceDisplay.from_result(answer, ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    np.testing.assert_array_equal(labelled(ax)["auto"].get_ydata(), answer.history.fun)
    several = ez.ConvergenceDisplay.from_result({"IHT-2SP": answer, "mine": answer}, x="time")
    assert labelled(several.ax_).keys() == {"IHT-2SP", "mine"}
    assert labelled(several.ax_)["IHT-2SP"].get_color() == ez.plot.styles(["IHT-2SP"])["IHT-2SP"]["color"]


def test_convergence_draws_what_is_proved(answer):
    from dataclasses import replace

    proved = replace(answer, certificate=Fitted(lower_bound=answer.fun / 2))
    ax = ez.ConvergenceDisplay.from_result(proved).ax_
    assert list(labelled(ax)["proved lower bound"].get_ydata()) == [answer.fun / 2] * 2
    unknown = replace(answer, certificate=Fitted(lower_bound=-np.inf))
    assert "proved lower bound" not in labelled(ez.ConvergenceDisplay.from_result(unknown).ax_)


def test_convergence_of_an_estimator(answer):
    display = ez.ConvergenceDisplay.from_estimator(Fitted(result_=answer), name="model")
    assert labelled(display.ax_).keys() == {"model"}
    with pytest.raises(ValueError, match="have result_, got Fitted without it; call fit first"):
        ez.ConvergenceDisplay.from_estimator(Fitted())


def test_path_draws_losses_and_coefficients(path):
    display = ez.PathDisplay.from_result(path, chosen=3)
    lines = labelled(display.ax_)
    np.testing.assert_array_equal(lines["objective R(w)"].get_ydata(), path.fun)
    assert list(lines["chosen: k = 3"].get_xdata()) == [3, 3]
    ax = ez.PathDisplay.from_result(path, of="coefficients", feature_names=[f"f{i}" for i in range(20)], most=2).ax_
    w = np.array([res.x for res in path])
    largest = np.argsort(-np.abs(w[-1]))[:2]
    lines = labelled(ax)
    assert lines.keys() == {f"f{i}" for i in largest}
    for i in largest:
        np.testing.assert_array_equal(np.nan_to_num(lines[f"f{i}"].get_ydata()), w[:, i])
    drawn = [line for line in ax.lines if len(line.get_xdata()) == len(path)]
    assert len(drawn) == np.count_nonzero(w.any(axis=0))  # the others are there, in grey
    with pytest.raises(ValueError, match='of must be "loss" or "coefficients", got \'k\''):
        ez.PathDisplay.from_result(path, of="k")


def test_path_of_an_estimator(path):
    scores = {
        "k": np.array([1, 2, 1, 2]),
        "ridge": np.array([0.0, 0, 1, 1]),
        "mean_test_score": -np.array([4.0, 3, 2, 1]),
    }
    model = Fitted(path_=list(path), k_=3, ridge_=1.0, cv_results_=scores)
    lines = labelled(ez.PathDisplay.from_estimator(model).ax_)
    assert lines["held-out loss"].get_ydata().tolist() == [2.0, 1.0]
    assert {"chosen: k = 3", "smallest held-out loss: k = 2"} <= lines.keys()
    with pytest.raises(ValueError, match="path_"):
        ez.PathDisplay.from_estimator(Fitted(result_=path[2]))


def test_path_of_a_real_estimator():
    problem = ez.datasets.make_regression(60, 20, 3)
    model = ez.SparseRegressorCV(ks=5, ridge=0.0).fit(problem.X, problem.y)
    lines = labelled(ez.PathDisplay.from_estimator(model).ax_)
    assert lines["held-out loss"].get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert f"smallest held-out loss: k = {model.k_}" in lines


def test_weights_of_groups_with_the_caps_of_the_constraint(answer, market):
    ax = ez.WeightsDisplay.from_result(answer).ax_
    bars = dict(
        zip([t.get_text() for t in ax.get_yticklabels()], [b.get_width() for b in ax.containers[0]], strict=True)
    )
    for sector, width in bars.items():
        assert width == pytest.approx(np.abs(answer.x[market.sectors == sector]).sum())
    assert set(bars) == set(market.sectors.tolist())
    assert all(segment[0, 0] == 0.2 for segment in ax.collections[0].get_segments())


def test_weights_without_groups_are_the_largest(path):
    x = path[5].x
    display = ez.WeightsDisplay.from_result(path[5], feature_names=[f"f{i}" for i in range(20)], most=3)
    order = np.argsort(-np.abs(x))[:3]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == [f"f{i}" for i in order]
    assert [bar.get_width() for bar in display.ax_.containers[0]] == x[order].tolist()
    assert "the 3 largest of 5" in display.ax_.get_xlabel()


def test_weights_of_estimators(answer, path, market):
    tracker = Fitted(weights_=answer.x, result_=answer)
    assert len(ez.WeightsDisplay.from_estimator(tracker).ax_.get_yticklabels()) == len(set(market.sectors.tolist()))
    names = np.array([f"f{i}" for i in range(20)])
    model = Fitted(coef_=path[2].x, result_=path[2], feature_names_in_=names)
    shown = [t.get_text() for t in ez.WeightsDisplay.from_estimator(model).ax_.get_yticklabels()]
    assert set(shown) == set(names[path[2].support])


def test_groups_and_caps():
    inner = ez.sets.GroupWise({"a": ez.sets.L1Ball(0.3)}, groups=["a", None, "b"])
    assert inner.groups_and_caps(3) == (["a", None, "b"], {"a": 0.3})
    assert ez.sets.Intersection(ez.sets.LinfBall(1.0), inner).groups_and_caps(3)[1] == {"a": 0.3}
    assert ez.sets.L1Ball(1.0).groups_and_caps(3) == (None, None)


def test_tracking_draws_growth_and_shades_what_was_not_seen(answer, market):
    kwargs = {"dates": market.dates, "test_from": 96}
    display = ez.TrackingDisplay.from_result(answer, market.returns, market.index_returns, **kwargs)
    lines = labelled(display.ax_)
    np.testing.assert_allclose(lines["index"].get_ydata(), np.cumprod(1 + market.index_returns))
    np.testing.assert_allclose(lines["portfolio"].get_ydata(), np.cumprod(1 + market.returns @ answer.x))
    (shade,) = display.ax_.patches
    start = matplotlib.dates.num2date(shade.get_x()).date()
    assert np.datetime64(start) == market.dates[96]
    below = ez.TrackingDisplay.from_result(answer, market.returns, market.index_returns, of="difference").ax_
    expected = np.cumprod(1 + market.returns @ answer.x) - np.cumprod(1 + market.index_returns)
    np.testing.assert_allclose(labelled(below)["portfolio"].get_ydata(), expected)
    assert not below.patches


def test_tracking_of_an_estimator_takes_the_dates_of_the_frame(answer, market):
    import pandas as pd

    frame = pd.DataFrame(market.returns, index=pd.to_datetime(market.dates), columns=market.names)
    display = ez.TrackingDisplay.from_estimator(Fitted(weights_=answer.x), frame, market.index_returns)
    np.testing.assert_array_equal(np.asarray(display.dates, dtype="datetime64[D]"), market.dates)
    assert (
        ez.TrackingDisplay.from_estimator(Fitted(weights_=answer.x), market.returns, market.index_returns).dates is None
    )


def test_tracking_of_an_estimator_matches_columns_and_days(market):
    returns, index, _ = market.to_pandas()
    tracker = ez.IndexTracker(k=5, n_starts=1).fit(returns, index)
    straight = ez.TrackingDisplay.from_estimator(tracker, returns, index)
    turned = ez.TrackingDisplay.from_estimator(tracker, returns[returns.columns[::-1]], index[::-1])
    np.testing.assert_allclose(straight.portfolios["portfolio"], returns.to_numpy() @ tracker.weights_.to_numpy())
    np.testing.assert_allclose(turned.portfolios["portfolio"], straight.portfolios["portfolio"], atol=1e-15)
    np.testing.assert_array_equal(turned.index_returns, index.to_numpy())


def test_tracking_refuses_what_does_not_fit(market):
    with pytest.raises(ValueError, match=re.escape("portfolio 'short' has shape (3,), the index (120,)")):
        ez.TrackingDisplay(index_returns=market.index_returns, portfolios={"short": np.zeros(3)}).plot()
    with pytest.raises(ValueError, match='"growth" or "difference"'):
        ez.TrackingDisplay(index_returns=market.index_returns, portfolios={}).plot(of="value")


@pytest.mark.parametrize("named", [True, False])
def test_several_classes_have_names_with_the_class(named):
    pd = pytest.importorskip("pandas", reason="names come with DataFrames")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    y = np.array(["hi", "lo", "mid"])[(X[:, :3] + 0.3 * rng.standard_normal((90, 3))).argmax(axis=1)]
    data = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"]) if named else X
    model = ez.SparseClassifierCV(ks=[1, 2], ridge=0.1, cv=2).fit(data, y)
    names = {f"{c}: x{j}" for c, row in zip(model.classes_, model.coef_, strict=True) for j in np.flatnonzero(row)}
    ticks = ez.WeightsDisplay.from_estimator(model).ax_.get_yticklabels()
    assert {tick.get_text() for tick in ticks} == names
    lines = labelled(ez.PathDisplay.from_estimator(model, of="coefficients").ax_)
    assert names <= lines.keys()
