"""Libraries' ways to run operators: every layout, size and type against NumPy's exact sums, and
what happens where one fails.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen import libraries
from codegen.libraries import library_kernels
from codegen.libraries import torch as torch_library
from codegen.libraries.operands import writable
from codegen.program.compile import compile_program
from codegen.runtime.protocol import prepared
from derive.matching import match
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import examples
from tests.helpers.contractions import convolutions, products

FEW = st.integers(1, 3)
TORCH = find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not TORCH, reason="torch is not installed")


@pytest.fixture(autouse=True)
def all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy,torch" if TORCH else "numpy")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for a core in turns cost more than these sums."""
    if not TORCH:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def matched(scope: Scope) -> Kernel:
    kernel = match(scope, "O")
    assert kernel is not None, scope
    return kernel


def arrays(scope: Scope) -> dict[str, Any]:
    """Small integers, of which all sums are exact."""
    rng = np.random.default_rng(5)
    return {
        name: rng.integers(0 if t.dtype[0] == "u" else -3, 4, t.shape).astype(numpy_dtype(t.dtype))
        for name, t in scope.tensors.items()
    }


def check(scope: Scope) -> set[str]:
    """Every way gives the exact values, also with all of its inputs packed ahead; the names of the
    ways.
    """
    inputs = arrays(scope)
    expected = execute(
        as_program(scope),
        {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in inputs.items()},
    )["O"]
    found = library_kernels(matched(scope), scope)
    last = list(inputs)[-1:]
    for name, run in found.items():
        for call in (run, prepared(run, {n: inputs[n] for n in last}), prepared(run, inputs)):
            out = np.full(scope.shape, 77, numpy_dtype(scope.dtype))
            call({**inputs, "O": out})
            assert np.allclose(out, expected, rtol=2e-6, atol=1e-5), (
                f"{name} of {scope}\n{out}\nexpected\n{expected}"
            )
    return set(found)


@st.composite
def transposed(draw: Any) -> Scope:
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    letters = "DHW"[3 - rank :]
    groups, taps = draw(st.sampled_from((1, 1, 2))), [draw(st.integers(1, 4)) for _ in letters]
    stride, dilation = [draw(FEW) for _ in letters], [draw(st.integers(1, 2)) for _ in letters]
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in letters]
    extra = [draw(st.integers(0, max(a, b) - 1)) for a, b in zip(stride, dilation)]
    space = [draw(st.integers(3, 5)) for _ in letters]
    sizes = {"N": draw(FEW), "C": groups * draw(FEW), "O": draw(FEW)}
    last = draw(st.booleans())
    layout, weights = (f"N{letters}C", f"I{letters}O") if last else (f"NC{letters}", f"IO{letters}")
    A = ea.tensor("A", [{**sizes, **dict(zip(letters, space))}[x] for x in layout])
    K = ea.tensor("K", [{**sizes, "I": sizes["C"], **dict(zip(letters, taps))}[x] for x in weights])
    options = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "output_padding": extra,
        "groups": groups,
    }
    try:
        return getattr(ops, f"conv_transpose{rank}d")(
            A, K, **options, layout=layout, weight_layout=weights
        )
    except ea.ShapeError:
        return ops.conv_transpose1d(ea.tensor("A", (1, 2, 3)), ea.tensor("K", (2, 3, 2)), stride=2)


@st.composite
def pools(draw: Any) -> Scope:
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    letters = "DHW"[3 - rank :]
    kernel, stride = [draw(FEW) for _ in letters], [draw(FEW) for _ in letters]
    dilation = [draw(st.integers(1, 2)) for _ in letters]
    padding = [(draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))) for n in kernel]
    layout = draw(st.sampled_from((f"NC{letters}", f"N{letters}C")))
    sizes = {"N": draw(FEW), "C": draw(FEW), **{x: draw(st.integers(5, 7)) for x in letters}}
    A = ea.tensor("A", [sizes[x] for x in layout], draw(st.sampled_from(("f32", "f64", "f16"))))
    return getattr(ops, f"{draw(st.sampled_from(('max', 'avg')))}_pool{rank}d")(
        A, kernel, stride, padding, dilation, layout=layout
    )


@st.composite
def reductions(draw: Any) -> Scope:
    shape = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 4)))]
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    x = ea.tensor("x", shape, draw(st.sampled_from(("f32", "f64", "i32", "i64"))))
    return getattr(ops, draw(st.sampled_from(("sum", "mean", "max", "min"))))(x, sorted(axes))


