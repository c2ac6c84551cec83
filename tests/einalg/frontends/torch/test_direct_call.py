"""Networks called on the memory of tensors and arrays: what kernels can read is read where it lies,
and nothing else is.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from derive.programs.optimization import optimized
from einalg.api.backend import LocalBackend
from einalg.api.models import Network, network, plain
from einalg.errors import ShapeError, UseError
from einalg.language.notation.parser import parse
from einalg.runtime.direct_call import DirectCall, ObjectInterface, array_function

torch = pytest.importorskip("torch")


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 7)

    def forward(self, x: Any, y: Any) -> Any:
        return {"sum": torch.relu(self.linear(x) + y), "rest": (y * 2, [x * 3])}


class Spied:
    """A network that says how often it was called otherwise than on memory; `in_c` says whether a
    function in C makes these calls.
    """

    def __init__(self, model: Network, in_c: bool = True):
        self.made, self.count = optimized(model.graph, model.arrays, LocalBackend(), 0.0), 0
        direct = self.made.direct()
        assert direct is not None
        found = direct if in_c else replace(direct, run=partial(direct.run))
        self.call: Callable[..., Any] = model.around(self.otherwise, found)
        assert isinstance(self.call, BuiltinFunctionType) == in_c

    def otherwise(self, *arrays: Any) -> Any:
        self.count += 1
        return self.made(*arrays)


@pytest.fixture(scope="module")
def module() -> Any:
    torch.manual_seed(1)
    return Two().eval()


@pytest.fixture(scope="module", params=[True, False], ids=["in C", "in Python"])
def in_c(request: Any) -> bool:
    return request.param


@pytest.fixture(scope="module")
def spied(module: Any, in_c: bool) -> Spied:
    return Spied(network(module, (torch.randn(3, 5), torch.randn(7))), in_c)


class Own(torch.Tensor):
    """A tensor that may behave as it likes."""


class OwnArray(np.ndarray):
    """The same of arrays."""


DIRECT: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "a part": lambda x: torch.cat([x, x])[x.shape[0] :],
    "a parameter": lambda x: torch.nn.Parameter(x),
    "with gradients": lambda x: x.clone().requires_grad_(),
    "of inference": lambda x: torch.inference_mode()(torch.clone)(x),
}
OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "in another order": lambda x: (
        x.clone().transpose(0, -1).contiguous().transpose(0, -1)
        if x.ndim > 1
        else torch.stack([x, x], 1)[:, 0]
    ),
    "negated when read": lambda x: torch._neg_view(-x),
    "of another class": lambda x: x.clone().as_subclass(Own),
    "sparse": lambda x: x.to_sparse(),
    "between elements": lambda x: torch.frombuffer(
        bytearray(b"\0" + x.numpy().tobytes()), dtype=torch.float32, offset=1
    ).reshape(x.shape),
}


@pytest.mark.parametrize("kind", [*DIRECT, *OTHERWISE])
@pytest.mark.parametrize("position", [0, 1])
def test_tensors(kind: str, position: int, module: Any, spied: Spied) -> None:
    given = [torch.randn(3, 5), torch.randn(7)]
    with torch.no_grad():
        wanted = module(*given)
    given[position] = {**DIRECT, **OTHERWISE}[kind](given[position])
    before = spied.count
    found = spied.call(*given)
    assert spied.count - before == (kind in OTHERWISE)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    assert not found["sum"].requires_grad


def test_results_are_new(spied: Spied) -> None:
    x, y = torch.randn(3, 5), torch.randn(7)
    first, second = spied.call(x, y), spied.call(x, y)
    first["sum"].fill_(9)
    assert torch.equal(spied.call(x, y)["sum"], second["sum"])


@pytest.mark.parametrize(
    "given, what",
    [
        ((torch.randn(3, 5), torch.randn(8)), "shape"),
        ((torch.randn(5, 3), torch.randn(7)), "shape"),
        ((torch.randn(3, 5), torch.randn(7, dtype=torch.float64)), r"float64.*\n.*convert"),
        ((torch.randn(3, 5),), "as in the example"),
        ((torch.randn(3, 5), torch.randn(7), torch.randn(7)), "as in the example"),
    ],
)
def test_what_does_not_fit(given: tuple[Any, ...], what: str, spied: Spied) -> None:
    with pytest.raises(ShapeError, match=what):
        spied.call(*given)
    with pytest.raises((ShapeError, UseError)):
        spied.call(*(x.numpy() for x in given))


def test_by_name(module: Any, in_c: bool) -> None:
    model = network(module, (torch.randn(3, 5), torch.randn(7)))
    x, y = torch.randn(3, 5), torch.randn(7)
    arguments, named = model.bound((x,), {"y": y})
    with torch.no_grad():
        torch.testing.assert_close(
            Spied(model, in_c).call(*arguments, **named), module(x, y), rtol=1e-5, atol=1e-6
        )


def test_half_precision_of_brains_is_not_read_as_it_is() -> None:
    """The kernels' memory of such a tensor is another one than torch's."""
    layer = torch.nn.Linear(5, 7).to(torch.bfloat16).eval()
    x = torch.randn(3, 5).to(torch.bfloat16)
    model = network(layer, (x,))
    made = optimized(model.graph, model.arrays, LocalBackend(), 0.0)
    with torch.no_grad():
        torch.testing.assert_close(
            model.around(made, made.direct())(x), layer(x), rtol=0.05, atol=0.05
        )


def test_from_many_threads(module: Any, spied: Spied) -> None:
    given = [(torch.randn(3, 5), torch.randn(7)) for _ in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: spied.call(*pair), given))
    with torch.no_grad():
        for pair, result in zip(given, found):
            torch.testing.assert_close(result, module(*pair), rtol=1e-5, atol=1e-6)


ADD = parse(
    "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + C[j]\nP[i] += T[i,j]", A=(4, 5), B=(5, 6), C=(6,)
)


def added(a: Any, b: Any, c: Any) -> dict[str, Any]:
    t = np.asarray(a, float) @ np.asarray(b, float)
    return {"T": t, "O": t + np.asarray(c, float), "P": t.sum(1)}


@pytest.mark.parametrize("order", [("A", "B", "C"), ("C", "A", "B")])
def test_addresses_come_in_the_order_of_names(order: tuple[str, ...]) -> None:
    compiled = compile_program(ADD)
    outputs = ADD.outputs[::-1]
    run = compiled.direct([*order, *outputs])
    assert run is not None
    random = np.random.default_rng(0)
    given = {name: random.random(ADD.inputs[name].shape, np.float32) for name in order}
    results = {name: np.empty(ADD[name].shape, np.float32) for name in outputs}
    run([array.ctypes.data for array in (*given.values(), *results.values())])
    wanted = added(**{name.lower(): array for name, array in given.items()})
    for name, array in results.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5)


def test_only_all_of_a_call_can_be_given_as_memory() -> None:
    compiled = compile_program(ADD)
    assert compiled.direct(["A", "B", *ADD.outputs]) is None
    assert compile_program(ADD, compiler=None).direct([*ADD.inputs, *ADD.outputs]) is None
    assert compiled.bind(B=np.ones((5, 6))).direct(["A", "C", *ADD.outputs]) is not None


def test_arrays(in_c: bool) -> None:
    program = parse("O[i] = 2*A[i] + B[i]", A=(4,), B=(4,))
    spied = Spied(network(program), in_c)
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    assert spied.call(a, b).tolist() == [1, 3, 5, 7] and spied.count == 0
    others = (
        a.astype(np.float64),
        a.astype(">f4"),
        np.repeat(a, 2)[::2],
        np.frombuffer(b"\0" + a.tobytes(), np.float32, offset=1),
        a.tolist(),
    )
    for count, odd in enumerate((*others, a.view(OwnArray)), start=1):
        assert spied.call(odd, b).tolist() == [1, 3, 5, 7] and spied.count == count
    for wrong in ((a,), (a, b, b), ()):
        with pytest.raises(ShapeError, match="2 inputs are expected"):
            spied.call(*wrong)
    for wrong in (np.ones(5, np.float32), np.ones((4, 1), np.float32), np.float32(1)):
        with pytest.raises(ShapeError):
            spied.call(a, wrong)


def test_several_arrays_and_types(in_c: bool) -> None:
    i32, bits = ea.tensor("A", (3, 1, 5), "i32"), ea.tensor("B", (3, 5), "bool")
    program = parse("O[i,k] = A[i,0,k]*2\nP[k,i] = A[i,0,k]*B[i,k]", A=i32, B=bits)
    spied = Spied(network(program), in_c)
    a, b = np.arange(15, dtype=np.int32).reshape(3, 1, 5), np.arange(15).reshape(3, 5) % 2 == 0
    a.flags.writeable = False
    for given in (a, np.asfortranarray(a), a[:, ::-1]):  # an axis of one element has any stride
        o, p = spied.call(given, b)
        np.testing.assert_array_equal(o, 2 * a[:, 0])
        np.testing.assert_array_equal(p, (a[:, 0] * b).T)


def test_nothing_to_read_and_nothing_to_write() -> None:
    program = parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 0), B=(0, 2))
    assert (
        Spied(network(program))
        .call(np.empty((3, 0), np.float32), np.empty((0, 2), np.float32))
        .tolist()
        == [[0, 0]] * 3
    )
    none = parse("O[i] = A[i]", A=(0,))
    assert Spied(network(none)).call(np.empty(0, np.float32)).shape == (0,)


def test_a_network_without_a_direct_way_takes_the_other_one() -> None:
    assert plain(lambda a: [a], None)(3) == 3
    assert array_function(DirectCall((), (), lambda _: None), lambda *_: ())() == ()


class Nested(torch.nn.Module):
    """Results of one of some forms."""

    def __init__(self, form: Callable[[Any, Any], Any]):
        super().__init__()
        self.form = form

    def forward(self, x: Any) -> Any:
        return self.form(x * 2, x + 1)


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda x, y: x + y,
    "tuple": lambda x, y: (x, y),
    "list": lambda x, y: [x, y],
    "tuple of one": lambda x, y: (x + y,),
    "dictionary": lambda x, y: {"x": x, "y": y},
    "nested": lambda x, y: ([x], (y, {"z": x + y})),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_results(form: str, in_c: bool) -> None:
    module, x = Nested(FORMS[form]), torch.randn(3, 2)
    found, wanted = Spied(network(module, (x,)), in_c).call(x), module(x)
    assert type(found) is type(wanted)
    torch.testing.assert_close(found, wanted)


def test_no_memory_is_lost(spied: Spied, module: Any) -> None:
    """Neither of what is given and gives, nor where a call fails."""
    x, y, odd = torch.randn(3, 5), torch.randn(7), torch.randn(8)
    kept = [
        x,
        y,
        odd,
        *([spied.call.__self__] if isinstance(spied.call, BuiltinFunctionType) else []),
    ]
    spied.call(x, y)
    before = [sys.getrefcount(value) for value in kept]
    results = [spied.call(x, y) for _ in range(100)]
    alive = [weakref.ref(result["sum"]) for result in results]
    for _ in range(100):
        with pytest.raises(ShapeError):
            spied.call(x, odd)
    del results
    gc.collect()
    assert not any(result() is not None for result in alive)
    assert all(abs(sys.getrefcount(value) - count) < 50 for value, count in zip(kept, before))


def test_a_function_in_c_is_freed_with_what_it_keeps() -> None:
    program = parse("O[i] = 2*A[i]", A=(4,))
    call = Spied(network(program)).call
    taken = call.__self__[2]  # type: ignore[attr-defined]
    assert (
        not taken and call(np.ones(4, np.float32)).tolist() == [2] * 4
    )  # memory is taken when it is needed
    ((found, _),) = taken
    frame = weakref.ref(found)
    del taken, found
    assert frame() is not None
    del call
    gc.collect()
    assert frame() is None


def test_results_that_cannot_be_made() -> None:
    def lacking() -> Any:
        raise MemoryError("none is left")

    run = compile_program(parse("O[i] = 2*A[i]", A=(4,))).direct(["A", "O"])
    assert run is not None
    tensors = (ea.tensor("A", (4,)),), (ea.tensor("O", (4,)),)
    call = DirectCall(*tensors, run).on_objects(
        ObjectInterface((np.ndarray,), lambda *_, **__: "other", (lacking,))
    )
    odd = DirectCall(*tensors, run).on_objects(
        ObjectInterface((np.ndarray,), lambda *_, **__: "other", (lambda: np.empty(5, np.float32),))
    )
    assert call is not None and odd is not None
    with pytest.raises(MemoryError, match="none is left"):
        call(np.ones(4, np.float32))
    assert (
        odd(np.ones(4, np.float32))
        == call([1])
        == call()
        == call(np.ones(4, np.float32), a=1)
        == "other"
    )


def test_too_many_inputs_for_c() -> None:
    shapes = {f"A{k}": (2,) for k in range(40)}
    program = parse(f"O[i] = {' + '.join(f'{name}[i]' for name in shapes)}", **shapes)
    call = network(program).around
    made = optimized(network(program).graph, network(program).arrays, LocalBackend(), 0.0)
    assert call(made, made.direct())(*([np.ones(2, np.float32)] * 40)).tolist() == [40, 40]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_makes_its_calls_otherwise() -> None:
    """Threads of the parent are not there, for which kernels in C would wait."""
    script = """
import os, warnings
import numpy as np, einalg as ea
warnings.simplefilter("ignore")  # that a process with threads forks
o = ea.optimize(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(512, 512), B=(512, 512)), seconds=0)
a, b = np.ones((512, 512), np.float32), np.ones((512, 512), np.float32)
assert (o(a, b) == 512).all()
if child := os.fork():
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert (o(a, b) == 512).all()
    raise SystemExit(status)
os._exit(0 if (o(a, b) == 512).all() else 3)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
