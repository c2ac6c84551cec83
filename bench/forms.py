"""Forms that a search ought to find: predicates on the kernels of a candidate.

Kernels that depend on weights alone do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from derive.cost.model import constant_outputs
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.tensor import Access

Form = Callable[[Any], bool]
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def running(candidate: Any) -> list[Kernel]:
    """Return the kernels of a candidate that each run calls."""
    once = constant_outputs(candidate.kernels)
    return [kernel for kernel in candidate.kernels if kernel.output not in once]


def operator_names(candidate: Any) -> list[str]:
    """Return the operators of the kernels that each run calls, in order."""
    return [kernel.op for kernel in running(candidate)]


def library_kernels(candidate: Any) -> list[Kernel]:
    """Return the kernels that each run calls and that are no eOperators."""
    return [kernel for kernel in running(candidate) if kernel.op != EOP]


def is_factorised(candidate: Any) -> bool:
    """Return whether a bilinear factorisation is among the moves."""
    return factorisation_count(candidate) > 0


def factorisation_count(candidate: Any) -> int:
    return sum(move.rule == "bilinear factorisation" for move in candidate.moves)


def is_copy(kernel: Kernel) -> bool:
    """Return whether a kernel moves elements and computes nothing."""
    return kernel.op == EOP and kernel.scope is not None and isinstance(kernel.scope.body, Access)


def only(**counts: int) -> Form:
    """Return a form of exactly so many kernels of each operator."""

    def holds(candidate: Any) -> bool:
        return Counter(operator_names(candidate)) == Counter(counts)

    return holds


def with_eops(op: str, count: int = 1, **sizes: int) -> Form:
    """Return a form of kernels of one operator with these sizes, and eOperators."""

    def holds(candidate: Any) -> bool:
        kernels = library_kernels(candidate)
        return len(kernels) == count and all(map(has_sizes, kernels))

    def has_sizes(kernel: Kernel) -> bool:
        return kernel.op == op and sizes.items() <= kernel.sizes.items()

    return holds


def operators(**counts: int) -> Form:
    """Return a form of kernels of each of these operators, and eOperators or reductions."""

    def holds(candidate: Any) -> bool:
        names = [name for name in operator_names(candidate) if name not in (EOP, "reduce")]
        return Counter(names) == Counter(counts)

    return holds


def product_and_addition(candidate: Any) -> bool:
    """Return whether a candidate is a matrix multiplication and an eOperator.

    The first reads its operands where they are, and the second adds its results up.
    """
    return operator_names(candidate) == ["matmul", EOP] and not is_copy(running(candidate)[1])


def factorised(times: int, **sizes: int) -> Form:
    """Return a form of so many bilinear factorisations, and one batched multiplication."""

    def holds(candidate: Any) -> bool:
        has_product = with_eops("matmul", **sizes)
        return factorisation_count(candidate) >= times and has_product(candidate)

    return holds


def without(*names: str) -> Form:
    """Return a form without kernels of these operators."""
    return lambda candidate: set(names).isdisjoint(operator_names(candidate))


def dense(op: str, count: int = 1, strided: bool = False, **sizes: int) -> Form:
    """Return a form of so many kernels of a windowed operator, and eOperators.

    They have no dilation and, unless `strided`, no stride.
    """
    absent: tuple[str, ...] = ("dilation", "stride")
    if strided:
        absent = ("dilation",)
    has_kernels = with_eops(op, count, **sizes)

    def holds(candidate: Any) -> bool:
        return has_kernels(candidate) and not any(
            has_sizes_named(kernel, absent) for kernel in running(candidate)
        )

    return holds


def has_sizes_named(kernel: Kernel, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in kernel.sizes)


def every_phase(count: int) -> Form:
    """Return a form of so many dense convolutions, and eOperators.

    A convolution with a single tap is a product.
    """

    def is_dense(kernel: Kernel) -> bool:
        if kernel.op not in (*CONVOLUTIONS, "matmul"):
            return False
        return not has_sizes_named(kernel, ("stride", "dilation"))

    def holds(candidate: Any) -> bool:
        kernels = library_kernels(candidate)
        if len(kernels) != count or is_factorised(candidate):
            return False
        return all(map(is_dense, kernels))

    return holds
