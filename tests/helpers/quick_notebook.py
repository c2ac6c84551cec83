"""What the kernel of a notebook runs first in tests: kernels are compiled quickly, and searches of
layers and measurements are short.
"""

from __future__ import annotations

import pytest

from tests.helpers.kernels import compile_quickly
from tests.helpers.measurements import shorten_measurements
from tests.helpers.searches import shorten_layer_searches


def hurry() -> None:
    """Change this process for good."""
    patches = pytest.MonkeyPatch()
    compile_quickly(patches)
    shorten_layer_searches(patches)
    shorten_measurements(patches)


if __name__ == "__main__":
    hurry()
    # The names of a notebook are its own.
    del annotations, compile_quickly, hurry, pytest, shorten_layer_searches, shorten_measurements
