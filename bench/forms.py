"""Forms that a search ought to find: predicates on a candidate, of its kernels without those that depend on weights alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from derive.cost.model import done_once
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.tensor import Access

Form = Callable[[Any], bool]
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def running(candidate: Any) -> list[Kernel]:
    """The kernels of a candidate that a run cannot do ahead."""
    once = done_once(candidate.kernels)
    return [k for k in candidate.kernels if k.output not in once]


def is_copy(kernel: Kernel) -> bool:
    """Whether a kernel moves elements and computes nothing."""
    return kernel.op == EOP and kernel.scope is not None and isinstance(kernel.scope.body, Access)


def only(**counts: int) -> Form:
    """Exactly so many kernels of each operator."""

    def holds(candidate: Any) -> bool:
        return Counter(k.op for k in running(candidate)) == Counter(counts)

    return holds


def with_eops(op: str, count: int = 1, **sizes: int) -> Form:
    """So many kernels of one operator, each with these sizes, and nothing else but eOperators."""

    def holds(candidate: Any) -> bool:
        found = [k for k in running(candidate) if k.op != EOP]
        return len(found) == count and all(
            k.op == op and all(k.sizes.get(n) == s for n, s in sizes.items()) for k in found
        )

    return holds


def operators(**counts: int) -> Form:
    """So many kernels of each of these operators; everything else is an eOperator or a reduction."""
    return lambda found: (
        Counter(k.op for k in running(found) if k.op not in (EOP, "reduce")) == Counter(counts)
    )


def product_and_addition(candidate: Any) -> bool:
    """One matrix multiplication that reads its operands where they are, and one eOperator that adds its results up."""
    kernels = running(candidate)
    return [k.op for k in kernels] == ["matmul", EOP] and not is_copy(kernels[1])


def factorised(times: int, **sizes: int) -> Form:
    """At least so many bilinear factorisations, and one batched matrix multiplication."""

    def holds(candidate: Any) -> bool:
        made = sum(move.rule == "bilinear factorisation" for move in candidate.moves)
        return made >= times and with_eops("matmul", **sizes)(candidate)

    return holds


def without(*names: str) -> Form:
    """No kernel of these operators."""
    return lambda candidate: not any(k.op in names for k in running(candidate))


def dense(op: str, count: int = 1, strided: bool = False, **sizes: int) -> Form:
    """So many kernels of a windowed operator without dilation and, unless `strided`, without stride, and nothing else but eOperators."""
    absent = ("dilation",) if strided else ("dilation", "stride")

    def holds(candidate: Any) -> bool:
        return with_eops(op, count, **sizes)(candidate) and not any(
            n.startswith(absent) for k in running(candidate) for n in k.sizes
        )

    return holds


def every_phase(count: int) -> Form:
    """So many dense convolutions, one with a single tap being a product, and nothing else but eOperators."""

    def holds(candidate: Any) -> bool:
        found = [k for k in running(candidate) if k.op != EOP]
        named = all(
            k.op in (*CONVOLUTIONS, "matmul")
            and not any(n.startswith(("stride", "dilation")) for n in k.sizes)
            for k in found
        )
        return (
            named
            and len(found) == count
            and not any(move.rule == "bilinear factorisation" for move in candidate.moves)
        )

    return holds
