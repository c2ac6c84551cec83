"""Arguments by name: of examples and of calls, for modules, ONNX models, programs and what is
loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import ShapeError

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)


def difference() -> Any:
    return ea.optimize(
        ea.parse("T[i,j] = Max(A[i,j], 0)\nO[i,j] = T[i,j] - 2*B[i,j]", A=(2, 3), B=(2, 3)),
        {"B": B, "A": A},
        seconds=0,
    )


def test_a_program() -> None:
    o = difference()
    assert [tensor.name for tensor in o.graph.inputs] == ["A", "B"]
    for found in (o(A, B), o(A, B=B), o(A=A, B=B), o(B=B, A=A)):
        np.testing.assert_array_equal(found, A - 2 * B)


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [((), {"A": A}, "'B'"), ((A,), {"C": A}, "'B'|'C'"), ((A, B), {"A": A}, "multiple values")],
)
def test_names_that_do_not_fit(given: Any, named: Any, why: str) -> None:
    with pytest.raises(
        ShapeError, match=rf"(?s)the arguments do not fit: .*({why}).*the inputs are A, B"
    ):
        difference()(*given, **named)


def test_what_is_loaded(tmp_path: Path) -> None:
    difference().save(tmp_path / "model")
    np.testing.assert_array_equal(ea.Optimized.load(tmp_path / "model")(B=B, A=A), A - 2 * B)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (("left", "right"), ("left", "right")),
        (("left", "9"), ("left", "v_9")),
        (("x.1", "x_1"), ("x_1", "x_1_2")),  # what one is called as a word is another one's name
        (("class", "left"), ("v_class", "left")),
    ],
)
def test_an_onnx_model(inputs: tuple[str, str], words: tuple[str, str], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    shaped = {name: helper.make_tensor_value_info(name, kind, (2, 3)) for name in (*inputs, "o")}
    graph = helper.make_graph(
        [helper.make_node("Sub", list(inputs), ["o"])],
        "g",
        [shaped[name] for name in inputs],
        [shaped["o"]],
    )
    made = ea.optimize(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]),
        dict(zip(inputs, (A, B))),
        seconds=0,
    )
    made.save(tmp_path / "model")
    first, second = words
    for o in (made, ea.Optimized.load(tmp_path / "model")):
        for found in (o(A, B), o(A, **{second: B}), o(**{second: B, first: A})):
            np.testing.assert_array_equal(found, A - B)


def test_a_module() -> None:
    torch = pytest.importorskip("torch")

    class Masked(torch.nn.Module):
        def forward(self, x: Any, mask: Any = None, *, scale: Any = None) -> Any:
            y = x if mask is None else x * mask
            return y if scale is None else y / scale

    x, mask, scale = torch.from_numpy(A), torch.full((2, 3), 2.0), torch.full((2, 3), 4.0)
    for examples, named in (
        ((x, mask), {}),
        ({"x": x, "mask": mask}, {}),
        ({"mask": mask, "x": x, "scale": scale}, {"scale": scale}),
    ):
        o = ea.optimize(Masked().eval(), examples, seconds=0)
        for found in (o(x, mask, **named), o(x, mask=mask, **named), o(mask=mask, x=x, **named)):
            torch.testing.assert_close(found, x * mask / (scale if named else 1))
    with pytest.raises(ShapeError, match="the inputs are x, mask, scale"):
        o(x, masks=mask)
    with pytest.raises(ShapeError, match="the arguments do not fit"):
        ea.optimize(Masked().eval(), {"y": x}, seconds=0)
