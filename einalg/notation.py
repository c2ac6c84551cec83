"""The Python door of the notation: `indices`, `tensor`, `L`, `Sum`, `Max`, `Min`, `Prod`, `einsum` (design §4)."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Integer

from einalg.access import Indexable, Tensor
from einalg.affine import Affine, Index, affine
from einalg.errors import NotationError, ShapeError
from einalg.infer import build_scope
from einalg.scope import Iterator, Reduce, Scope
from einalg.traverse import with_plain_numbers


def indices(names: str) -> Any:
    """Indices by their names, separated by spaces or commas: a tuple, or a single index.

    >>> h, w = indices("h w")
    """
    made = tuple(Index(name) for name in names.replace(",", " ").split())
    if not made:
        raise NotationError("indices() needs at least one name\n  e.g. h, w = ea.indices('h w')")
    return made[0] if len(made) == 1 else made


def tensor(name: str, shape: Any, dtype: Any = "f32", role: str = "input") -> Tensor:
    """A tensor with a static shape (elements an axis); `role="weight"` where its values are known before run time.

    Raises `ShapeError` for a bad shape or dtype, `NotationError` for a bad name or role.

    >>> tensor("K", (3, 3, 64, 64), role="weight").shape
    (3, 3, 64, 64)
    """
    return Tensor(name, shape, dtype, role)


def _integer(value: Any, what: str) -> int:
    if isinstance(value, Affine) and not value.terms:
        return value.const
    if isinstance(value, bool) or not (isinstance(value, (int, Integer)) or hasattr(value, "__index__")):
        raise NotationError(f"the range of {what} must be integers, not {value}")
    return int(value)


def binder(key: Any) -> list[Iterator]:
    """Read `h`, `h:224`, `t:-1:225` of `L[...]`, `Sum[...]`."""
    found = []
    for entry in key if isinstance(key, tuple) else (key,):
        if isinstance(entry, slice):
            index, low, high = (entry.start, 0, entry.stop) if entry.step is None else (entry.start, entry.stop, entry.step)
            if not isinstance(index, Index):
                raise NotationError(f"a range is written index:size or index:start:end, not {_slice_text(entry)}")
            found.append(Iterator(index, _integer(low, index.name), _integer(high, index.name)))
        elif isinstance(entry, Index):
            found.append(Iterator(entry, None, None))
        else:
            raise NotationError(f"expected an index or index:size between the brackets, not {entry}")
    names = [it.index.name for it in found]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise NotationError(f"index {twice} is bound twice\n  rename one of the two")
    return found


def _slice_text(entry: slice) -> str:
    return ":".join("" if part is None else str(part) for part in (entry.start, entry.stop, entry.step))


def as_body(value: Any) -> Any:
    """A number or an expression over accesses; a whole tensor is refused."""
    if isinstance(value, Indexable):
        raise NotationError("a body is a scalar: give the tensor or scope its subscripts, e.g. T[i, j]")
    try:
        return with_plain_numbers(sympy.sympify(value, strict=True))
    except (sympy.SympifyError, TypeError, AttributeError):
        raise NotationError(f"{value!r} cannot be the body of an expression\n  a body is made of accesses, numbers and functions of them") from None


class _Traversal:
    """`L[x, …](body, where=…)` makes a scope."""

    def __getitem__(self, key: Any) -> Any:
        iterators = binder(key)

        def bind(body: Any, where: Any = None) -> Scope:
            return build_scope(iterators, as_body(body), where)

        return bind

    def __repr__(self) -> str:
        return "L"


class _Reduction:
    """`Sum[s, …](body, where=…)` reduces; `Max(a, b)` and `Min(a, b)` compare two elements."""

    def __init__(self, op: str, elementwise: Any = None):
        self.op, self.elementwise = op, elementwise

    def __getitem__(self, key: Any) -> Any:
        iterators = binder(key)

        def bind(body: Any, where: Any = None) -> Reduce:
            return Reduce(self.op, iterators, where, as_body(body))

        return bind

    def __call__(self, *values: Any) -> Any:
        if self.elementwise is None:
            raise NotationError(f"{self.op} reduces over indices: {self.op}[i]({', '.join(map(str, values))})")
        return self.elementwise(*(as_body(v) for v in values))

    def __repr__(self) -> str:
        return self.op


L = _Traversal()
Sum = _Reduction("Sum")
Prod = _Reduction("Prod")
Max = _Reduction("Max", sympy.Max)
Min = _Reduction("Min", sympy.Min)


def einsum(equation: str, *operands: Any) -> Scope:
    """The expression of an einsum equation over tensors or scopes: implicit output, repeated indices and `...` included.

    >>> einsum("nchw,fc->nfhw", tensor("A", (8, 3, 5, 5)), tensor("K", (4, 3))).shape
    (8, 4, 5, 5)
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise NotationError(f"einsum {equation!r} has {len(terms)} terms for {len(operands)} operands")
    ranks = [_ellipsis_rank(t, operand) for t, operand in zip(terms, operands)]
    dots = max(ranks, default=0)
    names = [_einsum_axes(t, rank, dots) for t, rank in zip(terms, ranks)]
    if arrow:
        out = _einsum_axes(right, dots, dots)
    else:
        flat = [n for axes in names for n in axes]
        out = [f"_{k}" for k in range(dots)] + sorted({n for n in flat if flat.count(n) == 1 and not n.startswith("_")})
    return _einsum_scope(equation, names, out, operands)


