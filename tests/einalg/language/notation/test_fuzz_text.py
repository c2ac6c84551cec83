"""Whatever is written, reading it ends soon, and only errors of einalg come out."""

from __future__ import annotations

import random
import sys
from time import process_time
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import EinalgError
from einalg.language.ir.functions import FUNCTIONS
from einalg.language.ir.scope import Scope
from einalg.language.notation.parser import parse_value
from tests.helpers.batches import examples

MOST_SECONDS = 20.0  # of a processor, for one text; most take milliseconds
TENSORS = {
    "A": ea.tensor("A", (4, 3)),
    "B": ea.tensor("B", (5,)),
    "W": ea.tensor("W", ((-1, 3), 2), "i8"),
    "E": ea.tensor("E", (0, 2)),
}
NIGHTLY = settings(
    max_examples=10_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)

WORDS = r"""
    O T A B W E i j k L Sum Max Min Prod Piecewise Eq And Or Not Mod exp sqrt log floor gamma atan2 pad fill where inf pi True False None
    = += == != <= >= < > + - * ** / // % & | ~ ^ @ << := ( ) ( ) [ ] [ ] { } , , : ; . ... ! # ' " \ ` $ ?
    0 1 2 3 7 -1 0.5 1e-3 1e400 1e999 10**9 999999999999 1j 0x1f 0b1 1_0 07 if else for in is not and or lambda def import del yield await
    async with return class f'{A}' 'x' b'x' *A **A λ é Σ ∞ 𝒜 ﬁ __class__ __import__ self _ __
"""
TOKENS = [*WORDS.split(), "\n", "\t", "\x00", "\x0c", "\u2028", "\ufeff"]
soup = st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join)
characters = st.text(
    st.one_of(st.sampled_from("OABij[](),:=+-*/%<>&|~.0123456789 \n"), st.characters()), max_size=40
)

# --- texts that are grammatical, mostly without meaning

names = st.sampled_from(["i", "j", "k", "A", "B", "W", "E", "O", "x", "pi", "exp", "L"])
numbers = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "-1",
        "7",
        "0.5",
        "1e300",
        "1e-300",
        "10**9",
        "999999999999",
        "1/3",
        "inf",
        "(-8)",
        "1000",
        "1e308",
    ]
)
operators = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "&", "|", ">"]
)
functions = st.sampled_from(sorted(FUNCTIONS))


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(inner, min_size=1, max_size=3).map(", ".join)
    ranges = st.lists(
        st.one_of(
            names,
            st.tuples(names, inner).map(":".join),
            st.tuples(names, inner, inner).map(":".join),
        ),
        min_size=1,
        max_size=2,
    )
    binders = st.tuples(st.sampled_from(["L", "Sum", "Max", "Min", "Prod"]), ranges.map(", ".join))
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["-", "~", "+"]), inner).map("".join),
        st.tuples(functions, some).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(names, some).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(st.sampled_from(["A", "B", "W"]), some, inner, some).map(
            lambda t: f"{t[0]}.pad({t[1]}, fill={t[2]})[{t[3]}]"
        ),
        st.tuples(binders, inner).map(lambda t: f"{t[0][0]}[{t[0][1]}]({t[1]})"),
        st.tuples(binders, inner, inner).map(
            lambda t: f"{t[0][0]}[{t[0][1]}]({t[1]}, where={t[2]})"
        ),
        st.tuples(inner, inner, inner).map(
            lambda t: f"Piecewise(({t[0]}, {t[1]} > {t[2]}), ({t[2]}, True))"
        ),
    )


accessed = st.sampled_from(
    ["A[i,j]", "A[i, 0]", "B[i]", "B.pad(1)[i+j-1]", "W[i, j%2]", "A[i//2, j]", "B[2*i+1]"]
)
values = st.recursive(st.one_of(accessed, accessed, names, numbers), _grow, max_leaves=6)
statements = st.tuples(
    st.sampled_from(["O[i]", "O[i,j]", "O[i:2,j]", "O[i:-1:3]", "O[()]", "O"]),
    st.sampled_from(["=", "+="]),
    values,
).map(" ".join)
texts = st.one_of(statements, values, st.lists(statements, min_size=2, max_size=3).map("\n".join))


