"""Scopes, reductions and constraints: the mathematics of a tensor expression (design §2, §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import sympy
from sympy import Basic

from einalg.boundary import public
from einalg.errors import NotationError, ShapeError, UseError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import constraints
from einalg.language.index.convert import affine
from einalg.language.index.isl import domain_set
from einalg.language.index.iterator import iterators_at_sizes, loop_indices, sizes_of
from einalg.language.index.operators import whole_number
from einalg.language.index.size import by_name
from einalg.language.ir.body import (
    constraint_sort_key,
    positional_reductions,
    substitute,
    where_text,
)
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.identity import identity
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.printing.tree import tree
from einalg.language.ir.tensor import Box, Indexable, Tensor, unpadded
from einalg.language.ir.traversal import accesses, body_at_sizes, sizes_in_body
from einalg.language.node import Node
from einalg.options import shown


class LazyBody:
    """A body that is read when something asks for it first, and what is known of it before.

    An example: a statement of a stored program, whose text is read only where its kernel is not
    stored.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = 2*A[i]", A=(4,))
    >>> lazy = LazyBody(lambda: scope.body, "f32", scope.tensors)
    >>> Scope.with_lazy_body(scope.iterators, None, lazy)
    L[i:4](2*A[i])
    """

    __slots__ = ("_body", "_read", "dtype", "tensors")

    def __init__(self, read: Callable[[], Any], dtype: str, tensors: Mapping[str, Any]):
        self._body: Any = None
        self._read: Callable[[], Any] | None = read
        self.dtype, self.tensors = dtype, dict(tensors)

    def resolve(self) -> Any:
        """Return the body. Two threads may read it at a time: they read the same."""
        read = self._read
        if read is not None:
            self._body = read()
            self._read = None
        return self._body


class _SortKey:
    """The key by which SymPy orders scopes: their ranges, and only where these are the same,
    conditions and body with positional names.
    """

    def __init__(self, scope: Scope):
        self.scope = scope

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[Any]:
        yield _ranges(self.scope.box)
        yield from self.scope.alpha[1:]


@lru_cache(maxsize=4096)
def _ranges(box: Box) -> sympy.Tuple:
    """Return the ranges of some axes as SymPy orders them."""
    return sympy.Tuple(*(sympy.Tuple(low, high) for low, high in box))


@public
class Scope(Node, Indexable, Basic):
    """`L[x…](body)` (EinNet §4): the value of `body` at every point `x` of the domain. A value,
    with absolute coordinates.

    The names of its indices are not semantic: scopes that differ in names only are equal. Points of
    the box outside `where` hold nothing and may be read through `.pad` only; as an output they are
    0. Made by `ea.L` and `ea.parse`.

    >>> import einalg as ea
    >>> s = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 6))
    >>> s.shape, s.dtype, sorted(s.tensors)
    ((4, 6), 'f32', ['A', 'B'])
    >>> s == ea.parse("P[x,y] += A[x,z]*B[z,y]", A=(4, 5), B=(5, 6))
    True
    """

    __slots__ = (
        "iterators",
        "where",
        "_body",
        "_alpha",
        "_identity",
        "_domain",
        "_dtype",
        "_tensors",
        "_sizes",
    )
    _fields = ("iterators", "where", "body")
    is_scope = True

    def __new__(cls, iterators: Iterable[Any], where: Any, body: Any) -> Scope:
        return cls._with_body(iterators, where, sympy.sympify(body, strict=True))

    @classmethod
    def with_lazy_body(cls, iterators: Iterable[Any], where: Any, body: LazyBody) -> Scope:
        """Return a scope whose body is resolved when something asks for it."""
        return cls._with_body(iterators, where, body, body.dtype, dict(body.tensors))

    @classmethod
    def _with_body(
        cls,
        iterators: Iterable[Any],
        where: Any,
        body: Any,
        dtype: str | None = None,
        tensors: dict[str, Any] | None = None,
    ) -> Scope:
        node = Basic.__new__(cls)
        node.iterators, node.where = loop_indices(iterators), constraints(where)
        node._body, node._dtype, node._tensors = body, dtype, tensors
        node._alpha = node._identity = node._domain = node._sizes = None
        return node

    @property
    def body(self) -> Any:
        """The value at a point, of what is read there."""
        body = self._body
        return body.resolve() if type(body) is LazyBody else body

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices of the traversal, in order."""
        return tuple(it.index for it in self.iterators)

    @property
    def box(self) -> Box:
        """The half-open range of every axis."""
        return tuple((it.low, it.high) for it in self.iterators)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.iterators)

    @property
    def ranges(self) -> dict[Index, tuple[int, int]]:
        """The half-open range of every index."""
        return {it.index: (it.low, it.high) for it in self.iterators}

    @property
    def free_symbols(self) -> set[Any]:
        """The empty set: a scope is closed."""
        return set()

    @property
    def domain(self) -> Any:
        """The `islpy.Set` of the points at which the scope has a value."""
        if self._domain is None:
            self._domain = domain_set(self.iterators, self.where)
        return self._domain

    @property
    def dtype(self) -> str:
        """Short name of the element type of the result."""
        if self._dtype is None:
            for node in _lacking(self, "_dtype"):
                node._dtype = result_dtype(node.body)
        return self._dtype  # pyright: ignore

    @property
    def tensors(self) -> dict[str, Any]:
        """Every tensor that is read, also by inner scopes, by name."""
        if self._tensors is None:
            for node in _lacking(self, "_tensors"):
                node._tensors = tensors(node)
        return dict(self._tensors)

    @property
    def sizes(self) -> dict[str, Any]:
        """The symbolic sizes of the scope and of all that it reads, by name, sorted.

        >>> import einalg as ea
        >>> ea.parse("O[i] += A[i,j]", A=("N", 4)).sizes
        {'N': N}
        """
        if self._sizes is None:
            for node in _lacking(self, "_sizes"):
                node._sizes = sizes_in_scope(node)
        return dict(self._sizes)

    def at(self, **sizes: int) -> Scope:
        """Return the expression with numbers in the places of symbolic sizes; those that are left
        out stay.

        Raises `UseError` for a size that the expression does not have, `ShapeError` for a number
        that the size may not be, `RangeError` where a range would end before its start.

        >>> import einalg as ea
        >>> total = ea.parse("O[i] += A[i,j]*x[j]", A=("N", "M"), x=("M",))
        >>> total.at(N=2, M=3)
        L[i:2](Sum[j:3](A[i, j]*x[j]))
        """
        values = numbers_of_sizes(self.sizes, sizes)
        return scope_at_sizes(self, values) if values else self

    @property
    def identity(self) -> Any:
        """The nested tuple that tells the scope from others: all but the names of its indices."""
        if self._identity is None:
            self._identity = identity(self.iterators, self.where, self.body)
        return self._identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Scope) and self.identity == other.identity)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _hashable_content(self) -> Any:
        return _SortKey(self)

    def _eval_subs(self, old: Any, new: Any) -> Any:
        """SymPy's `subs` means free indices, of which a scope has none."""
        return self if isinstance(old, Index) else None

    @property
    def alpha(self) -> tuple[Any, ...]:
        """Ranges, conditions and body with indices named by position."""
        if self._alpha is None:
            self._alpha = with_positional_names(self)
        return self._alpha

    def _sympystr(self, printer: Any) -> str:
        ranges = ", ".join(map(str, self.iterators)) or "()"
        return f"L[{ranges}]({printer._print(self.body)}{where_text(self.where, printer)})"

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {latex(self)}$"

    def tree(self) -> str:
        """The expression as an indented tree, one node a line."""
        return tree(self)


