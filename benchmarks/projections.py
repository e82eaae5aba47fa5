"""What the exact projection onto sparse members costs beside the selection that cannot be avoided.

    python -m benchmarks projections

euclidean_projection at d = 1,000,000, k = 1000 against np.argpartition(abs(w), -k) alone (at most 5), for sets over
11 groups, for many groups, where the group needing most entries is not known beforehand, and without groups.
"""

import numpy as np

import ellzero as ez

from .foundations import median_seconds


def cases(d, rng):
    S = ez.sets
    sectors, many = rng.integers(0, 11, d), rng.integers(0, d // 10, d)
    return {
        "l1 balls over 11 groups": S.GroupWise(S.L1Ball(5.0), sectors),
        "l2 balls over 11 groups": S.GroupWise(S.L2Ball(5.0), sectors),
        "boxes over 11 groups": S.GroupWise(S.Box(-0.5, 1.0), sectors),
        "exact budgets over 11 groups": S.GroupWise(S.Simplex(5.0), sectors),
        "l1 balls of very different radii": S.GroupWise({g: S.L1Ball(10.0 ** (g - 5)) for g in range(11)}, sectors),
        "l1 balls over 100,000 groups": S.GroupWise(S.L1Ball(1.0), many),
        "one l1 ball": S.L1Ball(5.0),
        "one box": S.Box(-0.5, 1.0),
    }


def main():
    d, k = 1_000_000, 1000
    rng = np.random.default_rng(0)
    w = rng.standard_normal(d)
    for name, gamma in cases(d, rng).items():
        ez.euclidean_projection(w, k, gamma)  # the layout of the groups is made once
        ours, selection = median_seconds(
            lambda gamma=gamma: ez.euclidean_projection(w, k, gamma),
            lambda: np.argpartition(np.abs(w), -k),
            repeat=15,
        )
        print(f"{name}: {1e3 * ours:.1f} ms, {ours / selection:.2f} x argpartition alone (at most 5)")
