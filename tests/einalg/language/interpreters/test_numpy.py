"""The vectorised executor against the reference evaluator: exact on integers, close on floats, at
any memory.
"""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import NotationError, ShapeError
from einalg.language.interpreters.numpy import execute, run
from einalg.language.interpreters.numpy.blocking import largest, most_elements
from einalg.language.interpreters.numpy.functions import erf
from einalg.language.ir.dtypes import bounds, numpy_dtype
from einalg.language.ir.program import as_program, statement_tensor
from einalg.testing import strategies
from tests.helpers.operators.harness import CASES, load_cases, parameter_sets

TINY = 64  # bytes: nearly every element is a block of its own
Shapes = dict[str, tuple[int, ...]]

EXPRESSIONS: dict[str, tuple[str, Shapes]] = {
    "matmul": ("O[i,j] += A[i,k]*B[k,j]", {"A": (3, 4), "B": (4, 5)}),
    "batched": ("O[b,i,j] += A[b,i,k]*B[b,j,k]", {"A": (2, 3, 5), "B": (2, 4, 5)}),
    "three factors": ("O[i,l] += A[i,j]*B[j,k]*C[k,l]", {"A": (3, 2), "B": (2, 5), "C": (5, 3)}),
    "shared by three": (
        "O[i] += A[i,k]*B[j,k]*C[k]*D[j]",
        {"A": (3, 4), "B": (2, 4), "C": (4,), "D": (2,)},
    ),
    "diagonal": ("O[i] += A[i,i]*B[j,i,j]", {"A": (3, 3), "B": (4, 3, 4)}),
    "outer": ("L[i,j](A[i]*B[j])", {"A": (3,), "B": (1,)}),
    "dot": ("L[()](Sum[i,j](A[i]*B[j,i]))", {"A": (3,), "B": (2, 3)}),
    "stride, dilation, odd padding": (
        "O[n,h:3,w:4,f] += A.pad(0,(1,2),(1,0),0)[n,2*h+r-1,w+2*s-1,c]*K[r,s,f,c]",
        {"A": (2, 5, 6, 3), "K": (3, 2, 4, 3)},
    ),
    "depthwise": (
        "O[n,c,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[c,r,s]",
        {"A": (2, 3, 4, 5), "K": (3, 3, 3)},
    ),
    "transposed": (
        "L[n:2,f:3,h:9](Sum[c,r:3](A.pad(0,0,1)[n,c,(h-r)//2]*K[c,f,r], where=Eq((h-r)%2,0)))",
        {"A": (2, 2, 4), "K": (2, 3, 3)},
    ),
    "reversed": ("L[i:5](A[4-i]-2*A[i])", {"A": (5,)}),
    "nested, negative range": (
        "L[h:5](Sum[r:3]((L[t:-1:6](A.pad(1)[t]*A.pad(2)[t-1]))[h+r-1]))",
        {"A": (5,)},
    ),
    "nested, padded": ("L[i:-2:6]((L[a:4](A[a]*B[a])).pad(2,fill=3)[i]*i)", {"A": (4,), "B": (4,)}),
    "two fills": ("L[i:-3:7](A.pad((1,2),fill=5).pad(2,fill=-1)[i])", {"A": (4,)}),
    "hole read through a pad": (
        "L[i:-1:5,j]((L[a:4,b:4](A[a,b], where=a>=b)).pad(1,0,fill=7)[i,j])",
        {"A": (4, 4)},
    ),
    "hole of a pad of nothing": (
        "L[i,j]((L[a:4,b:4](A[a,b], where=Eq(a+b,3))).pad(0,0,fill=2).pad(0,0,fill=9)[i,j])",
        {"A": (4, 4)},
    ),
    "triangle": ("L[i,j](A[i,j]+1, where=i>=j)", {"A": (4, 4)}),
    "triangular sum": ("L[i,j](Sum[k](A[i,k]*B[k,j], where=k<=i))", {"A": (4, 4), "B": (4, 3)}),
    "condition beyond the box": (
        "L[i:4,j:4](Sum[k:2](A[i-j]*B[k,j], where=i>=j))",
        {"A": (4,), "B": (2, 4)},
    ),
    "never": ("L[i](Sum[j](A[i]*A[j], where=j>=9)+1)", {"A": (4,)}),
    "max pool": ("L[n,h:3,c](Max[r:3](A.pad(0,(1,0),0,fill=-inf)[n,2*h+r-1,c]))", {"A": (2, 6, 3)}),
    "max of nothing": ("L[i](Max[j](A[i,j], where=j>=i))", {"A": (4, 2)}),
    "extrema": ("L[i,j](Max[k](A[i,k]+B[k,j])-Min[k](A[i,k]*B[k,j]))", {"A": (3, 4), "B": (4, 5)}),
    "products": ("L[i](Prod[j](A[i,j]+i-j)*Prod[k:2](A[i,0]))", {"A": (3, 4)}),
    "siblings": (
        "L[i](Sum[k](A[i,k]*B[k])*Sum[k:2](A[i,k])-Max[k](B[k]))",
        {"A": (3, 4), "B": (4,)},
    ),
    "sum of sums": (
        "L[i](Sum[j](B[j]*Sum[k](A[i,k]*C[j,k])))",
        {"A": (3, 4), "B": (2,), "C": (2, 4)},
    ),
    "sum under a sum": (
        "L[i](Sum[j](Sum[k](A[i,k]*C[j,k], where=k>=j), where=j>=i))",
        {"A": (3, 4), "C": (2, 4)},
    ),
    "sum of a sum of products": (
        "L[i,j](Sum[k](A[i,k]*B[k,j]-C[i]+2))",
        {"A": (3, 4), "B": (4, 5), "C": (3,)},
    ),
    "distance": ("L[i,j](Sum[k]((A[i,k]-B[j,k])**2))", {"A": (3, 4), "B": (2, 4)}),
    "unused indices": (
        "L[i,j:2](Sum[k:5](A[i])+Sum[k:3](2)+Max[k:2](7)+Prod[k:3](A[i]))",
        {"A": (3,)},
    ),
    "indices as numbers": ("L[i:-2:3,j:4](i*j + A[j]*(i//2) + i**2 + 2**j*A[j]**j)", {"A": (4,)}),
    "banded": ("L[i,j:5](Sum[d](Q[i,d]*K.pad(2,0)[i+j-2,d]))", {"Q": (6, 3), "K": (6, 3)}),
    "split": ("L[i:12](A[i//4,i%4])", {"A": (3, 4)}),
    "merge": ("L[i:3,j:4](A[4*i+j])", {"A": (12,)}),
    "look up beside strides": (
        "L[i:6,j:3,k](A[i//2,2*j+1,k]*B[(i+j)%4,k])",
        {"A": (3, 6, 2), "B": (4, 2)},
    ),
    "one index in three axes": ("L[i:6](A[i//2,i,i%3])", {"A": (3, 6, 3)}),
    "cases": ("L[i:4,j:4](Piecewise((A[i,j],i>=j),(i*j-2,i+1<j),(A[j,i],True)))", {"A": (4, 4)}),
    "cases without a rest": ("L[i](Piecewise((A[i],A[i]>=0),(-A[i],A[i]<0)))", {"A": (9,)}),
    "functions of integers": (
        "L[i](Max(A[i],B[i],1)*Min(A[i],2)+Abs(A[i])-sign(B[i])+floor(A[i]/2)+Mod(A[i],3))",
        {"A": (9,), "B": (9,)},
    ),
    "logic": (
        "L[i](Piecewise((1,(A[i]>B[i])|Eq(A[i],0)),(2,Ne(A[i],B[i])&(A[i]<1)),(3,True)))",
        {"A": (9,), "B": (9,)},
    ),
    "contraction of nothing": ("L[i,j](Sum[k](A[i,k]*B[k,j]))", {"A": (3, 0), "B": (0, 4)}),
    "read of nothing": ("L[i:2](A[i-5]+3, where=i>=5)", {"A": (0,)}),
    "truth": ("L[i](A[i]>B[i])", {"A": (9,), "B": (9,)}),
    "empty": ("L[i:0,j](A[j])", {"A": (3,)}),
    "empty input": ("L[i](Sum[j](A[i,j])+Prod[j](A[i,j]))", {"A": (3, 0)}),
    "sum over no index": ("L[i](Sum[()](A[i]*A[i])+Max[()](A[i]))", {"A": (3,)}),
    "number": ("L[()](3)", {}),
    "sizes of 1": (
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,c,f]",
        {"A": (1, 1, 1, 1), "K": (3, 1, 1, 1)},
    ),
}
FLOATS: dict[str, tuple[str, Shapes]] = {
    "softmax": (
        "L[i,j](exp(A[i,j]-Max[k](A[i,k]))/Sum[k](exp(A[i,k]-Max[l](A[i,l]))))",
        {"A": (3, 5)},
    ),
    "causal": (
        "L[i,j](Sum[k](Piecewise((exp(A[i,k]),k<=i),(0,True))*B[k,j])/Sum[k](exp(A[i,k]), "
        "where=k<=i))",
        {"A": (4, 4), "B": (4, 2)},
    ),
    "masked": (
        "L[i](Sum[k](exp((L[a,b](Piecewise((A[a,b],a>=b),(-inf,True))))[i,k])*B[k]))",
        {"A": (4, 4), "B": (4,)},
    ),
    "layer norm": (
        "L[i,j]((A[i,j]-Sum[k](A[i,k])/5)/(Sum[k](A[i,k]**2)/5+0.001)**0.5)",
        {"A": (3, 5)},
    ),
    "functions": (
        "L[i](tanh(A[i])+erf(A[i])+sin(A[i])*cos(A[i])+exp(-A[i]**2)+log(A[i]**2+1)+erfc(A[i])+atan2(A[i],2))",
        {"A": (9,)},
    ),
    "gamma": ("L[i](gamma(A[i]**2+1)+loggamma(A[i]**2+2))", {"A": (5,)}),
    "quotients": ("L[i](A[i]/3+1/(A[i]**2+1)+(A[i]**2+2)**-0.5)", {"A": (5,)}),
    "powers of indices": ("L[i](A[i]**(i-2))", {"A": (5,)}),
    "roots of indices": ("L[i]((A[i]**2+1)**(i/2))", {"A": (5,)}),
    "mean": ("L[c](Sum[h,w](A[h,w,c])/6)", {"A": (2, 3, 4)}),
    "fraction outside": ("L[i,j](Sum[k](A[i,k]*B[k,j]/7))", {"A": (3, 4), "B": (4, 5)}),
}


