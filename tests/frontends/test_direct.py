"""Networks called on the memory of tensors and arrays: what kernels can read is read where it lies, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen.compiled import compile_program
from derive.optimizer import optimized
from einalg.direct import AtAddresses, Direct, on_arrays
from einalg.errors import ShapeError, UseError
from einalg.machine import Machine
from einalg.model import Network, network, plain
from einalg.text import parse

torch = pytest.importorskip("torch")


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 7)

    def forward(self, x: Any, y: Any) -> Any:
        return {"sum": torch.relu(self.linear(x) + y), "rest": (y * 2, [x * 3])}


class Spied:
    """A network that says how often it was called on memory."""

    def __init__(self, model: Network):
        made = optimized(model.graph, model.arrays, Machine(), 0.0)
        direct, self.count = made.direct(), 0
        assert direct is not None
        self.run: AtAddresses = direct.run
        self.otherwise = made
        self.call: Callable[..., Any] = model.around(made, replace(direct, run=self.counted))

    def counted(self, addresses: list[int]) -> None:
        self.count += 1
        self.run(addresses)


@pytest.fixture(scope="module")
def module() -> Any:
    torch.manual_seed(1)
    return Two().eval()


@pytest.fixture(scope="module")
def spied(module: Any) -> Spied:
    return Spied(network(module, (torch.randn(3, 5), torch.randn(7))))


class Own(torch.Tensor):
    """A tensor that may behave as it likes."""


DIRECT: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "a part": lambda x: torch.cat([x, x])[x.shape[0] :],
    "a parameter": lambda x: torch.nn.Parameter(x),
    "with gradients": lambda x: x.clone().requires_grad_(),
    "of inference": lambda x: torch.inference_mode()(torch.clone)(x),
}
OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "in another order": lambda x: x.clone().transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else torch.stack([x, x], 1)[:, 0],
    "negated when read": lambda x: torch._neg_view(-x),
    "of another class": lambda x: x.clone().as_subclass(Own),
    "sparse": lambda x: x.to_sparse(),
    "between elements": lambda x: torch.frombuffer(bytearray(b"\0" + x.numpy().tobytes()), dtype=torch.float32, offset=1).reshape(x.shape),
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
    assert spied.count - before == (kind in DIRECT)
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
    before = spied.count
    with pytest.raises(ShapeError, match=what):
        spied.call(*given)
    with pytest.raises((ShapeError, UseError)):
        spied.call(*(x.numpy() for x in given))
    assert spied.count == before


def test_by_name(module: Any) -> None:
    model = network(module, (torch.randn(3, 5), torch.randn(7)))
    x, y = torch.randn(3, 5), torch.randn(7)
    arguments, named = model.bound((x,), {"y": y})
    with torch.no_grad():
        torch.testing.assert_close(Spied(model).call(*arguments, **named), module(x, y), rtol=1e-5, atol=1e-6)


def test_half_precision_of_brains_is_not_read_as_it_is() -> None:
    """The kernels' memory of such a tensor is another one than torch's."""
    layer = torch.nn.Linear(5, 7).to(torch.bfloat16).eval()
    x = torch.randn(3, 5).to(torch.bfloat16)
    model = network(layer, (x,))
    made = optimized(model.graph, model.arrays, Machine(), 0.0)
    with torch.no_grad():
        torch.testing.assert_close(model.around(made, made.direct())(x), layer(x), rtol=0.05, atol=0.05)


def test_from_many_threads(module: Any, spied: Spied) -> None:
    given = [(torch.randn(3, 5), torch.randn(7)) for _ in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: spied.call(*pair), given))
    with torch.no_grad():
        for pair, result in zip(given, found):
            torch.testing.assert_close(result, module(*pair), rtol=1e-5, atol=1e-6)


ADD = parse("T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + C[j]\nP[i] += T[i,j]", A=(4, 5), B=(5, 6), C=(6,))


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


def test_arrays() -> None:
    program = parse("O[i] = 2*A[i] + B[i]", A=(4,), B=(4,))
    spied = Spied(network(program))
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    assert spied.call(a, b).tolist() == [1, 3, 5, 7] and spied.count == 1
    for odd in (a.astype(np.float64), a.astype(">f4"), np.repeat(a, 2)[::2], np.frombuffer(b"\0" + a.tobytes(), np.float32, offset=1), a.tolist()):
        assert spied.call(odd, b).tolist() == [1, 3, 5, 7] and spied.count == 1
    with pytest.raises(ShapeError, match="2 inputs are expected"):
        spied.call(a)
    with pytest.raises(ShapeError):
        spied.call(a, np.ones(5, np.float32))


def test_nothing_to_read_and_nothing_to_write() -> None:
    program = parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 0), B=(0, 2))
    assert Spied(network(program)).call(np.empty((3, 0), np.float32), np.empty((0, 2), np.float32)).tolist() == [[0, 0]] * 3
    none = parse("O[i] = A[i]", A=(0,))
    assert Spied(network(none)).call(np.empty(0, np.float32)).shape == (0,)


def test_a_network_without_a_direct_way_takes_the_other_one() -> None:
    assert plain(lambda a: [a], None)(3) == 3
    assert on_arrays(Direct((), (), lambda _: None), lambda *_: [])() == []
