"""How often the higher risk had the earlier event."""

from typing import Any

import numpy as np

from .._core.validation import as_array, check_vector


def concordance_index(time: Any, event: Any, risk: Any, *, sample_weight: Any = None, strata: Any = None) -> float:
    """Σ ω_i ω_j [risk_i > risk_j] / Σ ω_i ω_j over the pairs in which i is known to have had its event before j.

    Harrell's C. A pair counts if i had its event and j was still there after it: t_j > t_i, or t_j = t_i and j was
    censored. Equal risks count half; two events at the same time do not count. It takes O(n log² n).

    Parameters
    ----------
    time : array of shape (n,)
        Of the event, or of the censoring.
    event : array of shape (n,)
        True or 1 where the event happened.
    risk : array of shape (n,)
        Predictions: the higher, the earlier the event is expected.
    sample_weight : array of shape (n,), optional
        ω >= 0.
    strata : array of shape (n,), optional
        Pairs of different strata do not count.

    Returns
    -------
    float
        1 if all pairs are in order, ½ by chance, 0 if all are the wrong way round.

    Examples
    --------
    >>> import ellzero as ez
    >>> ez.concordance_index(time=[1, 2, 3], event=[True, False, True], risk=[3.0, 1.0, 2.0])
    1.0
    """
    when = check_vector(time, "time").astype(float)
    n = when.size
    score = check_vector(risk, "risk", n).astype(float)
    weight = np.ones(n) if sample_weight is None else check_vector(sample_weight, "sample_weight", n).astype(float)
    happened = as_array(event, "event")
    if happened.shape != (n,) or not np.isin(happened, (0, 1)).all():
        raise ValueError(f"event must be True or False for each of the {n} times, got {happened!r:.200}")
    if weight.size and weight.min() < 0:
        raise ValueError(f"sample_weight must be at least 0, got {weight.min():g}")
    stratum = (
        np.zeros(n, dtype=np.intp) if strata is None else np.unique(as_array(strata, "strata"), return_inverse=True)[1]
    )
    if stratum.shape != (n,):
        raise ValueError(f"strata must give a label for each of the {n} times, got shape {stratum.shape}")
    # the latest first, and of one time those who were censored first: all before an event's group are later than it
    dead = happened.astype(bool)
    order = np.lexsort((dead, -when, stratum))
    keys = np.column_stack([stratum, when, dead])[order]
    position = np.arange(n)
    begin = _first(np.diff(keys[:, 0], prepend=np.nan) != 0, position)
    end = _first((np.diff(keys, axis=0, prepend=np.nan) != 0).any(axis=1), position)
    mine = np.flatnonzero(dead[order])
    weight, rank = weight[order], np.unique(score, return_inverse=True)[1][order]
    below, equal = _count(rank, weight, begin[mine], end[mine], rank[mine])
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    pairs = float(weight[mine] @ (mass[end[mine]] - mass[begin[mine]]))
    if not pairs > 0:
        raise ValueError("event and time must leave a pair of which it is known who had the event first; there is none")
    return float(weight[mine] @ (below + 0.5 * equal)) / pairs


def _first(new: np.ndarray, position: np.ndarray) -> np.ndarray:
    """For each position the last one up to it at which something new begins."""
    return np.asarray(np.maximum.accumulate(np.where(new, position, 0)))


def _count(
    rank: np.ndarray, weight: np.ndarray, left: np.ndarray, right: np.ndarray, than: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The weights with rank < than, and with rank = than, at the positions left, ..., right - 1: one answer for each.

    Ranks are split by their bits, the highest first, and the ranges follow (a wavelet matrix, Claude & Navarro 2012).
    """
    below = np.zeros(than.size)
    for bit in reversed(range(int(rank.max(initial=0)).bit_length())):
        zero, up = rank >> bit & 1 == 0, than >> bit & 1 == 1
        ahead, mass = (np.concatenate([[0], np.cumsum(part)]) for part in (zero, np.where(zero, weight, 0.0)))
        below += np.where(up, mass[right] - mass[left], 0.0)
        left, right = (np.where(up, ahead[-1] + end - ahead[end], ahead[end]) for end in (left, right))
        rank, weight = (np.concatenate([part[zero], part[~zero]]) for part in (rank, weight))
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    return below, mass[right] - mass[left]
