"""By whom: one small class for each way to ask a package for at most k nonzeros.

`requires` is what pip installs into an environment of the peer's own (nothing for ellzero itself), `settings` is
printed in RESULTS.md, `skip` gives the reason why a problem cannot be stated, `load` imports the package, and
`run` returns w. Everything between X, y, k and w is inside `run`, and is timed: conversions, copies, scaling.
"""

import time
from typing import ClassVar

import numpy as np
from scipy import sparse

from .objective import project_l1

SAME = "the same as IHT without a constraint"


class Solver:
    """A way to solve the problem."""

    name = ""
    package = ""
    requires: tuple[str, ...] = ()
    python: str | None = None  # the version it needs, where this one is too new
    settings = ""
    compiles = False  # the first call compiles, so that a slow first call says little about the second
    exact = False  # runs until the time limit, once, on the first seed
    least_squares_only = False
    unconstrained_only = False
    dense_only = False
    states_groups = False

    def skip(self, objective):
        """Why the problem cannot be stated, or None."""
        if self.least_squares_only and objective.kind != "least-squares":
            return "least squares only"
        if objective.groups is not None and not self.states_groups:
            return "cannot state the constraint"
        if objective.nonnegative and self.unconstrained_only:
            return "cannot state w >= 0"
        if sparse.issparse(objective.X) and self.dense_only:
            return "takes no sparse X"
        return None

    def load(self):
        """Import the package."""

    def run(self, objective, time_limit):
        """w."""
        raise NotImplementedError


# ----------------------------------------------------------------------------------------------- ellzero


class Auto(Solver):
    name = "auto"
    package = "ellzero"
    settings = 'minimize(risk, k, constraint): the default, method="auto"'
    states_groups = True
    options: ClassVar[dict] = {}

    def load(self):
        import ellzero

        self.ez = ellzero

    def run(self, objective, time_limit):
        ez, o = self.ez, objective
        risk = ez.risks.Logistic(o.X, o.y) if o.kind == "logistic" else ez.risks.LeastSquares(o.X, o.y)
        gamma = None
        if o.nonnegative:
            gamma = ez.sets.NonNegative()
        elif o.groups is not None:
            gamma = ez.sets.GroupWise(ez.sets.L1Ball(o.cap), groups=o.groups)
        return ez.minimize(risk, o.k, gamma, self.method(gamma), **self.options).x

    def method(self, gamma):
        return "auto"


class AutoStarts(Auto):
    name = "auto, 8 starts"
    settings = 'method=preset("auto", n_starts=8), rng=0'
    options: ClassVar[dict] = {"rng": 0}

    def method(self, gamma):
        return self.ez.preset("auto", n_starts=8)


class IHT(Auto):
    name, settings = (
        "IHT 1/L",
        'method="IHT" ("IHT-2SP" under a constraint): the paper\'s, step 1/L, at most 1000 iterations',
    )

    def method(self, gamma):
        return "IHT" if gamma is None else "IHT-2SP"


class PGD(Auto):
    name, settings = "PGD 1/L", 'method="PGD": step 1/L, exact Euclidean projection, at most 1000 iterations'

    def skip(self, objective):
        return SAME if objective.groups is None and not objective.nonnegative else None

    def method(self, gamma):
        return "PGD"


# ------------------------------------------------------------------------------------------------- peers


class Abess(Solver):
    name, package, requires = "abess", "abess", ("abess",)
    settings = "LinearRegression or LogisticRegression, support_size=k, fit_intercept=False; bounds by beta_low=0"
    options: ClassVar[dict] = {}

    def load(self):
        import abess

        self.abess = abess

    def run(self, objective, time_limit):
        o = objective
        options = {"support_size": o.k, "fit_intercept": False, **self.options}
        if o.kind == "logistic":
            model = self.abess.LogisticRegression(primary_model_fit_max_iter=50, **options)
        else:
            model = self.abess.LinearRegression(**options)
        y = (o.y > 0).astype(int) if o.kind == "logistic" else o.y
        X = sparse.csc_matrix(o.X) if sparse.issparse(o.X) else o.X
        bounds = {"beta_low": 0.0} if o.nonnegative else {}
        return model.fit(X, y, **bounds).coef_


class AbessPath(Abess):
    name = "abess path"
    settings = "as abess, but warm-started along support_size = 1, ..., k, with important_search=0 and exchange_num=20"

    def run(self, objective, time_limit):
        sizes = list(range(1, objective.k + 1))  # with ic_coef=0 the largest wins
        self.options = {
            "support_size": sizes,
            "important_search": 0,
            "exchange_num": 20,
            "ic_type": "aic",
            "ic_coef": 0.0,
        }
        return super().run(objective, time_limit)


