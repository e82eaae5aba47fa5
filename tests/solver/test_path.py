"""The path over k: never worse for a larger k, cheaper than fresh starts, and the choice of k on it."""

import contextlib
import importlib.util
import io
import itertools
import math
import re
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ellzero as ez
from common import support_preserving_sets
from ellzero import risks
from ellzero.datasets import make_classification, make_regression

ROOT = Path(__file__).resolve().parents[2]
RULES = ("aic", "bic", "ebic", "gic", "validation", "validation-1se")


def regression(seed=0, n=120, d=60, k=5, **kwargs):
    """A least-squares risk, the same on held-out rows, and the planted coefficients."""
    p = make_regression(2 * n, d, k, rng=seed, **kwargs)
    return risks.LeastSquares(p.X[:n], p.y[:n]), risks.LeastSquares(p.X[n:], p.y[n:]), p.truth


def best_subset(risk, k):
    """min R over all supports of size k, by lstsq."""
    X, y = risk.design.X, risk.y
    subsets = itertools.combinations(range(X.shape[1]), k)
    return min(np.mean((y - X[:, s] @ np.linalg.lstsq(X[:, s], y, rcond=None)[0]) ** 2) for s in map(list, subsets))


class TestPath:
    @pytest.mark.parametrize("both_ways", [False, True])
    @pytest.mark.parametrize("warm_start", [False, True])
    @pytest.mark.parametrize("method", ["auto", "IHT-2SP", "PGD+H"])
    def test_never_worse_for_a_larger_k(self, method, warm_start, both_ways):
        risk, _, _ = regression(1, correlation=0.8, snr=2.0)
        how = {"warm_start": warm_start, "both_ways": both_ways, "max_iter": 50}
        path = ez.minimize_path(risk, 12, ez.sets.L1Ball(2.0), method, **how)
        assert path.ks.tolist() == list(range(1, 13))
        assert (np.diff(path.fun) <= 0).all()
        for k, res in zip(path.ks, path, strict=True):
            assert res.k == k and res.support.size <= k and res.violation <= 1e-12
            assert risk.value(res.x) == pytest.approx(res.fun, rel=1e-12)
            np.testing.assert_array_equal(res.support, np.flatnonzero(res.x))

    @pytest.mark.parametrize("seed", range(4))
    def test_both_ways_finds_the_best_subsets_of_tiny_problems(self, seed):
        risk, _, _ = regression(seed, n=40, d=9, k=4, correlation=0.5, snr=3.0)
        path = ez.minimize_path(risk, 9, both_ways=True)
        np.testing.assert_allclose(path.fun, [best_subset(risk, k) for k in range(1, 10)], rtol=1e-9)

    def test_warm_starts_cost_less_and_lose_nothing(self):
        cold, warm, both, saved = [], [], [], []
        for seed, correlation in itertools.product(range(3), (0.0, 0.5, 0.9)):
            risk, _, _ = regression(seed, n=100, d=200, k=6, correlation=correlation, snr=5.0)
            fresh = ez.minimize_path(risk, 12, warm_start=False)
            path = ez.minimize_path(risk, 12)
            cold += fresh.fun.tolist()
            warm += path.fun.tolist()
            both += ez.minimize_path(risk, 12, both_ways=True).fun.tolist()
            saved.append(1 - path.n_gradients / fresh.n_gradients)
        assert min(saved) > 0 and np.mean(saved) > 0.1
        assert np.mean(np.log(warm)) <= np.mean(np.log(cold)) + 1e-3
        assert np.mean(np.log(both)) <= min(np.mean(np.log(cold)), np.mean(np.log(warm))) + 1e-9

    def test_both_ways_is_never_worse_than_one(self):
        risk, _, _ = regression(2, n=100, d=150, k=8, correlation=0.9, snr=2.0)
        one, two = ez.minimize_path(risk, 16), ez.minimize_path(risk, 16, both_ways=True)
        assert (two.fun <= one.fun).all() and two.n_gradients > one.n_gradients

    @pytest.mark.parametrize("name", sorted(support_preserving_sets(30, np.random.default_rng(0))))
    def test_the_constraint_holds_for_every_k(self, name):
        gamma = support_preserving_sets(30, np.random.default_rng(5))[name]
        risk, _, _ = regression(3, n=50, d=30)
        path = ez.minimize_path(risk, [0, 2, 6], gamma, both_ways=True, max_iter=10)
        assert path.ks.tolist() == [0, 2, 6] and (np.diff(path.fun) <= 0).all()
        assert all(gamma.contains(res.x) and res.support.size <= res.k for res in path)

    def test_sets_that_do_not_preserve_supports(self):
        risk, _, _ = regression(3, n=50, d=20)
        path = ez.minimize_path(risk, 6, ez.sets.Simplex(1.0), both_ways=True)
        for res in path:
            assert res.x.sum() == pytest.approx(1.0, abs=1e-12) and (res.x >= 0).all()
        assert (np.diff(path.fun) <= 0).all()

    def test_keep(self):
        risk, _, truth = regression(4)
        kept = np.flatnonzero(truth == 0)[:2]
        path = ez.minimize_path(risk, 8, keep=kept, both_ways=True)
        assert path.ks.tolist() == list(range(2, 9))
        assert all(np.isin(kept, support).all() for support in path.supports)
        with pytest.raises(ValueError, match="keep names 2 coordinates, more than k=1"):
            ez.minimize_path(risk, [1, 3], keep=kept)
        with pytest.raises(ValueError, match="ks must be at least 2, got ks=1"):
            ez.minimize_path(risk, 1, keep=kept)

    def test_ks_in_any_form(self):
        risk, _, _ = regression(d=10)
        for ks in ([3, 1, 3, 2], np.array([2, 1, 3]), range(1, 4), 3, {1, 2, 3}, iter([1, 2, 3])):
            assert ez.minimize_path(risk, ks).ks.tolist() == [1, 2, 3]
        with pytest.warns(UserWarning, match="ks goes up to 500, which is greater than n_features=10"):
            path = ez.minimize_path(risk, [0, 9, 500], x0=np.zeros(10))
        assert path.ks.tolist() == [0, 9, 10] and path[0].support.size == 0
        assert path[9] is path.results[1] and len(path) == 3
        with pytest.raises(KeyError, match="k=4 is not on the path, which has 0, 9, 10"):
            path[4]

    def test_black_boxes_and_options_of_minimize(self):
        center = np.zeros(8)
        center[[1, 4]] = [2.0, -1.0]
        blackbox = risks.BlackBox(lambda w: float(np.sum((w - center) ** 2)), n_features=8)
        path = ez.minimize_path(blackbox, 3, max_queries=300, rng=0)
        assert (np.diff(path.fun) <= 0).all() and path.n_values <= 900
        assert path[2].support.tolist() == [1, 4]

    def test_multinomial_paths(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((150, 6))
        y = np.argmax(X[:, :3] + 0.3 * rng.standard_normal((150, 3)), axis=1)
        fit, held_out = (
            risks.Multinomial(X[r], y[r], ridge=0.01, fit_intercept=True) for r in (range(75), range(75, 150))
        )
        path = ez.minimize_path(fit, range(0, 13, 3), ez.sets.LinfBall(1.5), validation=held_out)
        assert (np.diff(path.fun) <= 0).all()
        assert all(path.select(rule).k >= 3 for rule in RULES)

    def test_float32_stays_float32(self):
        p = make_regression(60, 20, 3)
        path = ez.minimize_path(risks.LeastSquares(p.X.astype(np.float32), p.y), 5, both_ways=True)
        assert path[3].x.dtype == np.float32 and path.select("ebic").k == 3


class TestChoice:
    def test_the_planted_support_is_found(self):
        """Criteria and validation are wrong now and then by their nature: so many of 12 problems must be right."""
        for d, least in (
            (8, {"bic": 10, "ebic": 11, "validation-1se": 12}),
            (60, {"ebic": 10, "validation-1se": 12}),
        ):
            right = dict.fromkeys(RULES, 0)
            for seed in range(12):
                risk, held_out, truth = regression(seed, n=300, d=d, k=4, snr=20.0)
                path = ez.minimize_path(risk, min(d, 8), validation=held_out)
                for rule in RULES:
                    chosen = path.select(rule).support
                    right[rule] += np.array_equal(chosen, np.flatnonzero(truth))
                    assert np.isin(np.flatnonzero(truth), chosen).all()  # none is missed
                assert path.select("ebic").k <= path.select("bic").k <= path.select("aic").k
            assert all(right[rule] >= n for rule, n in least.items()), right

    def test_logistic(self):
        p = make_classification(600, 20, 4, scale=2.0, rng=1)
        fit, held_out = (risks.Logistic(p.X[r], p.y[r], ridge=1e-3) for r in (range(300), range(300, 600)))
        path = ez.minimize_path(fit, 8, validation=held_out)
        for rule in ("ebic", "bic", "validation-1se"):
            np.testing.assert_array_equal(path.select(rule).support, np.flatnonzero(p.truth))

    def test_poisson(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 15))
        y = rng.poisson(np.exp(0.8 * X[:, 2] - 0.6 * X[:, 7]))
        path = ez.minimize_path(risks.Poisson(X[:150], y[:150]), 5, validation=risks.Poisson(X[150:], y[150:]))
        assert path.select("ebic").support.tolist() == path.select("validation-1se").support.tolist() == [2, 7]

    def test_formulas(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
        weight = np.r_[np.zeros(5), rng.uniform(1, 2, 25)]
        path = ez.minimize_path(risks.LeastSquares(X, y, ridge=0.5, sample_weight=weight, fit_intercept=True), 3)
        n, d, df = 25, 6, np.arange(1, 4)
        assert path.nonzeros.tolist() == df.tolist()
        loss = []
        for res in path:
            residual = y - X @ res.x
            residual -= np.average(residual, weights=weight)
            loss.append(np.average(residual**2, weights=weight))
            assert res.fun == pytest.approx(loss[-1] + 0.25 * res.x @ res.x)
        misfit = n * np.log(loss)
        np.testing.assert_allclose(path.criterion("aic"), misfit + 2 * df)
        np.testing.assert_allclose(path.criterion("bic"), misfit + df * np.log(n))
        np.testing.assert_allclose(path.criterion("gic"), misfit + df * np.log(d) * np.log(np.log(n)))
        supports = np.log([math.comb(d, k) for k in df])
        np.testing.assert_allclose(path.criterion("ebic"), misfit + df * np.log(n) + 2 * supports)

    def test_the_likelihood_of_labels(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((40, 5)), rng.integers(0, 2, 40)
        path = ez.minimize_path(risks.Logistic(X, y, ridge=0.1), 3)
        loss = [np.log1p(np.exp(-(2 * y - 1) * (X @ res.x))).mean() for res in path]
        np.testing.assert_allclose(path.criterion("bic"), 80 * np.array(loss) + path.nonzeros * np.log(40))

    def test_held_out_loss_has_the_intercept_of_the_fit_and_no_ridge(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((60, 4)), rng.standard_normal(60)
        y[30:] += 5.0  # the held-out rows are shifted: an intercept of their own would hide it
        fit, held_out = (
            risks.LeastSquares(X[r], y[r], ridge=0.1, fit_intercept=True) for r in (range(30), range(30, 60))
        )
        path = ez.minimize_path(fit, 4, validation=held_out)
        for res, mean, se in zip(path, path.validation, path.validation_se, strict=True):
            losses = (y[30:] - X[30:] @ res.x - fit.intercept(res.x)) ** 2
            assert mean == pytest.approx(losses.mean()) and mean > 10
            assert se == pytest.approx(losses.std() / math.sqrt(30))

    def test_one_standard_error_takes_the_smallest_k_within_it(self):
        risk, held_out, _ = regression(5, snr=1.0)
        path = ez.minimize_path(risk, 10, validation=held_out)
        i = int(path.validation.argmin())
        within = path.validation <= path.validation[i] + path.validation_se[i]
        assert path.select("validation-1se").k == path.ks[within][0] <= path.select("validation").k == path.ks[i]

    def test_a_perfect_fit_is_not_chosen_by_its_rounding(self):
        X = np.random.default_rng(0).standard_normal((50, 20))
        path = ez.minimize_path(risks.LeastSquares(X, X[:, 3] - 2 * X[:, 7]), 10)
        assert all(path.select(rule).k == 2 for rule in ("aic", "bic", "ebic", "gic"))

    def test_as_many_coefficients_as_rows_say_nothing(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((12, 30))
        path = ez.minimize_path(risks.LeastSquares(X, X[:, 0] + 0.1 * rng.standard_normal(12)), [1, 2, 12, 20])
        assert np.isinf(path.criterion("bic")).tolist() == [False, False, True, True]
        assert path.select("ebic").k == 1

    def test_risks_without_a_likelihood(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((40, 6)), rng.standard_normal(40)
        Q, b = X.T @ X / 40, X.T @ y / 40
        for risk in (
            risks.Huber(X, y),
            risks.Quadratic(Q, b),
            risks.Smooth(lambda w: w @ Q @ w / 2 - b @ w, lambda w: Q @ w - b, 6),
        ):
            path = ez.minimize_path(risk, 2, validation=risk)
            with pytest.raises(
                ValueError, match=f"'bic' needs a likelihood, and {type(risk).__name__} has none.*validation"
            ):
                path.select("bic")
            assert path.select("validation").k == 2
        with pytest.raises(
            ValueError, match="'validation-1se' needs losses of rows, Smooth has none; use 'validation'"
        ):
            path.select("validation-1se")


class TestProgressAndErrors:
    def test_callback_sees_every_run_and_can_stop(self):
        risk, _, _ = regression(d=20)
        seen = []

        def watch(res):
            seen.append(res.k)
            if res.k == 3:
                raise StopIteration

        path = ez.minimize_path(risk, 6, callback=watch)
        assert seen == path.ks.tolist() == [1, 2, 3]
        assert not path.success and path.message == "the callback stopped the path after 3 of 6 k"
        assert ez.minimize_path(risk, 3).success

    def test_time_limit_is_for_the_whole_path(self):
        risk, _, _ = regression(d=20)
        path = ez.minimize_path(risk, 10, time_limit=1e-9)
        assert path.ks.tolist() == [1] and not path.success
        assert path.message == "the time limit was reached after 1 of 10 k"
        assert len(ez.minimize_path(risk, 3, time_limit=60.0)) == 3

    def test_verbose(self, capsys):
        risk, _, _ = regression(d=20)
        ez.minimize_path(risk, 2)
        assert capsys.readouterr().out == ""
        path = ez.minimize_path(risk, 2, verbose=1)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(",")[0] for line in lines] == [
            f"k={k}: objective {f:.8g}" for k, f in zip(path.ks, path.fun, strict=True)
        ]
        ez.minimize_path(risk, 2, verbose=2)
        assert "iteration" in capsys.readouterr().out

    def test_repr(self):
        risk, held_out, _ = regression(d=40)
        lines = repr(ez.minimize_path(risk, 30)).splitlines()
        assert lines[0] == "ellzero path: the answers for 30 values of k"
        assert lines[1].split() == ["k", "nonzeros", "objective"]
        assert [line.split()[0] for line in lines[2:]] == [*map(str, range(1, 11)), "...", *map(str, range(21, 31))]
        path = ez.minimize_path(risk, 8, validation=held_out)
        marked = [line.split() for line in repr(path).splitlines() if line.endswith("smallest")]
        assert [row[0] for row in marked] == [str(path.select("validation").k)]

    def test_plot(self):
        risk, held_out, _ = regression(d=20)
        path = ez.minimize_path(risk, 8, validation=held_out)
        ax = ez.PathDisplay.from_result(path).ax_
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), path.fun)
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), path.validation)
        assert ax.lines[2].get_xdata()[0] == path.select("validation").k
        plt.close(ax.figure)
        ax = plt.figure().subplots()
        display = ez.PathDisplay.from_result(ez.minimize_path(risk, [2]), ax=ax)
        assert display.ax_ is ax and ax.get_legend() is None
        plt.close(ax.figure)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"ks": 0}, ValueError, "ks must be at least 1, got ks=0"),
            ({"ks": []}, ValueError, "ks must name at least one k, got none"),
            ({"ks": [1, -2]}, ValueError, "ks must be at least 0, got ks=-2"),
            ({"ks": [1.5]}, TypeError, "ks must be an integer .*, got 1.5"),
            ({"ks": "12"}, TypeError, "ks must be an integer K .* got '12'"),
            ({"ks": 2.5}, TypeError, "ks must be an integer K .* got 2.5"),
            ({"ks": True}, TypeError, "ks must be an integer, got True"),
            ({"ks": 2, "time_limit": 0}, ValueError, "time_limit must lie in"),
            ({"ks": 2, "checkpoint": "x.npz"}, TypeError, "checkpoint belongs to a single run"),
            ({"ks": 2, "colour": "red"}, TypeError, "unexpected keyword argument 'colour'"),
            ({"ks": 2, "validation": risks.LeastSquares(np.eye(3), np.ones(3))}, ValueError, "a LeastSquares of 20 coefficients; got a LeastSquares of 3"),
            ({"ks": 2, "validation": risks.Huber(np.eye(20), np.ones(20))}, ValueError, "got a Huber of 20 coefficients"),
            ({"ks": 2, "validation": np.eye(3)}, ValueError, "validation must be the same kind of risk .* got a ndarray"),
        ],
    )  # fmt: skip
    def test_errors_name_the_argument(self, arguments, error, message):
        risk, _, _ = regression(d=20)
        with pytest.raises(error, match=message):
            ez.minimize_path(risk, **arguments)

    def test_other_errors(self):
        with pytest.raises(TypeError, match="risk must be a risk such as"):
            ez.minimize_path(np.eye(3), 2)
        X = np.eye(4)
        with pytest.raises(ValueError, match=r"labels \['a', 'b'\]; got .* labels \['b', 'c'\]"):
            ez.minimize_path(risks.Logistic(X, [*"abab"]), 2, validation=risks.Logistic(X, [*"bcbc"]))
        path = ez.minimize_path(risks.LeastSquares(X, np.ones(4)), 2)
        with pytest.raises(ValueError, match="'validation' needs held-out data"):
            path.select("validation")
        with pytest.raises(ValueError, match="rule must be one of aic, bic, .* got 'cv'"):
            path.select("cv")
        with pytest.raises(ValueError, match="rule must be one of aic, bic, .* here, got 'validation'"):
            path.criterion("validation")


