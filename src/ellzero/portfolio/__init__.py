"""Index tracking: mandates, trackers, backtests; loaded when first used."""

from .._core.lazy import lazily

_WHERE = {
    "Backtest": "backtest",
    "IndexTracker": "tracker",
    "InfeasibleMandate": "mandate",
    "Mandate": "mandate",
    "Reason": "mandate",
    "backtest": "backtest",
    "prices_to_returns": "market",
    "rebalancing_days": "backtest",
}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