class OMP(Solver):
    name, package, requires = "OMP", "scikit-learn", ("scikit-learn",)
    settings = "OrthogonalMatchingPursuit(n_nonzero_coefs=k, fit_intercept=False)"
    least_squares_only = unconstrained_only = dense_only = True

    def load(self):
        from sklearn.linear_model import OrthogonalMatchingPursuit

        self.model = OrthogonalMatchingPursuit

    def run(self, objective, time_limit):
        return self.model(n_nonzero_coefs=objective.k, fit_intercept=False).fit(objective.X, objective.y).coef_


class Skscope(Solver):
    name, package, requires, compiles, states_groups = "skscope scope", "skscope", ("skscope",), True, True
    settings = (
        "ScopeSolver(d, sparsity=k, sample_size=n).solve(loss in JAX, jit=True), float64; sparse X: loss and gradient "
        "in SciPy; w >= 0 by its NonNegative layer; caps by the reparametrisation w = v min(1, cap / ||v||₁), returns "
        "in percent"
    )

    def load(self):
        import jax
        import skscope
        import skscope.layer

        jax.config.update("jax_enable_x64", True)
        self.jax, self.skscope = jax, skscope

    def solver(self, objective):
        n, d = objective.X.shape
        return self.skscope.ScopeSolver(d, objective.k, n)

    def run(self, objective, time_limit):
        if sparse.issparse(objective.X):
            f_grad = value_and_gradient(objective)
            w = self.solver(objective).solve(lambda w: f_grad(w)[0], gradient=lambda w: f_grad(w)[1])
            return np.asarray(w)
        np_, o = self.jax.numpy, objective
        units = 100.0 if o.groups is not None else 1.0
        data = tuple(np_.asarray(part if units == 1.0 else units * part) for part in (o.X, o.y))

        def inside(w):
            if o.groups is None:
                return w
            sums = self.jax.ops.segment_sum(np_.abs(w), o.groups, int(o.groups.max()) + 1)
            return w * np_.minimum(1.0, o.cap / np_.maximum(sums, 1e-12))[o.groups]

        def loss(w, data):
            X, y = data
            Xw = X @ inside(w)
            return np_.mean(np_.logaddexp(0.0, -y * Xw)) if o.kind == "logistic" else np_.mean((Xw - y) ** 2)

        layers = [self.skscope.layer.NonNegative(o.X.shape[1])] if o.nonnegative else []
        w = self.solver(o).solve(loss, data, layers=layers, jit=True)
        return np.asarray(inside(np_.asarray(w)))


class SkscopeHTP(Skscope):
    name, states_groups = "skscope HTP", False
    settings = (
        "HTPSolver(d, sparsity=k, step_size=1 / the largest second derivative in a coordinate), otherwise as "
        "skscope scope"
    )

    def solver(self, objective):
        d = objective.X.shape[1]
        curvature = (0.25 if objective.kind == "logistic" else 2.0) * mean_squares(objective.X).max()
        return self.skscope.HTPSolver(d, objective.k, step_size=1 / curvature)


class L0LearnCDPSI(Solver):
    name, package, requires, algorithm = "L0Learn CDPSI", "l0learn", ("l0learn", "numpy<2"), "CDPSI"
    python = "3.10"
    settings = (
        'fit(penalty="L0", algorithm="CDPSI", max_support_size=k, num_lambda=200, intercept=False), the last of '
        "the largest supports of at most k on its path; w >= 0 by lows=0"
    )

    def skip(self, objective):
        if objective.nonnegative and self.algorithm == "CDPSI":
            return "CDPSI takes no bounds"
        return super().skip(objective)

    def load(self):
        import l0learn

        self.l0learn = l0learn

    def run(self, objective, time_limit):
        o = objective
        X = sparse.csc_matrix(o.X) if sparse.issparse(o.X) else o.X
        bounds = {"lows": 0.0} if o.nonnegative else {}
        loss = "Logistic" if o.kind == "logistic" else "SquaredError"
        fit = self.l0learn.fit(
            X, o.y, loss, "L0", self.algorithm, max_support_size=o.k, num_lambda=200, intercept=False, **bounds
        )
        path = np.hstack([np.asarray(coeffs.todense()) for coeffs in fit.coeffs]).T[::-1]
        return max((w for w in path if np.count_nonzero(w) <= o.k), key=np.count_nonzero)


