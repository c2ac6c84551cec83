"""Maxima and minima in C: NaN wherever some element is, infinities, and no element left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.lower import lower
from codegen.targets.c.source_file import c_source
from einalg.language import ops
from einalg.language.ir.dtypes import numpy_dtype
from tests.helpers.kernels import flat, run_programs

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf
DTYPES = ("f32", "f64")
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 67, 131)


def compared(cases: list[tuple[Any, dict[str, Array], Array]]) -> None:
    """Compile statements together, and compare what each makes of its arrays."""
    programs = [flat(expression) for expression, _, _ in cases]
    results = run_programs(programs, [arrays for _, arrays, _ in cases])
    for (expression, arrays, expected), result in zip(cases, results, strict=True):
        value = result[as_name(expression)]
        assert np.array_equal(value, expected.astype(value.dtype), equal_nan=True), (
            expression,
            arrays,
            value,
        )


def as_name(expression: Any) -> str:
    return flat(expression).outputs[0]


def special_rows(size: int, dtype: str) -> Array:
    """Rows with a NaN at each place; none; infinities; and nothing but one special number."""
    rng = np.random.default_rng(size)
    rows = rng.standard_normal((size + 7, size)).astype(numpy_dtype(dtype))
    rows[np.arange(size), np.arange(size)] = NAN
    rows[size + 1], rows[size + 2], rows[size + 3] = INF, -INF, NAN
    rows[size + 4, rng.integers(size)] = INF
    rows[size + 5, rng.integers(size)] = -INF
    rows[size + 6] = np.where(np.arange(size) == size // 2, -NAN, -INF)
    return rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_columns_of_any_length(dtype: str) -> None:
    cases = []
    for size in LENGTHS:
        rows = special_rows(size, dtype)
        stored, turned = ea.tensor("A", rows.shape, dtype), ea.tensor("A", rows.T.shape, dtype)
        for name in ("max", "min"):
            expected = getattr(np, name)(rows, axis=1)
            cases.append((getattr(ops, name)(stored, 1), {"A": rows}, expected))
            cases.append((getattr(ops, name)(turned, 0), {"A": rows.T}, expected))
    compared(cases)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_of_all_elements(dtype: str) -> None:
    cases = []
    for shape in ((3, 17), (5, 40), (70, 9), (2, 3, 33)):
        for place in range(0, int(np.prod(shape)), 13):
            array = -np.arange(np.prod(shape), dtype=numpy_dtype(dtype)).reshape(shape)
            array.flat[place] = NAN
            cases.append((ops.max(ea.tensor("A", shape, dtype)), {"A": array}, np.array(NAN)))
    compared(cases)


def test_signed_nan_and_equal_elements() -> None:
    negative = np.array([0xFFC00000], np.uint32).view(np.float32)[0]
    rows = np.zeros((4, 40), np.float32)
    rows[1, 39], rows[2, 0], rows[3, 20] = negative, negative, 1
    expected = np.array([0, NAN, NAN, 1])
    compared([(ops.max(ea.tensor("A", rows.shape), 1), {"A": rows}, expected)])


# Windows.


@dataclass(frozen=True)
class Window:
    """A pooling window, the same along both axes, and the array that it is moved over."""

    array: Array
    layout: str
    taps: int
    stride: int
    padding: int
    dilation: int

    @property
    def expression(self) -> Any:
        dtype = {4: "f32", 8: "f64"}[self.array.itemsize]
        stored = ea.tensor("A", self.array.shape, dtype)
        settings = (self.taps, self.stride, self.padding, self.dilation)
        return ops.max_pool2d(stored, *settings, layout=self.layout)

    @property
    def expected(self) -> Array:
        planes = self.array
        if self.layout == "NHWC":
            planes = planes.transpose(0, 3, 1, 2)
        edges = (self.padding, self.padding)
        planes = np.pad(planes, ((0, 0), (0, 0), edges, edges), constant_values=-INF)
        reach = self.dilation * (self.taps - 1) + 1
        windows = np.lib.stride_tricks.sliding_window_view(planes, (reach, reach), (2, 3))
        windows = windows[:, :, :: self.stride, :: self.stride]
        result = windows[..., :: self.dilation, :: self.dilation].max((-1, -2))
        if self.layout == "NHWC":
            result = result.transpose(0, 2, 3, 1)
        return result


@st.composite
def windows(draw: st.DrawFn) -> Window:
    taps, dilation = draw(st.integers(1, 9)), draw(st.integers(1, 2))
    reach = dilation * (taps - 1) + 1
    padding = draw(st.integers(0, taps // 2))
    height, width = (draw(st.integers(reach, reach + 40)) for _ in range(2))
    layout = draw(st.sampled_from(["NCHW", "NHWC"]))
    channels = draw(st.integers(1, 19))
    shape = (1, channels, height, width)
    if layout == "NHWC":
        shape = (1, height, width, channels)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    array = rng.standard_normal(shape).astype(numpy_dtype(draw(st.sampled_from(DTYPES))))
    specials = rng.choice(array.size, min(array.size, draw(st.integers(0, 12))), replace=False)
    array.flat[specials] = rng.choice([NAN, NAN, INF, -INF], len(specials))
    corners = array
    if layout == "NHWC":
        corners = array.transpose(0, 3, 1, 2)
    corners[0, 0, -1, -1] = corners[0, -1, 0, 0] = NAN
    return Window(array, layout, taps, draw(st.integers(1, 3)), padding, dilation)


@settings(max_examples=3)
@given(st.lists(windows(), min_size=5, max_size=5))
def test_windows(cases: list[Window]) -> None:
    compared([(case.expression, {"A": case.array}, case.expected) for case in cases])


def test_bounds_that_depend_on_other_loops() -> None:
    """The elements of a window at the edge are fewer, and none at last."""
    cases = []
    for dtype, taps, padding in (("f32", 81, 40), ("f64", 81, 40), ("f32", 7, 3), ("f64", 161, 80)):
        size = 300
        for place in (0, 1, 17, 150, 283, 299, None):
            array = np.random.default_rng(0).standard_normal((1, 2, size))
            array[0, 0, 40:60] = -INF
            if place is not None:
                array[0, 1, place] = NAN
            array = array.astype(numpy_dtype(dtype))
            edges = ((0, 0), (0, 0), (padding, padding))
            padded = np.pad(array, edges, constant_values=-INF)
            seen = np.lib.stride_tricks.sliding_window_view(padded, taps, 2)[:, :, ::2].max(-1)
            pool = ops.max_pool1d(ea.tensor("A", array.shape, dtype), taps, 2, padding)
            cases.append((pool, {"A": array}, seen))
    compared(cases)
    source = c_source([lower("O", cases[0][0])])
    assert "s_apart" in source


# Elements.


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13, 20])
def test_extremes_of_several_operands(count: int) -> None:
    names, size = [f"X{k}" for k in range(count)], count + 20
    draw = np.random.default_rng(count)
    arrays = {name: draw.standard_normal(size).astype(np.float32) for name in names}
    for position, name in enumerate(names):
        arrays[name][position] = NAN
        arrays[name][count], arrays[name][count + 1] = -INF, INF
    stacked = np.stack(list(arrays.values()))
    operands = ", ".join(f"{name}[i]" for name in names)
    shapes = dict.fromkeys(names, (size,))
    cases = []
    for op, function in (("Max", np.max), ("Min", np.min)):
        cases.append((ea.parse(f"O[i] = {op}({operands})", **shapes), arrays, function(stacked, 0)))
    bounded = ea.parse(f"O[i] = Max({operands}, 0)", **shapes)
    cases.append((bounded, arrays, np.maximum(stacked.max(0), 0)))
    compared(cases)


def test_reductions_in_each_other() -> None:
    """The steps of a loop have statements of their own, and a NaN may be in each of them."""
    shapes = {"A": (40,), "B": (5,), "C": (5, 40, 3)}
    text = "O[i] = Max[j](A[j] - B[i] + Min[k](C[i, j, k]))"
    cases = []
    for seed in range(12):
        draw = np.random.default_rng(seed)
        arrays = {name: draw.integers(-99, 99, shape) / 4 for name, shape in shapes.items()}
        for name in ("B", "C"):
            arrays[name].flat[draw.integers(arrays[name].size)] = NAN
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
        inner = arrays["C"].min(2)
        expected = (arrays["A"][None, :] - arrays["B"][:, None] + inner).max(1)
        cases.append((ea.parse(text, **shapes), arrays, expected))
    compared(cases)
