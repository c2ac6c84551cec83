"""Compiled programs: arguments, outputs, kernels, timing, and the way without a compiler."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import FIND, compile_program
from codegen.program.executable import Executable
from codegen.targets.c.compiler import _find
from einalg.errors import CodegenError, ShapeError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel, View
from einalg.language.ir.program import Program, as_program, statement_tensor
from tests.helpers.expressions import EXPRESSIONS
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernels import agrees, evaluated

n, m, k, i, j = ea.indices("n m k i j")


def linear(dtype: str = "f32") -> Program:
    """A matrix product, then what is added to it."""
    product = ea.L[n, m](
        ea.Sum[k](ea.tensor("A", (5, 7), dtype)[n, k] * ea.tensor("B", (7, 6), dtype)[k, m])
    )
    table = statement_tensor("T", product)
    return Program(
        [("T", product), ("O", ea.L[n, m](ea.Max(table[n, m] + ea.tensor("C", (6,), dtype)[m], 0)))]
    )


def linear_kernels() -> list[Kernel]:
    shapes = {"A": (("m", 5), ("k", 7)), "B": (("k", 7), ("n", 6)), "T": (("m", 5), ("n", 6))}
    views = [
        View(name, 0, {"b": (), row: ((rows, columns),), column: ((columns, 1),)})
        for name, ((row, rows), (column, columns)) in shapes.items()
    ]
    return [
        Kernel("matmul", {"b": 1, "m": 5, "n": 6, "k": 7}, ("A", "B"), "T", views=tuple(views)),
        Kernel(EOP, {}, ("T", "C"), "O"),
    ]


def arrays(dtype: Any = np.float32) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        name: rng.normal(size=shape).astype(dtype)
        for name, shape in (("A", (5, 7)), ("B", (7, 6)), ("C", (6,)))
    }


def expected(given: dict[str, Any]) -> Any:
    return np.maximum(
        np.asarray(given["A"], float) @ np.asarray(given["B"], float)
        + np.asarray(given["C"], float),
        0,
    )


@pytest.fixture(scope="module")
def run() -> Executable:
    return compile_program(linear(), linear_kernels())


def test_kernels_run_in_order(run: Executable) -> None:
    found = run(**arrays())
    assert found.dtype == np.float32
    assert np.allclose(found, expected(arrays()), atol=1e-5)
    assert [kernel.op for kernel in run.kernels] == ["matmul", "eop"]
    assert all("void kernel_0" in (kernel.source or "") for kernel in run.kernels)
    assert run.kernels[1].scope == run.program["O"]


def test_without_kernels_everything_is_generated() -> None:
    found = compile_program(linear())
    assert [kernel.op for kernel in found.kernels] == [EOP, EOP]
    assert found.source("c").count("void kernel_") == 2
    assert np.allclose(found(**arrays()), expected(arrays()), atol=1e-5)


def test_an_operator_that_no_library_has_is_generated() -> None:
    kernels = [Kernel("conv7d", {}, ("A", "B"), "T"), Kernel(EOP, {}, ("T", "C"), "O")]
    assert np.allclose(
        compile_program(linear(), kernels)(**arrays()), expected(arrays()), atol=1e-5
    )


def test_several_outputs() -> None:
    program = as_program(linear())
    found = compile_program(Program(program.statements, ("O", "T")))(**arrays())
    assert list(found) == ["O", "T"]
    assert np.allclose(found["T"], np.asarray(arrays()["A"]) @ arrays()["B"], atol=1e-5)


def test_results_are_new_arrays(run: Executable) -> None:
    first = run(**arrays())
    kept = first.copy()
    run(**{**arrays(), "C": arrays()["C"] + 5})
    assert np.array_equal(first, kept)


def test_repr_names_who_runs_what(run: Executable) -> None:
    assert repr(run).splitlines()[1].split() == [
        "generated",
        "T",
        "=",
        "matmul(A,",
        "B)",
        "[b=1,",
        "m=5,",
        "n=6,",
        "k=7]",
    ]
    assert "generated" in repr(run)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.ascontiguousarray(a[::-1])[::-1],
        lambda a: a.astype(np.float64),
        lambda a: a.astype(">f4"),
        lambda a: a.tolist(),
        lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape),
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
    ids=["columns", "steps", "reversed", "double", "big endian", "lists", "unaligned", "broadcast"],
)
def test_layouts_and_types_of_arguments(run: Executable, change: Any) -> None:
    given = {name: change(a) for name, a in arrays().items()}
    assert np.allclose(run(**given), expected(given), atol=1e-5)


def test_torch_tensors(run: Executable) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    given = {name: torch.from_numpy(a).flip(0) for name, a in arrays().items()}
    assert np.allclose(
        run(**given), expected({name: a.numpy() for name, a in given.items()}), atol=1e-5
    )
    with pytest.raises(ShapeError, match="A cannot be read as an array"):
        run(**{**given, "A": given["A"].requires_grad_()})


def test_read_only_arguments_are_not_changed(run: Executable) -> None:
    given = arrays()
    for a in given.values():
        a.flags.writeable = False
    run(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": None}, "no array is given for A, of shape (5, 7)"),
        ({"D": 1}, "D is not an input of the program; the inputs are A, B, C"),
        ({"A": np.zeros((7, 5))}, "A has shape (5, 7), but an array of shape (7, 5) is given"),
        (
            {"A": np.zeros((5, 7), complex)},
            "A has dtype f32, but an array of dtype complex128 is given",
        ),
        ({"A": [["x"] * 7] * 5}, "A has dtype f32, but an array of dtype <U1 is given"),
        ({"A": [[1, 2], [3]]}, "A cannot be read as an array"),
    ],
)
def test_arguments_that_do_not_fit(run: Executable, change: dict[str, Any], message: str) -> None:
    given = {name: a for name, a in {**arrays(), **change}.items() if a is not None}
    with pytest.raises(ShapeError) as error:
        run(**given)
    assert message in str(error.value)


def test_integers_that_do_not_fit() -> None:
    run = compile_program(
        as_program(ea.L[i:3](ea.tensor("A", (3,), "i8")[i] + ea.tensor("B", (3,), "bool")[i])),
        compiler=None,
    )
    assert run(A=np.array([100, -128, 127]), B=[1, 0, 1]).tolist() == [101, -128, -128]
    for given in ({"A": [0, 0, 128], "B": [0, 0, 0]}, {"A": [0, 0, 0], "B": [0, 2, 0]}):
        with pytest.raises(ShapeError, match="holds values outside"):
            run(**given)
    with pytest.raises(ShapeError, match=r"convert it: array\.astype\('int8'\)"):
        run(A=[0.5, 1, 2], B=[0, 0, 0])


def test_kernels_must_be_the_statements() -> None:
    with pytest.raises(
        CodegenError, match="the kernels compute O, T, but the program has the statements T, O"
    ):
        compile_program(linear(), linear_kernels()[::-1])
    with pytest.raises(CodegenError, match="compute nothing"):
        compile_program(linear(), [])


def test_nested_scopes_are_refused() -> None:
    inner = ea.L[i:4](ea.tensor("A", (4,))[i] + 1)
    with pytest.raises(CodegenError, match="statement O reads an inner scope"):
        compile_program(as_program(ea.L[j:4](inner[j] * 2)))


def test_other_targets_and_languages(run: Executable) -> None:
    with pytest.raises(CodegenError, match="target 'abacus'"):
        compile_program(linear(), target="abacus")
    with pytest.raises(CodegenError, match="no source in 'cobol'"):
        run.source("cobol")
    with pytest.raises(CodegenError, match="compile for the target 'cuda'"):
        run.source("cuda")


def test_time(run: Executable) -> None:
    for spent in (run.time(3, **arrays()), run.time()):
        assert list(spent) == ["T", "O"] and all(0 < s < 1 for s in spent.values())
    with pytest.raises(ShapeError):
        run.time(A=np.zeros(3))


def test_several_threads_at_once(run: Executable) -> None:
    given = [{name: a + k for name, a in arrays().items()} for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda g: [run(**g) for _ in range(50)], given))
    for g, results in zip(given, found):
        assert all(np.allclose(r, expected(g), atol=1e-4) for r in results)


FORKING = """
import os
import numpy as np
import einalg as ea
from codegen.program.compile import compile_program
from einalg.language.ir.program import as_program

