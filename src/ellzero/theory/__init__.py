"""What is promised before a run: the theorems' parameters, premises and bounds, and the constants they need."""

from .._core.lazy import lazily

# loaded when first used: the methods read the formulas of `parameters` alone, which need nothing of the rest
_HOME = {
    "RestrictedConstants": "constants",
    "restricted_constants": "constants",
    "largest_norm": "constants",
    "variance_bound": "constants",
    "TradeOff": "forms",
    "tradeoff": "forms",
    "Guarantee": "guarantees",
    "Premise": "guarantees",
    "guarantee": "guarantees",
    "THEOREMS": "parameters",
    "Prescription": "parameters",
    "prescribe": "parameters",
    "SampleComplexity": "sampling",
    "sample_complexity": "sampling",
}
__all__ = list(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME, set(_HOME.values()))
