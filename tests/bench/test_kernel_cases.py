"""The cases of `bench.kernels` say the same in einalg and in torch, whatever their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from bench import ansor_cases as ansor
from bench import kernel_cases as cases
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double

SMALL: dict[str, Callable[[], cases.Case]] = {
    "matmul": partial(cases.matmul, 3, 4, 5),
    "matmul, batched": partial(cases.matmul, 3, 4, 5, 2, False),
    "conv": partial(cases.conv, 2, 3, 7, 4, (3, 2), padding=(1, 0), stride=2),
    "conv, NHWC": partial(cases.conv, 2, 3, 7, 4, 3, "NHWC", padding=2, dilation=2),
    "conv_transpose": partial(cases.conv_transpose, 2, 3, 4, 5, 4, 3, 1, 2),
    "g2bmm": partial(cases.g2bmm, 2, 36, 3, 2, 1),
    "g2bmm, dilated": partial(cases.g2bmm, 2, 72, 3, 3, 2),
    "gbmm": partial(cases.gbmm, 2, 36, 3, 2, 1),
    "gbmm, dilated": partial(cases.gbmm, 2, 72, 3, 3, 2),
    "lstm": partial(cases.lstm, 3, 2, 4, 5),
    "mmoe": partial(cases.mmoe, 2, 7, 3, 4, 2, 3),
    "chain": partial(cases.chain, 3, 5),
    "offset_add": partial(cases.offset_add, 2, 5, 3, 3),
    "max": partial(cases.reduction, "max", (3, 4), 0),
    "pool": partial(cases.pool, "avg", 1, 2, 7, 3, 2),
    "line": partial(ansor.convolution, "C1D", 2, (9,), 3, 4, 3, stride=2, padding=1),
    "volume": partial(ansor.convolution, "C3D", 2, (3, 4, 5), 2, 3, 3, padding=1),
    "grouped": partial(ansor.convolution, "GRP", 2, (5, 4), 4, 6, 3, padding=1, groups=2),
    "dilated": partial(ansor.convolution, "DIL", 1, (9, 9), 2, 3, 3, padding=1, dilation=2),
    "depthwise": partial(ansor.depthwise, 2, 5, 3, 2),
    "transposed": partial(ansor.transposed, 2, 3, 4, 2),
    "capsule": partial(ansor.capsule, 2, 5, 2, 3, 2),
    "layer": partial(ansor.layer, 2, 6, 3, 4, 3, 2, 1),
    "product": partial(ansor.product, 2, 3, 4, 5),
    "norm": partial(ansor.norm, 2, 3, 4),
    "attention weights": partial(ansor.attention_weights, 2, 4, 3, 5),
}


@pytest.mark.parametrize("name", SMALL)
def test_einalg_and_torch_agree(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    case = SMALL[name]()
    program = as_program(case.expression)
    rng = np.random.default_rng(2)
    arrays = {key: rng.random(tensor.shape) - 0.5 for key, tensor in program.inputs.items()}
    expected = execute(in_double(program), arrays)[program.outputs[-1]]
    found = case.result(
        case.torch(
            torch, **{key: torch.from_numpy(array) for key, array in case.given(arrays).items()}
        ).numpy()
    )
    assert found.shape == expected.shape and np.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert set(case.weights) == {
        key for key, tensor in program.inputs.items() if tensor.role == "weight"
    }


def test_names_are_distinct() -> None:
    names = [make().name for make in (*cases.CASES, *ansor.cases(1), *ansor.cases(16))]
    assert len(set(names)) == len(names)


def test_there_are_four_shapes_of_each_operator_of_ansor() -> None:
    counts = Counter(make().name.split()[0] for make in ansor.cases(1))
    assert len(counts) == 12 and set(counts.values()) == {4}