i, j = ea.indices("i j")
run = compile_program(as_program(ea.L[i, j](ea.tensor("A", (500, 500))[i, j] + 1)))
assert "omp parallel for" in run.source()
ones = np.ones((500, 500), np.float32)
run(A=ones)
child = os.fork()
if child == 0:
    os._exit(int(run(A=ones).sum() + run(A=ones).sum() != 1e6))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_does_not_wait_for_its_parents_threads() -> None:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "2",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    assert (
        subprocess.run(
            [sys.executable, "-c", FORKING], env=environment, timeout=30, check=False
        ).returncode
        == 0
    )


def test_loops_shared_by_threads() -> None:
    """Above the size from which on threads are used: cut outer loops, merged loops, tiles and
    one-dimensional outputs.
    """
    h, w, f, r, s = ea.indices("h w f r s")
    scopes = [
        ea.L[n:3, h:20, w:21, f:40](
            ea.Sum[r:3, s:3](
                ea.tensor("A", (3, 20, 21, 3, 3, 40)).pad(0, 1, 1, 0, 0, 0)[
                    n, h + r - 1, w + s - 1, r, s, f
                ]
            )
        ),
        ea.L[i:300, j:350](ea.tensor("B", (350, 300))[j, i]),
        ea.L[i:100_000](ea.tensor("C", (100_000,))[i] * 2 + i),
        ea.L[i:900](ea.Sum[k:300](ea.tensor("D", (300, 900))[k, i])),
        ea.L[i:900](ea.Sum[k:300](ea.tensor("E", (900, 300))[i, k])),
        ea.L[i:300, j:300](ea.tensor("F", (300, 300))[i, j], where=i >= j),
    ]
    program = Program([(f"O{position}", scope) for position, scope in enumerate(scopes)])
    rng = np.random.default_rng(0)
    given = {name: rng.random(t.shape, np.float32) for name, t in program.tensors.items()}
    run = compile_program(program)
    assert run.source().count("omp parallel for") >= len(scopes)
    found, wanted = run(**given), execute(program, given)
    assert all(np.allclose(found[name], wanted[name], rtol=1e-4) for name in found)