@st.composite
def bands(draw: Any) -> Scope:
    b, rows, k, width, dilation = (
        draw(FEW),
        draw(st.integers(1, 90)),
        draw(FEW),
        draw(st.integers(0, 5)),
        draw(FEW),
    )
    if draw(st.booleans()):
        return ops.g2bmm(
            ea.tensor("Q", (b, rows, k)), ea.tensor("K", (b, rows, k)), width, dilation
        )
    return ops.gbmm(
        ea.tensor("P", (b, rows, 2 * width + 1)), ea.tensor("V", (b, rows, k)), width, dilation
    )


def has(op: str) -> Any:
    """Whether a scope is matched by an operator, which degenerate sizes may not be."""
    return lambda scope: (kernel := match(scope, "O")) is not None and op in kernel.op


@settings(max_examples=25)
@given(products().map(lambda case: case.scope).filter(has("matmul")))
def test_products(scope: Scope) -> None:
    assert check(scope) == {"numpy", "torch"} if TORCH else {"numpy"}


@needs_torch
@settings(max_examples=30)
@given(convolutions().map(lambda case: case.scope).filter(has("conv")))
def test_convolutions(scope: Scope) -> None:
    assert "torch" in check(scope)


@needs_torch
@settings(max_examples=examples(15, at_night=300))
@given(transposed().filter(has("conv_transpose")))
def test_transposed_convolutions(scope: Scope) -> None:
    assert "torch" in check(scope)


@settings(max_examples=25)
@given(pools().filter(has("pool")))
def test_pools(scope: Scope) -> None:
    assert "numpy" in check(scope)


@settings(max_examples=30)
@given(reductions().filter(has("reduce")))
def test_reductions(scope: Scope) -> None:
    assert ("numpy" in check(scope)) == (
        all(t.dtype == scope.dtype for t in scope.tensors.values())
    )


@settings(max_examples=25)
@given(bands().filter(has("bmm")))
def test_bands(scope: Scope) -> None:
    assert "numpy" in check(scope)


@needs_torch
def test_every_operator_has_a_way() -> None:
    """All templates that need a library; poolings and reductions of one element more than a vector."""
    image, row = ea.tensor("A", (2, 3, 9, 17)), ea.tensor("A", (2, 3, 17))
    volume = ea.tensor("A", (2, 3, 5, 6, 7))
    scopes = [
        *(ops.max_pool1d(row, 2), ops.max_pool2d(image, 3), ops.max_pool3d(volume, 2)),
        *(
            ops.avg_pool1d(row, 2, 1),
            ops.avg_pool2d(image, 3, 1, 1),
            ops.avg_pool3d(volume, 2, 1),
            ops.prod(ea.tensor("x", (3, 4)), 1),
        ),
    ]
    assert all({"numpy", "torch"} <= check(scope) for scope in scopes)


def test_operands_that_are_read_only_or_reversed() -> None:
    K = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    K.flags.writeable = False
    same = writable(K)
    assert same.flags.writeable and np.array_equal(same, K) and same.ctypes.data == K.ctypes.data
    A, B = ea.tensor("A", (5, 4)), ea.tensor("B", (4, 3))
    m, n, k = ea.indices("m n k")
    scope = ea.L[m, n](ea.Sum[k:4](A[m, 3 - k] * B[k, n]))
    given_arrays = {"A": np.ones((5, 4), np.float32), "B": K}
    for run in library_kernels(matched(scope), scope).values():
        out = np.empty((5, 3), np.float32)
        run({**given_arrays, "O": out})
        assert np.array_equal(out, given_arrays["A"] @ K)


@needs_torch
def test_torch_keeps_its_settings_and_yields_where_it_is_told_to_be_inexact() -> None:
    import torch

    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()
    scope = ops.matmul(ea.tensor("A", (5, 7)), ea.tensor("K", (7, 3), role="weight"))
    check(scope)
    assert before == (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype())
    settings_of_torch = SimpleNamespace(
        fp32_precision="none",
        matmul=SimpleNamespace(fp32_precision="bf16"),
        conv=SimpleNamespace(fp32_precision="none"),
    )
    module = SimpleNamespace(backends=SimpleNamespace(mkldnn=settings_of_torch))
    original, torch_library.torch = torch_library.torch, lambda: module
    try:
        assert not torch_library.is_exact("f32", "matmul") and torch_library.is_exact("f32", "conv")
    finally:
        torch_library.torch = original


