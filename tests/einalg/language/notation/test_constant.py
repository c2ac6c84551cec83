"""Constant tensors: exact values that belong to an expression and are never asked for."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from codegen.runtime.array_arguments import loaded, sample
from derive.results.sample_inputs import sample_inputs
from einalg.language.analysis.canonical import key
from einalg.language.interpreters.numpy import execute, run
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.ir.program import as_program, in_double
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.notation.program_json import program_from_record, program_record
from einalg.testing import strategies

HALF = Fraction(1, 2)
rationals = st.fractions(-9, 9, max_denominator=12)


def transform(values, dtype="f32"):
    return ea.parse("O[i] += U[i,j]*x[j]", U=ea.constant("U", values, dtype), x=(len(values[0]),))


ONE = transform([[1, -1], [HALF, 0]])


@pytest.mark.parametrize(
    "values",
    [
        [[1, HALF], [0, -3]],
        ((1, sympy.Rational(1, 2)), (sympy.Integer(0), -3)),
        [[np.int64(1), 0.5], [np.float32(0), -3]],
        np.array([[2, 1], [0, -6]]) * HALF,
    ],
)
def test_values_of_every_kind(values):
    made = ea.constant("U", values)
    assert (
        made == ea.constant("U", [[1, HALF], [0, -3]])
        and made.shape == (2, 2)
        and made.role == "constant"
    )
    assert made.values == (1, sympy.Rational(1, 2), 0, -3) and all(
        isinstance(v, sympy.Rational) for v in made.values
    )


def test_arrays_and_shapes():
    assert ea.constant("U", np.arange(6).reshape(1, 2, 3)).shape == (1, 2, 3)
    assert ea.constant("U", 3).shape == () and ea.constant("U", []).shape == (0,)
    assert (
        isinstance(ea.constant("U", [1]), Tensor) and ea.constant("U", [1]).is_compile_time_constant
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ea.constant("U", [[1, 2], [3]]),
            "U: the rows of a constant have different lengths\n  give nested lists of "
            "equal lengths",
        ),
        (
            lambda: ea.constant("U", [1, "2"]),
            "U: a value of a constant must be a rational number, not '2'\n  e.g. 2, Fraction(1, 3)",
        ),
        (
            lambda: ea.constant("U", [sympy.sqrt(2)]),
            "U: a value of a constant must be a rational number, not sqrt(2)",
        ),
        (
            lambda: ea.constant("U", [float("nan")]),
            "U: a value of a constant must be a rational number, not nan",
        ),
        (
            lambda: ea.constant("U", [float("inf")]),
            "U: a value of a constant must be a rational number, not inf",
        ),
        (
            lambda: ea.constant("U", [HALF], "i32"),
            "U: 1/2 is no value of dtype i32\n  give another dtype, e.g. dtype='f32'",
        ),
        (lambda: ea.constant("U", [-1], "u8"), "U: -1 is no value of dtype u8"),
        (lambda: ea.constant("a b", [1]), "'a b' is not a name for a tensor"),
        (lambda: ea.constant("U", [1], "f7"), "dtype 'f7' is unknown"),
        (
            lambda: Constant("U", (3,), "f32", (1, 2)),
            "U of shape (3,) has 3 elements, but 2 values\n  give one value an element",
        ),
        (
            lambda: ea.evaluate(ONE, x=[1, 2], U=[[1, 2], [3, 4]]),
            "U is not an input of the expression; the inputs are x\n  leave it out",
        ),
        (
            lambda: run(ONE, x=[1, 2], U=[[1, 2], [3, 4]]),
            "U is not an input of the expression; the inputs are x",
        ),
        (
            lambda: loaded(as_program(ONE).tensors, {"x": [1, 2], "U": [1]}),
            "U is not an input of the program; the inputs are x",
        ),
        (
            lambda: loaded(as_program(ONE).tensors, {}),
            "no array is given for x, of shape (2,)\n  pass x=array",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(ea.EinalgError) as error:
        call()
    assert str(error.value).startswith(message)


def test_two_constants_of_one_name_are_refused():
    with pytest.raises(
        ea.NotationError,
        match=r"two tensors are called U, of values \(1, 3\) and \(1, 2\)\n  give each a "
        r"name of its own",
    ):
        ea.parse(
            "O[i] = U[i] + (L[j](V[j]))[i]", U=ea.constant("U", [1, 2]), V=ea.constant("U", [1, 3])
        )


def test_values_belong_to_the_identity():
    other = transform([[1, -1], [HALF, 1]])
    assert other != ONE and key(other) != key(ONE) and str(other) == str(ONE)
    same = transform([[1, -1], [0.5, 0]])
    assert same == ONE and hash(same) == hash(ONE) and key(same) == key(ONE)
    assert transform([[1, -1], [HALF, 0]], "f64") != ONE
    assert ea.constant("U", [1]) != ea.constant("V", [1]) and ea.constant("U", [1]) != ea.tensor(
        "U", (1,)
    )


@given(st.lists(st.lists(rationals, min_size=2, max_size=2), min_size=1, max_size=3))
def test_round_trips(values):
    scope = transform(values)
    made = scope.tensors["U"]
    assert type(made)(*made.args) == made and pickle.loads(pickle.dumps(scope)) == scope
    assert ea.parse(str(scope), **scope.tensors) == scope
    program = as_program(scope)
    assert program_from_record(json.loads(json.dumps(program_record(program)))) == program


@pytest.mark.parametrize("broken", [["1"], ["1", "x"], ["1", "1/0"], None, [1, []]])
def test_a_broken_record(broken):
    written = program_record(as_program(ea.parse("O[i] = U[i]", U=ea.constant("U", [1, 2]))))
    written["tensors"]["U"]["values"] = broken
    with pytest.raises(ea.RecordError, match="the record holds no program"):
        program_from_record(written)


def test_what_a_program_asks_for():
    program = as_program(ONE)
    assert (
        list(program.tensors) == ["U", "x"]
        and list(program.inputs) == ["x"]
        and list(program.constants) == ["U"]
    )
    assert set(sample_inputs(program)) == set(sample(program.tensors)) == {"x"}
    assert (
        in_double(program).tensors["U"].dtype == "f64"
        and in_double(program).constants["U"].values == program.constants["U"].values
    )


@given(st.data())
def test_every_evaluator_computes_with_the_values(data):
    values = data.draw(
        st.lists(st.lists(rationals, min_size=3, max_size=3), min_size=1, max_size=3)
    )
    scope = transform(values)
    x = data.draw(strategies.arrays_for(scope))["x"]
    expected = [sum(a * int(b) for a, b in zip(row, x)) for row in values]
    assert list(ea.evaluate(scope, x=x)) == expected
    assert np.allclose(ea.evaluate(scope, x=x.astype(float)), np.array(expected, float))
    assert run(scope, x=x).dtype in (np.int64, np.float64) and np.allclose(
        run(scope, x=x), np.array(expected, float), atol=1e-13
    )
    assert run(scope, x=x.astype(np.float32)).dtype == np.float32
    field = PrimeField(101)
    found = execute(scope, {"x": x}, arithmetic=field)["O"]
    assert [int(v) for v in found] == [
        v.numerator * pow(v.denominator, -1, 101) % 101 for v in map(Fraction, expected)
    ]


def test_arrays_of_kernels():
    arrays = loaded(as_program(ONE).tensors, {"x": np.ones(2, np.float32)})
    assert (
        arrays["U"].dtype == np.float32
        and arrays["U"].tolist() == [[1, -1], [0.5, 0]]
        and not arrays["U"].flags.writeable
    )


def test_compiled():
    compiled = compile_program(ONE)
    assert np.allclose(compiled(x=np.array([3, 5], np.float32)), [-2, 1.5])
