"""A method is four small choices: oracle, step, projection, finish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._core.arrays import norm
from .._core.directions import stream
from .._core.validation import check_count, check_nonnegative, check_positive
from ..risks.base import Point, Risk
from ..sparsity import Sparsity
from ..theory.parameters import THEOREMS, Prescription, prescribe, snapshot_step, zoht_step
from ..theory.parameters import Oracle as Kind
from .by_values.looks import Looks
from .finishes import Exchanges, as_finish
from .oracles import FullGradient, MiniBatch, Oracle, VarianceReduced, ZerothOrder, estimate_variance
from .projections import PROJECTIONS
from .regularised import RegularisedGradient, smoothness_of
from .result import Counts
from .schedules import Geometric
from .snapshots import VarianceReducedDirections
from .steps import STEPS


@dataclass(frozen=True, kw_only=True)
class Method:
    """w_t = P(w_{t-1} - η g_{t-1}), then a finish.

    Parameters
    ----------
    oracle : Oracle
        Where g comes from: `FullGradient`, `MiniBatch`, `VarianceReduced` or `ZerothOrder`.
    step : float, "1/L", "adaptive", "pursuit", "search", "factors" or "replacement"
        η; "1/L" takes the smoothness constant of the risk, "adaptive" the smallest L for which the theorem's proof
        goes through, "pursuit" refits the values on each support, "search" tries sizes by function values, "factors"
        is for a rank: Newton's steps along its tangent spaces; "replacement" exchanges one entry and refits a
        regularised R, see `regularised`.
    projection : {"auto", "euclidean", "two-step", "restricted", "sparse", "convex"}
        P. "auto" is "euclidean" where the exact projection onto the sparse members of Γ is known, otherwise
        "two-step" where Γ preserves supports, otherwise "restricted"; "sparse" is H_k alone and "convex" Π_Γ alone,
        for baselines that repair the other constraint at the end.
    finish : Finish, "swap", "refit", "two-step" or "restricted", optional
        What is done to the best point: `Exchanges` of coordinates ("swap"), the best values on its support ("refit"),
        or a `LastProjection` of this kind.
    name : str
    constrained : bool
        Whether the method takes a Γ at all.
    n_iter : int, optional
        How many iterations the method prescribes; ``max_iter`` may end it earlier.
    standardize : bool, optional
        Whether entries of w are compared in units of the columns of the data, s: True runs the method on u ↦ R(s∘u)
        over {u : s∘u in Γ}. R, Γ and the answer stay in the user's units. By default "pursuit" does so as far as Γ
        has no units of its own, and other steps, whose theorems speak of R as it is, do not.
    """

    oracle: Oracle = field(default_factory=FullGradient)
    step: float | str = "1/L"
    projection: str = "auto"
    finish: Any = None
    name: str = "custom"
    constrained: bool = True
    n_iter: int | None = None
    standardize: bool | None = None

    def __post_init__(self) -> None:
        if self.projection not in ("auto", *PROJECTIONS):
            raise ValueError(f"projection must be auto or one of {', '.join(PROJECTIONS)}, got {self.projection!r}")
        object.__setattr__(self, "finish", as_finish(self.finish))
        if isinstance(self.step, str):
            if self.step not in STEPS:
                raise ValueError(f"step must be a positive number or one of {', '.join(STEPS)}, got {self.step!r}")
        else:
            check_positive(self.step, "step")
        if self.step == "pursuit" and self.projection == "convex":
            raise ValueError("step='pursuit' refits on a support, and projection='convex' has none; use another one")
        if self.projection in ("sparse", "convex") and self.finish is None and self.constrained:
            raise ValueError(
                f"projection={self.projection!r} keeps only one of the two constraints, so it needs a finish: "
                "finish='two-step'"
            )

    @property
    def kind(self) -> Kind:
        """What its gradients are made of."""
        return self.oracle.kind

    @property
    def stochastic(self) -> bool:
        """Whether its gradients are estimates, so that small changes mean nothing and nothing but limits ends it."""
        return self.kind != "full"

    @property
    def own_units(self) -> bool:
        """Whether it compares entries in the units of the problem by itself, whatever those of w are."""
        return self.step == "pursuit"

    def resolve(self, risk: Risk, sparsity: Sparsity, counts: Counts, entropy: Sequence[int]) -> Method:
        """The method with every parameter a number, for one run."""
        return self

    def started(self, resolved: Method, start: Point, counts: Counts) -> Method:
        """The resolved method, with what depends on the point at which the run starts."""
        return resolved


@dataclass(frozen=True, kw_only=True, repr=False)
class Auto(Method):
    """The default: pursuit steps from the exact gradient, then `Exchanges(n_starts)`; or what a black box allows.

    Small problems, with at most 130 supports, are settled by trying all of them.

    Where an exchange improved the answer, the problem is one in which searches get stuck. Then the same is done for
    R(w) + Σ_j δG_jj w_j², G being the quadratic model of R at the origin, with δ falling in steps from 0.1 to 0.0001
    and each answer the start of the next; the better of the two ends is returned. Not so if the run was given an x0,
    or stopped by a limit.

    A risk that is not known to be convex gets adaptive steps alone. A rank gets Newton's steps on its factors, see
    `FactorStep`; another sparsity that is not of coordinates adaptive steps.

    A BlackBox knows neither L nor ν nor its noise, so everything is chosen by counted function values
    (`solver.by_values`). A few values close together tell the noise, and the length of differences follows from it. Far
    looks recover a gradient from random ±1 probes of all coordinates, as many as explain a probe that was kept back;
    near ones fit a quadratic model to the support and its best rivals, whose sparse minimiser in Γ is tried: so entries
    come to 0 and places are exchanged by values. A value counts as lower where noise does not explain it. When all
    orthogonal probes show no way down either, the run ends.
    """

    name: str = "auto"
    n_starts: int = 1
    mu: float | None = None
    own_units = True

    def __repr__(self) -> str:
        return _as_preset(self)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_starts, "n_starts")

    def resolve(self, risk: Risk, sparsity: Sparsity, counts: Counts, entropy: Sequence[int]) -> Method:
        if risk.has_gradient and not (risk.convex and sparsity.of_coordinates):
            step = "adaptive" if sparsity.of_coordinates else sparsity.step
            return Method(step=step, projection=self.projection, name=f"auto ({step})")
        if risk.has_gradient:
            parts = {"projection": self.projection, "finish": Exchanges(self.n_starts), "standardize": self.standardize}
            return Method(step="pursuit", name="auto", **parts)  # type: ignore[arg-type]
        looks = Looks(mu=self.mu)
        return Method(oracle=looks, step="values", projection=self.projection, name="auto (zeroth-order)")


@dataclass(frozen=True, kw_only=True, repr=False)
class Prescribed(Method):
    """A method whose parameters are those of its theorem, read from `ellzero.theory.parameters`.

    Parameters
    ----------
    rho : float
        How much of R(w̄) the bound may exceed, with Γ.
    alpha : float
        1 + C/L: a larger one has shorter steps and smaller batches.
    B : float, optional
        Gradient variance, for batches; estimated from the data at the start if not given.
    s2 : int, optional
        Coordinates of a random direction; all by default.
    mu : float
        The length of finite differences.
    L, nu : float, optional
        Smoothness and strong convexity; those of the risk by default.
    epsilon, radius : float, optional
        With both, ``n_iter`` is the theorem's T for accuracy ε and ‖w_0 - w̄‖ <= radius.
    gradient_norm : float, optional
        At least ‖∇R(w̄)‖, for the T of HZO-HT and HZO-HT-2SP; by default ‖∇R(w_0)‖ + L · radius, at the price of one
        full gradient. A black box has none, so there it must be given.
    q : int, optional
        The fixed number of directions of ZOHT, ⌈τ⌉ of HZO-HT by default; with a step of your own for an R whose L and ν
        are not known 100. Of VR-ZOHT, where any number does, k by default.
    epoch : int, optional
        Iterations of VR-ZOHT from one snapshot to the next; by default ours, `theory.parameters.snapshot_step`, or 50
        with a step of your own for an R whose L and ν are not known.
    """

    theorem: str
    rho: float | None = None
    alpha: float = 2.0
    B: float | None = None
    s2: int | None = None
    mu: float = 1e-6
    L: float | None = None
    nu: float | None = None
    epsilon: float | None = None
    radius: float | None = None
    gradient_norm: float | None = None
    q: int | None = None
    epoch: int | None = None

    def __repr__(self) -> str:
        return _as_preset(self)

    @property
    def kind(self) -> Kind:
        return self.oracle.kind if self._theirs == "full" else self._theirs

    @property
    def _theirs(self) -> Kind:
        return THEOREMS[self.theorem].oracle

    def resolve(self, risk: Risk, sparsity: Sparsity, counts: Counts, entropy: Sequence[int]) -> Method:
        if self._theirs == "full" and self.epsilon is None:
            return self._with(step="1/L" if self.L is None else 1 / check_positive(self.L, "L"))
        B = self.B
        if B is None and self._theirs == "batch":
            n_samples = min(risk.n_terms, 1000)
            B = estimate_variance(risk, n_samples=n_samples, rng=stream(entropy, 2**32)).value
            counts.n_gradients += risk.n_terms + n_samples
        k = sparsity.widest(sparsity.k, risk.n_features)  # coordinates, of which the errors of directions are made
        if self.name in _FIXED:
            return self._with(**self._fixed(risk, k))
        p = self._prescription(risk, k, B)
        known = p.oracle != "directions" or self.epsilon is None or self.radius is None  # else see `started`
        return self._with(step=p.step, oracle=self._oracle(p), n_iter=self._n_iter(p) if known else None)

    def started(self, resolved: Method, start: Point, counts: Counts) -> Method:
        """With the theorem's T where that depends on the gradient: Δ + η‖∇R(w̄)‖²/(3κL), w̄ near the start."""
        if self.name in _FIXED or self._theirs != "directions" or self.epsilon is None or self.radius is None:
            return resolved
        p = self._prescription(start.risk, k=None)
        G = self.gradient_norm
        if G is None:
            if not start.risk.has_gradient:
                raise ValueError(
                    f"the number of iterations of {self.theorem} depends on ‖∇R(w̄)‖, which a black box does not tell; "
                    "give gradient_norm=, or leave out epsilon and radius and use max_queries"
                )
            counts.n_gradients += start.risk.n_terms
            G = norm(start.gradient) + p.L * self.radius
        return replace(resolved, n_iter=self._n_iter(p, check_nonnegative(G, "gradient_norm")))

    def _prescription(self, risk: Risk, k: int | None, B: float | None = None) -> Prescription:
        L = risk.smoothness.value if self.L is None else self.L
        nu = risk.strong_convexity.value if self.nu is None else self.nu
        missing = [name for name, value in (("L", L), ("nu", nu)) if not 0 < value < math.inf]
        if missing and not risk.has_gradient:
            also = ", and a step alone is enough for ZOHT and VR-ZOHT" if self.name in _FIXED else ""
            raise ValueError(
                f"{self.name} takes its parameters from the smoothness L and the strong convexity nu, which a black "
                f"box does not tell: give {' and '.join(f'{name}=' for name in missing)}{also}; or use method='auto'"
            )
        return prescribe(
            self.theorem, L, nu, k=k, rho=self.rho, alpha=self.alpha, B=B, d=risk.n_features, s2=self.s2
        )  # fmt: skip

    def _with(self, **parts: Any) -> Method:
        """A plain method with these parts; a step given by hand stays."""
        if self.step != "1/L":
            parts["step"] = self.step
        plain = {name: getattr(self, name) for name in Method.__dataclass_fields__}
        return Method(**{**plain, **parts})

    def _oracle(self, p: Prescription) -> Oracle:
        if p.oracle == "full":
            return FullGradient()
        assert p.tau is not None
        schedule = Geometric(p.tau, p.omega)
        if p.oracle == "batch":
            return MiniBatch(schedule)
        return ZerothOrder(n_directions=schedule, support_size=self.s2, mu=self.mu)

    def _n_iter(self, p: Prescription, gradient_norm: float | None = None) -> int | None:
        if self.epsilon is None or self.radius is None:
            return None
        return p.n_iter(self.epsilon, check_positive(self.radius, "radius") ** 2, gradient_norm)

    def _fixed(self, risk: Risk, k: int) -> dict[str, Any]:
        """A fixed number of directions, and the step that goes with it; both by hand need no constants of R."""
        snapshots, d = self.name != "ZOHT", risk.n_features
        parts: dict[str, Any] = {}
        q, epoch, s2 = self.q, self.epoch, d if self.s2 is None else self.s2
        told = 0 < risk.smoothness.value < math.inf and risk.strong_convexity.value > 0
        if self.step == "1/L" or told or (self.L is not None and self.nu is not None):
            p = self._prescription(risk, k)
            assert p.tau is not None
            q = (max(k, 1) if snapshots else math.ceil(p.tau)) if q is None else check_count(q, "q")
            near = min(3 * max(k, 1), d)
            if snapshots:
                parts["step"], m = snapshot_step(p.L, p.nu, d, near, s2, q)
                epoch = m if epoch is None else epoch
            else:
                parts["step"] = zoht_step(p.L, p.nu, d, near, s2, q)
        q = (max(k, 1) if snapshots else 100) if q is None else check_count(q, "q")
        if snapshots:
            parts["oracle"] = VarianceReducedDirections(q, 50 if epoch is None else epoch, self.s2, self.mu)
        else:
            parts["oracle"] = ZerothOrder(n_directions=q, support_size=self.s2, mu=self.mu)
        return parts


