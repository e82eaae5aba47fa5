"""How far sparse members reach: for j = 0..k a bound of ||w||² over those with j nonzeros, concave in j.

Concave, so that the best split of j nonzeros over groups takes the largest increments of all groups.
"""

import numpy as np


def of_ball(radius: float, k: int, growth: float = 0.0) -> np.ndarray:
    """0, radius² · j^growth; the radius may be infinite."""
    j = np.arange(1.0, k + 1)
    return np.concatenate([[0.0], j**growth * (float(radius) * float(radius))])


def of_increments(increments: np.ndarray, k: int) -> np.ndarray:
    """The sums of the largest."""
    return np.concatenate([[0.0], np.cumsum(np.sort(increments)[::-1][:k])])
