"""The command line `einalg`: `main` is its entry point, and says what to install where the extra
`cli` is missing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

if all(find_spec(name) for name in ("click", "rich")):
    from einalg.cli.app import main
else:

    def main() -> None:
        """Say how to install what the command line needs."""
        sys.exit("einalg: the command line needs click and rich: pip install 'einalg[cli]'")


__all__ = ["main"]
