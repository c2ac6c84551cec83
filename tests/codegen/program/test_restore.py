"""Compiled programs are found again by their records, without a statement being looked at; where
that fails, they are compiled.
"""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import einalg as ea
from codegen.program.building import fusion
from codegen.program.building.problem import BuildProblem
from codegen.program.compile import compile_program, known_program
from codegen.targets.c.compiler import KERNEL_CACHE
from codegen.tuning.kernel_choice import LibraryChoice
from derive.matching import kernel_of, kernels_of
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_record_with_heads,
)
from einalg.storage import fingerprint

# A product with an epilogue, a statement without values at some points, constants, what depends on
# weights alone, two outputs.
TEXT = """
T[i,j] += A[i,k]*W[k,j]
U[i,j] = Max(T[i,j] + b[j], 0)
S = L[i:33](Sum[j:37](U[i,j]), where=i>=1)
V[i:33] = S.pad((1, 0))[i-1] + C[i%2]
D[j] = W[3,j]*2 + b[j]
Z[i,j] = U[i,j]*V[i] + D[j]
Z, V
""".strip()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    return tmp_path


def program():
    weights = {
        name: ea.tensor(name, shape, role="weight")
        for name, shape in (("W", (31, 37)), ("b", (37,)))
    }
    return ea.parse(TEXT, A=(33, 31), C=ea.constant("C", [1, 2]), **weights)


def given_for(found):
    rng = np.random.default_rng(2)
    return {
        name: rng.standard_normal(t.shape).astype(np.float32) for name, t in found.inputs.items()
    }


def assert_same(one, other, found):
    given = given_for(found)
    np.testing.assert_equal(one(**given), other(**given))


def stored(value):
    return json.loads(json.dumps(value))


def test_a_program_runs_without_being_looked_at(monkeypatch):
    found = program()
    first = compile_program(found, kernels_of(found))
    row, later = (
        stored(first.record()),
        lazy_program_from_record(stored(program_record_with_heads(found))),
    )
    with monkeypatch.context() as within:
        within.setattr(BuildProblem, "__init__", lambda *_: pytest.fail("it is made again"))
        within.setattr(
            Scope, "body", property(lambda _: pytest.fail("a body is looked at"), Scope.body.fset)
        )
        again = known_program(row, later, kernel_of)
        assert again is not None and again.is_native and again.workspace == first.workspace
        assert_same(first, again, found)
        weights = {name: array for name, array in given_for(found).items() if name in "Wb"}
        one, other = (run.bind(**weights)(A=given_for(found)["A"]) for run in (first, again))
        np.testing.assert_array_equal(one["Z"], other["Z"])
        assert again.record() is row
    assert repr(again) == repr(first) and again.source() == first.source()
    assert [kernel.source for kernel in again.kernels] == [
        kernel.source for kernel in first.kernels
    ]
    assert again.program == first.program


def test_an_operator_with_several_readers_is_found_again(monkeypatch):
    """With a statement between it and the rows that follow, and others that are parts of these."""
    text = """
    S[b,i,j] += A[b,i,k]*B[b,j,k]
    T[b,i,j] = S[b,i,j]*0.5 + C[j]
    M[b,i] = Max[j](T[b,i,j])
    O[b,i,j] = exp(T[b,i,j] - M[b,i])/(1 + M[b,i])
    """
    found = as_program(ea.parse(text, A=(3, 40, 32), B=(3, 50, 32), C=(50,)))
    first = compile_program(found, kernels_of(found))
    row = stored(first.record())
    ((step,), kernels) = row["steps"], first.kernels
    assert step["inside"] and step["rows"] and len(kernels) == 1
    with monkeypatch.context() as within:
        within.setattr(BuildProblem, "__init__", lambda *_: pytest.fail("it is made again"))
        later = lazy_program_from_record(stored(program_record_with_heads(found)))
        again = known_program(row, later, kernel_of)
        assert again is not None
        given = given_for(found)
        np.testing.assert_array_equal(first(**given), again(**given))
    assert again.program == first.program


def test_libraries_take_part_again(monkeypatch):
    """And one that is no longer chosen does not."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    monkeypatch.setattr(
        fusion,
        "library_for",
        lambda kernel, *_: LibraryChoice("numpy" if kernel.op == "matmul" else None),
    )
    monkeypatch.setattr(fusion, "alternatives", lambda *_: {})
    found = as_program(
        ea.parse(
            "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + 1\nP[i,j] = exp(T[i,j])",
            A=(70, 65),
            B=(65, 80),
        )
    )
    first = compile_program(found, kernels_of(found))
    assert not first.is_generated
    row = stored(first.record())
    monkeypatch.setattr(BuildProblem, "__init__", lambda *_: pytest.fail("it is made again"))
    again = known_program(
        row, lazy_program_from_record(stored(program_record_with_heads(found))), kernel_of
    )
    assert again is not None and not again.is_generated
    assert_same(first, again, found)
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    assert known_program(row, found, kernel_of) is None


def test_what_is_in_doubt_is_not_kept(monkeypatch):
    monkeypatch.setattr(fusion, "library_for", lambda *_: LibraryChoice(None, is_conclusive=False))
    found = program()
    assert compile_program(found, kernels_of(found)).record() is None


def test_what_is_no_longer_there_is_compiled(own_cache):
    found = program()
    row = stored(compile_program(found, kernels_of(found)).record())
    assert known_program(row, found, kernel_of) is not None
    assert known_program({**row, "codes": {}}, found, kernel_of) is None
    for path in (own_cache / KERNEL_CACHE.name).rglob("*.so"):
        path.unlink()
    assert known_program(row, found, kernel_of) is None


def test_another_state_of_the_machine_compiles(monkeypatch):
    found = program()
    row = stored(compile_program(found, kernels_of(found)).record())
    monkeypatch.setattr(fingerprint, "code_digest", lambda *folders: "another one")
    assert known_program(row, found, kernel_of) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row.update(steps=[{}]),
        lambda row: row.update(steps=row["steps"][1:]),
        lambda row: row.pop("state"),
        lambda row: row["steps"][0].update(output="no such"),
        lambda row: row["steps"][0].update(inside=["no such"]),
        lambda row: row["steps"][0].update(tensors=["A"]),
    ],
)
def test_a_damaged_record_is_compiled(damage, caplog):
    found = program()
    row = stored(compile_program(found, kernels_of(found)).record())
    damage(row)
    with caplog.at_level(logging.WARNING, "einalg"):
        assert known_program(row, found, kernel_of) is None
    assert "damaged" in caplog.text


def test_without_a_compiler_nothing_is_found(monkeypatch):
    found = program()
    row = stored(compile_program(found, kernels_of(found)).record())
    monkeypatch.setattr("codegen.program.compile.find_compiler", lambda: None)
    assert known_program(row, found, kernel_of) is None
    assert compile_program(found, kernels_of(found)).record() is None
