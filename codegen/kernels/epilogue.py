"""Epilogues: what is made of a contraction's results before they are stored, as biases, activations and residuals (design §10).

The results of a contraction, counted as they lie in memory, are walked by its own axes, and by the indices of the statement that reads
them. Both are cut where either begins a new digit; every piece of an axis is then a step of one index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from codegen.ir.nodes import Buf, Ref, Value
from codegen.ir.scalar import translate
from codegen.kernels.strided_axes import Epilogue, StridedAxis, StridedOperand, extent
from codegen.lowering.block import buffer
from codegen.lowering.loop_plan import has_numbers
from einalg.errors import CodegenError
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True)
class Digit:
    """The values of an index, `step` elements of a contraction's result apart."""

    index: Index
    extent: int
    step: int


@dataclass(frozen=True)
class EpilogueRead:
    """How a statement reads results: the pieces of each axis along which these lie, what is stored, and what is made of each."""

    pieces: Sequence[Sequence[StridedAxis]]
    target: StridedOperand
    epilogue: Epilogue

    def whole(self, position: int, axis: StridedAxis) -> StridedAxis | None:
        """An axis in one piece; None where it is cut."""
        pieces = self.pieces[position]
        if not pieces:  # of one step
            return replace(axis, target=0, beside=(0,) * len(self.epilogue.reads))
        return replace(pieces[0], index=axis.index) if len(pieces) == 1 else None


def read_each_result_once(
    axes: Sequence[StridedAxis], target: StridedOperand, dtype: str, name: str, scope: Scope
) -> EpilogueRead | None:
    """How the statement `name = scope` reads what was computed in `dtype` along these axes; None where each is not read for one element."""
    product, same = target.buf, dtype == target.buf.dtype == scope.dtype
    reads = dict.fromkeys(accesses(scope.body))
    if (
        not same
        or scope.where
        or any(True for _ in reductions(scope.body))
        or not all(map(is_plain, reads))
        or has_numbers(scope)
    ):
        return None
    elements = {access: simplify(element_number(access), scope.ranges) for access in reads}
    results = {elements[access] for access in reads if access.tensor.name == product.name}
    if len(results) != 1 or not all(form.is_affine() for form in elements.values()):
        return None
    digits = _digits(scope, results.pop(), prod(product.shape))
    least = min((axis.target for axis in axes if axis.extent != 1), default=1)
    if digits is None or target.offset or least < 1 or extent(axes) != prod(product.shape):
        return None
    others = {
        access: form for access, form in elements.items() if access.tensor.name != product.name
    }
    forms = [result_number(scope), *others.values()]
    pieces = [_pieces(axis, digits, forms) for axis in axes]
    if any(piece is None for piece in pieces):
        return None
    lows = {it.index: affine(it.low) for it in scope.iterators}
    operands = {
        access: StridedOperand(buffer(access.tensor), form.substitute(lows).const)
        for access, form in others.items()
    }
    stored = StridedOperand(Buf(name, scope.shape, scope.dtype), 0)
    return EpilogueRead(
        [piece or () for piece in pieces], stored, Epilogue(scope.body, product.name, operands)
    )


def is_plain(access: Access) -> bool:
    """Whether an access reads a tensor in memory as it is."""
    return (
        access.base is access.tensor
        and isinstance(access.tensor, Tensor)
        and not isinstance(access.tensor, Constant)
    )


def element_number(access: Access) -> Affine:
    """The element that an access reads, counted as it lies in memory."""
    return _counted(
        zip(
            (form - low for form, (low, _) in zip(access.subscripts, access.tensor.box)),
            access.tensor.shape,
        )
    )


def result_number(scope: Scope) -> Affine:
    """The element of its result that a scope computes."""
    return _counted((affine(it.index) - it.low, it.extent) for it in scope.iterators)


def _counted(subscripts: Iterable[tuple[Affine, int]]) -> Affine:
    total = affine(0)
    for form, size in subscripts:
        total = total * size + form
    return total


def _digits(scope: Scope, result: Affine, size: int) -> list[Digit] | None:
    """The indices of a scope as digits of the element that it reads; None where not every element is read once."""
    found = [
        Digit(it.index, it.extent, result.coefficient(it.index))
        for it in scope.iterators
        if it.extent != 1
    ]
    step = 1
    for digit in sorted(found, key=lambda d: d.step):
        if digit.step != step:
            return None
        step *= digit.extent
    return found if step == size else None


def _pieces(
    axis: StridedAxis, digits: Sequence[Digit], forms: Sequence[Affine]
) -> list[StridedAxis] | None:
    """An axis cut into steps of single digits; `forms` say where these lead in the target and in what is read beside it."""
    found = [piece for digit in digits for piece in _common(axis, digit, forms)]
    if prod(piece.extent for piece in found) != axis.extent:
        return None
    return (
        found
        if len(found) == 1
        else [
            replace(piece, index=Index(f"{axis.index.name}_{k}")) for k, piece in enumerate(found)
        ]
    )


def _common(axis: StridedAxis, digit: Digit, forms: Sequence[Affine]) -> Iterator[StridedAxis]:
    """The part of an axis along which one digit counts."""
    low, high = (
        max(axis.target, digit.step),
        min(axis.target * axis.extent, digit.step * digit.extent),
    )
    if low < high and not (high % low or low % axis.target or low % digit.step):
        along, times = low // axis.target, low // digit.step
        target, *beside = (form.coefficient(digit.index) * times for form in forms)
        yield StridedAxis(
            axis.index, high // low, axis.left * along, axis.right * along, target, tuple(beside)
        )


class ElementLeaves:
    """The leaves of a body that reads tensors at one place (`codegen.ir.scalar.Leaves`), by access; `value` is what it makes of them."""

    def __init__(self, body: Any, elements: Mapping[Access, Value]):
        self.elements = elements
        self.value = translate(body, self)

    def access(self, access: Access) -> Value:
        return self.elements[access]

    def reduction(self, reduce: Any) -> Value:
        raise CodegenError(f"what is computed at one place sums nothing, but {reduce}")

    def holds(self, condition: Constraint) -> Value:
        raise CodegenError(
            f"what is computed at one place asks for no other, but whether {condition}"
        )

    def index(self, form: Affine) -> Affine:
        raise CodegenError(f"what is computed at one place asks for no other, but for {form}")


class EpilogueLeaves(ElementLeaves):
    """The leaves of an epilogue's body: a result, and elements by their numbers."""

    def __init__(self, epilogue: Epilogue, result: Value, elements: Sequence[Ref]):
        self.product, self.result = epilogue.product, result
        super().__init__(epilogue.body, dict(zip(epilogue.reads, elements, strict=True)))

    def access(self, access: Access) -> Value:
        return self.result if access.tensor.name == self.product else self.elements[access]