@dataclass(frozen=True, kw_only=True)
class Regularised(Method):
    """IHT on a regularised R whose weights fall, for T iterations: see `regularised`.

    Parameters
    ----------
    T : int
        Iterations, of the order κ log(1/ε).
    c : float, optional
        By how much weights fall in an iteration; k/(4T) by default.
    L : float, optional
        Smoothness; that of the risk by default.
    """

    T: int = 500
    c: float | None = None
    L: float | None = None

    def resolve(self, risk: Risk, sparsity: Sparsity, counts: Counts, entropy: Sequence[int]) -> Method:
        T = check_count(self.T, "T")
        L = smoothness_of(risk, self.name) if self.L is None else check_positive(self.L, "L")
        c = max(sparsity.k, 1) / (4 * T) if self.c is None else check_positive(self.c, "c")
        plain = {name: getattr(self, name) for name in Method.__dataclass_fields__}
        step = 1 / (2 * L) if self.step == "1/L" else self.step
        return Method(**{**plain, "oracle": RegularisedGradient(L, c), "step": step, "n_iter": T})


#: those with the same number of directions in every iteration
_FIXED = ("ZOHT", "VR-ZOHT", "VR-ZOHT-2SP")
PRESETS: dict[str, Method] = {
    "auto": Auto(),
    "IHT": Prescribed(theorem="IHT", projection="sparse", constrained=False, name="IHT"),
    "HSG-HT": Prescribed(theorem="HSG-HT", projection="sparse", constrained=False, name="HSG-HT"),
    "HZO-HT": Prescribed(theorem="HZO-HT", projection="sparse", constrained=False, name="HZO-HT"),
    "IHT-2SP": Prescribed(theorem="IHT-2SP", projection="two-step", name="IHT-2SP"),
    "HSG-HT-2SP": Prescribed(theorem="HSG-HT-2SP", projection="two-step", name="HSG-HT-2SP"),
    "HZO-HT-2SP": Prescribed(theorem="HZO-HT-2SP", projection="two-step", name="HZO-HT-2SP"),
    "ZOHT": Prescribed(theorem="HZO-HT", projection="sparse", constrained=False, name="ZOHT"),
    "VR-ZOHT": Prescribed(theorem="HZO-HT", projection="sparse", constrained=False, name="VR-ZOHT"),
    "VR-ZOHT-2SP": Prescribed(theorem="HZO-HT-2SP", projection="two-step", name="VR-ZOHT-2SP"),
    "StoIHT": Method(oracle=MiniBatch(32), projection="sparse", constrained=False, name="StoIHT"),
    "SVRG-HT": Method(oracle=VarianceReduced(32), projection="sparse", constrained=False, name="SVRG-HT"),
    "RegIHT": Regularised(projection="two-step", finish="refit", name="RegIHT"),
    "ARHT": Method(step="replacement", finish="refit", name="ARHT"),
    "PGD": Method(projection="euclidean", name="PGD"),
    "PGD+H": Method(projection="convex", finish="two-step", name="PGD+H"),
    "IHT+P": Method(projection="sparse", finish="two-step", name="IHT+P"),
}
_ALIASES = {"FG-HT-2SP": "IHT-2SP"}