def reads_or_says_why(text: str) -> None:
    start = process_time()
    try:
        expression = ea.parse(text, **TENSORS)
    except EinalgError as error:
        assert str(error)
    else:
        _ = str(expression), expression._repr_latex_(), expression.tree(), hash(expression)
        if len(str(expression)) < 2000:
            again = ea.parse(str(expression), **TENSORS)
            assert not isinstance(expression, Scope) or again == expression
    assert process_time() - start < MOST_SECONDS


def value_or_says_why(text: str) -> None:
    try:
        parse_value(text)
    except EinalgError as error:
        assert str(error)


@given(st.one_of(soup, characters))
@settings(max_examples=300)
@example("O[i] = A[i,0]\x0c + 1")
@example("O[i] = A[i,0]\u2028+ B[i]")
@example("\ufeffO[i] = B[i]")
@example("O[i] = B[i]\\")
@example("O[𝒜] = B[𝒜]")
@example("O[i] = B[i] + \U000e0100")
def test_any_text(text: str) -> None:
    reads_or_says_why(text)
    value_or_says_why(text)


@given(texts)
@settings(max_examples=examples(200, at_night=4000))
def test_grammatical_text(text: str) -> None:
    reads_or_says_why(text)


@given(values)
@settings(max_examples=100)
def test_single_values(text: str) -> None:
    value_or_says_why(text)


@pytest.mark.nightly
@given(st.one_of(soup, characters))
@NIGHTLY
def test_any_text_at_length(text: str) -> None:
    reads_or_says_why(text)


@pytest.mark.nightly
@given(texts)
@NIGHTLY
def test_grammatical_text_at_length(text: str) -> None:
    reads_or_says_why(text)


