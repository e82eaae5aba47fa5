"""Index tracking: mandates, trackers, backtests; loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
