"""Code that was generated before is found again, by whatever program it is needed; what is damaged
or gone is generated anew.
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import numpy as np
import pytest

import einalg as ea
from codegen.lowering.schedule import DEFAULT
from codegen.program.building import fusion
from codegen.program.building.built_program import build
from codegen.program.building.fusion import FusionDecision
from codegen.program.building.generated_code import KERNEL_RECORDS, read_record, store_record
from codegen.program.building.problem import BuildProblem
from codegen.program.compile import compile_program, expected_seconds
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, KERNEL_CACHE, find_compiler
from codegen.tuning.kernel_choice import NO_LIBRARY, LibraryChoice
from derive.matching import kernels_of
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double
from einalg.storage import fingerprint

TEXT = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j] + b[j], 0)\nO[j] += U[i,j]*U[i,j]"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    return tmp_path


def program(text=TEXT, size=33, **renamed: str):
    names = {name: renamed.get(name, name) for name in "AWbTUO"}
    text = re.sub(r"[AWbTUO](?=\[)", lambda name: names[name[0]], text)
    shapes = {
        names["A"]: (size, 31),
        names["b"]: (37,),
        names["W"]: ea.tensor(names["W"], (31, 37), role="weight"),
    }
    return as_program(ea.parse(text, **shapes))


def given_for(found, seed=3):
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(t.shape).astype(np.float32) for name, t in found.inputs.items()
    }


def assert_right(found, compiled):
    given = given_for(found)
    np.testing.assert_allclose(
        compiled(**given), execute(in_double(found), given)[found.outputs[0]], rtol=2e-5, atol=1e-4
    )


def without_generation(monkeypatch):
    monkeypatch.setattr(
        FusionDecision,
        "source",
        lambda self, k: pytest.fail(f"{self.kernels[k]} is generated"),
    )


def test_a_program_is_generated_once(monkeypatch):
    found = program()
    first = compile_program(found, kernels_of(found))
    text = first.source()
    without_generation(monkeypatch)
    again = compile_program(found, kernels_of(found))
    assert [k.source for k in again.kernels] == [k.source for k in first.kernels] and all(
        k.source for k in again.kernels
    )
    assert repr(again) == repr(first)
    assert_right(found, again)
    monkeypatch.undo()
    assert first.source() == text


def test_other_programs_have_the_same_code_under_their_own_names(monkeypatch):
    """Whose order is the same; also where a tensor is called like what the code of the first one
    packs.
    """
    compile_program(program(), kernels_of(program()))
    without_generation(monkeypatch)
    for names in (dict(A="C", W="V", O="Y"), dict(A="W_for_T", W="X", T="S")):
        other = program(**names)
        compiled = compile_program(other, kernels_of(other))
        assert_right(other, compiled)
        weights = {names.get("W", "W"): given_for(other)[names.get("W", "W")]}
        given = {name: array for name, array in given_for(other).items() if name not in weights}
        np.testing.assert_array_equal(
            compiled.bind(**weights)(**given), compiled(**given, **weights)
        )


@pytest.mark.parametrize(
    "other",
    [
        program(size=34),
        program(TEXT.replace("Max", "Min")),
        program(TEXT.replace("T[i,j] + b", "T[i,j] - b")),
        program(TEXT.replace("A[i,k]", "A[32-i,k]")),
    ],
)
def test_what_differs_is_generated(other):
    compile_program(program(), kernels_of(program()))
    assert_right(other, compile_program(other, kernels_of(other)))


def test_earlier_statements_without_values_count():
    """What is read beyond them depends on where they have values."""
    for where in ("i<3", "i<5", "i>=2"):
        found = as_program(
            ea.parse(f"T = L[i:8](A[i], where={where})\nO[i:10] = T.pad(1)[i-1]", A=(8,))
        )
        given = {"A": np.arange(1, 9, dtype=np.float32)}
        np.testing.assert_array_equal(compile_program(found)(**given), execute(found, given)["O"])


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b'{"name": "generated"}',
    b'[{"library": "no such"}, true]',
    b'["ab", true]',
    b'[{"library": 1}, false]',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_record_is_made_anew(content, monkeypatch):
    found = program()
    compile_program(found, kernels_of(found))
    read = type(KERNEL_RECORDS).read
    monkeypatch.setattr(
        type(KERNEL_RECORDS),
        "read",
        lambda self, key: content if self is KERNEL_RECORDS else read(self, key),
    )
    assert_right(found, compile_program(found, kernels_of(found)))


def test_kernels_that_vanished_are_compiled_anew(own_cache, monkeypatch):
    found = program()
    compile_program(found, kernels_of(found))
    for path in (own_cache / KERNEL_CACHE.name).rglob("*.so"):
        path.unlink()
    assert_right(found, compile_program(found, kernels_of(found)))


def test_einalg_of_another_version_generates_anew(monkeypatch):
    found = program()
    compile_program(found, kernels_of(found))
    monkeypatch.setattr(fingerprint, "code_digest", lambda *folders: "another one")
    generated = []
    make = FusionDecision.source
    monkeypatch.setattr(
        FusionDecision, "source", lambda self, k: generated.append(k) or make(self, k)
    )
    compile_program(found, kernels_of(found))
    assert len(generated) == 2  # a product with its reader, and a sum


def test_the_cache_may_be_read_only(own_cache, monkeypatch, caplog):
    (own_cache / "file").write_text("no folder")
    monkeypatch.setenv("EINALG_CACHE", str(own_cache / "file"))
    found = program()
    with caplog.at_level(logging.WARNING, "einalg"):
        assert_right(found, compile_program(found, kernels_of(found)))
    assert "cannot be written" in caplog.text


def problem(found):
    compiler = find_compiler()
    assert compiler is not None
    return BuildProblem.of(found, kernels_of(found), compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)


def test_a_record_does_not_need_the_steps():
    """In whatever order a built program is asked."""
    found = program()
    record = build(problem(found)).record()
    built = build(problem(found))
    built.steps()
    assert record is not None and built.record() == record


def test_reading_records_in_doubt_changes_nothing(monkeypatch):
    """A decision that was made stays as it is when others read the same records."""
    monkeypatch.setattr(fusion, "library_for", lambda *_: LibraryChoice(None, is_conclusive=False))
    found = program("T[i,j] += A[i,k]*W[k,j]\nO[i,j] = T[i,j]*T[i,j]", 200)
    first = build(problem(found))
    assert first.selection.is_conclusive and first.record() is not None
    for key in first.decision.keys:
        record = read_record(key)
        assert record is not None
        store_record(key, replace(record, is_conclusive=False))
    in_doubt = build(problem(found))
    assert in_doubt.record() is None
    assert first.selection.is_conclusive and first.record() is not None


PAIR = "U[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(U[i,j] + b[j], 0)"


def compiled_alone(monkeypatch, library):
    """Compile an operator by itself, which runs in this library, or as generated code."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    monkeypatch.setattr(fusion, "library_for", lambda *_: LibraryChoice(library))
    alone = program("T[i,j] += A[i,k]*W[k,j]")
    compile_program(alone, kernels_of(alone))