@pytest.mark.parametrize(
    "name",
    [
        "softmax",
        "conv_stride2_dilation1_pad10",
        "mixed_types",
        "hole_behind_padding",
        "half_precision",
        "empty_output",
        "single_number",
    ],
)
def test_without_a_compiler(name: str) -> None:
    program = as_program(EXPRESSIONS[name]())
    given = arrays_for(name, program)
    run = compile_program(program, compiler=None)
    found = run(**given)
    for output, values in evaluated(program, given).items():
        assert found.dtype == numpy_dtype(program[output].dtype)
        assert agrees(found, values, program[output].dtype)
    assert run.source() == "" and "numpy executor" in repr(run)
    assert list(run.time(2, **given)) == [program.names[-1]]


def test_a_machine_without_a_compiler_warns_once_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    _find.cache_clear()
    with caplog.at_level(logging.WARNING, "einalg"):
        run = compile_program(linear(), linear_kernels())
    assert np.allclose(run(**arrays()), expected(arrays()), atol=1e-5)
    assert len(caplog.records) == 1 and "through NumPy" in caplog.text
    _find.cache_clear()


FOLDED = "W[i,j] = 2*K[i,j] + 1\nV[i,j] = W[i,j]*W[j,i]\nU[i,j] = V[i,j]*B[j]\nO[i] += U[i,j]*A[j]"


def folded(size: int = 3) -> ea.Program:
    weight = ea.tensor("K", (size, size), role="weight")
    return ea.parse(FOLDED, A=(size,), B=(size,), K=weight)