def _arrays(shapes: Shapes, floats: bool, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal(shape) if floats else random.integers(-4, 5, shape)
        for name, shape in shapes.items()
    }


def _assert_same(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.astype(object) if want.dtype == object else got, want)


@pytest.mark.parametrize("memory", [2**28, TINY, 300])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_integers_are_exact(name: str, memory: int) -> None:
    text, shapes = EXPRESSIONS[name]
    expr = ea.parse(text, **shapes)
    arrays = _arrays(shapes, floats=False)
    (got,) = execute(expr, arrays, memory=memory).values()
    want = ea.evaluate(expr, **arrays)
    _assert_same(got, want)
    assert got.dtype == want.dtype or "inf" in text or np.isinf(want).any() or "floor" in text


@pytest.mark.parametrize("memory", [2**28, TINY])
@pytest.mark.parametrize("name", [*EXPRESSIONS, *FLOATS])
def test_floats_are_close(name: str, memory: int) -> None:
    text, shapes = {**EXPRESSIONS, **FLOATS}[name]
    expr = ea.parse(text, **shapes)
    arrays = _arrays(shapes, floats=True)
    (got,) = execute(expr, arrays, memory=memory).values()
    want = ea.evaluate(expr, **arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    wide = ea.parse(text, **{name: ea.tensor(name, shape, "f64") for name, shape in shapes.items()})
    np.testing.assert_allclose(run(wide, **arrays), want, rtol=1e-13, atol=1e-13)


@given(st.data())
def test_random_expressions(data: st.DataObject) -> None:
    functions = data.draw(st.booleans())
    expr = data.draw(
        st.one_of(
            strategies.scopes(functions=functions, truths=functions),
            strategies.programs(functions=functions, truths=functions),
        )
    )
    arrays = data.draw(strategies.arrays_for(expr))
    want = ea.evaluate(expr, **arrays)
    want = want if isinstance(want, dict) else {as_program(expr).outputs[0]: want}
    got = execute(expr, arrays, memory=data.draw(st.sampled_from([2**28, TINY, 1000])))
    assert list(got) == list(want)
    for name, values in want.items():
        if (
            values.dtype != object and np.abs(values).max(initial=0) < 2**50
        ):  # intermediate values may need more than 64 bits
            _assert_same(got[name], values)


load_cases()


@pytest.mark.parametrize("name", sorted(CASES))
def test_operators(name: str) -> None:
    for function in CASES[name].values():
        for label, (expr, arrays, _) in parameter_sets(name, function, 3):
            want = ea.evaluate(expr, **arrays)
            want = want if isinstance(want, dict) else {as_program(expr).outputs[0]: want}
            for output, values in execute(expr, arrays).items():
                np.testing.assert_allclose(
                    values.astype(float),
                    want[output].astype(float),
                    rtol=1e-4,
                    atol=1e-4,
                    err_msg=label,
                )


def test_a_sum_over_windows_is_computed_in_brief_parts() -> None:
    """Whoever has no more time ends the evaluation between two parts."""
    windows = ea.parse("O[i:170,j:170] += A[i+r,j+s]*B[r]*C[s]", A=(200, 200), B=(31,), C=(31,))
    parts = []
    arrays = {"A": np.ones((200, 200)), "B": np.ones(31), "C": np.ones(31)}
    (got,) = execute(windows, arrays, between_blocks=lambda: parts.append(1)).values()
    assert len(parts) > 170 * 170 * 31 * 31 / 5_000_000
    np.testing.assert_allclose(got, 31 * 31)


def test_programs() -> None:
    program = ea.parse("T[i] = A[i]*2\nP[i] = T[i]+1\nQ[i,j] = T[i]*A[j]", A=(3,))
    arrays = {"A": np.arange(3)}
    got = execute(program, arrays)
    assert list(got) == ["P", "Q"]
    for name, values in ea.evaluate(program, **arrays).items():
        _assert_same(got[name], values)
    assert list(run(program, **arrays)) == ["P", "Q"]


def test_a_statement_with_holes_is_padded() -> None:
    hole = ea.parse("L[i,j](A[i,j], where=i>=j)", A=(3, 3))
    i, j = ea.indices("i j")
    program = ea.Program(
        [
            ("T", hole),
            ("O", ea.L[i:3, j:4](statement_tensor("T", hole).pad(0, (0, 1), fill=5)[i, j])),
        ]
    )
    arrays = {"A": np.arange(9).reshape(3, 3)}
    _assert_same(run(program, **arrays), ea.evaluate(program, **arrays))


@pytest.mark.parametrize(
    ("declared", "given_dtype", "expected"),
    [
        ("f32", "float64", "float32"),
        ("f64", "float32", "float64"),
        ("f16", "float16", "float16"),
        ("f32", "int8", "int64"),
        ("i8", "int8", "int64"),
        ("bf16", "float32", "float32"),
    ],
)
def test_dtypes(declared: str, given_dtype: str, expected: str) -> None:
    expr = ea.L[ea.indices("i")](ea.tensor("A", (4,), declared)[ea.indices("i")] * 3)
    got = run(expr, A=np.arange(4).astype(given_dtype))
    assert got.dtype == expected
    np.testing.assert_array_equal(got, [0, 3, 6, 9])


def test_integers_beside_floats_follow_the_declared_type() -> None:
    expr = ea.parse("L[i](A[i]*B[i]+i)", A=(3,), B=ea.tensor("B", (3,), "i32"))
    assert run(expr, A=np.ones(3, np.float32), B=np.arange(3)).dtype == np.float32


def test_integers_wrap_round() -> None:
    expr = ea.parse("L[i](A[i]*A[i])", A=ea.tensor("A", (1,), "i64"))
    assert run(expr, A=np.array([2**32 + 1]))[0] == 2**33 + 1


def test_large_integers_in_a_contraction_are_exact() -> None:
    expr = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))
    random = np.random.default_rng(1)
    arrays = {
        "A": random.integers(-(2**29), 2**29, (3, 4)),
        "B": random.integers(-(2**29), 2**29, (4, 5)),
    }
    _assert_same(run(expr, **arrays), ea.evaluate(expr, **arrays))