DEEP = sys.getrecursionlimit() * 3
HUGE = {
    "nested brackets": "O[i] = " + "(" * DEEP + "B[i]" + ")" * DEEP,
    "minus signs": "O[i] = " + "-" * DEEP + "B[i]",
    "negations": "O[i] = " + "~" * DEEP + "(B[i] > 0)",
    "a tower of powers": "O[i] = " + "2**" * DEEP + "B[i]",
    "a tower of numbers": "O[i] = " + "9**" * 20 + "9",
    "a power of a power": "O[i] = ((((2*B[i])**1000)**1000)**1000)**1000",
    "a power of a number of a power": "O[i] = ((2**1000)**1000)**1000",
    "a huge exponent": "O[i] = 10**10**10",
    "a huge negative exponent": "O[i] = 2**-1000000000",
    "a power of a sum": "O[i] = (B[i] + i + 1)**500",
    "a power of a long sum": "O[i] = (" + "+".join(f"B[i]**{n}" for n in range(1, 60)) + ")**900",
    "a huge literal": "O[i] = " + "9" * 90_000,
    "a huge float": "O[i] = " + "9" * 5000 + ".5*B[i]",
    "a huge product": "O[i] = " + "*".join(["1e300"] * 1000),
    "a huge integer product": "O[i] = " + "*".join(["999999999999"] * 5000),
    "exponentials of exponentials": "O[i] = exp(exp(exp(exp(1000.0))))",
    "exponentials of powers": "O[i] = exp(exp(1e300))*exp(-1e308)",
    "the gamma function": "O[i] = gamma(10**15)",
    "the gamma function of gamma": "O[i] = gamma(gamma(gamma(150)))",
    "the gamma function of a float": "O[i] = gamma(1e300) + loggamma(1e308)",
    "the gamma function of a fraction": "O[i] = gamma(1000000/3)",
    "a root of a huge number": "O[i] = sqrt(10**299 + 7)",
    "a root of a product": "O[i] = (10**299 + 7)**(1/997)",
    "a sine of a huge number": "O[i] = sin(10**300) + cos(1e308) + tan(10**299/7)",
    "a sine of pi by a prime": "O[i] = cos(pi/7919) + tan(pi/65537)",
    "a remainder of huge numbers": "O[i] = Mod(10**300, 7)*Mod(B[i], 10**300)",
    "a long sum": "O[i] = " + "+".join(f"B[i]*{n}" for n in range(3000)),
    "a long sum of different terms": "O[i] = " + "+".join(f"B[i]**{n}" for n in range(2, 400)),
    "a long product": "O[i] = " + "*".join(f"(B[i] + {n})" for n in range(300)),
    "a long chain of comparisons": "O[i] = " + " < ".join(["B[i]"] * 300),
    "many conditions": "O = L[i](B[i], where=("
    + ", ".join(f"i >= {-n}" for n in range(2000))
    + "))",
    "many maxima": "O[i] = Max(" + ", ".join(f"B[i]*{n}" for n in range(1, 40)) + ")",
    "nested maxima": "O[i] = " + "Max(B[i], 2*" * 60 + "1" + ")" * 60,
    "too many maxima": "O[i] = Max(" + ", ".join(f"B[i]*{n}" for n in range(3000)) + ")",
    "many cases": "O[i] = Piecewise("
    + ", ".join(f"({n}, B[i] > {n})" for n in range(60))
    + ", (0, True))",
    "nested cases": "O[i] = " + "Piecewise((1, B[i] > 0), (" * 20 + "2" + ", True))" * 20,
    "many disjunctions": "O[i] = "
    + " | ".join(f"(B[i] > {n}) & (B[i] < {n + 2})" for n in range(60)),
    "nested disjunctions": "O[i] = " + "~((B[i] > 1) & " * 20 + "(B[i] < 0)" + ")" * 20,
    "many indices": "O[" + ",".join(f"i{n}" for n in range(2000)) + "] = B[i0]",
    "many subscripts": "O[i] = A[" + "i," * 5000 + "]",
    "many statements": "\n".join(f"T{n}[i] = B[i]" for n in range(1500)),
    "statements of statements": "T0[i] = B[i]\n"
    + "\n".join(f"T{n + 1}[i] = T{n}[i]*T{n}[i]" for n in range(300)),
    "scopes in scopes": "O[i] = " + "(L[i:5](" * 35 + "B[i]" + "))[i]" * 35,
    "reductions in reductions": "O[i] = "
    + "".join(f"Sum[r{n}:2](" for n in range(70))
    + "B[i]"
    + ")" * 70,
    "quotients of quotients": "O[i:2] = B[" + "(" * 70 + "i" + "//2 + i)" * 70 + "]",
    "remainders of remainders": "O[i:2] = B[" + "(" * 70 + "i" + "%7 + 3*i)" * 70 + "%5]",
    "sums in quotients": "O[i:2,j:2] = B[("
    + "(" * 12
    + "i"
    + "".join(f"//{n} + j%{n})" for n in range(2, 14))
    + ")%5]",
    "a huge coefficient": "O[i:2] = B[i*10**200 % 5]",
    "a huge divisor": "O[i:2] = B[i//10**200]",
    "a giant range": "O[i:10**9] = 1",
    "a giant range that is read": "O[i:10**9] = B[i]",
    "a giant range under a remainder": "O[i:10**9, j:10**9] = B[(i*j//1)%5]",
    "a giant range of a quotient": "O[i:10**9] = B[i//(2*10**8)]",
    "a giant range far away": "O[i:10**30:10**30 + 5] = B[i - 10**30]",
    "a giant range with conditions": "O = L[i:10**9, j:10**9](B[i - j], where=(j <= i, i "
    "- j <= 4, (i + j)%2 == 0))",
    "a giant sum": "O[i] = Sum[j:10**9](B[i])",
    "a giant padding": "O[i:10**12] = B.pad(10**12)[i - 10**6]",
    "an inner scope of giant range": "O[i:5] = (L[i:10**9](B[i%5]))[i*10**8]",
    "spaces": "O[i] = B[i]" + " " * 90_000,
    "new lines": "\n" * 90_000 + "O[i] = B[i]",
    "commas": "O[i] = B[" + "," * 50_000 + "]",
    "semicolons": "O[i] = B[i]" + ";" * 50_000,
    "brackets that open": "[" * 99_999,
    "brackets that close": ")" * 99_999,
    "quotes": "'" * 99_999,
    "calls of calls": "O[i] = exp" + "(1)" * 20_000,
    "subscripts of subscripts": "O[i] = B" + "[i]" * 20_000,
    "attributes of attributes": "O[i] = B" + ".pad" * 20_000,
    "pads of pads": "O[i] = B" + ".pad(1)" * 3000 + "[i]",
    "pads of different fill": "O[i] = B"
    + "".join(f".pad(1, fill={n})" for n in range(300))
    + "[i]",
    "conditional expressions": "O[i] = " + "1 if B[i] else " * 3000 + "2",
    "lambdas": "O[i] = " + "lambda x: " * 3000 + "x",
    "comprehensions": "O[i] = [" + "B[i] " + "for x in y " * 3000 + "]",
    "assignments": "O[i] = " * 3000 + "B[i]",
    "f-strings": "O[i] = " + "f'{" * 3 + "B[i]" + "}'" * 3,
    "walrus": "O[i] = (y := (x := B[i]))",
    "star arguments": "O[i] = exp(*B[i], **B[i])",
    "keyword names": "for[i] = in[i]",
    "a null byte": "O[i] = B[i]\x00",
    "no bytes": "\x00" * 1000,
    "surrogates": "O[i] = \udc80B[i]",
    "from the right": "\u202eO[i] = B[i]\u202c",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_nothing_hangs(text: str) -> None:
    reads_or_says_why(text)


def test_giant_ranges_are_built() -> None:
    for name in (
        "a giant range",
        "a giant range of a quotient",
        "a giant range far away",
        "a giant range with conditions",
        "a giant sum",
    ):
        assert isinstance(ea.parse(HUGE[name], **TENSORS), Scope), name


# --- the Python door

i, j, k = ea.indices("i j k")
ODD: list[Any] = [
    None, True, 0, -1, 3, 10**40, 0.5, float("nan"), float("inf"), 1j, "i", b"i", "", [], [1], (), (1, 2), {}, {1}, set(), object(), object, len, ...,
    slice(1, 2), i, 2 * i, i // 2, i * j, i > 2, ea.L, ea.Sum, range(3), iter([]), NotImplemented,
    TENSORS["A"], TENSORS["A"][i, j], TENSORS["B"].pad(1), ea.Sum[k](TENSORS["B"][k]), ea.L[i](TENSORS["B"][i]),
    np.ones(3), np.ones((), int), np.int64(2), sympy.Symbol("x"), sympy.Matrix([[1]]), sympy.Symbol("n", commutative=False), sympy.I, sympy.nan,
]  # fmt: skip
CALLS: dict[str, Any] = {
    "L": lambda a, b, c: ea.L[a](b),
    "L of two": lambda a, b, c: ea.L[a, b](c),
    "range": lambda a, b, c: ea.L[i:a:b](c),
    "where": lambda a, b, c: ea.L[i:2](a, where=b),
    "Sum": lambda a, b, c: ea.L[i:2](ea.Sum[a](b)),
    "Max": lambda a, b, c: ea.Max(a, b),
    "access": lambda a, b, c: TENSORS["A"][a, b],
    "access of one": lambda a, b, c: TENSORS["B"][a],
    "pad": lambda a, b, c: TENSORS["A"].pad(a, b, fill=c),
    "tensor": lambda a, b, c: ea.tensor("X", a, b),
    "axes": lambda a, b, c: ea.tensor("X", (a, b)),
    "names": lambda a, b, c: ea.tensor(a, (3,), role=b),
    "parse": lambda a, b, c: ea.parse(a, A=b),
    "shape": lambda a, b, c: ea.parse("O[i] = X[i]", X=a),
    "einsum": lambda a, b, c: ea.einsum("ij,j->i", a, b),
    "equation": lambda a, b, c: ea.einsum(a, b),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_odd_values_in_the_python_door(name: str) -> None:
    draws = random.Random(name)
    for _ in range(150):
        given_values = [draws.choice(ODD) for _ in range(3)]
        try:
            CALLS[name](*given_values)
        except EinalgError as error:
            assert str(error)