@pytest.mark.parametrize("used", [FIND, None], ids=["compiled", "numpy"])
def test_what_is_bound_is_computed_once(used: str | None) -> None:
    program, given = (
        folded(),
        {
            name: np.random.default_rng(3).random((3, 3) if name == "K" else 3, np.float32)
            for name in "ABK"
        },
    )
    run = compile_program(program, compiler=used)
    expected = run(**given)
    bound = run.bind(K=given["K"])
    np.testing.assert_array_equal(bound(A=given["A"], B=given["B"]), expected)
    everything = bound.bind(B=given["B"]).bind(A=given["A"])
    np.testing.assert_array_equal(everything(), expected)
    if used is FIND:
        assert (
            set(bound.time()) == {"U", "O"}
            and set(everything.time()) == {"O"}
            and set(run.time()) == {"W", "V", "U", "O"}
        )
        assert repr(bound).count("done once") == 2 and "done once" not in repr(run)
    given["K"] += 1
    np.testing.assert_array_equal(bound(A=given["A"], B=given["B"]), expected)
    assert everything() is not everything()


@pytest.mark.parametrize("used", [FIND, None], ids=["compiled", "numpy"])
def test_what_is_bound_in_place_sees_later_writes(used: str | None) -> None:
    """Unless something is computed of it ahead, or it is read as a copy in another layout."""
    program = ea.parse(
        "W[i] = exp(K[i])\nO[i] = W[i]*A[i] + B[i]*C[i]",
        **{name: ea.tensor(name, (5,), role="weight") for name in "KBC"},
        A=(5,),
    )
    rng = np.random.default_rng(0)
    given = {name: rng.random(5, np.float32) for name in "KBA"}
    given["C"] = rng.random(10, np.float32)[::2]
    weights = {name: given[name] for name in "KBC"}
    run = compile_program(program, compiler=used).bind_in_place(**weights)
    for name in ("A", "B"):
        given[name] += 1
        expected = ea.evaluate(program, **given)
        np.testing.assert_allclose(run(A=given["A"]), expected, rtol=1e-5)
    assert run.copied == {"K", "C"} or (used is None and run.copied == {"C"})
    assert run.bind(A=given["A"]).copied >= {"A", "C"}


def test_packed_weights_are_copied() -> None:
    weight = ea.tensor("W", (64, 96), role="weight")
    program = ea.parse("O[i,j] += A[i,k]*W[k,j]", A=(64, 64), W=weight)
    rng = np.random.default_rng(0)
    given = {"A": rng.random((64, 64), np.float32), "W": rng.random((64, 96), np.float32)}
    run = compile_program(program).bind_in_place(W=given["W"])
    for _ in range(2):
        is_same = np.allclose(run(A=given["A"]), given["A"] @ given["W"], rtol=1e-4)
        assert is_same or run.copied == {"W"}
        given["W"][40, 50] += 100


def test_what_cannot_be_bound() -> None:
    run = compile_program(folded())
    with pytest.raises(ea.ShapeError, match=r"Z cannot be given; what is missing is .*K"):
        run.bind(Z=np.zeros(3))
    with pytest.raises(ea.ShapeError, match="has shape"):
        run.bind(K=np.zeros(3))
    with pytest.raises(ea.ShapeError, match=r"K cannot be given; what is missing is .*B"):
        run.bind(K=np.zeros((3, 3))).bind(K=np.zeros((3, 3)))


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    program = ea.parse("W[i] = 3*C[i]\nO[i] = W[i]*A[i]", A=(2,), C=ea.constant("C", [1, 2]))
    run = compile_program(program)
    assert list(run.time()) == ["O"] and "done once" in repr(run)
    np.testing.assert_array_equal(run(A=[1, 1]), [3, 6])


@pytest.mark.parametrize("used", [FIND, None], ids=["compiled", "numpy"])
def test_a_result_of_weights_alone_is_new_in_each_run_and_so_is_what_reads_it(
    used: str | None,
) -> None:
    program = ea.parse(
        "W[i] = K[i] + 1\nV[i] = 2*W[i]\nO[i] = V[i]*A[i]\nW, O",
        A=(2,),
        K=ea.tensor("K", (2,), role="weight"),
    )
    run = compile_program(program, compiler=used).bind(K=[1, 2])
    first, second = run(A=[1, 1]), run(A=[1, 2])
    assert first["W"] is not second["W"]
    np.testing.assert_array_equal(second["W"], [2, 3])
    np.testing.assert_array_equal(second["O"], [4, 12])