def inner_scopes(scope: Scope) -> list[Scope]:
    """Return the distinct scopes that a body reads directly, in order of their first occurrence."""
    scopes: dict[Scope, None] = {}
    for access in accesses(scope.body):
        base = unpadded(access.base)
        if isinstance(base, Scope):
            scopes.setdefault(base)
    return list(scopes)


def all_scopes(scope: Scope) -> Iterator[Scope]:
    """Yield the scope and every distinct scope below it, inner ones first."""
    return _scopes_below(scope, inner_scopes)


def _lacking(scope: Scope, attribute: str) -> Iterator[Scope]:
    """Yield the scope and the scopes below it of which something is not known yet, inner ones
    first: so no chain of scopes is too deep, and what is known is not looked at again.
    """

    def inside(node: Scope) -> list[Scope]:
        return [inner for inner in inner_scopes(node) if getattr(inner, attribute) is None]

    return _scopes_below(scope, inside)


def _scopes_below(scope: Scope, inside: Callable[[Scope], Iterable[Scope]]) -> Iterator[Scope]:
    seen = {id(scope)}
    open_scopes = [(scope, iter(inside(scope)))]
    while open_scopes:
        node, children = open_scopes[-1]
        child = next((child for child in children if id(child) not in seen), None)
        if child is None:
            open_scopes.pop()
            yield node
        else:
            seen.add(id(child))
            open_scopes.append((child, iter(inside(child))))


