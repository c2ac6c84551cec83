"""Execute notebooks and store what they show: `python -m docs.notebooks`, or a part of a name."""

from __future__ import annotations

import sys
from time import perf_counter

from docs.notebooks import stored


def main(names: list[str]) -> None:
    """Write every notebook whose name has one of `names` in it, or all."""
    for path in stored.paths():
        if names and not any(name in path.stem for name in names):
            continue
        begin = perf_counter()
        stored.write(stored.executed(path), path)
        size = path.stat().st_size // 1024
        print(f"{path.name}: {perf_counter() - begin:.0f} s, {size} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
