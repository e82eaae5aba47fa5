"""The paper's experiments, reproduced and questioned: ``ellzero reproduce tradeoff | index-tracking | logistic | all``.

    from ellzero import experiments
    report = experiments.run("all", out="out/reproduce")
    report.page       # Path of index.html: each figure beside the paper's claim, and in words what was confirmed
    report.paths      # every file that was written: page, figures (PNG, SVG), tables (CSV, Markdown)
    report.claims     # [Claim(who, says, holds, measured)], each with its number

Needs matplotlib: ``pip install ellzero[plot]``.
"""

from ._report import Report
from ._run import NAMES, run

__all__ = ["NAMES", "Report", "run"]
