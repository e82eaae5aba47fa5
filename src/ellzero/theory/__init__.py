"""What is promised before a run: the theorems' parameters, premises and bounds, and the constants they need."""

from typing import TYPE_CHECKING

from .._core.lazy import lazily

if TYPE_CHECKING:
    from ._premises import Premise
    from .constants import RestrictedConstants, largest_norm, restricted_constants, variance_bound
    from .forms import TradeOff, tradeoff
    from .guarantees import Guarantee, guarantee
    from .parameters import THEOREMS, Prescription, prescribe
    from .sampling import SampleComplexity, sample_complexity

__all__ = [
    "THEOREMS",
    "Guarantee",
    "Premise",
    "Prescription",
    "RestrictedConstants",
    "SampleComplexity",
    "TradeOff",
    "guarantee",
    "largest_norm",
    "prescribe",
    "restricted_constants",
    "sample_complexity",
    "tradeoff",
    "variance_bound",
]

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
__getattr__, __dir__ = lazily(__name__, _HOME, set(_HOME.values()))
