"""What a model's results depend on besides the elements of its inputs: memory that these share, and
where they lie in it.
"""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea

torch = pytest.importorskip("torch")


class Strided(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.as_strided((2, 3), (3, 1)) + torch.relu(x).as_strided((2, 3), (2, 5))


class Repeated(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.as_strided((2, 2), (0, 1)) + torch.relu(x[:1]).expand(3, 4).as_strided(
            (2, 2), (0, 1)
        )


class Product(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a @ b


def optimized(model: Any, *inputs: Any) -> Any:
    return ea.optimize(model.eval(), inputs, seconds=0, prefer="einalg")


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_operators_that_read_memory_find_it_as_it_was(layout: Any) -> None:
    x = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=layout)
    for _ in ("read", "from the cache"):
        torch.testing.assert_close(optimized(Strided(), x)(x), Strided()(x))


def test_memory_may_have_an_element_several_times() -> None:
    x = torch.randn(1, 4).expand(3, 4)
    for _ in ("read", "from the cache"):
        torch.testing.assert_close(optimized(Repeated(), x)(x), Repeated()(x))


def test_one_tensor_that_is_given_twice_may_be_two_later() -> None:
    a, b = torch.randn(5, 5), torch.randn(5, 5)
    for example in ((a, a), (a, b), (a, a.t()), (a, a)):
        found = optimized(Product(), *example)
        for call in ((a, b), (a, a), (b, a.t())):
            torch.testing.assert_close(found(*call), Product()(*call), rtol=1e-5, atol=1e-5)


class Nested(torch.nn.Module):
    def forward(self, parts: Any, *, scale: Any) -> Any:
        return parts["a"][0] @ parts["b"] * scale


def test_a_tensor_that_is_nested_or_named_may_be_two_later() -> None:
    """The graph of one kind of call, from the cache too, serves all others."""
    a, b, c = torch.randn(3, 4, 4).unbind()
    calls = [(a, a, a), (a, b, a), (a, b, c)]
    for example in (calls[0], calls[2], calls[0]):
        one, two, three = example
        inputs = {"parts": {"a": [one], "b": two}, "scale": three}
        found = ea.optimize(Nested(), inputs, seconds=0, prefer="einalg")
        for one, two, three in calls:
            arguments = {"parts": {"a": [one], "b": two}, "scale": three}
            expected = Nested()(**arguments)
            torch.testing.assert_close(found(**arguments), expected, rtol=1e-5, atol=1e-5)
