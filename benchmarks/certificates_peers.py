"""One solver on one problem, in a process of its own: `python -m benchmarks.certificates_peers SOLVER PROBLEM SECONDS`.

    min (1/n)||Xw - y||² + (ridge/2)||w||²   subject to   ||w||_0 <= k, and |w_i| <= box or ||w_G||_1 <= cap per group

PROBLEM is an .npz file that `certificates.py` wrote. Prints a line "PROGRESS [seconds, value, bound]" whenever the
solver knows more, in units of the objective, and at the end "RESULT {...}"; a process that is killed leaves what it
has printed. The clock of every solver starts with the data in memory and its modules imported and compiled.
"""

import json
import re
import sys
import time
from importlib.metadata import version

import numpy as np

#: seconds of the processor, which other people's programs do not lengthen; the solvers below look at the same clock
time.perf_counter = time.time = time.process_time

PROVED = 1e-4  # relative gap at which okridge and l0bnb stop
SPLIT = 0.999  # of λ_min goes to the perspective of SCIP's model; all of it makes a row that is nearly zero
BEAM = 10  # parents and children in okridge's heuristic


class Problem:
    """The numbers of one instance."""

    def __init__(self, path):
        with np.load(path) as data:
            self.X, self.y, self.start, self.groups = (data[name] for name in ("X", "y", "start", "groups"))
            self.k, self.n = int(data["k"]), len(self.y)
            self.ridge, self.box, self.cap, self.l0 = (float(data[name]) for name in ("ridge", "box", "cap", "l0"))

    @property
    def reach(self):
        """A bound of |w_i|: the given one, or twice the largest coefficient of the start."""
        given = min(self.box, self.cap)
        return given if np.isfinite(given) else 2 * np.abs(self.start).max()


class Clock:
    """Seconds since the start, and who is told what is known by then."""

    def __init__(self):
        self.started, self.told = time.perf_counter(), None

    def __call__(self):
        return time.perf_counter() - self.started

    def tell(self, value, bound):
        """A line of progress, where something has changed."""
        known = float(value), float(bound)
        if known != self.told and abs(known[0]) < 1e15 and abs(known[1]) < 1e15:  # solvers' ways to write infinity
            print("PROGRESS " + json.dumps([self(), *known]), file=sys.__stdout__, flush=True)
            self.told = known


def ellzero(p, limit):
    """minimize(method="exact"), with no other option than the time limit."""
    import ellzero as ez

    if p.groups.size:
        gamma = ez.sets.GroupWise(ez.sets.L1Ball(p.cap), groups=p.groups)
    else:
        gamma = ez.sets.Box(-p.box, p.box) if np.isfinite(p.box) else None
    small = np.random.default_rng(0).standard_normal((30, 8))  # so that nothing is imported while the clock runs
    for bounds in (None, ez.sets.Box(-0.5, 0.5), ez.sets.L1Ball(1.0)):
        ez.minimize(ez.risks.LeastSquares(small, small @ np.ones(8)), 3, bounds, method="exact", time_limit=1)
    clock = Clock()

    def watch(intermediate_result):
        clock.tell(intermediate_result.fun, intermediate_result.certificate.lower_bound)

    risk = ez.risks.LeastSquares(p.X, p.y, ridge=p.ridge)
    found = ez.minimize(risk, k=p.k, constraint=gamma, method="exact", time_limit=limit, callback=watch)
    proof, seconds = found.certificate, clock()
    clock.tell(found.fun, proof.lower_bound)
    optimal = proof.status.name == "OPTIMAL"
    return found.x, seconds, optimal, proof.nodes, {"how": proof.how, "advice": proof.advice}


