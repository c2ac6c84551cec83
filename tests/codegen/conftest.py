"""Tests of code generation compile into a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = {
        "EINALG_CACHE": str(tmp_path_factory.mktemp("cache")),
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
