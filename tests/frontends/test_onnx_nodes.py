"""The node cases of the onnx package, against the table of those that stay calls."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the cases come with the package onnx")
from tests.frontends.onnx_cases import EXPECTED, cases, expected, onnx, outcome

EVERY = 8  # of the cases, in the short run
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


def table_fits() -> None:
    version, _ = expected()
    if onnx.__version__ != version:
        pytest.skip(f"the table is for onnx {version}, and {onnx.__version__} is installed")


def check(names: list[str]) -> None:
    _, others = expected()
    found = {name: outcome(cases()[name]) for name in names}
    wrong = [
        f"{name} is {o.kind} ({o.why}), expected {others.get(name, 'expressed')}"
        for name, o in found.items()
        if o.kind != others.get(name, "expressed")
    ]
    assert not wrong, "\n".join(wrong)


def test_some_cases() -> None:
    table_fits()
    check(sorted(cases())[::EVERY])


def test_most_cases_of_the_expressed_operators_pass() -> None:
    """The share in the table, which the nightly run holds against the cases."""
    table_fits()
    _, others = expected()
    own = [name for name, case in cases().items() if case.model is not None and {n.op_type for n in case.model.graph.node} <= set(OPERATORS)]
    assert len(own) > 600
    assert sum(name not in others for name in own) >= LEAST_SHARE * len(own)


def test_the_table_names_cases_once() -> None:
    lines = [line.split(" | ")[0] for line in EXPECTED.read_text().splitlines()[1:]]
    assert len(set(lines)) == len(lines) and all(len(line.split(" | ")) == 3 for line in EXPECTED.read_text().splitlines()[1:])


@pytest.mark.nightly
def test_all_cases() -> None:
    table_fits()
    check(sorted(cases()))
