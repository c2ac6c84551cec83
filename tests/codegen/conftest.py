"""Tests of code generation compile into a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("EINALG_CACHE")
    os.environ["EINALG_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["EINALG_CACHE"]
    else:
        os.environ["EINALG_CACHE"] = before