def scip(p, limit):
    """A perspective model: with P = Q - δI positive semidefinite and P = LᵀL, minimise Σt_j + (δ/2)Σs_i - bᵀw + c
    subject to (Lw)_j² <= 2t_j, w_i² <= s_i z_i, |w_i| <= M z_i, Σz <= k, z binary."""
    from pyscipopt import SCIP_EVENTTYPE, Eventhdlr, Model, quicksum
    from pyscipopt.scip import Expr, Term

    n, d = p.X.shape
    unit = np.sqrt(1000 / np.mean(p.y**2))  # so that R(0) = 1000: SCIP's tolerances are absolute
    X, y = p.X * unit, p.y * unit
    values, vectors = np.linalg.eigh(2 * X.T @ X / n)
    split = SPLIT * max(values[0], 0.0)
    delta, rows = split + p.ridge * unit**2, values - split > 1e-9 * values[-1]
    L = np.sqrt((values[rows] - split) / 2)[:, None] * vectors[:, rows].T
    b, M = 2 * X.T @ y / n, p.reach
    q = vectors[:, rows].T @ b / (2 * np.sqrt((values[rows] - split) / 2))
    b = b - 2 * L.T @ q  # zero but for rounding, unless rows are left out

    model = Model()
    model.hideOutput()
    w = [model.addVar(lb=-M, ub=M) for _ in range(d)]
    z = [model.addVar(vtype="B") for _ in range(d)]
    r = [model.addVar(lb=None) for _ in L]
    t = [model.addVar(lb=0) for _ in L]
    for i in range(d):
        model.addCons(w[i] <= M * z[i])
        model.addCons(w[i] >= -M * z[i])
    model.addCons(quicksum(z) <= p.k)
    terms = [Term(variable) for variable in w]  # sums by hand: quicksum takes ten times as long for dense rows
    for j in range(len(L)):
        model.addCons(Expr(dict(zip(terms, L[j].tolist(), strict=True))) - r[j] == q[j])
        model.addCons(r[j] * r[j] <= t[j])
    image = L @ p.start - q
    for j in range(len(L)):  # a first tangent for every row, where we are
        model.addCons(t[j] >= 2 * image[j] * r[j] - image[j] ** 2)
    start = [*zip(w, p.start, strict=True), *zip(z, p.start != 0, strict=True)]
    start += [*zip(r, image, strict=True), *zip(t, image**2, strict=True)]
    objective = quicksum(t) - Expr(dict(zip(terms, b.tolist(), strict=True))) + float(y @ y / n - q @ q)
    if delta > 1e-9:
        s = [model.addVar(lb=0, ub=M * M) for _ in range(d)]
        typical = float(np.abs(p.start[p.start != 0]).mean())
        for i in range(d):
            model.addCons(w[i] * w[i] <= s[i] * z[i])
            for a in (-typical, typical):  # perspective cuts
                model.addCons(s[i] >= 2 * a * w[i] - a * a * z[i])
        objective += delta / 2 * quicksum(s)
        start += zip(s, p.start**2, strict=True)
    for group in np.unique(p.groups):
        members = np.flatnonzero(p.groups == group)
        size = [model.addVar(lb=0, ub=M) for _ in members]
        for a, i in zip(size, members, strict=True):
            model.addCons(w[i] <= a)
            model.addCons(-w[i] <= a)
        model.addCons(quicksum(size) <= p.cap)
        start += zip(size, np.abs(p.start[members]), strict=True)
    model.setObjective(objective, "minimize")
    solution = model.createSol()
    for variable, value in start:
        model.setSolVal(solution, variable, float(value))
    accepted = model.addSol(solution)

    class Watch(Eventhdlr):
        events = tuple(
            getattr(SCIP_EVENTTYPE, name) for name in ("NODESOLVED", "FIRSTLPSOLVED", "LPSOLVED", "BESTSOLFOUND")
        )

        def eventinit(self):
            for event in self.events:
                self.model.catchEvent(event, self)

        def eventexit(self):
            for event in self.events:
                self.model.dropEvent(event, self)

        def eventexec(self, event):
            clock.tell(self.model.getPrimalbound() / unit**2, self.model.getDualbound() / unit**2)

    model.includeEventhdlr(Watch(), "watch", "")
    model.setParam("timing/clocktype", 1)
    model.setParam("limits/time", limit)
    clock = Clock()
    model.optimize()
    seconds = clock()
    clock.tell(model.getPrimalbound() / unit**2, model.getDualbound() / unit**2)
    x = np.array([model.getVal(variable) for variable in w])
    x[np.array([model.getVal(variable) for variable in z]) < 0.5] = 0.0
    note = {} if accepted else {"note": "did not take our start"}
    return x, seconds, model.getStatus() == "optimal", model.getNTotalNodes(), note | {"SCIP": model.version()}


