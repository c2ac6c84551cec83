"""Random programs with what random moves make of them, and checks of all that holds for these: they
read back, keep their values, and compile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any

import numpy as np
from hypothesis import strategies as st

import einalg as ea
from codegen.program.building.deduplicate import kernel_signature
from codegen.program.compile import compile_program
from derive.matching import kernels_of
from derive.matching.program_kernels import kernel_of
from derive.rewriting.moves import apply, moves
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.analysis.canonical import key
from einalg.language.analysis.validate import check as check_program
from einalg.language.ir.dtypes import bounds, holds, is_float
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_from_record,
    program_record,
    program_record_with_heads,
)
from einalg.testing import strategies
from tests.helpers import kernels
from tests.helpers.cuda_kernels import TIGHT, TIGHT_GRID
from tests.helpers.cuda_kernels import run_programs as run_cuda_programs
from tests.helpers.mutations import candidates, is_well_formed, makers
from tests.helpers.naive_evaluator import NOTHING, Naive, grid, values_of

Arrays = Mapping[str, Any]
MOST_MOVES = 12  # of one rule, to draw from
LONGEST_TEXT = 4000  # characters; moves may double a program
LARGEST_VALUE = 10**6  # exact in every type in which something is computed here
DTYPES = (
    ("f64",),
    ("f64", "bool"),
    ("f64", "i64", "bool"),
    ("f64", "i32", "u8", "i8"),
    ("f32",),
    ("i8", "u8", "bool"),
    ("i16", "u16", "i8", "u32"),
    ("u64", "i64", "u8"),
)
ROUNDED_DTYPES = (("f16",), ("bf16", "f16", "f32"), ("f32", "f16", "i8", "bool"))


@dataclass(frozen=True)
class RandomDerivation:
    """A program with arrays for it, and the program after each of some random moves."""

    program: Program
    arrays: Arrays
    steps: tuple[Program, ...]

    def arrays_for(self, program: Program) -> dict[str, Any]:
        """Return the arrays that a program reads: moves leave out dead reads."""
        return {name: self.arrays[name] for name in program.inputs}


@st.composite
def programs_with_arrays(draw: Any, **options: Any) -> tuple[Program, Arrays]:
    """Programs with arrays for their inputs."""
    program = draw(strategies.programs(**options))
    return program, draw(strategies.arrays_for(program))


@st.composite
def derivations(draw: Any, most_moves: int = 3, **options: Any) -> RandomDerivation:
    """Programs with nested paddings, conditions, cases, extremes, whole parts of elements and of
    indices, truth values and small integers, and what moves of any rule make of them.
    """
    is_rounded = bool(options.get("inexact")) and draw(st.booleans())
    chosen = {
        "functions": draw(st.booleans()),
        "truths": draw(st.booleans()),
        "rounding": draw(st.booleans()),
        "empty": draw(st.booleans()) and draw(st.booleans()),
        "dtypes": draw(st.sampled_from(ROUNDED_DTYPES if is_rounded else DTYPES)),
        "far": draw(st.booleans()),
        "constants": draw(st.booleans()),
        "conversions": is_rounded,
        "scalars": draw(st.booleans()),
        "infinite": draw(st.booleans()),
        "max_points": 60,
        **options,
    }
    cases = programs_with_arrays(**chosen)
    if not chosen.get("inexact"):  # drawn again, not given up: there are many of them in a batch
        cases = cases.filter(lambda case: are_small(lifted(case[0]), case[1]))
    program, arrays = draw(cases)
    steps: list[Program] = []
    current = program
    for _ in range(draw(st.integers(0, most_moves))):
        rule = draw(st.sampled_from(list(ALL.values())))
        possible = list(islice(moves(current, [rule]), MOST_MOVES))
        if possible:
            current = apply(current, draw(st.sampled_from(possible)), ALL)
            if len(str(current)) > LONGEST_TEXT:
                break
            steps.append(current)
    return RandomDerivation(program, arrays, tuple(steps))


class Watching(Naive):
    """A program on given arrays, and the largest of all numbers that occur on the way."""

    largest: Any = 0

    def of_body(self, body: Any, places: Any) -> Any:
        value = super().of_body(body, places)
        if value is not NOTHING and abs(value) != inf:
            self.largest = max(self.largest, abs(value))
        return value


class Storing(Naive):
    """A program on given arrays, in which integers wrap round where they are stored."""

    def of_scope(self, scope: Scope, point: Any) -> Any:
        value = super().of_scope(scope, point)
        if value is NOTHING or is_float(scope.dtype) or scope.dtype == "bool" or value != value:
            return value
        low, high = bounds(scope.dtype)
        if abs(value) == inf:
            return max(low, min(value, high))
        return (value - low) % (high - low + 1) + low


def are_small(program: Program, arrays: Arrays) -> bool:
    """Return whether all values of all statements fit into the types that these have, and none that
    leads to them is too large for the types in which something is computed.
    """
    watching = Watching(program, arrays)
    for name, scope in program.statements:
        for value in watching.all_of(name).values():
            if value != value or not _is_element(value, scope.dtype):
                return False
    return watching.largest < LARGEST_VALUE


def may_be_computed(program: Program, arrays: Arrays) -> bool:
    """Return whether no value that occurs is too large for the types in which something is
    computed.
    """
    watching = Watching(program, arrays)
    for name in program.names:
        watching.all_of(name)
    return watching.largest < LARGEST_VALUE


def _is_element(value: Any, dtype: str) -> bool:
    """Return whether a type has a value; an infinity only where it is one of real numbers."""
    if abs(value) == inf:
        return is_float(dtype)
    return dtype == "bool" or holds(dtype, value)


def reread(program: Program) -> Program:
    """Return the program that a text stands for."""
    read = ea.parse(str(program), **program.tensors)
    if isinstance(read, Scope):
        return Program([(program.names[0], read)])
    return read


def check_reading(program: Program) -> None:
    """Fail where a program, its text and its records are not the same."""
    again = reread(program)
    assert again == program, f"{program}\nis read as\n{again}"
    assert key(again) == key(program)
    assert program_from_record(program_record(program)) == program
    lazy = lazy_program_from_record(program_record_with_heads(program))
    assert lazy == program, f"{program}\nis read lazily as\n{lazy}"


def results(program: Program, value: Any) -> dict[str, Any]:
    """Return the values of a program by output, as it gives them."""
    if isinstance(value, dict):
        return value
    return {program.outputs[0]: value}


def check_values(derivation: RandomDerivation) -> None:
    """Fail where the evaluators disagree, or a move changes a value or a type, or reads where there
    is none.
    """
    program = derivation.program
    expected = results(program, ea.evaluate(program, **derivation.arrays))
    for name, points in values_of(program, derivation.arrays).items():
        lows = [low for low, _ in program[name].box]
        for place, value in np.ndenumerate(np.asarray(expected[name])):
            point = tuple(at + low for at, low in zip(place, lows))
            assert value == points.get(point, 0), f"{name}{list(point)} of\n{program}"
    for step in derivation.steps:
        check_program(step)
        step_values = results(step, ea.evaluate(step, **derivation.arrays_for(step)))
        for name, values in expected.items():
            message = f"{program}\nbecame\n{step}"
            assert step[name].dtype == program[name].dtype, message
            np.testing.assert_array_equal(step_values[name], values, message)
        check_stored_values(derivation, step, expected)


def check_stored_values(derivation: RandomDerivation, step: Program, expected: Arrays) -> None:
    """Fail where integers wrap round as a program after moves stores them, and did not before."""
    storing = Storing(step, derivation.arrays)
    for name, values in expected.items():
        array = np.asarray(values)
        for point, value in storing.all_of(name).items():
            at = tuple(place - low for place, (low, _) in zip(point, step[name].box))
            message = (
                f"{derivation.program}\nbecame\n{step}\nwhich stores another {name}{list(point)}"
            )
            assert value == array[at], message


@dataclass(frozen=True)
class FlatCase:
    """A flat program with its arrays and values."""

    program: Program
    arrays: Arrays
    expected: Mapping[str, Any]


def flat_cases(all_derivations: Sequence[RandomDerivation]) -> list[FlatCase]:
    """Return what is compiled of derivations: where they begin, and where they end."""
    cases = []
    for derivation in all_derivations:
        for program in dict.fromkeys((derivation.program, *derivation.steps[-1:])):
            flat = lifted(program)
            arrays = derivation.arrays_for(flat)
            if not may_be_computed(flat, arrays):
                continue  # moves compute other things on the way
            cases.append(FlatCase(flat, arrays, kernels.evaluated(flat, arrays)))
    return cases


def check_generated_code(cases: Sequence[FlatCase]) -> None:
    """Fail where the loops of a statement, as C or as CUDA, have other values."""
    programs, arrays = [case.program for case in cases], [case.arrays for case in cases]
    for found, case in zip(kernels.run_programs(programs, arrays), cases):
        kernels.check(case.program, case.expected, found)
    for found, case in zip(run_cuda_programs(programs, arrays, TIGHT, TIGHT_GRID), cases):
        kernels.check(case.program, case.expected, found)


def check_signatures(program: Program, arrays: Arrays, seed: int = 0, most: int = 12) -> None:
    """Fail where a statement shares the code of one that differs in a number, and in values."""
    before: list[tuple[str, Scope]] = []
    for name, scope in lifted(program).statements:
        own, every = Program([*before, (name, scope)], [name]), list(makers(scope))
        signature = _signature(own, name)
        step = 1 + len(every) // most
        for make in every[seed % step :: step]:
            other = Program([*before, (name, make())], [name])
            if _signature(other, name) == signature and is_well_formed(other):
                message = f"{own}\nhas, for {name}, the code of\n{other}"
                values = [_values_of(each, name, arrays) for each in (own, other)]
                assert values[0] == values[1], message
        before.append((name, scope))


def _signature(flat: Program, name: str) -> Any:
    """Return what tells the code of a statement, and where that begins to read."""
    signature = kernel_signature(kernel_of(name, flat[name]), dict(flat.statements), ())
    return signature.key, signature.tensors, signature.offsets


def _values_of(flat: Program, name: str, arrays: Arrays) -> list[Any]:
    """Return the values of a statement as they lie in memory; None where it has none."""
    values = values_of(flat, arrays)[name]
    return [values.get(point) for point in grid([range(*bounds) for bounds in flat[name].box])]


def check_as_one_program(cases: Sequence[FlatCase], mutants: int = 1) -> None:
    """Fail where statements of many programs, compiled as one, have other values: operators are
    bound, what is alike shares code, and what nearly is does not.
    """
    statements: list[tuple[str, Scope]] = []
    arrays: dict[str, Any] = {}
    for number, case in enumerate(cases):
        prefix = f"p{number}_"
        statements += renamed(case.program, prefix)
        arrays |= {f"{prefix}{name}": array for name, array in case.arrays.items()}
        for name, scope in islice(near_statements(case, number), mutants):
            statements += renamed(Program([*case.program.statements, (name, scope)]), prefix)[-1:]
    whole = Program(statements, [name for name, _ in statements])
    found = compile_program(whole, kernels_of(whole))(**{n: arrays[n] for n in whole.inputs})
    kernels.check(whole, kernels.evaluated(whole, arrays), results(whole, found))


def near_statements(case: FlatCase, seed: int) -> Iterator[tuple[str, Scope]]:
    """Yield statements that differ from those of a case in one number, and have small values."""
    for name, scope in case.program.statements:
        every = list(islice(candidates(scope), 40))
        for mutant in every[seed % 3 :: 1 + len(every) // 6]:
            named = f"{name}_near{len(case.program.names)}"
            try:
                program = Program([*case.program.statements, (named, mutant)], [named])
                check_program(program)
            except EinalgError:
                continue
            if are_small(program, case.arrays):
                yield named, mutant


def renamed(program: Program, prefix: str) -> list[tuple[str, Scope]]:
    """Return the statements of a program with a prefix before the names of all tensors."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in program.tensors.items():
        if isinstance(tensor, Constant):
            new: Tensor = Constant(prefix + name, tensor.axes, tensor.dtype, tensor.values)
        else:
            new = Tensor(prefix + name, tensor.axes, tensor.dtype, tensor.role)
        tensors[name] = new
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        statements.append((prefix + name, substitute_tensors(scope, tensors)))
        tensors[name] = statement_tensor(*statements[-1])
    return statements