class L0LearnCD(L0LearnCDPSI):
    name, algorithm = "L0Learn CD", "CD"
    settings = 'as L0Learn CDPSI with algorithm="CD"'


class SkglmMCP(Solver):
    name, package, requires, compiles = "skglm MCP", "skglm", ("skglm",), True
    settings = (
        "AndersonCD with MCPenalty (γ = 3) on columns of unit mean square; warm-started path of α, then bisection, "
        "to the last support of at most k; w >= 0 by positive=True"
    )
    penalty = "MCP"

    def load(self):
        import skglm

        self.skglm = skglm
        from skglm import datafits, penalties, solvers

        self.parts = datafits, penalties, solvers

    def run(self, objective, time_limit):
        o, (datafits, penalties, solvers) = objective, self.parts
        X, scale = unit_columns(o.X)
        datafit, curvature = (datafits.Logistic(), 0.25) if o.kind == "logistic" else (datafits.Quadratic(), 1.0)
        gamma = 3.0 / curvature
        solver = solvers.AndersonCD(fit_intercept=False, tol=1e-6, warm_start=True)

        def solve(alpha, start):
            if self.penalty == "MCP":
                penalty = penalties.MCPenalty(alpha, gamma, positive=o.nonnegative)
            else:
                penalty = penalties.L1(alpha, positive=o.nonnegative)
            return solver.solve(X, o.y, datafit, penalty, start, X @ start)[0]

        return scale * path_to_k(solve, largest_alpha(X, o), X.shape[1], o.k)


class SkglmLasso(SkglmMCP):
    name, penalty = "skglm lasso", "L1"
    settings = "as skglm MCP with the L1 penalty"


class Celer(Solver):
    name, package, requires = "celer lasso", "celer", ("celer",)
    settings = "celer_path on columns of unit mean square, then as skglm lasso"

    def skip(self, objective):
        if objective.nonnegative and objective.kind == "logistic":
            return "cannot state w >= 0"
        return super().skip(objective)

    def load(self):
        from celer import celer_path

        self.path = celer_path

    def run(self, objective, time_limit):
        o = objective
        X, scale = unit_columns(o.X)
        problem = "logreg" if o.kind == "logistic" else "lasso"
        unit = len(o.y) if o.kind == "logistic" else 1.0  # celer's logistic loss is a sum

        def solve(alpha, start):
            _, coefs, _ = self.path(
                X, o.y, problem, alphas=[unit * alpha], coef_init=start.copy(), tol=1e-6, positive=o.nonnegative
            )
            return coefs[:, 0]

        return scale * path_to_k(solve, largest_alpha(X, o), X.shape[1], o.k)


class Copt(Solver):
    name, package, requires, states_groups = "copt IHT", "copt", ("copt", "numpy<2"), True
    settings = (
        "minimize_proximal_gradient(step adaptive), prox = hard thresholding (w >= 0: the k largest; caps: then the l1 "
        "projection by sector); tol = 1e-6 x the first gradient, at most 1000 iterations"
    )

    def load(self):
        import copt

        self.copt = copt

    def run(self, objective, time_limit):
        o = objective
        f_grad = value_and_gradient(o)

        def prox(v, step):
            size = v if o.nonnegative else np.abs(v)
            keep = np.argpartition(size, -o.k)[-o.k :]
            w = np.zeros_like(v)
            w[keep] = np.maximum(v[keep], 0.0) if o.nonnegative else v[keep]
            if o.groups is not None:
                for g in np.unique(o.groups[keep]):
                    member = keep[o.groups[keep] == g]
                    w[member] = project_l1(w[member], o.cap)
            return w

        start = np.zeros(o.X.shape[1])
        tol = 1e-6 * np.linalg.norm(f_grad(start)[1])
        return self.copt.minimize_proximal_gradient(f_grad, start, prox, tol=tol, max_iter=1000).x


