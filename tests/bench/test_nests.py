"""The nests by hand compute what the statements say, NaN and remainders included."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.targets.c.compiler import find_compiler


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("name", ["distances", "squares", "largest", "ReLU"])
def test_nests_by_hand_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_LIBRARIES", "")  # the benchmark sets it, and threads
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    from bench import nests

    monkeypatch.setattr(nests, "TILES", ((4, 1), (6, 2)))
    random = np.random.default_rng(0)
    ((case, body),) = ((case, body) for case, body in nests.bodies(17, 13, 37) if name in body.name)
    arrays = {
        "A": random.normal(size=(17, 13)).astype(np.float32),
        "B": random.normal(size=(13, 37)).astype(np.float32),
    }
    if name == "largest":
        arrays["A"][3, 5] = arrays["B"][2, 36] = np.nan
    _, _, result = nests.by_hand(body, arrays)
    expected = ea.evaluate(case.expression, **arrays)
    np.testing.assert_allclose(result(), expected, rtol=1e-5, atol=1e-5)