def _ellipsis_rank(term: str, operand: Any) -> int:
    if not isinstance(operand, Indexable):
        raise NotationError(f"einsum takes tensors or scopes, not {operand!r}")
    letters = term.replace("...", "")
    if not letters.isalpha() and letters:
        raise NotationError(f"einsum term {term!r} may hold letters and one '...' only")
    rank = operand.rank - len(letters)
    if rank < 0 or (rank and "..." not in term):
        raise ShapeError(f"einsum term {term!r} names {len(letters)} axes of an operand of {operand.rank}")
    return rank


def _einsum_axes(term: str, rank: int, dots: int) -> list[str]:
    before, _, after = term.partition("...")
    return [*before, *(f"_{k}" for k in range(dots - rank, dots) if "..." in term), *after]


def _einsum_scope(equation: str, names: list[list[str]], out: list[str], operands: tuple[Any, ...]) -> Scope:
    sizes: dict[str, tuple[int, int]] = {}
    for axes, operand in zip(names, operands):
        for name, box in zip(axes, operand.box):
            known = sizes.setdefault(name, box)
            if known != box and not (name.startswith("_") and 1 in (known[1] - known[0], box[1] - box[0])):
                raise _two_sizes(equation, name, known, box)
            sizes[name] = known if known[1] - known[0] != 1 else box
    missing = [n for n in out if n not in sizes]
    if missing or len(set(out)) < len(out):
        raise NotationError(f"einsum {equation!r}: output index {(missing or out)[0]!r} " + ("is in no operand" if missing else "is repeated"))
    letter = {n: Index(n if not n.startswith("_") else f"e{n[1:]}") for n in sizes}
    body: Any = sympy.S.One
    for axes, operand in zip(names, operands):
        body = body * operand[tuple(_einsum_subscript(letter[n], box, sizes[n]) for n, box in zip(axes, operand.box))]
    summed = [Iterator(letter[n], *sizes[n]) for n in sizes if n not in out]
    body = Reduce("Sum", summed, None, body) if summed else body
    return build_scope([Iterator(letter[n], *sizes[n]) for n in out], body)


def _einsum_subscript(index: Index, box: tuple[int, int], full: tuple[int, int]) -> Affine:
    return affine(index) if box == full else affine(box[0])


def _two_sizes(equation: str, name: str, one: tuple[int, int], two: tuple[int, int]) -> ShapeError:
    return ShapeError(f"einsum {equation!r}: index {name!r} has two sizes: {one[1] - one[0]} and {two[1] - two[0]}")


