"""The record of a step of a compiled program."""

from __future__ import annotations

import json

import sympy

from einalg.language.ir.kernel import Kernel


def test_a_record_is_json_of_the_same_values() -> None:
    parameters = {
        "alpha": sympy.Rational(1, 2),
        "bias": None,
        "count": sympy.Integer(3),
        "least": -sympy.oo,
        "mode": "edge",
        "pads": ((1, 2), [0, 0.25]),
    }
    kernel = Kernel("pad", {"m": 4}, ("A", "b"), "O", parameters=parameters)
    assert json.loads(json.dumps(kernel.as_record())) == {
        "op": "pad",
        "sizes": {"m": 4},
        "inputs": ["A", "b"],
        "output": "O",
        "parameters": {
            "alpha": 0.5,
            "bias": None,
            "count": 3,
            "least": "-oo",
            "mode": "edge",
            "pads": [[1, 2], [0, 0.25]],
        },
    }
    assert "parameters" not in Kernel("matmul", {"m": 4}, ("A", "B"), "O").as_record()
