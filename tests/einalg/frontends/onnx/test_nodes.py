"""The node cases of the onnx package, against the table of those that stay calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the cases come with the package onnx")
from tests.helpers.onnx_cases import EXPECTED, Outcome, cases, expected, is_as, onnx, outcome
from tests.helpers.unknown_operators import UNKNOWN

THIS = sys.modules[__name__]
LEAST_SHARE = 0.9
# What the language expresses, as design §11 and the documentation list it, by ONNX's names.
OPERATORS = set(
    """
Conv ConvTranspose MatMul Gemm Einsum MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare Abs Acos Acosh Add And Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Div Elu Equal Erf
Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mul Neg Not Or PRelu Pow Reciprocal Relu
Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor Softmax LogSoftmax LayerNormalization
RMSNormalization BatchNormalization InstanceNormalization GroupNormalization LpNormalization MeanVarianceNormalization LRN Pad Transpose Reshape
Flatten Slice Concat Split Squeeze Unsqueeze Expand Tile DepthToSpace SpaceToDepth Resize Upsample LSTM GRU RNN Attention CumSum CumProd Trilu
Identity Shape Size Constant ConstantOfShape EyeLike
""".split()  # noqa: SIM905
)


Record = Callable[[str, object], None]


def check(names: list[str], record: Record) -> None:
    """The cases are what the table says, and most of those with expressed operators only are
    expressed.

    The table is for one version of onnx: with another one, what it does not know is told at the end
    of the run, and does not fail.
    """
    version, others = expected()
    found = {name: outcome(cases()[name]) for name in names}
    wrong = {name: o for name, o in found.items() if not is_as(o, others.get(name, "expressed"))}
    if onnx.__version__ != version:
        for name in [name for name in wrong if name not in others]:
            record(UNKNOWN, told(name, wrong.pop(name)))
    assert not wrong, "\n".join(
        f"{told(name, o)}, expected {others.get(name, 'expressed')}" for name, o in wrong.items()
    )
    own = [found[name].kind for name in names if is_own(name)]
    assert own.count("expressed") >= LEAST_SHARE * len(own)


def told(name: str, found: Outcome) -> str:
    return f"{name} is {found.kind} ({found.why})"


def is_own(name: str) -> bool:
    """Whether a case has only operators that the language expresses."""
    model = cases()[name].model
    return model is not None and {node.op_type for node in model.graph.node} <= OPERATORS


def variants() -> list[str]:
    """Return a case for each operator with each set of attributes, inputs and outputs."""
    chosen: dict[object, str] = {}
    for name, case in sorted(cases().items()):
        nodes = case.model.graph.node
        if len(nodes) == 1:
            chosen.setdefault(variant(nodes[0]), name)
    return list(chosen.values())


def variant(node: Any) -> tuple[object, ...]:
    """Return the operator, names of attributes, words among their values, and values present."""
    names = frozenset(one.name for one in node.attribute)
    words = frozenset((one.name, one.s) for one in node.attribute if one.s)
    return node.op_type, names, words, *map(tuple, (map(bool, node.input), map(bool, node.output)))


def test_every_variant_of_an_operator(record_property: Record) -> None:
    check(variants(), record_property)


def test_most_cases_of_the_expressed_operators_pass() -> None:
    """The share in the table, which the nightly run holds against the cases."""
    _, others = expected()
    own = [name for name in cases() if is_own(name)]
    assert len(own) > 600
    assert sum(name not in others for name in own) >= LEAST_SHARE * len(own)


def test_another_version_has_cases_that_the_table_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are told; those that the table knows are held to it."""
    _, others = expected()
    name, known = "test_relu", next(name for name in others if name in cases())
    found: list[tuple[str, object]] = []
    monkeypatch.setattr(THIS, "outcome", lambda _: Outcome("refused", "no such luck"))
    monkeypatch.setattr(THIS, "is_own", lambda _: False)
    with pytest.raises(AssertionError, match="test_relu is refused"):
        check([name], lambda *row: found.append(row))
    monkeypatch.setattr(onnx, "__version__", "0.1")
    check([name], lambda *row: found.append(row))
    assert found == [(UNKNOWN, "test_relu is refused (no such luck)")]
    monkeypatch.setattr(THIS, "outcome", lambda _: Outcome("other"))
    with pytest.raises(AssertionError, match=f"{known} is other"):
        check([known], lambda *row: found.append(row))


def test_random_results_may_be_right_by_chance() -> None:
    """Their values cannot be wrong; their types and shapes can."""
    case = cases()["test_bernoulli_double"]
    ((inputs, (output,)),) = case.data_sets
    for given, wanted, kinds in (
        (np.ones_like(inputs[0]), np.ones_like(output), {"opaque"}),
        (np.ones_like(inputs[0]), np.zeros_like(output), {"random"}),
        (inputs[0], output, {"opaque", "random"}),
        (inputs[0], output.astype(np.float32), {"differs"}),
        (inputs[0], output[:3], {"differs"}),
    ):
        found = outcome(replace(case, data_sets=[([given], [wanted])]))
        assert found.kind in kinds and is_as(found, "random") is (found.kind != "differs")


def test_the_table_names_cases_once() -> None:
    lines = [line.split(" | ")[0] for line in EXPECTED.read_text().splitlines()[1:]]
    assert len(set(lines)) == len(lines) and all(
        len(line.split(" | ")) == 3 for line in EXPECTED.read_text().splitlines()[1:]
    )


@pytest.mark.nightly
def test_all_cases(record_property: Record) -> None:
    check(sorted(cases()), record_property)
