"""A run in the environment of a peer: `python -m benchmarks.blackboxes.theirs '<task in JSON>'` prints its record."""

import json
import sys

from . import solvers
from .run import measure

if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    print(json.dumps(solvers.versions() if told == "versions" else measure(told)))