ROUNDED = [
    "floor(n[i]/128)",
    "ceiling(n[i]/7)",
    "floor(n[i]/m[i])",
    "ceiling(n[i]/(2*m[i]))",
    "floor(n[i]/4 - m[i]/3)",
    "Max[j:3](floor(n[j]/5))",
    "Piecewise((floor(n[i]/2), n[i] > m[i]), (ceiling(m[i]/3), True))",
]


@pytest.mark.parametrize("dtype", ["i64", "i32", "u8"])
@given(data=st.data())
def test_rounded_quotients_of_integers_are_exact(dtype: str, data: st.DataObject) -> None:
    _, high = bounds(dtype)
    numbers = st.lists(st.integers(high // 8, high // 4), min_size=3, max_size=3)
    divisors = st.lists(st.integers(1, high // 16), min_size=3, max_size=3)
    arrays = {"n": data.draw(numbers), "m": data.draw(divisors)}
    for text in ROUNDED:
        tensors = {name: ea.tensor(name, (3,), dtype) for name in "nm" if f"{name}[" in text}
        expr = ea.parse(f"O[i:3] = {text}", **tensors)
        values = {name: np.array(arrays[name], numpy_dtype(dtype)) for name in tensors}
        assert run(expr, **values).tolist() == ea.evaluate(expr, **values).tolist(), (text, values)


def test_infinite_inputs_outside_a_condition_do_not_count() -> None:
    expr = ea.parse("L[i](Sum[j](A[i,j]*B[j], where=j<=i))", A=(2, 2), B=(2,))
    arrays = {"A": np.array([[1.0, np.inf], [2.0, 3.0]]), "B": np.array([5.0, np.nan])}
    np.testing.assert_array_equal(run(expr, **arrays), ea.evaluate(expr, **arrays))


def test_a_case_that_is_not_taken_may_be_undefined() -> None:
    expr = ea.parse("L[i](Piecewise((1/A[i],Ne(A[i],0)),(0,True)))", A=(3,))
    np.testing.assert_array_equal(
        run(expr, A=np.array([0.0, 2.0, -4.0])), np.array([0, 0.5, -0.25])
    )


def test_results_are_arrays_of_their_own() -> None:
    given_array = np.arange(4)
    program = ea.parse("T[i] = A[i]\nO[i] = T[i]", A=(4,))
    results = execute(ea.Program(program.statements, ["T", "O"]), {"A": given_array})
    for result in results.values():
        result += 1
    assert given_array.tolist() == [0, 1, 2, 3]
    assert results["T"].tolist() == results["O"].tolist() == [1, 2, 3, 4]


def test_errors() -> None:
    expr = ea.parse("L[i](A[i])", A=(3,))
    with pytest.raises(ShapeError, match="no array is given for A"):
        run(expr)
    with pytest.raises(ShapeError, match=r"A has shape \(3,\), but an array of shape \(2,\)"):
        run(expr, A=np.zeros(2))
    with pytest.raises(ShapeError, match="B is not an input"):
        run(expr, A=np.zeros(3), B=np.zeros(3))
    with pytest.raises(ShapeError, match="holds complex128"):
        run(expr, A=np.zeros(3, complex))
    with pytest.raises(NotationError, match="no value for"):
        run(
            ea.Scope(
                [(ea.indices("i"), 0, 3)], (), sympy.zeta(ea.tensor("A", (3,))[ea.indices("i")])
            ),
            A=np.zeros(3),
        )


def test_entries_that_are_not_read_are_ignored() -> None:
    assert execute(ea.parse("L[i](A[i])", A=(1,)), {"A": np.array([3]), "B": np.array("text")})[
        "O"
    ].tolist() == [3]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_erf(dtype: Any) -> None:
    points = np.concatenate(
        [
            np.linspace(-7, 7, 10001),
            np.logspace(math.log10(np.finfo(dtype).tiny), 1, 999),
            [0.0, np.inf, -np.inf],
        ]
    ).astype(dtype)
    exact = np.array([math.erf(v) for v in points])
    got = erf(points)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, exact, rtol=2 * np.finfo(dtype).eps, atol=0)
    assert np.isnan(erf(np.array([np.nan]))).all()


REAL_SIZES: dict[str, tuple[str, Shapes, int]] = {  # with the elements of padded inputs
    "max-plus": ("L[i,j](Max[k](A[i,k]+B[k,j]))", {"A": (120, 130), "B": (130, 140)}, 0),
    "convolution": (
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,c,f]",
        {"A": (1, 56, 56, 32), "K": (3, 3, 32, 16)},
        58 * 58 * 32,
    ),
    "split": ("L[i:4096,j](exp(A[i//64,i%64,j]))", {"A": (64, 64, 50)}, 0),
    "scalar": ("L[()](Sum[i,j](tanh(A[i]-B[j])))", {"A": (900,), "B": (1100,)}, 0),
}


@pytest.mark.parametrize("name", REAL_SIZES)
def test_temporaries_stay_within_memory(name: str) -> None:
    """Cut into blocks, an evaluation allocates a few of them besides padded inputs and outputs;
    whole, it needs more.
    """
    text, shapes, padded = REAL_SIZES[name]
    expr = ea.parse(text, **{k: ea.tensor(k, shape, "f64") for k, shape in shapes.items()})
    arrays = _arrays(shapes, floats=True)
    memory = 2**18
    whole, most = _peak(expr, arrays, 2**30)
    cut, least = _peak(expr, arrays, memory)
    np.testing.assert_allclose(cut, whole, rtol=1e-11, atol=1e-11)
    assert least < cut.nbytes + 8 * padded + 4 * memory < most


def _peak(expr: Any, arrays: dict[str, Any], memory: int) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        (value,) = execute(expr, arrays, memory=memory).values()
        return value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_convolution_at_a_real_size() -> None:
    expr = ea.parse(
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,c,f]",
        A=(1, 56, 56, 64),
        K=(3, 3, 64, 64),
    )
    arrays = _arrays({"A": (1, 56, 56, 64), "K": (3, 3, 64, 64)}, floats=True)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(arrays["A"], ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2)
    )
    got = run(expr, **arrays)
    assert got.dtype == np.float32
    np.testing.assert_allclose(
        got,
        np.einsum("nhwcrs,rscf->nhwf", windows, arrays["K"], optimize=True),
        rtol=1e-3,
        atol=1e-3,
    )


