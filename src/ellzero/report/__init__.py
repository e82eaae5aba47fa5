"""Reports: one self-contained HTML file, without network, for light and dark screens, paper and the keyboard.

A `Page` has sections, and a section has blocks: `paragraph`, `facts`, `table`, `figure`, `claim`, `code`. The same
blocks make the report of a result (`write_report`), the page of ``ellzero reproduce`` and, through `fragment`, what
notebooks show of an object.
"""

from .._core.blocks import Html, claim, code, columns, facts, fragment, paragraph, table
from .document import fingerprint, write_report
from .figures import figure
from .page import Page

__all__ = [
    "Html",
    "Page",
    "claim",
    "code",
    "columns",
    "facts",
    "figure",
    "fingerprint",
    "fragment",
    "paragraph",
    "table",
    "write_report",
]
