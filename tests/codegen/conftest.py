"""Tests of code generation compile into a folder of their own, which all workers share: equal
sources are compiled once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this run of the tests: a worker's own one is in it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return folder / "cache"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = {
        "EINALG_CACHE": str(shared_folder(tmp_path_factory)),
        "EINALG_LIBRARIES": "numpy",
    }  # whatever this process has imported
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