def preset(name: str, **parameters: Any) -> Method:
    """A method by its name, with parameters other than its defaults.

    Parameters
    ----------
    name : str
        The paper's, with Γ: "IHT-2SP" (or "FG-HT-2SP"; exact gradients), "HSG-HT-2SP" (growing batches),
        "HZO-HT-2SP" (growing numbers of random directions). Without Γ: "IHT" (Jain et al. 2014), "HSG-HT" (Zhou
        et al. 2018), "HZO-HT", "ZOHT" (de Vazelhes et al. 2022; a fixed number of directions), "VR-ZOHT" (after
        Yuan et al. 2026: the same with snapshots, and "VR-ZOHT-2SP" with Γ; step and epoch are ours), "StoIHT" (Nguyen
        et al. 2017; a constant batch), "SVRG-HT" (Li et al. 2016). "RegIHT" and "ARHT" (Axiotis & Sviridenko 2022 and
        2021) need a smaller k where κ is large; with Γ they are ours, without a theorem. "PGD" is IHT with the exact
        projection (Lu 2015, Beck & Hallak 2016). Baselines: "PGD+H" (projected gradient onto Γ, H_k at the end),
        "IHT+P" (IHT, projection onto Γ at the end). And "auto".
    **parameters
        Fields of `Method`, for example ``step=0.1``; for the paper's methods also those of its theorems:
        ``rho, alpha, B, s2, mu, L, nu, epsilon, radius, gradient_norm``; for "RegIHT" ``T, c, L``.

    Examples
    --------
    >>> import ellzero as ez
    >>> ez.preset("IHT-2SP", step=0.1).step
    0.1
    >>> ez.preset("HSG-HT-2SP", rho=0.25, B=1e3).alpha
    2.0
    """
    known = _ALIASES.get(name, name)
    if known not in PRESETS:
        known = ", ".join([*PRESETS, *_ALIASES])
        raise ValueError(f"unknown method {name!r}; there are {known}, and in minimize exact")
    method = PRESETS[known]
    own = [f for f in method.__dataclass_fields__ if f not in ("name", "theorem", "constrained")]
    if isinstance(method, Auto):
        own = ["projection", "n_starts", "standardize", "mu"]  # the rest is what it chooses
    for parameter in parameters:
        if parameter not in own:
            raise TypeError(f"method {name!r} has no parameter {parameter!r}; it has {', '.join(own)}")
    return replace(method, **parameters)


def _as_preset(method: Method) -> str:
    """What to type for a method: its name, and what differs from its defaults."""
    known = PRESETS.get(method.name)
    if known is None or type(known) is not type(method):
        fields = ", ".join(f"{name}={getattr(method, name)!r}" for name in method.__dataclass_fields__)
        return f"{type(method).__name__}({fields})"
    mine = {f: getattr(method, f) for f in method.__dataclass_fields__}
    changed = [f"{f}={value!r}" for f, value in mine.items() if value != getattr(known, f)]
    return f"preset({', '.join([repr(method.name), *changed])})"