def test_what_no_later_statement_reads_is_given_up() -> None:
    """Of a chain of large values two live at a time, beside the input; padded ones too, and equal
    statements that come later are computed.
    """
    size = 1 << 18
    steps = [f"T{n}[i:{size}] = 2*T{n - 1}.pad((1,0))[i-1] + 1" for n in range(1, 20)]
    chain = [
        "T0[i] = A[i] + 1",
        *steps,
        "S[x:1] += T19[i]",
        "U[i] = A[i] + 1",
        "O[x] = S[x] + U[3]",
    ]
    program = ea.parse("\n".join(chain), A=ea.tensor("A", (size,), "f64"))
    a = np.ones(size)
    tracemalloc.start()
    try:
        found = execute(program, {"A": a})
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8 * 8 * size
    value = np.full(size, 2.0)
    for _ in range(19):
        value = 2 * np.concatenate([[0], value[:-1]]) + 1
    assert found["O"][0] == pytest.approx(value.sum() + 2)


def test_a_sum_may_have_more_points_than_numpy_can_count():
    letters = "abcdefghijklmnopqrstu"
    terms = [letters[k] + letters[k + 1] for k in range(20)]
    equation = f"{','.join(terms)}->au"
    matrices = [np.random.default_rng(k).standard_normal((16, 16)) for k in range(20)]
    expression = ea.einsum(equation, *(ea.tensor(f"A{k}", (16, 16), "f64") for k in range(20)))
    result = execute(expression, {f"A{k}": matrix for k, matrix in enumerate(matrices)})["O"]
    np.testing.assert_allclose(result, np.linalg.multi_dot(matrices), rtol=1e-9)


def test_what_is_called_between_blocks_may_end_the_evaluation() -> None:
    box = ea.parse("O[i:90,j:90] = Max[r:9,s:9](A[i+r,j+s])", A=(98, 98))
    arrays = {"A": np.ones((98, 98))}
    calls: list[None] = []

    def end_at_the_fifth() -> None:
        calls.append(None)
        if len(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(box, arrays, memory=1 << 12, between_blocks=end_at_the_fifth)
    assert len(calls) == 5
    execute(box, arrays, memory=1 << 12, between_blocks=lambda: calls.append(None))
    assert len(calls) > 5 + 50


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_needs_no_blocks_is_not_underestimated(name: str) -> None:
    text, shapes = EXPRESSIONS[name]
    expression = ea.parse(text, **shapes)
    for _, scope in as_program(expression):
        ranges = {it.index: (it.low, it.high) for it in scope.iterators}
        assert most_elements(scope.body, ranges) >= largest(scope.body, ranges)
