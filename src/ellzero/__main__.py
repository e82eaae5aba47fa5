"""``python -m ellzero`` is the command ``ellzero``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
