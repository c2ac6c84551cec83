"""Arrays of another type are converted, which is said once for each pair of types."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.runtime import array_arguments

ARRAYS = {
    "float64": (np.ones(3), "f32"),
    "int64": (np.ones(3, np.int64), "f32"),
    "float32": (np.ones(3, np.float32), "f16"),
}
SILENT = {
    "list": ([1.0, 2.0, 3.0], "f32"),
    "the same type": (np.ones(3, np.float32), "f32"),
    "a narrower type": (np.ones(3, np.float32), "f64"),
    "a strided one": (np.ones(6, np.float32)[::2], "f32"),
}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_arguments, "SAID", set())


@pytest.mark.parametrize("array, dtype", ARRAYS.values(), ids=ARRAYS)
def test_a_conversion_is_said_once(array, dtype, caplog) -> None:
    for name in ("A", "B", "A"):
        array_arguments.load(ea.tensor(name, (3,), dtype), array)
    (record,) = caplog.records
    message = record.getMessage()
    assert f"A is {dtype} and its array is {array.dtype}" in message
    fitting = eval(message.rpartition("ahead: ")[2], {"A": array})
    assert array_arguments.load(ea.tensor("A", (3,), dtype), fitting) is fitting


@pytest.mark.parametrize("array, dtype", SILENT.values(), ids=SILENT)
def test_what_loses_nothing_is_not_said(array, dtype, caplog) -> None:
    array_arguments.load(ea.tensor("A", (3,), dtype), array)
    assert not caplog.records


def test_a_compiled_candidate_says_it(caplog) -> None:
    run = ea.derive("O[i] = 2*A[i]", A=(3,), measure=False, states=1).best.compile()
    for _ in range(2):
        run(A=np.ones(3))
    assert (
        len([record for record in caplog.records if "every call converts" in record.message]) == 1
    )


def test_samples_without_axes_are_arrays() -> None:
    """Compiled code is given their address, which NumPy's numbers do not have."""
    tensors = {name: ea.tensor(name, (), dtype) for name, dtype in (("x", "f32"), ("n", "i8"))}
    arrays = array_arguments.sample(tensors)
    assert all(type(array) is np.ndarray for array in arrays.values())
    assert {name: array.dtype for name, array in arrays.items()} == {"x": "f4", "n": "i1"}
