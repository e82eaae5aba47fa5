"""How the places that are left are shared: the level of gain at which coordinates tie."""

import math

import numpy as np


def shares_of_ties(
    size: np.ndarray, root: np.ndarray, steep: np.ndarray | float, reach: np.ndarray, spare: int
) -> tuple[np.ndarray, float]:
    """Shares s_i(t) with Σs = spare, and t; all ones where there is room for all."""
    if size.size <= spare:
        return np.ones(size.size), 0.0
    if spare == 0:
        return np.zeros(size.size), math.inf
    if np.isinf(reach).all():
        # s_i = clip(c_i/t - e_i, 0, 1) is piecewise linear in 1/t
        c, e = root * size, root * root / steep
        ends = np.concatenate([e / c, (1 + e) / c])
        order = np.argsort(ends)
        x, slope = ends[order], np.cumsum(np.concatenate([c, -c])[order])
        total = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(x))])
        i = min(int(np.searchsorted(total, spare)), x.size - 1)
        rise = slope[i - 1]
        inverse = x[i - 1] + (spare - total[i - 1]) / rise if rise > 0 else x[i]
        return np.clip(c * inverse - e, 0.0, 1.0), float(1 / inverse)

    def shares(t: float) -> np.ndarray:
        whole = np.minimum(t / root, reach)
        z = np.where(t <= root * reach, root * t, 0.5 * (t * t / reach + root * root * reach))
        return np.asarray(np.clip((size - z / steep) / whole, 0.0, 1.0))

    from scipy.optimize import brentq  # here, because importing it takes longer than most certificates

    # s_i = 0 once z_i(t) >= steep·size; both forms of z_i(t) are at least root_i·t
    high = float(np.max(steep * size / root)) * (1 + 1e-12)
    low = high
    while shares(low).sum() < spare:
        low *= 0.25
    t = low if low == high else float(brentq(lambda x: shares(x).sum() - spare, low, 4 * low, xtol=1e-300, rtol=1e-13))
    return shares(t), t