def numbers_of_sizes(known: Mapping[str, Any], values: Mapping[str, Any]) -> dict[Any, Affine]:
    """Return the sizes that get a number, with that; check both."""
    numbers: dict[Any, Affine] = {}
    for name, value in values.items():
        size = known.get(name)
        if size is None:
            names = ", ".join(known) or "none"
            raise UseError(f"the expression has no size {name}\n  its sizes: {names}")
        number = whole_number(value)
        if number is None or not size.holds(number):
            raise ShapeError(
                f"size {name} must be a whole number of {size.bounds_text}, not "
                f"{shown(value)}\n  e.g. .at({name}={size.smallest})"
            )
        numbers[size] = affine(number)
    return numbers


def scope_at_sizes(scope: Scope, values: Mapping[Any, Affine]) -> Scope:
    """Return a scope with numbers in the places of sizes, in all that it reads too."""
    memo: dict[Scope, Scope] = {}

    def base_at(base: Any) -> Any:
        if isinstance(base, Scope):
            return memo[base]
        return base.at_sizes(values)

    for node in all_scopes(scope):
        where = [condition.substitute(values) for condition in node.where]
        body = body_at_sizes(node.body, values, base_at)
        memo[node] = Scope(iterators_at_sizes(node.iterators, values), where, body)
    return memo[scope]


def sizes_in_scope(scope: Scope) -> dict[str, Any]:
    """Return the symbolic sizes of a scope and of the scopes below it, by name, sorted."""
    sizes = sizes_of(scope.iterators) | sizes_in_body(scope.body)
    for condition in scope.where:
        sizes |= condition.form.sizes
    for inner in inner_scopes(scope):
        sizes.update(inner.sizes.values())
    return by_name(sizes)


def tensors(scope: Scope) -> dict[str, Tensor]:
    """Return every tensor that a scope or the scopes below it read, by name, in order of first use.

    Raises `NotationError` where two different tensors have one name.
    """
    by_name: dict[str, Tensor] = {}
    for inner in inner_scopes(scope):
        for tensor in inner.tensors.values():
            add_tensor(by_name, tensor)
    for access in accesses(scope.body):
        base = unpadded(access.base)
        if isinstance(base, Tensor):
            add_tensor(by_name, base)
    return by_name


def add_tensor(by_name: dict[str, Tensor], tensor: Tensor) -> None:
    """Note a tensor by name; `NotationError` where another one has that name."""
    other = by_name.setdefault(tensor.name, tensor)
    if other == tensor:
        return
    for field in ("shape", "axes", "dtype", "role", "values"):
        one, two = getattr(other, field), getattr(tensor, field)
        if one != two:
            raise NotationError(
                f"two tensors are called {tensor.name}, of {field} {one} and {two}\n"
                "  give each a name of its own"
            )


def with_positional_names(scope: Scope) -> tuple[Any, ...]:
    """Return ranges, conditions and body with indices named by position, so that they are equal
    exactly up to names.
    """
    names = {it.index: affine(Index(f"_{k}")) for k, it in enumerate(scope.iterators)}
    body = positional_reductions(substitute(scope.body, names), len(names))
    where = sorted((c.substitute(names) for c in scope.where), key=constraint_sort_key)
    return _ranges(scope.box), sympy.Tuple(*where), body
