"""Programs of many samples as one of a single sample: the same values sample by sample, and not
where samples need each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program.batched_executable import BatchedExecutable
from derive.matching import kernels_of
from derive.programs.forms.layers import UNREADABLE, SearchedLayer
from derive.programs.optimization import layer_search
from derive.programs.optimization import optimize as optimizer
from derive.programs.optimized_program import (
    OptimizedProgram,
    compiled,
    part_from_record,
    part_record,
)
from derive.programs.passes import batch_splitting as module
from derive.programs.passes.batch_splitting import one_of, sliced
from derive.rules.inter.lifting_nesting import lifted
from einalg.api.backend import LocalBackend
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.ir.traversal import accesses, map_accesses
from einalg.language.notation.program_json import program_record
from einalg.testing import strategies
from tests.helpers.measurements import sooner
from tests.helpers.networks import network, sample, weight

SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
BATCH = Index("batch_of_all")


@pytest.fixture
def small(monkeypatch):
    """Programs of any size are worth it."""
    monkeypatch.setattr(module, "MIN_SLICE_OPERATIONS", 0)
    monkeypatch.setattr(module, "MIN_OPERATIONS_PER_WEIGHT", 0)


def with_samples(program, count, places):
    """The program of several samples: the inputs in `places`, and all that is computed from these,
    have an axis more, where `places` says.
    """
    known = {}
    for name, tensor in program.tensors.items():
        if name in places and not isinstance(tensor, Constant):
            known[name] = Tensor(name, ((0, count), *tensor.axes), tensor.dtype)
    given_names, statements = set(known), []
    for name, scope in program.statements:
        along = {
            a.tensor.name: (0 if a.tensor.name in given_names else places[a.tensor.name])
            for a in accesses(scope.body)
            if a.tensor.name in known
        }

        def read(access, along=along):
            name = access.tensor.name
            if name not in known:
                return access
            amounts = []
            base = access.base
            while base is not access.tensor:
                amounts.append((base.amounts, base.fill))
                base = base.base
            new = known[name]
            for pads, fill in reversed(amounts):
                new = new.pad(*pads[: along[name]], 0, *pads[along[name] :], fill=fill)
            return new[
                (
                    *access.subscripts[: along[name]],
                    affine(BATCH),
                    *access.subscripts[along[name] :],
                )
            ]

        iterators = list(scope.iterators)
        place = 0 if name in program.outputs else min(places[name], len(iterators))
        places[name] = place
        if along or name in program.outputs:
            iterators.insert(place, LoopIndex(BATCH, 0, count))
        statements.append((name, Scope(iterators, scope.where, map_accesses(scope.body, read))))
        if along or name in program.outputs:
            known[name] = statement_tensor(*statements[-1])
    return Program(statements, program.outputs)


@settings(max_examples=40, suppress_health_check=SLOW)
@given(st.data())
def test_each_slice_has_the_values_of_the_whole(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_SLICE_OPERATIONS", 0)
        patch.setattr(module, "MIN_OPERATIONS_PER_WEIGHT", 0)
        one = data.draw(strategies.programs(max_statements=3, nested=False))
        chosen = [name for name, tensor in one.tensors.items() if not isinstance(tensor, Constant)]
        places = {name: 0 for name in chosen if data.draw(st.booleans())}
        places |= {name: data.draw(st.integers(0, one[name].rank)) for name in one.names}
        count = 3
        whole = with_samples(one, count, places)
        found = sliced(whole)
        assert (found is None) == (not any(name in places for name in one.inputs))
        if found is None:
            return
        program, slices = found
        arrays = data.draw(strategies.arrays_for(whole))
        expected = ea.evaluate(whole, **arrays)
        expected = expected if isinstance(expected, dict) else {whole.outputs[0]: expected}
        for k in range(count):
            part = {
                name: array[k : k + 1] if name in slices.names else array
                for name, array in arrays.items()
                if name in program.inputs
            }
            values = ea.evaluate(program, **part)
            values = values if isinstance(values, dict) else {program.outputs[0]: values}
            for name, value in values.items():
                np.testing.assert_array_equal(value[0], expected[name][k])


SHAPES = {"A": (4, 5), "B": (3,), "W": weight("W", 4, 5)}
REFUSED = {
    "another sample": "O[n:4,i] = A[n,i] + A.pad((1,0),0)[n-1,i]",
    "in another order": "O[n:4,i] = A[3-n,i]",
    "a sum over samples": "T[i] += A[n,i]\nO[n:4,i] = A[n,i] - T[i]",
    "its number": "O[n:4,i] = n*A[n,i]",
    "its number times a difference": "O[n:4,i] = n*(A[n,i] - A[n,0])",
    "its number in a comparison": "O[n:4,i] = Piecewise((A[n,i], A[n,0] > n), (A[n,1], True))",
    "a condition": "O = L[n:4, i:5](A[n,i], where=n>=1)",
    "a condition of a sum": "O[n:4] = Sum[i:5](A[n,i], where=i<=n)",
    "one output without samples": "O[n:4,i] = A[n,i]\nP[i] += A[n,i]",
    "a diagonal": "T[n:4,m:4] += A[n,i]*A[m,i]\nO[n:4] = T[n,n]",
    "samples of weights": "O[n:4,i] = A[n,i] + W[n,i]",
    "the first samples of more": "O[n:2,i] = A[n,i]",
    "samples on another axis of the input": "O[n:5] += A[i,n]",
    "digits": "T[k:20] = A[k//5,k%5]\nO[n:4,i:5] = T[5*n+i]",
    "nothing with samples": "O[n:4,i:3] = B[i]",
    "numbers alone": "O[n:4,i:3] = 2",
}


@pytest.mark.parametrize("why", REFUSED)
def test_samples_that_need_each_other_stay_together(small, why):
    program = as_program(
        ea.parse(
            REFUSED[why],
            **{
                name: t
                for name, t in SHAPES.items()
                if f"{name}[" in REFUSED[why] or f"{name}." in REFUSED[why]
            },
        )
    )
    assert sliced(program) is None


def test_what_is_too_small_or_has_much_to_read_ahead_runs_at_once():
    def product(rows, inner):
        return as_program(
            ea.parse("O[n,i,j] += A[n,i,k]*W[k,j]", A=(4, rows, inner), W=weight("W", inner, 512))
        )

    assert sliced(product(512, 512)) is not None
    assert sliced(product(16, 512)) is None  # 32 operations for each weight
    assert sliced(product(128, 16)) is None  # two million operations


def test_a_network_of_many_samples(small, monkeypatch, tmp_path):
    monkeypatch.setattr(
        layer_search,
        "search_layer",
        lambda layer, *_, **__: SearchedLayer.of(layer, original=1.0),
    )
    monkeypatch.setattr(LocalBackend, "measure", sooner(BatchedExecutable))
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    program = network(channels=8, space=12, layers=1, samples=5)
    given_arrays = sample(program)
    found = ea.optimize(program, given_arrays, seconds=300)
    (part,) = found.parts.values()
    assert (
        part.slices is not None
        and part.slices.count == 5
        and "5 slices, one by one" in str(found.report)
    )
    assert {f"({5 * len(layer.names)} times" in str(found.report) for layer in part.layers} == {
        True
    }
    expected = execute(program, given_arrays)["O"]
    found.save(tmp_path / "model")
    for call in (
        found,
        ea.Optimized.load(tmp_path / "model"),
        ea.optimize(program, given_arrays, seconds=300),
    ):
        np.testing.assert_allclose(call(given_arrays["A"]), expected, rtol=1e-4, atol=1e-4)
    assert found.programs() == [(lifted(part.after), kernels_of(lifted(part.after)), part.slices)]


def test_a_reference_that_would_not_fit_is_computed_slice_by_slice(monkeypatch):
    program = network(channels=4, space=9, samples=3)
    given_arrays = sample(program)
    expected = optimizer.reference_outputs(program, given_arrays)
    read = []
    monkeypatch.setattr(optimizer, "memory_bytes", lambda: 1)
    monkeypatch.setattr(
        optimizer,
        "execute",
        lambda one, arrays, **options: (
            read.append(arrays["A"].shape) or execute(one, arrays, **options)
        ),
    )
    found = optimizer.reference_outputs(program, given_arrays)
    assert read == [(1, 4, 9, 9)] * 3
    np.testing.assert_allclose(
        found["O"], expected["O"], rtol=1e-13
    )  # a library may add in another order for another batch


def test_without_slices_what_is_loaded_is_what_it_was(small, tmp_path):
    """A device is given all samples at once."""
    program = as_program(ea.parse("O[n,i] = 2*A[n,i] + B[i]", A=(4, 5), B=(5,)))
    one, slices = sliced(program)
    part = OptimizedProgram(
        program, one, run=compiled(one, LocalBackend(), {}, slices), slices=slices
    )
    again = part_from_record(part_record(part), None, {}, LocalBackend())
    assert (again.before, again.after, again.slices) == (program, one, slices)
    arrays = {"A": np.arange(20.0).reshape(4, 5), "B": np.arange(5.0)}
    np.testing.assert_allclose(again.run(**arrays), 2 * arrays["A"] + arrays["B"])

    class Device(LocalBackend):
        has_slices = False

    whole = part_from_record({**part_record(part), "run": part.run.record()}, None, {}, Device())
    assert (whole.before, whole.after, whole.slices) == (program, program, None)
    np.testing.assert_allclose(whole.run(**arrays), 2 * arrays["A"] + arrays["B"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row["slices"].update(count=1000),
        lambda row: row["slices"].update(count=0),
        lambda row: row["slices"].update(names=["A", "B", "O"]),
        lambda row: row["slices"].update(names=["A", "C", "O"]),
        lambda row: row["slices"].update(names=["A"]),
        lambda row: row["slices"].update(names=["O"]),
        lambda row: row["slices"].update(names=[]),
        lambda row: row["slices"].update(count="many"),
        lambda row: row.update(slices=None),
        lambda row: row["slices"].update(whole=row["program"]),
        lambda row: row["slices"].update(
            whole=program_record(as_program(ea.parse("O[n,i] = 2*A[n,i] + B[i]", A=(4, 6), B=(6,))))
        ),
        lambda row: row["slices"].update(
            whole=program_record(
                as_program(ea.parse("P[n,i] = 2*A[n,i] + B[i]", A=(4, 4), B=(4,)), "P")
            )
        ),
    ],
)
def test_a_record_of_slices_that_do_not_fit_is_damaged(damage):
    """Kernels run on the memory that the whole program has: nothing is read or written beyond it."""
    program = as_program(
        ea.parse("O[n,i] = 2*A[n,i] + B[i]", A=(4, 4), B=(4,))
    )  # B has as many elements as there are slices
    one, slices = one_of(program)
    row = part_record(
        OptimizedProgram(program, one, run=compiled(one, LocalBackend(), {}, slices), slices=slices)
    )
    damage(row)
    with pytest.raises(UNREADABLE):
        part_from_record(row, program if row["slices"] is None else None, {}, LocalBackend())
