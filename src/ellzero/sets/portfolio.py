"""Portfolios: a budget, bounds on every position and caps on groups of positions."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._core.arrays import Array, like, to_host
from .._core.validation import check_nonnegative, check_number
from ._quadratic import minimise_over_polytope
from ._range import in_range, project_in_range, short, widened
from .balls import L1Ball
from .base import ConstraintSet, EmptySlice, GroupsAndCaps, on_host
from .elementwise import Box
from .groups import GroupWise
from .polyhedron import Polyhedron
from .polytopes import Simplex, SubSimplex
from .positions import Positions

_FEW = 150  # positions up to which a problem without an end to its pivots is no delay


class Portfolio(ConstraintSet):
    """argmin ||w - v|| over least <= Σ_i w_i <= most, lower <= w <= upper, Σ_{i in g} |w_i| <= cap_g.

    With the multiplier λ of the budget and θ_g >= 0 of the caps, w_i is v_i - λ, drawn θ_g towards zero and clipped;
    θ_g follows from λ by sorting, and Σ_i w_i falls with λ, piecewise linearly: λ is found by Newton's method.

    Parameters
    ----------
    budget : float, pair of floats or None
        Σ w exactly, or between two numbers (either may be infinite), or anything.
    lower, upper : float or array of shape (d,)
        Bounds of each position; a negative `lower` allows short ones. A position whose bounds exclude 0 is held.
    groups : labels or index lists, optional
        The group of each position, as for `GroupWise`.
    caps : float or mapping from group to float, optional
        Bounds of Σ|w_i| in each group; groups that a mapping leaves out are free.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> gamma = ez.sets.Portfolio(budget=1.0, upper=0.5, groups=["a", "a", "b", "b"], caps=0.6)
    >>> gamma.project(np.array([0.9, 0.5, 0.1, 0.0])).round(3)
    array([0.5 , 0.1 , 0.25, 0.15])
    """

    def __init__(
        self, budget: Any = 1.0, lower: Any = 0.0, upper: Any = math.inf, groups: Any = None, caps: Any = None
    ) -> None:
        self.least, self.most = read_budget(budget)
        self.box = Box(lower, upper)
        if (groups is None) != (caps is None):
            raise ValueError("groups and caps belong together: give both, or neither")
        self.groups = None if groups is None else GroupWise(L1Ball(0.0), groups)
        self.names = [] if self.groups is None else self.groups.names
        self.caps = np.append(_read_caps(caps, self.names), math.inf)
        sizes = {s.n_features for s in (self.box, self.groups) if s is not None} - {None}
        if len(sizes) > 1:
            raise ValueError(f"lower, upper and groups must have the same length, got {sorted(sizes)}")  # type: ignore[type-var]
        self.n_features = sizes.pop() if sizes else None
        self.long_only = bool(np.all(np.asarray(self.box.lower) >= 0))
        self._known: dict[int, GroupWise] = {}

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        """Whether every interval contains 0 and the budget need not be spent."""
        free = self.least == -math.inf and self.most == math.inf
        return self.box.closed_under_zeroing and (free or (self.long_only and self.least <= 0))

    def product_over(self, atoms: np.ndarray) -> bool:
        """Whether there is no budget, and the positions of each group are in one atom."""
        loose = self.least == -math.inf and self.most == math.inf
        apart = loose and (self.groups is None or self.groups.product_over(atoms))
        return apart or super().product_over(atoms)

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        """Whether a position must be held, or something be spent."""
        return self.box.needs_entry or not self.least <= 0 <= self.most

    @cached_property
    def forced(self) -> np.ndarray:  # type: ignore[override]
        return self.box.forced

    @property
    def why(self) -> str:
        if self.closed_under_zeroing:
            return "zeroing positions keeps every bound and cap, and never increases the sum of long positions"
        if not self.box.closed_under_zeroing:
            return self.box.why
        return "zeroing positions changes their sum, and breaks the budget"

    def _positions(self, index: np.ndarray) -> Positions:
        bounds = self.box._parameters()
        lower, upper = (b[index] if isinstance(b, np.ndarray) else np.full(index.size, b) for b in bounds)
        group = np.full(index.size, -1) if self.groups is None else self.groups.group_of(index)
        return Positions(lower, upper, group, self.caps, self.least, self.most)

    def _on_positions(self, index: np.ndarray, f: Callable[[Positions, np.ndarray], Any], v: np.ndarray) -> Any:
        """What the positions at an index make of v, in the precision of v."""
        part = self._positions(index)
        if v.dtype == np.longdouble:
            part = Positions(*map(widened, vars(part).values()))
        return f(part, v)

    def require_features(self, d: int, of: str = "w") -> None:
        """Raise ValueError unless bounds and groups can be those of d positions."""
        super().require_features(d, of)
        if self.groups is not None:
            self.groups.require_features(d, of)

    def forced_among(self, n_features: int) -> np.ndarray:
        return self.box.forced_among(n_features)

    def require_slice(self, support: Array | None) -> None:
        if support is not None:
            self.box.require_slice(support)
            self._require(self._positions(to_host(support)))

    def _require(self, part: Positions) -> None:
        least, most = part.reach()
        room = part.room()
        if least > self.most + room or most < self.least - room:
            between = "no members" if least > most else f"sums between {least:g} and {most:g}"
            raise EmptySlice(
                f"{self!r} has no member that is zero outside {part.group.size} given coordinates: bounds and caps "
                f"leave {between} there; use a larger k, keep=, or looser bounds"
            )

    def project(self, v: Array, support: Array | None = None) -> Array:
        values, index = on_host(v, support)
        self.box.require_slice(index)
        self._require(self._positions(index))
        return like(project_in_range(partial(self._on_positions, index, Positions.project), values.astype(float)), v)

    def violation(self, w: Array) -> float:
        values, index = on_host(w, None)
        return float(in_range(partial(self._on_positions, index, Positions.violation), values.astype(float)))

    def quadratic_minimum(self, G: np.ndarray, b: np.ndarray, support: np.ndarray) -> np.ndarray | None:
        """argmin uᵀGu - 2bᵀu over the slice on the support; None where that fails or takes long."""
        self.require_slice(support)
        if support.size > _FEW:
            return None
        part = self._positions(support)
        if part.has_no_choice():
            return part.lower.copy()
        A, h = part.rows()
        for _ in range(30):
            if (u := minimise_over_polytope(G, b, A, h)) is None:
                return None
            # a cap on Σ|u_i| is one on every Σ±u_i: the rows that are broken are added
            broken = np.flatnonzero(part.by_group(np.abs(u)) > self.caps * (1 + 1e-9) + 1e-300)
            if not broken.size:
                return u if part.violation(u) == 0 else part.project(u)
            A = np.vstack([A, np.where(u < 0, 1.0, -1.0) * (part.group == broken[:, None])])
            h = np.append(h, -self.caps[broken])
        return None

    def sparse_support(self, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray:
        """k coordinates on which there is a member near v: the largest entries alone may not reach the budget.

        Under the caps alone the nearest sparse member of v - λ is known exactly; λ is chosen such that its sum,
        after clipping, is the budget. Its coordinates are then taken one by one, and after them the largest, as
        long as those that remain can still reach the budget, from below and from above.
        """
        d, keep = v.size, np.union1d(keep, self.forced_among(v.size)).astype(np.intp)
        part, caps_alone = self._positions(np.arange(d)), self._caps_alone(d)

        def near(shift: float) -> tuple[np.ndarray, float]:
            found = caps_alone.sparse_maximum(v - shift, k, 1.0, keep)
            assert found is not None and found[1] is not None
            return found[1], float(np.clip(found[1], part.lower, part.upper).sum())

        w, total = near(0.0)
        ends = [abs(b) for b in (self.least, self.most) if math.isfinite(b)]
        wide = 2 * float(np.abs(v).max(initial=0.0)) + max([1.0, *ends])
        shift, low, high = 0.0, -wide, wide
        for _ in range(16):  # a support is wanted, not λ
            if self.least <= total <= self.most:
                break
            low, high = (low, shift) if total < self.least else (shift, high)
            shift = 0.5 * (low + high)
            w, total = near(shift)
        score = v - shift if self.long_only else np.abs(v - shift)
        order = np.lexsort((-score, -np.abs(w)))
        chosen = np.zeros(d, dtype=bool)
        chosen[keep] = True
        left, sides, room = k - keep.size, (part, part.mirrored()), part.room()
        for j in order[~chosen[order]]:
            if left == 0:
                break
            chosen[j] = True
            if any(side.most_with(chosen, left - 1) < side.least - room for side in sides):
                chosen[j] = False
            else:
                left -= 1
        return np.flatnonzero(chosen)

    def _caps_alone(self, d: int) -> GroupWise:
        """The caps, and the bounds of positions that have none: a set whose nearest sparse members are known."""
        if d not in self._known:
            part, sets, places = self._positions(np.arange(d)), {}, {}
            ball = SubSimplex if self.long_only else L1Ball
            for g in np.unique(part.group):
                places[g] = np.flatnonzero(part.group == g)
                cap = min(float(self.caps[g]), self.most if self.long_only else math.inf)
                lower, upper = np.minimum(part.lower, 0.0)[places[g]], np.maximum(part.upper, 0.0)[places[g]]
                sets[g] = ball(cap) if self.caps[g] < math.inf else Box(lower, upper)
            self._known = {d: GroupWise(sets, places)}
        return self._known[d]

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.box.signs(n_features)

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        """Bounds and caps, without the lower end of a budget that need not be spent; None for one with short positions.

        There the budget counts Σw, not Σ|w|.
        """
        return self.polyhedron_on(np.arange(n_features))

    def polyhedron_on(self, support: np.ndarray) -> Polyhedron | None:
        """Bounds and caps on the support, see `polyhedron`."""
        if not self.long_only and not (self.least == -math.inf and self.most == math.inf):
            return None
        part = self._positions(support)
        capped = np.flatnonzero(np.isfinite(self.caps[:-1]))
        A, equal = (part.group == capped[:, None]).astype(float), np.zeros(capped.size, dtype=bool)
        exact = self.least in (self.most, -math.inf)
        shape = Polyhedron(part.lower, part.upper, A, self.caps[capped], equal, exact).used()
        return shape.with_row(1.0, self.most, self.least == self.most) if math.isfinite(self.most) else shape

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """The bounds alone, the caps alone, the budget alone."""
        shape = self.box.polyhedron(n_features)
        larger: list[ConstraintSet] = [Box(shape.lower, shape.upper)]
        if self.groups is not None:
            ball = SubSimplex if self.long_only else L1Ball
            capped = {g: ball(float(cap)) for g, cap in enumerate(self.caps[:-1]) if math.isfinite(cap)}
            larger.append(GroupWise(capped, {g: self.groups._members[g] for g in capped}))
        if self.long_only and math.isfinite(self.most):
            larger.append((Simplex if self.least == self.most else SubSimplex)(self.most))
        return larger

    def groups_and_caps(self, n_features: int) -> GroupsAndCaps:
        if self.groups is None:
            return None, None
        caps = {name: float(cap) for name, cap in zip(self.names, self.caps, strict=False) if math.isfinite(cap)}
        return self.groups.groups_and_caps(n_features)[0], caps or None

    def shadow_prices(self, w: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray]:
        """The multipliers λ of the budget and θ_{g(i)} of the caps at w, where c is the negative gradient.

        Read off the positions strictly inside their bounds, where c_i = λ ± θ_g: without a cap that binds, θ_g = 0.
        """
        part = self._positions(np.arange(w.size))
        inside = (w != 0) & (part.lower < w) & (w < part.upper)
        gross, count = part.by_group(np.abs(w)), part.by_group(inside)
        full = (gross >= self.caps * (1 - 1e-9)) & (self.caps < math.inf)
        total, shift = float(w.sum()), 0.0
        if min(total - self.least, self.most - total) <= 1e-9 * max(abs(total), 1e-300):
            if (loose := inside & ~full[part.group]).any():
                shift = float(c[loose].mean())
            elif inside.any():
                shift = float(c[inside].min())
        level = part.by_group(np.where(inside, np.sign(w) * (c - shift), 0.0)) / np.maximum(count, 1)
        return shift, np.where(full, np.maximum(level, 0.0), 0.0)[part.group]

    def __repr__(self) -> str:
        budget = f"{self.most:g}" if self.least == self.most else f"({self.least:g}, {self.most:g})"
        budget = "None" if self.least == -math.inf and self.most == math.inf else budget
        bounds = ", ".join(f"{name}={short(value)}" for name, value in self.box._arguments().items())
        capped = np.unique(self.caps[:-1][np.isfinite(self.caps[:-1])])
        ends = " to ".join(f"{cap:g}" for cap in capped[[0, -1]][: capped.size]) if capped.size else ""
        caps = f", {len(self.names)} groups capped at {ends}" if ends else ""
        return f"Portfolio(budget={budget}, {bounds}{caps})"


def read_budget(budget: Any) -> tuple[float, float]:
    """The smallest and the largest sum that a budget allows."""
    if budget is None:
        return -math.inf, math.inf
    if isinstance(budget, Iterable) and not isinstance(budget, (str, bytes)) and getattr(budget, "ndim", 1) > 0:
        pair = list(budget)
        if len(pair) != 2:
            raise ValueError(f"budget must be a number, a pair (least, most) or None, got {budget!r}")
        least, most = (check_number(b, "budget") for b in pair)
        if not least <= most or least == math.inf or most == -math.inf:
            raise ValueError(f"budget must be a pair (least, most) with least <= most, got {budget!r}")
        return least, most
    number = check_number(budget, "budget", low=-math.inf, high=math.inf, open_low=True, open_high=True)
    return number, number


def _read_caps(caps: Any, names: list[Any]) -> np.ndarray:
    if not isinstance(caps, Mapping):
        return np.full(len(names), check_nonnegative(caps, "caps") if names else math.inf)
    if unknown := [name for name in caps if name not in names]:
        raise ValueError(f"caps names the group {unknown[0]!r}, which groups does not have; it has {names[:8]}")
    return np.array([check_nonnegative(caps[name], f"caps[{name!r}]") if name in caps else math.inf for name in names])
