"""Scopes, reductions and constraints: the mathematics of a tensor expression (design §2, §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Iterator as PyIterator
from math import gcd
from typing import Any, NamedTuple

import sympy
from sympy import And, Basic, Expr
from sympy.core.relational import Relational
from sympy.printing.precedence import PRECEDENCE

from einalg.access import Box, Indexable
from einalg.affine import Affine, Index, affine
from einalg.elements import Element
from einalg.errors import NotationError
from einalg.node import Node

REDUCTIONS = ("Sum", "Max", "Min", "Prod")
IDENTITY = {"Sum": sympy.S.Zero, "Prod": sympy.S.One, "Max": -sympy.oo, "Min": sympy.oo}


class Iterator(NamedTuple):
    """An index with its half-open range `[low, high)`; both None while the range is still to be inferred."""

    index: Index
    low: Any
    high: Any

    @property
    def extent(self) -> int:
        return self.high - self.low

    def __str__(self) -> str:
        if self.high is None:
            return str(self.index)
        return f"{self.index}:{self.high}" if self.low == 0 else f"{self.index}:{self.low}:{self.high}"


class Twice(NamedTuple):
    """An index that is bound a second time, which is what an error is about."""

    index: Index

    def error(self) -> NotationError:
        return NotationError(f"index {self.index} is bound twice\n  rename one of the two").regarding(self)


def iterator(index: Index, low: Any = None, high: Any = None) -> Iterator:
    return Iterator(index, None if low is None else int(low), None if high is None else int(high))


def _iterators(entries: Iterable[Any]) -> tuple[Iterator, ...]:
    return tuple(e if isinstance(e, Iterator) else iterator(*e) for e in entries)


class Constraint(Node, Basic):
    """`form >= 0` or `form == 0`, an integer condition that cuts a domain.

    >>> i, j = Index("i"), Index("j")
    >>> Constraint(i - j, ">=")
    i >= j
    """

    __slots__ = ("form", "relation")
    _fields = ("form", "relation")

    def __new__(cls, form: Any, relation: Any) -> Constraint:
        form, relation = affine(form), str(relation)
        common = gcd(*(c for _, c in form.terms)) if form.terms else 1
        if common > 1 and (relation == ">=" or form.const % common == 0):
            form = Affine._make(tuple((a, c // common) for a, c in form.terms), form.const // common)
        if relation == "==" and form.terms and form.terms[0][1] < 0:
            form = form.scaled(-1)
        return cls._build(form, relation)

    @property
    def indices(self) -> frozenset[Index]:
        return self.form.indices

    @property
    def truth(self) -> bool | None:
        """True or False where the condition is constant, else None."""
        if self.form.terms:
            return None
        return self.form.const >= 0 if self.relation == ">=" else self.form.const == 0

    def holds(self, env: Any) -> Any:
        value = self.form.evaluate(env)
        return value >= 0 if self.relation == ">=" else value == 0

    def substitute(self, mapping: Any) -> Constraint:
        form = self.form.substitute(mapping)
        return self if form is self.form else Constraint(form, self.relation)

    def sides(self) -> tuple[Affine, Affine]:
        """The condition with every coefficient positive: `left relation right`."""
        form = self.form
        left = Affine._make(tuple(t for t in form.terms if t[1] > 0), max(form.const, 0))
        return left, left._plus(form, -1)

    def _sympystr(self, printer: Any) -> str:
        left, right = self.sides()
        if self.relation == "==":
            return f"Eq({left}, {right})"
        return f"{left} >= {right}" if left.terms else f"{right} <= {left}"

    def _latex(self, printer: Any) -> str:
        left, right = self.sides()
        if self.relation == "==":
            return rf"{printer._print(left)} = {printer._print(right)}"
        return rf"{printer._print(left)} \ge {printer._print(right)}" if left.terms else rf"{printer._print(right)} \le {printer._print(left)}"


def constraints(condition: Any) -> tuple[Constraint, ...]:
    """Read `where=`: a comparison of indices, several joined by `&`, or a tuple of them."""
    found: dict[Constraint, None] = {}
    for part in _conjuncts(condition):
        for constraint in _from_relational(part):
            if constraint.truth is not True:
                found[constraint] = None
    return tuple(sorted(found, key=lambda c: (c.form.sort_tuple, c.relation)))


def _conjuncts(condition: Any) -> PyIterator[Any]:
    if condition is None or condition is sympy.true:
        return
    if isinstance(condition, (tuple, list, sympy.Tuple)):
        for part in condition:
            yield from _conjuncts(part)
    elif isinstance(condition, And):
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def _from_relational(part: Any) -> list[Constraint]:
    if isinstance(part, Constraint):
        return [part]
    if isinstance(part, bool):
        raise NotationError(f"where= takes comparisons of indices, not {part}\n  `==` compares structure: write sympy.Eq(i, j)")
    if part is sympy.false:
        return [Constraint(-1, ">=")]
    if isinstance(part, Relational):
        left, right = _side(part, part.lhs), _side(part, part.rhs)
        if isinstance(part, sympy.Eq):
            return [Constraint(left - right, "==")]
        if isinstance(part, (sympy.GreaterThan, sympy.StrictGreaterThan)):
            left, right = right, left
        if not isinstance(part, sympy.Ne):
            strict = isinstance(part, (sympy.StrictLessThan, sympy.StrictGreaterThan))
            return [Constraint(right - left - (1 if strict else 0), ">=")]
    raise NotationError(
        f"where= takes comparisons of indices joined by &, not {part}\n"
        "  for a union of domains, write a sum of two padded scopes; for `!=`, split into `<` and `>`"
    )


def _side(part: Any, value: Any) -> Affine:
    try:
        return affine(value)
    except NotationError:
        message = f"where= compares indices, and {value} in {part} is not index arithmetic"
        raise NotationError(f"{message}\n  any other condition goes into the body: Piecewise((a, condition), (0, True))") from None


class Reduce(Node, Element, Expr):
    """`Sum`, `Max`, `Min` or `Prod` of `body` over the points of `iterators` that meet `where`; part of a scope's body.

    Made by `ea.Sum` and its kin; rules take it apart and make it anew. Raises `NotationError` for another `op`.

    >>> import einalg as ea
    >>> total = ea.parse("O[i] += A[i,k]*x[k]", A=(4, 5), x=(5,)).body
    >>> total.op, total.iterators[0].extent, total.body
    ('Sum', 5, A[i, k]*x[k])
    """

    __slots__ = ("op", "iterators", "where", "body")
    _fields = ("op", "iterators", "where", "body")
    is_commutative = True
    is_extended_real = True
    precedence = PRECEDENCE["Atom"]

    def __new__(cls, op: Any, iterators: Iterable[Any], where: Any, body: Any) -> Reduce:
        if str(op) not in REDUCTIONS:
            raise NotationError(f"{op} is not a reduction\n  use one of: {', '.join(REDUCTIONS)}")
        return cls._build(str(op), _iterators(iterators), constraints(where), sympy.sympify(body, strict=True))

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices that are reduced over, in order."""
        return tuple(it.index for it in self.iterators)

    @property
    def identity(self) -> Expr:
        """The value over no points."""
        return IDENTITY[self.op]

    @property
    def free_symbols(self) -> set[Any]:
        """The indices that are bound outside."""
        inner = set(self.body.free_symbols).union(*(c.indices for c in self.where))
        return inner - set(self.indices)

    def _eval_subs(self, old: Any, new: Any) -> Any:
        """SymPy's `subs` means free indices; bound ones are renamed where they would capture."""
        from einalg.traverse import substitute

        return substitute(self, {old: new}) if isinstance(old, Index) else None

    def _sympystr(self, printer: Any) -> str:
        ranges = ", ".join(map(str, self.iterators)) or "()"
        return f"{self.op}[{ranges}]({printer._print(self.body)}{where_text(self.where, printer)})"