def test_torch_is_imported_only_where_it_is_named() -> None:
    code = (
        "import sys, einalg as ea\nfrom codegen.program.compile import "
        "compile_program\nfrom codegen.libraries import names\n"
        "compile_program(ea.parse('O[i,j] += A[i,k]*B[k,j]', A=(30,40), B=(40,50)))\n"
        "print('torch' in sys.modules, *names())"
    )
    env = {
        name: value
        for name, value in __import__("os").environ.items()
        if name != "EINALG_LIBRARIES"
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["False", "numpy"], done.stderr


def test_names_of_libraries(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    assert libraries.names() == () and libraries.versions() == ()
    monkeypatch.setenv("EINALG_LIBRARIES", " numpy, ")
    assert libraries.names() == ("numpy",) and libraries.versions() == (f"numpy {np.__version__}",)
    monkeypatch.setenv("EINALG_LIBRARIES", "nunpy")
    with pytest.raises(ea.CodegenError, match=r"names 'nunpy'.*\n.*numpy,torch"):
        libraries.names()
    monkeypatch.setitem(libraries.LIBRARIES, "absent", libraries.Library("no_such_module", {}))
    monkeypatch.setenv("EINALG_LIBRARIES", "absent,numpy")
    with caplog.at_level(logging.WARNING, "einalg"):
        assert libraries.names() == ("numpy",)
    assert "is not installed" in caplog.text


# What fails.

PRODUCT = ops.matmul(ea.tensor("A", (23, 31)), ea.tensor("B", (31, 37)))
LATE = 1 << 30  # calls, which no measurement makes


class Failing:
    """A library's way that is fastest, and fails when it is told to."""

    def __init__(self, when: str):
        self.when, self.calls = when, 0

    def __call__(self, buffers: Any) -> None:
        self.calls += 1
        if self.when == "always" or (self.when == "late" and self.calls > LATE):
            raise RuntimeError("out of luck")
        np.matmul(buffers["A"], buffers["B"], out=buffers["O"])
        if self.when == "wrong":
            buffers["O"][0, 0] += 1

    def prepared(self, known: Any, packed: Any) -> Any:
        if self.when == "packing":
            raise RuntimeError("out of boxes")
        return self


def compiled_with(when: str, monkeypatch: pytest.MonkeyPatch, folder: str) -> tuple[Any, Failing]:
    """A product for which a library's way is measured as fastest unless it is left out."""
    way = Failing(when)

    def binding(kernel: Any, scope: Any) -> Any:
        if when == "binding":
            raise RuntimeError("out of order")
        return way

    monkeypatch.setitem(
        libraries.LIBRARIES,
        "lucky",
        libraries.Library("numpy", {f"lucky {when}": {"matmul": binding}}),
    )
    monkeypatch.setenv("EINALG_LIBRARIES", "lucky")
    monkeypatch.setattr("codegen.tuning.kernel_choice.figures_of", _preferring)
    monkeypatch.setenv("EINALG_CACHE", folder)
    return compile_program(PRODUCT, [matched(PRODUCT)]), way


def _preferring(times: list[float], calls: list[int] = [0]) -> Any:  # noqa: B006 - counts calls: the second way is a library's
    from codegen.tuning.kernel_choice import Figures

    calls[0] += 1
    return Figures(1.0 / calls[0], 0.0)


@pytest.mark.parametrize(
    ("when", "chosen", "said"),
    [
        ("never", True, ""),
        ("always", False, "cannot run"),
        ("wrong", False, "has other values"),
        ("binding", False, "cannot be asked"),
        ("packing", False, "cannot run"),
        ("late", True, "generated code is used instead"),
    ],
)
def test_a_library_that_fails_is_replaced(
    when: str, chosen: bool, said: str, monkeypatch: pytest.MonkeyPatch, caplog: Any, tmp_path: Path
) -> None:
    with caplog.at_level(logging.WARNING, "einalg"):
        run, way = compiled_with(when, monkeypatch, str(tmp_path))
        assert ("lucky" in repr(run)) == chosen
        way.calls += LATE
        inputs = arrays(PRODUCT)
        for _ in range(2):
            assert np.array_equal(run(**inputs), inputs["A"] @ inputs["B"])
    assert said in caplog.text and bool(said) == bool(caplog.text)


def test_sizes_are_those_of_the_operands() -> None:
    kernel = matched(PRODUCT)
    assert prod(kernel.sizes.values()) == 23 * 31 * 37 and set(
        library_kernels(kernel, PRODUCT)
    ) >= {"numpy"}