class SCIP(Solver):
    name, package, requires, exact, states_groups = "SCIP", "cvxpy", ("cvxpy", "pyscipopt"), True, True
    settings = (
        "big-M model |w_i| <= M z_i, z binary, M = 3 x the largest marginal coefficient, or the cap; best point at the "
        "time limit"
    )
    least_squares_only = True

    def load(self):
        import cvxpy

        self.cp = cvxpy

    def run(self, objective, time_limit):
        cp, o, start = self.cp, objective, time.perf_counter()
        n, d = o.X.shape
        w, z = cp.Variable(d), cp.Variable(d, boolean=True)
        M = o.cap if o.cap is not None else 3 * np.abs(o.X.T @ o.y / (n * mean_squares(o.X))).max()
        limits = [w <= M * z, (0 if o.nonnegative else -M * z) <= w, cp.sum(z) <= o.k]
        if o.groups is not None:
            limits += [cp.norm1(w[np.flatnonzero(o.groups == g)]) <= o.cap for g in np.unique(o.groups)]
        units = np.sqrt(np.mean(o.y**2))
        problem = cp.Problem(cp.Minimize(cp.sum_squares((o.X @ w - o.y) / units)), limits)
        left = time_limit - (time.perf_counter() - start)
        try:
            problem.solve("SCIP", scip_params={"limits/time": max(1.0, 0.8 * left - 5)})
        except cp.error.SolverError:
            raise RuntimeError("no feasible point found in the time limit") from None
        on = np.argsort(-z.value)[: o.k]
        answer = np.zeros(d)
        answer[on] = np.where(z.value[on] > 0.5, w.value[on], 0.0)
        return answer


class OKRidge(Solver):
    name, package, requires, exact = "okridge", "okridge", ("okridge", "requests"), True
    settings = (
        "BNBTree(X, y, lambda2=1e-6, tighten_bound_via_ADMM=False).solve(k, gap_tol=1e-4): branch and bound; best "
        "point at the time limit (with tighten_bound_via_ADMM=True this version calls a method that it does not have)"
    )
    least_squares_only = unconstrained_only = dense_only = True

    def load(self):
        from okridge.tree import BNBTree

        self.tree = BNBTree

    def run(self, objective, time_limit):
        tree = self.tree(X=objective.X, y=objective.y, lambda2=1e-6, tighten_bound_via_ADMM=False)
        answer = tree.solve(k=objective.k, gap_tol=1e-4, verbose=False, time_limit=0.8 * time_limit - 5)
        return np.asarray(answer[1], float)


SOLVERS: list[Solver] = [
    Auto(), AutoStarts(), IHT(), PGD(),
    Abess(), AbessPath(), OMP(), Skscope(), SkscopeHTP(), L0LearnCDPSI(), L0LearnCD(),
    SkglmMCP(), SkglmLasso(), Celer(), Copt(), SCIP(), OKRidge(),
]  # fmt: skip


# ----------------------------------------------------------------------------------------------- helpers


def mean_squares(X):
    """Mean square of each column."""
    squares = X.multiply(X).sum(axis=0) if sparse.issparse(X) else np.einsum("ij,ij->j", X, X)
    return np.asarray(squares).ravel() / X.shape[0]


def unit_columns(X):
    """X / its columns' root mean squares, column by column in memory, and what coefficients are multiplied by."""
    scale = 1 / np.sqrt(np.maximum(mean_squares(X), 1e-300))
    if sparse.issparse(X):
        return sparse.csc_matrix(X @ sparse.diags(scale)), scale
    scaled = np.array(X, order="F")
    scaled *= scale
    return scaled, scale


def value_and_gradient(o):
    """w -> R(w) and its gradient, with one product by X and one by its transpose."""
    X, y, n = o.X, o.y, len(o.y)

    def f_grad(w):
        Xw = X @ w
        if o.kind == "logistic":
            margin = y * Xw
            p = 0.5 * (1 - np.tanh(margin / 2))
            return float(np.logaddexp(0.0, -margin).mean()), X.T @ (-y * p / n)
        r = Xw - y
        return float(r @ r / n), X.T @ (2 / n * r)

    return f_grad


def largest_alpha(X, o):
    """The least α at which the lasso, ½R + α||w||₁ (R + α||w||₁ for logistic), is zero."""
    g = X.T @ (o.y / 2 if o.kind == "logistic" else o.y) / len(o.y)
    return float(np.max(g if o.nonnegative else np.abs(g)))


def path_to_k(solve, alpha, n_features, k, ratio=0.9, n_bisections=12):
    """Lower α by `ratio` until the support exceeds k, then bisect: the last and largest support of at most k."""
    w, high, low = np.zeros(n_features), alpha, 0.0
    while high > 1e-5 * alpha and not low:
        new = solve(ratio * high, w.copy())
        if np.count_nonzero(new) > k:
            low = ratio * high
        else:
            w, high = new, ratio * high
    for _ in range(n_bisections if low else 0):
        if np.count_nonzero(w) == k:
            break
        middle = np.sqrt(low * high)
        new = solve(middle, w.copy())
        if np.count_nonzero(new) > k:
            low = middle
        else:
            w, high = new, middle
    return w
