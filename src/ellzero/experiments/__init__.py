"""The paper's experiments, reproduced and questioned: ``ellzero reproduce tradeoff | index-tracking | logistic | all``.

    from ellzero import experiments
    report = experiments.run("all", out="out/reproduce", full=False, seed=0, prices=None, sectors=None, progress=None)
    report.page       # Path of index.html: each figure beside the paper's claim, and in words what was confirmed
    report.paths      # every file that was written: page, figures (PNG, SVG), tables (CSV, Markdown)
    report.claims     # [Claim(who, says, holds, measured)], each with its number

``progress(done, total, text)`` is called in this process before the first piece of work and after every one.
``prices`` is a CSV file, a folder with prices.csv(.gz) and sectors.csv in it or in its subfolders, or a list of those;
``sectors`` the matching file or list of files. Without prices a market is simulated. `experiments.NAMES` are the names.
Needs matplotlib: ``pip install ellzero[plot]``.
"""

from ._report import Report
from ._run import NAMES, run

__all__ = ["NAMES", "Report", "run"]