# ---- the page and its picture ----


@pytest.mark.slow
def test_the_page_prints_what_it_says():
    page = (ROOT / "docs" / "choosing-k.md").read_text(encoding="utf-8")
    names = {}
    for code, printed in re.findall(
        r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL
    ):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, "choosing-k.md", "exec"), names)
        assert output.getvalue() == printed
    assert page.count("```python") == page.count("```text") == 4
    for name in re.findall(r"(?:examples|figures)/[\w/.]*\w\.\w+", page):
        assert any((ROOT / folder / name).exists() for folder in (".", "docs"))


def test_the_example_draws(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("choose_k", ROOT / "examples" / "choose_k.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    path = example.main(k=3, rows=60, out=tmp_path / "deep" / "path.png")
    assert len(path) == 11 and (tmp_path / "deep" / "path.png").read_bytes().startswith(b"\x89PNG")
    assert "3 features matter" in capsys.readouterr().out
    assert vars(example.parse([])) == {"k": 10, "rows": 200, "seed": 0, "out": "docs/figures/path.png"}
    assert (ROOT / "docs" / "figures" / "path.png").stat().st_size < 200_000


def test_importing_stays_cheap():
    import subprocess

    code = "import sys, ellzero; ellzero.minimize_path; print([m for m in ('scipy.optimize', 'scipy.sparse', 'sklearn', 'matplotlib') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_criteria_count_what_is_chosen():
    """log C(d, df) is the number of supports; of features and groups there are fewer, and ranks are no supports."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    Y = X[:, :2] @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((50, 3))
    risk, log_n = ez.risks.LeastSquares(X, Y), np.log(50)
    path = ez.minimize_path(risk, ez.sparsity.Rows(4))
    misfit = path.criterion("aic") - 2 * path.nonzeros
    choices = [math.log(math.comb(6, k)) for k in path.ks]
    assert np.allclose(path.criterion("ebic"), misfit + path.nonzeros * log_n + 2 * np.array(choices))
    ranks = ez.minimize_path(risk, ez.sparsity.Rank(3, shape=(3, 6)))
    df = np.array([r * (9 - r) for r in ranks.ks])
    assert np.allclose(np.diff(ranks.criterion("bic") - ranks.criterion("aic")), np.diff(df * (log_n - 2)))
    assert np.allclose(ranks.criterion("ebic"), ranks.criterion("bic"))
