"""Black boxes beside ZORO, ZORO-FA and CMA-ES at equal numbers of queries.

    python -m benchmarks blackboxes --zoro ../ZORO      all of it; writes benchmarks/BLACKBOXES.md and its figure
    python -m benchmarks blackboxes --only inputs,noise --solvers ellzero --jobs 2     these anew, beside all others

What was measured is kept in `records.jsonl` beside this file: the page is made of that, and of what is measured anew.
`--zoro` is a checkout of github.com/caesarcai/ZORO; without it what is known of ZORO stays as it is.
"""

from .run import main as main
