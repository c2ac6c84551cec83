"""`seconds=` holds within 10 %, for networks of any depth, whether or not anything is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.deep_networks import KINDS

CASES = [(search, layers) for search in ("optimize", "derive") for layers in (2, 10, 40, 150)]
ROOT = Path(__file__).resolve().parents[3]
OF_PROCESS = 1.0  # seconds: the first call of a process loads libraries and finds the compiler
MORE = 1.1  # times the seconds, that a search may take
FIRST_FORM = 0.1  # seconds of a layer: the first form is compiled however little time there is


def searched(search: str, kind: str, layers: int, seconds: float, cache: Path) -> dict[str, Any]:
    """Return what a process of its own says of a search, with its cache."""
    arguments = [search, kind, str(layers), str(seconds)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.helpers.timed_search", *arguments],
        cwd=ROOT,
        env={**os.environ, "EINALG_CACHE": str(cache)},
        capture_output=True,
        check=True,
        text=True,
    )
    return dict(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.nightly
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("search", "layers"), CASES)
def test_seconds_hold(search: str, kind: str, layers: int, times: int, tmp_path: Path) -> None:
    """On a busy machine the time of the processors counts, if that is less."""
    seconds = times * max(3.0, FIRST_FORM * layers)
    for state in ("cold", "warm"):
        result = searched(search, kind, layers, seconds, tmp_path)
        spent = min(result["seconds"], result["processor seconds"])
        assert spent <= MORE * seconds + OF_PROCESS, (state, result)
        report = result["report"]
        if search == "derive":
            assert "stopped: " in report
        elif "was not searched" in report:
            assert f"the {seconds:g} s were over before these: " in report