def where_text(where: tuple[Constraint, ...], printer: Any) -> str:
    if not where:
        return ""
    parts = [printer._print(c) for c in where]
    return f", where={parts[0]}" if len(parts) == 1 else f", where=({', '.join(parts)})"


class _Content:
    """What SymPy orders scopes by: their ranges, and only where these are the same, conditions and body with positional names."""

    def __init__(self, scope: Scope):
        self.scope = scope

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> PyIterator[Any]:
        yield sympy.Tuple(*(sympy.Tuple(it.low, it.high) for it in self.scope.iterators))
        yield from self.scope.alpha[1:]


class Scope(Node, Indexable, Basic):
    """`L[x…](body)` (EinNet §4): the value of `body` at every point `x` of the domain. A value, with absolute coordinates.

    The names of its indices are not semantic: scopes that differ in names only are equal. Points of the box outside
    `where` hold nothing and may be read through `.pad` only; as an output they are 0. Made by `ea.L` and `ea.parse`.

    >>> import einalg as ea
    >>> s = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 6))
    >>> s.shape, s.dtype, sorted(s.tensors)
    ((4, 6), 'f32', ['A', 'B'])
    >>> s == ea.parse("P[x,y] += A[x,z]*B[z,y]", A=(4, 5), B=(5, 6))
    True
    """

    __slots__ = ("iterators", "where", "_body", "_read", "_alpha", "_identity", "_domain", "_dtype", "_tensors")
    _fields = ("iterators", "where", "body")
    is_scope = True

    def __new__(cls, iterators: Iterable[Any], where: Any, body: Any) -> Scope:
        return cls._made(iterators, where, sympy.sympify(body, strict=True))

    @classmethod
    def later(cls, iterators: Iterable[Any], where: Any, dtype: str, tensors: Mapping[str, Any], read: Callable[[], Any]) -> Scope:
        """A scope of which this is known; `read` gives its body when something asks for that."""
        node = cls._made(iterators, where, None)
        node._dtype, node._tensors, node._read = dtype, dict(tensors), read
        return node

    @classmethod
    def _made(cls, iterators: Iterable[Any], where: Any, body: Any) -> Scope:
        node = cls._build(_iterators(iterators), constraints(where), body)
        node._read = node._alpha = node._identity = node._domain = node._dtype = node._tensors = None
        return node

    @property
    def body(self) -> Any:
        """The value at a point, of what is read there."""
        if (read := self._read) is not None:  # by two threads perhaps, which read the same
            self._body, self._read = read(), None
        return self._body

    @body.setter
    def body(self, body: Any) -> None:
        self._body = body

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
        """None: a scope is closed."""
        return set()

    @property
    def domain(self) -> Any:
        """The `islpy.Set` of the points at which the scope has a value."""
        if self._domain is None:
            from einalg.polyhedra import domain_set

            self._domain = domain_set(self.iterators, self.where)
        return self._domain

    @property
    def dtype(self) -> str:
        """Short name of the element type of the result."""
        if self._dtype is None:
            from einalg.traverse import result_dtype

            self._dtype = result_dtype(self.body)
        return self._dtype

    @property
    def tensors(self) -> dict[str, Any]:
        """Every tensor that is read, also by inner scopes, by name."""
        if self._tensors is None:
            from einalg.traverse import tensors

            self._tensors = tensors(self)
        return dict(self._tensors)

    @property
    def identity(self) -> Any:
        """What tells the scope from others: everything but the names of its indices."""
        if self._identity is None:
            from einalg.alpha import identity

            self._identity = identity(self)
        return self._identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Scope) and self.identity == other.identity)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _hashable_content(self) -> Any:
        return _Content(self)

    def _eval_subs(self, old: Any, new: Any) -> Any:
        """SymPy's `subs` means free indices, of which a scope has none."""
        return self if isinstance(old, Index) else None

    @property
    def alpha(self) -> tuple[Any, ...]:
        """Ranges, conditions and body with indices named by position."""
        if self._alpha is None:
            from einalg.traverse import with_positional_names

            self._alpha = with_positional_names(self)
        return self._alpha

    def _sympystr(self, printer: Any) -> str:
        ranges = ", ".join(map(str, self.iterators)) or "()"
        return f"L[{ranges}]({printer._print(self.body)}{where_text(self.where, printer)})"

    def __str__(self) -> str:
        from einalg.printing import text

        return text(self)

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        from einalg.printing import latex

        return rf"$\displaystyle {latex(self)}$"

    def tree(self) -> str:
        """The expression as an indented tree, one node a line."""
        from einalg.printing import tree

        return tree(self)