def test_an_operator_that_no_library_runs_faster_is_not_measured_with_its_reader(monkeypatch):
    compiled_alone(monkeypatch, None)
    monkeypatch.setattr(fusion, "library_for", lambda *_: pytest.fail("this is known"))
    fused = program(PAIR)
    compiled = compile_program(fused, kernels_of(fused))
    assert len(compiled.kernels) == 1
    assert_right(fused, compiled)


@pytest.mark.parametrize("library", [None, "numpy"])
def test_a_library_is_measured_with_the_reader_that_it_needs_after_it(library, monkeypatch):
    """Though it is faster for the operator alone: one kernel saves a way through memory."""
    compiled_alone(monkeypatch, "numpy")
    readers = []

    def choose(kernel, *arguments):
        readers.extend(reader.output for reader in arguments[5])
        return NO_LIBRARY if kernel.is_eop else LibraryChoice(library)

    monkeypatch.setattr(fusion, "library_for", choose)
    fused = program(PAIR)
    compiled = compile_program(fused, kernels_of(fused))
    assert readers == ["O"]
    assert len(compiled.kernels) == (1 if library is None else 2)
    assert_right(fused, compiled)


def test_what_no_record_is_of_is_generated_once_and_compiled_beside_that(monkeypatch):
    """An operator that becomes one kernel with its reader is not generated by itself."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    generated = []
    generate = BuildProblem.fused_function

    def fused_function(self, pair):
        generated.append(pair.product.output)
        return generate(self, pair)

    monkeypatch.setattr(BuildProblem, "fused_function", fused_function)
    monkeypatch.setattr(fusion, "library_for", lambda *_: NO_LIBRARY)
    fused = program(PAIR)
    one = problem(fused)
    built = build(one)
    assert generated == ["U"] and len(built.decision.kernels) == 1
    assert "U" not in one._sources


def test_without_comparisons_generated_code_runs_and_nothing_is_stored_of_it(monkeypatch):
    """The next program is compared, and of that there is a record; one that is known is complete."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    compared = []

    def choose(kernel, *_):
        compared.append(kernel.output)
        return LibraryChoice("numpy" if kernel.output == "T" else None)

    monkeypatch.setattr(fusion, "library_for", choose)
    text = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j] + b[j], 0)\nO[i,l] += U[i,k]*W[l,k]"
    whole = program(text)
    hasty = compile_program(whole, kernels_of(whole), compares=False)
    assert hasty.has_open_choices and hasty.is_generated and hasty.record() is None
    assert not {"T", "O"} & {*compared}
    assert_right(whole, hasty)
    complete = compile_program(whole, kernels_of(whole))
    assert not complete.has_open_choices and {"T", "O"} <= {*compared}
    assert "numpy" in {step.library for step in complete.running}
    known = compile_program(whole, kernels_of(whole), compares=False)
    assert not known.has_open_choices and known.identity() == complete.identity()


def test_code_that_is_not_optimized_in_full():
    """Nothing is stored of it for a program that has time, and both have the same values."""
    whole = program(size=29)  # of which no other test keeps anything
    assert expected_seconds(whole, kernels_of(whole)) > 0
    quick = compile_program(whole, kernels_of(whole), compares=False, optimizes=False)
    assert not quick.is_optimized and quick.record() is None
    assert_right(whole, quick)
    full = compile_program(whole, kernels_of(whole))
    assert full.is_optimized and full.record() is not None
    assert_right(whole, full)
    assert expected_seconds(whole, kernels_of(whole)) == 0
