"""Whether an answer is known to be better than the start, in spite of noise."""

from __future__ import annotations

import math

import numpy as np

from ...risks.base import Point
from .asking import Values, host
from .measured import MeasuredNoise

_CLEAR = 6.0  # standard errors by which a value that was looked for is lower
_SURE = 3.0  # or values that were not
_SEVERAL = 4  # values that tell their spread
_MARGIN = 1.5  # more that are expected of these, as they may turn out to be high


class Evidence:
    """R at the answer beside R at the start.

    A point that was chosen for its value, or for that of a model, has been lucky: under noise alone half of all long
    runs end at such a point. So it is asked for again, and these values decide.

    Attributes
    ----------
    shown : bool
        Whether some point was lower than the start.
    """

    def __init__(self, values: Values, errors: MeasuredNoise) -> None:
        self.values, self.errors, self.shown = values, errors, False

    def look(self, point: Point, share: float) -> None:
        """Ask whether R is lower here, for this share of what may still be asked for at the most."""
        errors = self.errors
        level = errors.level if errors.noisy else 0.0
        gain = 0.0 if math.isnan(errors.start) else errors.start - point.value
        if self.shown or not gain > 0:
            return
        self.shown = gain > _CLEAR * level * math.sqrt(1 + 1 / errors.n_start)
        if self.shown or gain < 0.01 * level:
            return
        wanted, known = (gain / level / (_SURE + _MARGIN)) ** 2, 1 / errors.n_start
        here_alone = wanted > 1.25 * known
        n = math.ceil(1 / (wanted - known) if here_alone else 2 / wanted)
        if (n if here_alone else 2 * n) > max(2, share * self.values.affordable):
            return
        if not here_alone:
            self._add_to_start(n)
        values = self._again(host(point), n)
        if values.size:
            here = float(values.std(ddof=1)) if values.size >= _SEVERAL else 0.0  # there may be more noise here
            error = math.sqrt(max(level, here) ** 2 / values.size + level**2 / errors.n_start)
            self.shown = bool(errors.start - values.mean() > _SURE * error)

    def _add_to_start(self, n: int) -> None:
        values, before = self._again(self.errors.origin, n), self.errors.n_start
        self.errors.n_start = before + values.size
        self.errors.start += float(np.sum(values - self.errors.start)) / self.errors.n_start

    def _again(self, w: np.ndarray, n: int) -> np.ndarray:
        """Further values; one of them where the same error comes each time."""
        values = self.values.at(np.repeat(w[None, :], n, axis=0))
        values = np.asarray(values[np.isfinite(values)])
        return values[:1] if (values == values[:1]).all() else values
