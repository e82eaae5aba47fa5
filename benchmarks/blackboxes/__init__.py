"""Black boxes beside ZORO, ZORO-FA and CMA-ES at equal numbers of queries.

    python -m benchmarks blackboxes --zoro ../ZORO      all of it; writes benchmarks/BLACKBOXES.md and its figure
    python -m benchmarks blackboxes --only inputs,noise --jobs 8 --records out/blackboxes.jsonl

`--records` keeps measurements, and those of other parts and solvers that are there already.
`--zoro` is a checkout of github.com/caesarcai/ZORO; without it the parts that need it are left out, and it is said.
"""

from .run import main as main
