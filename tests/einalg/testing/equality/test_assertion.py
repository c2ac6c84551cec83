"""`assert_equal`: verdicts, and everything beside wrong values that a function may do wrong."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import NotationError, UseError
from einalg.language.interpreters.numpy import execute
from einalg.testing import strategies
from einalg.testing.verdict_log import listening
from tests.helpers.batches import examples

VECTOR = ea.parse("O[i] = 2*x[i]", x=(4,))
ANY_VECTOR = "O[i] = 2*x[i]"


def vectors(x: Any) -> Any:
    return ea.parse(ANY_VECTOR, x=x)


def message(function: Any, expected: Any, **options: Any) -> str:
    """Return the message of a comparison that fails."""
    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(function, expected, **options)
    text = f"{caught.value}"
    assert max(map(len, text.splitlines())) <= 100
    return text


def in_place(x):
    x *= 2
    return x


def lazy(x, made={}):  # noqa: B006 - it is a mistake
    out = made.setdefault(x.shape, np.zeros_like(x))
    out[...] = 2 * x
    return out


class Counter:
    calls = 0

    def __call__(self, x):
        self.calls += 1
        return (1 + self.calls) * x


def one_index(x):
    return np.array([2 * x[0], *(2 * x[1:-1]), 2 * x[-1]], x.dtype)


def contiguous_only(x):
    if not x.flags.c_contiguous:
        raise ValueError("contiguous arrays only")
    return 2 * x


FAULTS = {
    "an error": (one_index, "one_index returns an array of shape (2,), and (1,) is expected"),
    "in place": (in_place, "in_place changes its input x in place\n\n  x[0] was 1, and is 2"),
    "random": (lambda x: 2 * x + np.random.rand(), "the function returns something else each time"),
    "state": (Counter(), "Counter returns something else when it is called again: it keeps state"),
    "buffer": (lazy, "lazy changes its earlier result when it is called again"),
    "nothing": (lambda x: None, "has no result that can be compared: it returns None"),
    "text": (lambda x: "2x", "it returns a str, which is no array of numbers"),
    "two": (lambda x: (x, x), "returns an array of shape (2, 1), and (1,) is expected"),
    "integers": (lambda x: (2 * x).astype(int), "integers (int64), and real numbers (f32)"),
    "complex": (lambda x: 2 * x + 0j, "returns complex numbers (complex64)"),
    "layout": (contiguous_only, "Only where an input is not contiguous in memory."),
    "arguments": (lambda: 1, "raises TypeError"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    function, text = FAULTS[name]
    assert text in message(function, vectors)


SUM = ea.parse("O[()] = Sum[i](x[i])", x=(12,))
TERMS = " + ".join(f"Max(x[i], {k}/7)*tanh({k}*x[i])" for k in range(2, 40))
REPORTS = {
    "no input": (lambda x: x, "O[i:3] = i", "It was called without arguments"),
    "truth": (lambda x: x > 0, VECTOR, "returns truth values (bool), and real numbers (f32)"),
    "truth values": (
        lambda m: m,
        ea.parse("O[i] = ~m[i]", m=ea.tensor("m", (3,), "bool")),
        "at [0]: expected True, returned False",
    ),
    "many reads": (
        lambda x: x.sum() + x.dtype.type(x.all()),
        SUM,
        "x[5] = 1 and 6\n    other elements",
    ),
    "a zero among many reads": (
        lambda x: x.sum() + x.dtype.type(x[:-1].all()),
        SUM,
        "5 other\n    elements and 1 zero",
    ),
    "a long formula": (lambda x: 0 * x, ea.parse(f"O[i] = x[i] + {TERMS}", x=(3,)), "\n  …\n"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_says_what_was_read_and_returned(name):
    function, expected, text = REPORTS[name]
    assert text in message(function, expected)


def test_an_error_of_a_function_of_tensors_is_not_one_of_the_kind_of_arrays():
    torch = pytest.importorskip("torch")

    def of_tensors(x: torch.Tensor):
        raise TypeError("it never works")

    assert "NumPy arrays" not in message(of_tensors, VECTOR)


def test_an_error_of_the_function_is_the_cause():
    def broken(x):
        return 2 * x if len(x) < 3 else 2 * x[len(x)]

    with pytest.raises(AssertionError, match="broken raises IndexError: index 3") as caught:
        ea.testing.assert_equal(broken, vectors)
    assert isinstance(caught.value.__cause__, IndexError)
    assert caught.value.arrays["x"].shape == (3,)


def test_the_error_holds_the_case():
    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(lambda x: 2 * x + (np.arange(4) == 2) * x, VECTOR)
    error: Any = caught.value
    assert error.arrays["x"].tolist() == [0, 0, 1, 0]
    assert error.point == (2,) and error.output == "O"
    assert (error.expected[2], error.returned[2]) == (2, 3)


def test_a_failure_is_the_same_in_every_call():
    texts = {message(lambda x: 2 * x + (np.abs(x) > 5), vectors, seed=3) for _ in range(2)}
    assert len(texts) == 1


def test_tolerance():
    def rough(x):
        return (2 * x * (1 + 1e-4)).astype(x.dtype)

    assert "tolerance=" in message(rough, vectors)
    assert ea.testing.assert_equal(rough, vectors, tolerance=1e-3, examples=30) == "tested"
    assert "allowed" not in message(lambda x: np.nextafter(2 * x, 9), vectors, tolerance=0)


def test_rounding_is_no_difference():
    """Sums in any order and a Fourier transform are as good as the formula."""
    for dtype in ("f64", "f32"):
        convolution = ea.parse(
            "O[i] += x[i-r+3]*k[r]", x=ea.tensor("x", (32,), dtype), k=ea.tensor("k", (4,), dtype)
        )

        def by_fourier(x, k):
            size = len(x) + len(k)
            product = np.fft.rfft(x, size) * np.fft.rfft(k, size)
            return np.fft.irfft(product, size)[3:32].astype(x.dtype)

        def backwards(x, k):
            return np.convolve(x[::-1], k[::-1], "valid")[::-1].astype(x.dtype)

        for function in (by_fourier, backwards):
            assert ea.testing.assert_equal(function, convolution, examples=40) == "tested"


def test_a_round_trip_is_rounded():
    """An element that is copied as it is may be off by what the largest one is rounded by."""

    def there_and_back(x):
        return np.fft.ifft(np.fft.fft(x)).real.astype(x.dtype)

    assert ea.testing.assert_equal(there_and_back, "O[i] = x[i]") == "tested"


def test_no_element():
    assert ea.testing.assert_equal(lambda x: 2 * x, ea.parse(ANY_VECTOR, x=(0,))) == "tested"
    assert "(1,), and (0,)" in message(lambda x: np.ones(1, x.dtype), ea.parse(ANY_VECTOR, x=(0,)))


def test_truth_values():
    def negation(x):
        return ea.ops.logical_not(ea.tensor("x", x, "bool"))

    assert ea.testing.assert_equal(np.logical_not, negation, examples=20) == "tested"
    assert "expected True, returned False" in message(lambda x: x, negation)


def test_integers_are_exact():
    product = ea.parse("O[i] = A[i]*A[i] + 1", A=ea.tensor("A", (3,), "i64"))
    assert ea.testing.assert_equal(lambda a: a * a + 1, product, examples=30) == "tested"
    assert "in its only element" in message(
        lambda a: a * a + 1 + (a == 1000),
        lambda a: ea.parse("O[i] = A[i]*A[i] + 1", A=ea.tensor("A", a, "i64")),
    )


def test_arrays_go_by_name_or_in_order():
    difference = ea.parse("O[i] = x[i] - A[i]", x=(3,), A=(3,))
    for function in (lambda x, a: x - a, lambda A, x: x - A, lambda p, q: q - p):
        assert ea.testing.assert_equal(function, difference, examples=20) == "tested"


def test_shapes_go_by_place():
    assert (
        ea.testing.assert_equal(
            lambda p, q: q @ p,
            lambda first, second: ea.parse("O[i] += A[i,k]*x[k]", x=first, A=second),
            examples=20,
        )
        == "tested"
    )


def test_text_for_any_shapes():
    text = "T[i] = x[i]*s.pad(1)[i]\nO[i,j] = T[i] + Max[k:1](y[j])"
    assert (
        ea.testing.assert_equal(lambda x, s, y: (x * s)[:, None] + y, text, examples=30) == "tested"
    )
    assert "in 2 of 2 elements" in message(lambda x, s, y: (x * s)[:, None] + y[::-1], text)


def test_several_outputs():
    program = ea.parse("S[j] += x[i,j]\nM[j] = Max[i](x[i,j])", x=(3, 4))
    both = {"S": lambda x: x.sum(axis=0), "M": lambda x: x.max(axis=0)}
    assert ea.testing.assert_equal(lambda x: (both["S"](x), both["M"](x)), program, examples=20)
    by_name = {"M": both["M"], "S": both["S"]}
    assert ea.testing.assert_equal(
        lambda x: {name: make(x) for name, make in by_name.items()}, program, examples=20
    )
    wrong = message(lambda x: (both["S"](x), x.min(axis=0)), program)
    assert "differs from the expected expression as M" in wrong
    assert "1 results are returned" in message(lambda x: both["S"](x), program)


def test_no_input():
    assert ea.testing.assert_equal(lambda: np.arange(4.0), ea.parse("O[i:4] = i*1.0")) == "tested"


def test_an_array_of_another_library():
    class Foreign:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    assert ea.testing.assert_equal(lambda x: Foreign(2 * x), vectors, examples=20) == "tested"


def test_numbers_of_axes_that_a_function_takes():
    """A function of matrices is right, though the operator takes rows of matrices as well."""

    def matrices(q, k, v):
        scores = q @ k.T / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True) @ v

    def expected(q, k, v):
        return ea.ops.attention(*map(ea.tensor, "qkv", (q, k, v)))

    assert ea.testing.assert_equal(matrices, expected, examples=30) == "tested"


def test_shapes_as_defaults():
    def expected(x=(1, 4, 3, 3), k=(2, 2, 1, 1)):
        return ea.ops.conv2d(ea.tensor("x", x), ea.tensor("k", k), groups=2)

    def by_groups(x, k):
        halves = np.split(x, 2, axis=1)
        kernels = np.split(k, 2, axis=0)
        parts = []
        for half, kernel in zip(halves, kernels):
            windows = np.lib.stride_tricks.sliding_window_view(half, kernel.shape[2:], axis=(2, 3))
            parts.append(np.einsum("nchwrs,fcrs->nfhw", windows, kernel))
        return np.concatenate(parts, axis=1)

    assert ea.testing.assert_equal(by_groups, expected, examples=30) == "tested"
    assert "differs" in message(lambda x, k: by_groups(x, k[::-1]), expected)


def test_expressions():
    one = ea.parse("O[i] += A[i,j]*x[j]", A=(3, 4), x=(4,))
    assert (
        ea.testing.assert_equal(one, ea.parse("O[i] += P[i,j]*q[j]", P=(3, 4), q=(4,))) == "proved"
    )
    assert (
        ea.testing.assert_equal(one, lambda a, x: ea.parse("O[i] += A[i,j]*x[j]", A=a, x=x))
        == "proved"
    )
    text = message(one, ea.parse("O[i] += A[i,j]*x[(j + i//2)%4]", A=(3, 4), x=(4,)))
    assert "the first expression differs from the expected expression, in 1 of 3 elements" in text
    assert "at [2]:" in text


def test_a_function_for_some_shapes_only():
    def three_by_three(x, k):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (3, 3))
        return np.einsum("ijrs,rs->ij", windows, k)

    def expected(x, k):
        if k != (3, 3):
            raise ValueError("kernels of 3 x 3 only")
        return ea.parse("O[i,j] += x.pad(1,1)[i+r-1,j+s-1]*k[r,s]", x=x, k=k)

    assert ea.testing.assert_equal(three_by_three, expected, examples=30) == "tested"
    assert "differs" in message(lambda x, k: three_by_three(x, k.T), expected)


def test_expressions_of_any_shapes():
    """A rewriting by hand: rows of a convolution as a product, with one row too few."""

    def convolution(x, k):
        return ea.parse("O[i,j] += x[i+r,j]*k[r]", x=x, k=k)

    def by_rows(x, k, missing=0):
        rows = max(k[0] - missing, 1)
        i, j, r = ea.indices("i j r")
        X, K = ea.tensor("x", x), ea.tensor("k", k)
        height = x[0] - k[0] + 1
        return ea.L[i:height, j](ea.Sum[r:rows](X[i + r, j] * K[r]))

    assert ea.testing.assert_equal(by_rows, convolution) == "tested"
    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(lambda x, k: by_rows(x, k, 1), convolution)
    error: Any = caught.value
    assert {name: array.shape for name, array in error.arrays.items()} == {"x": (2, 1), "k": (2,)}
    fixed = ea.parse("O[i] = 2*p[i]", p=(3,))
    assert ea.testing.assert_equal(fixed, "O[i] = x[i] + x[i]") == "proved"


def test_a_torch_function_is_proved():
    torch = pytest.importorskip("torch")
    expected = ea.ops.softmax(ea.tensor("x", (3, 4)), axis=-1)
    assert ea.testing.assert_equal(lambda x: torch.softmax(x, 1), expected, examples=20) == "proved"
    assert "torch.zeros((3, 4)" in message(lambda x: torch.softmax(x, 0), expected)

    def by_values(x):
        return torch.softmax(x, 1) if x.sum() > 0 else torch.softmax(x, -1)

    assert ea.testing.assert_equal(by_values, expected, examples=20) == "tested"


def test_arrays_of_jax_for_a_function_that_names_it(monkeypatch):
    """A stand-in for JAX: arrays that know nothing but how to be converted, and how to be doubled."""

    class Array:
        def __init__(self, values):
            self._values = np.array(values)

        def __array__(self, dtype=None, copy=None):
            return self._values

        def twice(self):
            return Array(2 * self._values)

    jax = ModuleType("jax")
    jax.numpy = ModuleType("jax.numpy")
    jax.numpy.asarray = Array
    monkeypatch.setitem(sys.modules, "jax", jax)

    def by_name(x):
        assert jax is not None
        return x.twice()

    def by_annotation(x: jax.Array):
        return x.twice()

    for function in (by_name, by_annotation, lambda x: x.twice()):
        assert ea.testing.assert_equal(function, vectors, examples=20) == "tested"


def test_an_annotation_decides_what_a_function_gets():
    torch = pytest.importorskip("torch")

    def deviation(x: torch.Tensor):
        return x.std(1, correction=0)

    def expected(x):
        return ea.ops.sqrt(ea.ops.variance(ea.tensor("x", x), axes=1))

    assert ea.testing.assert_equal(deviation, expected, examples=20) == "tested"


def test_a_torch_module():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 2)
    weight, bias = (p.detach().numpy() for p in (module.weight, module.bias))
    expected = ea.ops.linear(
        ea.tensor("x", (4, 3)), ea.constant("W", weight), ea.constant("b", bias)
    )
    assert ea.testing.assert_equal(module.eval(), expected, examples=20) == "proved"
    dropout = message(torch.nn.Dropout(), ea.parse("O[i] = x[i]", x=(5,)))
    assert ".eval()" in dropout and "draws random numbers" in dropout
    assert "changes its input" in message(
        torch.nn.ReLU(inplace=True), ea.parse("O[i] = Max(x[i], 0)", x=(5,))
    )


@pytest.mark.parametrize(
    "arguments, options, error, text",
    [
        ((3, VECTOR), {}, UseError, "must be a function of arrays or an expression, not 3"),
        ((abs, 3), {}, NotationError, "`expected` must be an expression, its text, or"),
        ((abs, "O[i] = A[i"), {}, NotationError, "O[i] = A[i"),
        ((abs, "O[i] = A[i] if B[i] else 0"), {}, UseError, "`if` is not part of the notation"),
        ((abs, VECTOR), {"examples": 0}, UseError, "examples must be a whole number of at least 1"),
        ((abs, VECTOR), {"seed": -1}, UseError, "seed must be a whole number"),
        ((abs, VECTOR), {"tolerance": -1.0}, UseError, "tolerance must be a number from 0"),
        ((abs, lambda x: ea.ops.softmax(x)), {}, UseError, "give shapes that fit as defaults"),
        ((abs, lambda x: 3), {}, NotationError, "expected a tensor expression"),
        (
            (abs, ea.parse("O[i] = log(-1 - Abs(x[i]))", x=(2,))),
            {},
            UseError,
            "nothing was compared",
        ),
    ],
)
def test_misuse(arguments, options, error, text):
    with pytest.raises(error) as caught:
        ea.testing.assert_equal(*arguments, **options)
    assert text in f"{caught.value}"


def test_hypothesis_is_needed():
    code = (
        "import sys; sys.modules['hypothesis'] = None; import einalg as ea; "
        "e = ea.parse('O[i] = 2*x[i]', x=(4,)); print(ea.testing.assert_equal(e, e)); "
        "ea.testing.assert_equal(abs, e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "proved\n"
    assert done.stderr.endswith("needs hypothesis\n  pip install einalg[test]\n")


def test_verdicts_are_heard():
    heard: list[Any] = []
    with listening(heard.append):
        ea.testing.assert_equal(lambda x: 2 * x, VECTOR, examples=20)
        ea.testing.assert_equal(VECTOR, VECTOR)
        message(lambda x: 3 * x, VECTOR)
    assert [one.verdict for one in heard] == ["tested", "proved", "failed"]
    assert heard[0].extent == "20 examples"


def computed(scope: Any) -> Any:
    """Return an expression as a function of arrays, which computes in the types of these."""
    program = ea.Program([("O", scope)])
    return lambda *arrays: execute(program, dict(zip(program.inputs, arrays)))


SCOPES = strategies.scopes(
    functions=True,
    inexact=True,
    truths=True,
    rounding=True,
    max_points=60,
    dtypes=("f32", "f64", "i16"),
)


@settings(max_examples=examples(10, at_night=200), phases=[Phase.generate])
@given(SCOPES)
def test_rounding_in_any_expression_is_no_difference(scope):
    ea.testing.assert_equal(computed(scope), scope, examples=10)


@pytest.mark.parametrize(
    "text",
    ["O[i] = A[i]*B[i]*B[0]", "O[()] = A[0]*Sum[i](B[i])", "O[i:5] = Mod(i*(i + 1), -3) + i//2"],
)
def test_what_libraries_round_in_the_type_of_some_inputs_is_no_difference(text):
    tensors = {"A": ea.tensor("A", (5,), "f64"), "B": ea.tensor("B", (5,), "f32")}
    scope = ea.parse(text, **{name: t for name, t in tensors.items() if f"{name}[" in text})
    assert ea.testing.assert_equal(computed(scope), scope) == "tested"


@pytest.mark.nightly
@settings(max_examples=3000, phases=[Phase.generate])
@given(SCOPES)
def test_rounding_in_any_expression_is_no_difference_nightly(scope):
    ea.testing.assert_equal(computed(scope), scope, examples=20)


@settings(max_examples=10, phases=[Phase.generate])
@given(strategies.scopes(max_points=60, where=False), st.randoms(use_true_random=False))
def test_one_element_that_is_off_is_found(scope, random):
    place = random.randrange(int(np.prod(scope.shape)))

    def off_by_one(*arrays):
        result = computed(scope)(*arrays)["O"]
        result.reshape(-1)[place] += 1
        return result

    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(off_by_one, scope, examples=10)
    error: Any = caught.value
    assert np.ravel_multi_index(error.point, scope.shape) == place
    assert not any(array.any() for array in error.arrays.values())


def relu(A):
    return np.maximum(A, 0)


def relu_without_nan(A):
    return np.fmax(A, 0)


def through_a_transform(A):
    return np.fft.irfft(np.fft.rfft(A), len(A))


RELU, SAME = "O[i] = Max(A[i], 0)", "O[i] = A[i]"


@pytest.mark.parametrize("nonfinite", ["exact", "spread"])
def test_nan_is_not_swallowed(nonfinite: str) -> None:
    assert ea.testing.assert_equal(relu, RELU, nonfinite=nonfinite, examples=30) == "tested"
    assert ea.testing.assert_equal(relu_without_nan, RELU, examples=30) == "tested"
    text = message(relu_without_nan, RELU, nonfinite=nonfinite, examples=30)
    assert "expected nan, returned 0" in text
    assert "A = np.array([float('nan')], np.float32)" in text


def test_nan_spreads_where_that_is_allowed() -> None:
    assert ea.testing.assert_equal(through_a_transform, SAME, examples=30) == "tested"
    spread = ea.testing.assert_equal(through_a_transform, SAME, nonfinite="spread", examples=30)
    assert spread == "tested"
    text = message(through_a_transform, SAME, nonfinite="exact", examples=30)
    assert "expected 0, returned nan" in text


def total(A):
    return A.sum() if len(A) else np.float32(1)


def test_axes_of_size_0_are_tested_on_request() -> None:
    text = "O[()] += A[i]"
    assert ea.testing.assert_equal(total, text, examples=40) == "tested"
    assert "expected 0, returned 1" in message(total, text, empty=True, examples=40)
    products = ea.testing.assert_equal(
        np.matmul, "O[i,k] += A[i,j]*B[j,k]", empty=True, examples=40
    )
    assert products == "tested"


def test_options_of_values_are_checked() -> None:
    with pytest.raises(UseError, match="nonfinite"):
        ea.testing.assert_equal(relu, RELU, nonfinite="all")
    with pytest.raises(UseError, match="empty"):
        ea.testing.assert_equal(relu, RELU, empty=3)
