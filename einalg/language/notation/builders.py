"""The notation in Python: `indices`, `tensor`, `L`, `Sum`, `Max`, `Min`, `Prod` (design
§4).
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean

from einalg.boundary import public
from einalg.errors import EinalgError, NotationError
from einalg.language.analysis.error_location import located
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.index.iterator import BoundTwice, LoopIndex
from einalg.language.index.remainder import ORDERINGS, ROUNDING, applied, as_number
from einalg.language.index.size import Extent, as_extent
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Indexable, Tensor, describe
from einalg.language.notation.grammar import CONSTANTS
from einalg.language.notation.range_inference import build_scope
from einalg.options import checked, text

# By einalg, which puts them into a form of its own.
EVALUATED = (*ROUNDING, *ORDERINGS, sympy.Abs, sympy.Piecewise, ExprCondPair)


@public
def indices(names: str) -> Any:
    """Indices by their names, separated by spaces or commas: a tuple, or a single index.

    An index has no range of its own; it gets one where it is bound. Raises `NotationError` for no
    name, or for a constant of the notation (`pi`, `inf`).

    >>> h, w = indices("h w")
    >>> 2*h + w - 1
    2*h + w - 1
    """
    symbols = []
    if isinstance(names, str):
        symbols = [Index(name) for name in names.replace(",", " ").split()]
    if not symbols:
        example = "h w"
        if isinstance(names, (tuple, list)) and names and all(isinstance(n, str) for n in names):
            example = " ".join(names)
        left = ", ".join(example.split())
        raise NotationError(
            "indices() needs at least one name, and all names in one text\n"
            f"  write {left} = ea.indices({example!r})"
        )
    if len(symbols) == 1:
        return symbols[0]
    return tuple(symbols)


@checked(name=text("A", NotationError), role=text("weight", NotationError))
def tensor(name: str, shape: Any, dtype: Any = "f32", role: str = "input") -> Tensor:
    """A tensor with a static shape (elements an axis); `role="weight"` where its values are known
    before run time.

    Raises `ShapeError` for a bad shape or dtype, `NotationError` for a bad name or role.

    >>> tensor("K", (3, 3, 64, 64), role="weight").shape
    (3, 3, 64, 64)
    """
    return Tensor(name, shape, dtype, role)


def read_iterators(key: Any) -> list[LoopIndex]:
    """Read `h`, `h:224`, `t:-1:225` of `L[...]`, `Sum[...]`."""
    entries = key if isinstance(key, tuple) else (key,)
    iterators = [_iterator(entry) for entry in entries]
    bound: set[Index] = set()
    for it in iterators:
        if it.index in bound:
            raise BoundTwice(it.index).error()
        bound.add(it.index)
    return iterators


def _iterator(entry: Any) -> LoopIndex:
    if isinstance(entry, Index) and not entry.is_size:
        return LoopIndex(entry, None, None)
    if isinstance(entry, str) and entry.isidentifier():
        raise NotationError(
            f"between the brackets stand indices, and {entry!r} is text\n"
            f"  make an index first: {entry} = ea.indices({entry!r})"
        )
    if not isinstance(entry, slice):
        raise NotationError(
            f"expected an index or index:size between the brackets, not {entry}\n"
            "  e.g. L[h, w:224, t:-1:225](...)"
        )
    index, low, high = entry.start, entry.stop, entry.step
    if high is None:
        low, high = 0, low
    if not isinstance(index, Index) or index.is_size:
        raise NotationError(
            f"a range is written index:size or index:start:end, not {_slice_text(entry)}\n"
            "  e.g. h:224, or t:-1:225"
        )
    return LoopIndex(index, _integer(low, index.name), _integer(high, index.name))


def _slice_text(entry: slice) -> str:
    """Return a slice as it is written, e.g. `3:4`."""
    parts = []
    for part in (entry.start, entry.stop, entry.step):
        parts.append("" if part is None else str(part))
    return ":".join(parts).rstrip(":")


def _integer(value: Any, what: str) -> Extent:
    if value is None:
        raise NotationError(f"the range of {what} has no end\n  e.g. {what}:224, or {what}:-1:225")
    number = as_extent(value)
    if number is None:
        shown = repr(float(value)) if isinstance(value, sympy.Float) else value
        raise NotationError(
            f"the range of {what} must be whole numbers, not {shown}\n"
            f"  e.g. {what}:224, {what}:-1:225, or {what}:N with N = ea.size('N')"
        )
    return number


def as_body(value: Any) -> Any:
    """Read a number or an expression over accesses; a whole tensor is refused."""
    if isinstance(value, Indexable):
        axes = ", ".join("ijklmnpq"[: value.rank]) or "()"
        name = value.name if isinstance(value, Tensor) else "(...)"
        raise NotationError(
            f"a body is a scalar, and {describe(value)} is a whole tensor\n"
            f"  give it its subscripts: {name}[{axes}]"
        )
    try:
        body = sympy.sympify(value, strict=True)
    except (sympy.SympifyError, TypeError, AttributeError):
        body = None
    is_number = isinstance(body, sympy.Expr) and body.is_commutative
    if not is_number and not isinstance(body, Boolean):
        raise NotationError(
            f"{value!r} cannot be the body of an expression\n"
            "  a body is made of accesses, numbers and functions of them"
        )
    return _normalized(body)


def _normalized(body: Any) -> Any:
    """Return the one spelling in which equal bodies are equal: index arithmetic outside accesses is
    SymPy's own, decimals are doubles.
    """
    if isinstance(body, (Access, Reduce)):
        return body
    if isinstance(body, IndexArithmetic):
        return as_number(affine(body))
    if body.is_Float or (body.is_NumberSymbol and body not in CONSTANTS.values()):
        return sympy.sympify(float(body))
    if isinstance(body, sympy.ITE):
        parts: Any = body.args
        condition, one, other = parts
        body = sympy.Or(sympy.And(condition, one), sympy.And(sympy.Not(condition), other))
    if body.args:
        operands = tuple(map(_normalized, body.args))
        changed = any(a is not b for a, b in zip(operands, body.args))
        if changed or isinstance(body, EVALUATED):
            body = applied(body.func, operands)
    problem = _problem(body)
    if problem:
        raise NotationError(
            f"this {problem}\n  leave it out where it does: Piecewise((a, condition), (b, True))"
        )
    return body


def _problem(body: Any) -> str:
    """Return why a body is no number, or nothing."""
    if body is sympy.zoo:
        return "divides by 0"
    if body is sympy.nan:
        return "has no value"
    if body.is_number and body.is_extended_real is False:
        return "is imaginary"
    return ""


@public
class _Traversal:
    """`L[x, …](body, where=…)` makes a scope: the value of `body` at every point of the indices `x,
    …` (the L-notation of EinNet).

    An index between the brackets is `h`, whose range is inferred from the shapes of what is read;
    `h:224`, which is 0 to 223; or `t:-1:225`, which is -1 to 224. `where` cuts the domain: a
    comparison of indices, or a tuple of them. Raises `NotationError` for a body that is no scalar
    or an index that is not bound, `RangeError` where a range cannot be inferred or a read leads
    outside.

    >>> import einalg as ea
    >>> A, (i, j) = ea.tensor("A", (4, 4)), ea.indices("i j")
    >>> ea.L[i, j](2*A[j, i])
    L[i:4, j:4](2*A[j, i])
    >>> ea.L[i, j](A[i, j], where=j <= i)
    L[i:4, j:4](A[i, j], where=i >= j)
    """

    def __getitem__(self, key: Any) -> Any:
        iterators = read_iterators(key)

        def bind(body: Any, where: Any = None) -> Scope:
            body = as_body(body)
            try:
                return build_scope(iterators, body, where)
            except EinalgError as error:
                raise located(error, iterators, body) from None

        bind.__qualname__ = "L[...]"
        return public(bind)

    def __call__(self, *values: Any, **named: Any) -> Any:
        arguments = ", ".join(map(str, values)) or "A[i]"
        raise NotationError(
            f"L takes its indices in square brackets, before the body\n  write L[i]({arguments})"
        )

    def __repr__(self) -> str:
        return "L"


@public
class _ReductionBuilder:
    """`Sum[s, …](body, where=…)` reduces over the indices `s, …`; so do `Max`, `Min` and `Prod`.

    Indices and `where` are written as those of `L`. Over no points a sum is 0, a product 1, a
    maximum -∞ and a minimum ∞. `Max(a, b, …)` and `Min(a, b, …)` compare elements. Raises
    `NotationError` for a body that is no scalar.

    >>> import einalg as ea
    >>> A, (i, j) = ea.tensor("A", (4, 5)), ea.indices("i j")
    >>> ea.L[i](ea.Sum[j](A[i, j]))
    L[i:4](Sum[j:5](A[i, j]))
    >>> ea.L[i](ea.Max(ea.Max[j](A[i, j]), 0))
    L[i:4](Max(0, Max[j:5](A[i, j])))
    """

    def __init__(self, op: str, elementwise: Any = None):
        self.op, self.elementwise = op, elementwise

    def __getitem__(self, key: Any) -> Any:
        iterators = read_iterators(key)

        def bind(body: Any, where: Any = None) -> Reduce:
            return Reduce(self.op, iterators, where, as_body(body))

        bind.__qualname__ = f"{self.op}[...]"
        return public(bind)

    def __call__(self, *values: Any, **named: Any) -> Any:
        if self.elementwise is None or not values or named:
            arguments = ", ".join(map(str, values))
            raise NotationError(
                f"{self.op} reduces over indices, and none is given\n"
                f"  write {self.op}[i]({arguments})"
            )
        bodies = [as_body(value) for value in values]
        for body in bodies:
            # An index is a symbol, which SymPy counts among the truth values.
            if isinstance(body, Boolean) and not isinstance(body, IndexArithmetic):
                raise NotationError(
                    f"{self.op} compares numbers, and {body} is a truth value\n"
                    f"  write Piecewise((a, {body}), (b, True))"
                )
        return applied(self.elementwise, bodies)

    def __repr__(self) -> str:
        return self.op


L = _Traversal()
Sum = _ReductionBuilder("Sum")
Prod = _ReductionBuilder("Prod")
Max = _ReductionBuilder("Max", sympy.Max)
Min = _ReductionBuilder("Min", sympy.Min)
