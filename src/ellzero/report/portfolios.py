"""What a report tells of a tracked index and of a backtest."""

import math
from typing import Any

import numpy as np

from .._core.blocks import facts, table
from ..displays import TrackingDisplay
from ..displays.base import new_figure
from ..portfolio import IndexTracker
from ..portfolio.backtest import Backtest
from .page import Page
from .sections import Told, tracking


def lead(tracker: IndexTracker, told: Told) -> str:
    """Names and tracking error, on the days of the fit and after."""
    result = tracker.result_
    text = f"{result.support.size} names of at most {result.k}. Tracking error {tracker.tracking_error_:.2%} a year"
    text += " on the days of the fit"
    if told.tracking is not None and told.tracking.test_from is not None:
        (portfolio,) = told.tracking.portfolios.values()
        active = (np.asarray(portfolio) - np.asarray(told.tracking.index_returns))[told.tracking.test_from :]
        text += f", {np.std(active, ddof=1) * math.sqrt(tracker.periods_per_year):.2%} on those after"
    return f"{text}."


def mandate(tracker: IndexTracker) -> dict[str, str]:
    """What was asked of a portfolio, in the words of an `IndexTracker`."""
    asked = tracker.mandate_

    def told(values: Any, none: str = "free") -> str:
        several = np.unique(np.asarray(values, dtype=float))
        if several.size != 1:
            return "different for some" if several.size else none
        return f"{several[0]:.4g}" if np.isfinite(several[0]) else none

    budget = told([asked.least, asked.most])
    if asked.least < asked.most:
        ends = [("at least", asked.least), ("at most", asked.most)]
        budget = " and ".join(f"{word} {end:.4g}" for word, end in ends if math.isfinite(end)) or "free"
    uncapped = [math.inf] * (len(asked.groups) - len(asked.caps)) if asked.caps else []
    return {
        "names at most": f"{tracker.result_.k} of {tracker.n_features_in_}",
        "cap of a sector, Σ|w|": told([*asked.caps.values(), *uncapped], "none"),
        "budget, Σw": budget,
        "least weight": told(asked.lower),
        "largest weight": told(asked.upper),
        "always among them": ", ".join(map(str, asked.names[asked.keep])) or "none",
        "error": str(tracker.error),
    }


def backtest_page(walk: Backtest, told: Told) -> Page:
    """The report of a backtest, up to how to run it again."""
    held = walk.weights.iloc[-1]
    held = held[held != 0].sort_values(ascending=False, key=abs)
    last = str(walk.weights.index[-1])[:10]
    trades = {
        "rebalanced": [str(day)[:10] for day in walk.weights.index],
        "names": (walk.weights != 0).sum(axis=1).tolist(),
        "turnover": walk.turnover.tolist(),
        "cost": walk.costs.tolist(),
    }
    weights = {"name": [str(name) for name in held.index], "weight": held.tolist()}
    display = TrackingDisplay.from_backtest(walk, ax=new_figure(1, 1)[1])
    page = Page(told.title or "A backtest", lead=f"{walk.asked[:1].upper()}{walk.asked[1:]}.")
    page.section("What came of it", facts(dict(walk.summary()) if told.summary is None else told.summary))
    page.section("Tracking", *tracking(None, Told(tracking=display)))
    page.section("Trades", table(trades, "rebalancings", formats={"turnover": ".1%", "cost": ".3%"}, bar="turnover"))
    caption = f"held since {last}, largest first"
    return page.section("What is held", table(weights, caption, formats={"weight": ".2%"}, bar="weight"))
