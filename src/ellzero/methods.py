"""A method is four small choices: oracle, step, projection, finish."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .oracles import FullGradient, Oracle
from .projections import PROJECTIONS


@dataclass(frozen=True)
class Method:
    """w_t = P(w_{t-1} - η g_{t-1}), then a finish.

    Parameters
    ----------
    oracle : Oracle
        Where g comes from.
    step : float or "1/L"
        η; "1/L" takes the smoothness constant of the risk.
    projection : {"auto", "two-step", "restricted", "sparse", "convex"}
        P. "auto" is "two-step" where Γ preserves supports, otherwise "restricted"; "sparse" is H_k alone and
        "convex" Π_Γ alone, for baselines that repair the other constraint at the end.
    finish : {None, "two-step", "restricted"}
        A last projection of the best point.
    name : str
    constrained : bool
        Whether the method takes a Γ at all.
    """

    oracle: Oracle = field(default_factory=FullGradient)
    step: float | str = "1/L"
    projection: str = "auto"
    finish: str | None = None
    name: str = "custom"
    constrained: bool = True

    def __post_init__(self) -> None:
        if self.projection not in ("auto", *PROJECTIONS):
            raise ValueError(f"projection must be auto or one of {', '.join(PROJECTIONS)}, got {self.projection!r}")
        if self.finish not in (None, "two-step", "restricted"):
            raise ValueError(f"finish must be None, 'two-step' or 'restricted', got {self.finish!r}")
        if self.projection in ("sparse", "convex") and self.finish is None and self.constrained:
            raise ValueError(
                f"projection={self.projection!r} keeps only one of the two constraints, so it needs a finish: "
                "finish='two-step'"
            )


_PRESETS = {
    "auto": Method(name="auto"),
    "IHT": Method(projection="sparse", constrained=False, name="IHT"),
    "IHT-2SP": Method(projection="two-step", name="IHT-2SP"),
    "PGD+H": Method(projection="convex", finish="two-step", name="PGD+H"),
    "IHT+P": Method(projection="sparse", finish="two-step", name="IHT+P"),
}
_ALIASES = {"FG-HT-2SP": "IHT-2SP"}


def preset(name: str, **parameters: Any) -> Method:
    """A method by its name, with parameters other than its defaults.

    Parameters
    ----------
    name : str
        "IHT" (no Γ; Jain et al. 2014), "IHT-2SP" or "FG-HT-2SP" (the paper's Algorithm 1), "PGD+H" (projected
        gradient onto Γ, H_k at the end), "IHT+P" (IHT, projection onto Γ at the end), "auto".
    **parameters
        Fields of `Method`, for example ``step=0.1``.

    Examples
    --------
    >>> import ellzero as ez
    >>> ez.preset("IHT-2SP", step=0.1).step
    0.1
    """
    known = _ALIASES.get(name, name)
    if known not in _PRESETS:
        raise ValueError(f"unknown method {name!r}; there are {', '.join([*_PRESETS, *_ALIASES])}")
    try:
        return replace(_PRESETS[known], **parameters)
    except TypeError:
        unknown = sorted(set(parameters) - set(Method.__dataclass_fields__))
        raise TypeError(
            f"method {name!r} has no parameter {unknown[0]!r}; it has {', '.join(Method.__dataclass_fields__)}"
        ) from None