def okridge(p, limit):
    """BNBTree with λ₂ = n·ridge/2; its values leave out yᵀy."""
    from okridge.node import Node
    from okridge.solvers import sparseLogRegModel_big_n as Beam
    from okridge.tree import BNBTree

    Node.lower_solve = Node.lower_solve_fast  # the name under which its tuning of ADMM calls it
    offset = float(p.y @ p.y)
    clock = Clock()
    with listening(lambda value, bound: clock.tell((value + offset) / p.n, (bound + offset) / p.n)):
        tree = BNBTree(X=p.X, y=p.y, lambda2=p.n * p.ridge / 2)
        tree.upper_solver_with_cache = Beam(data=tree.data, parent_size=BEAM, child_size=BEAM)
        value, x, gap, bound, _ = tree.solve(p.k, gap_tol=PROVED, verbose=True, time_limit=limit - clock())
    seconds = clock()
    clock.tell((value + offset) / p.n, (min(bound, value) + offset) / p.n)
    return np.asarray(x, float), seconds, gap <= PROVED, tree.number_of_nodes, {}


def l0bnb(p, limit):
    """BNBTree on n·R/2 + λ₀||w||_0, λ₂ = n·ridge/4, |w_i| <= M; bound - λ₀k bounds n·R/2 where ||w||_0 <= k."""
    from l0bnb import BNBTree

    small = np.random.default_rng(0).standard_normal((30, 8))
    with listening(lambda value, bound: None):  # compiles
        for _ in range(2):
            BNBTree(small, small @ np.ones(8)).solve(l0=1.0, l2=0.1, m=2.0, verbose=True, time_limit=20)
    clock, own = Clock(), {}

    def tell(value, bound):
        own["own gap"] = (value - bound) / value
        clock.tell((value - p.l0 * p.k) * 2 / p.n, (bound - p.l0 * p.k) * 2 / p.n)

    with listening(tell):
        tree = BNBTree(p.X, p.y)
        found = tree.solve(
            l0=p.l0, l2=p.n * p.ridge / 4, m=p.reach, gap_tol=PROVED, warm_start=p.start, verbose=True, time_limit=limit
        )  # fmt: skip
    seconds = clock()
    if found.gap < 1:  # it is set even before the first bound
        tell(found.cost, found.cost - found.gap * abs(found.cost))
    return np.asarray(found.beta, float), seconds, found.gap <= PROVED, tree.number_of_nodes, own | {"M": p.reach}


class listening:
    """While it lasts, what is printed is read for "d: <bound>, ... u: <value>," and otherwise swallowed."""

    def __init__(self, tell):
        self.tell, self.rest = tell, ""

    def __enter__(self):
        sys.stdout = self

    def __exit__(self, *_):
        sys.stdout = sys.__stdout__

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            found = re.search(r"\bd: ([-+.\de]+),.*\bu: ([-+.\de]+),", line)
            if found:
                self.tell(float(found[2]), float(found[1]))

    def flush(self):
        pass


SOLVERS = {"ellzero": ellzero, "SCIP": scip, "okridge": okridge, "l0bnb": l0bnb}
PACKAGES = {
    "ellzero": ("ellzero", "numpy"),
    "SCIP": ("pyscipopt",),
    "okridge": ("okridge",),
    "l0bnb": ("l0bnb", "numba"),
}


def main():
    name, path, limit = sys.argv[1:]
    x, seconds, optimal, nodes, more = SOLVERS[name](Problem(path), float(limit))
    support = np.flatnonzero(np.abs(x) > 1e-10 * np.abs(x).max())
    told = {
        "support": support.tolist(), "values": x[support].tolist(), "seconds": seconds, "optimal": bool(optimal),
        "nodes": int(nodes), "version": ", ".join(f"{package} {version(package)}" for package in PACKAGES[name]),
    }  # fmt: skip
    print("RESULT " + json.dumps(told | more), flush=True)


if __name__ == "__main__":
    main()
