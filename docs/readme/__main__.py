"""Write the README anew: `python -m docs.readme`, or a part of it: `examples`, `figures`."""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory

from docs.readme import figures, transcript


def main(names: list[str]) -> None:
    """Write the parts of these names, or both."""
    if not names or "figures" in names:
        figures.write()
    if not names or "examples" in names:
        _write_examples()


def _write_examples() -> None:
    """Run the examples as on a new machine, whose cache is empty, and write what they print."""
    with TemporaryDirectory() as folder:
        os.environ["EINALG_CACHE"] = folder
        text = transcript.with_outputs(figures.README.read_text(encoding="utf-8"))
    figures.README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
