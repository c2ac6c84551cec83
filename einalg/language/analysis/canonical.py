"""The exact canonical key (design §3).

Two expressions have equal keys if and only if they are equal up to index names, order of reduction
indices, order of commutative operands, unused unit indices, shifts of origin, and padding that no
read can tell: that of no elements, and how far the outermost one reaches. Named statements and
nested scopes, two spellings of one thing, have the same key.

A key is a nested tuple of ints and names. It is written part by part from all that gives an
expression its value, and every part begins with a tag of its own, so that no two kinds of parts are
ever equal, or compared beyond their tags.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import is_number, ordered_extent
from einalg.language.interning import InternedTuple, interned
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor, padded_box
from einalg.language.ir.traversal import accesses, reductions

Names = Mapping[Index, Affine]
_COMMUTATIVE = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min, sympy.And, sympy.Or, sympy.Eq, sympy.Ne)


_CACHED_KEYS: dict[Any, InternedTuple] = {}  # of scopes that read no statement, by identity
MAX_CACHED_KEYS = 100_000
NO_CLASSES: Mapping[Scope, int] = {}


def key(expression: Scope | Program) -> InternedTuple:
    """Return the canonical key of a scope or a program.

    >>> import einalg as ea
    >>> one = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 6))
    >>> two = ea.parse("O[x,y] += B[z,y]*A[x,z]", A=(4, 5), B=(5, 6))
    >>> key(one) == key(two)
    True
    """
    if isinstance(expression, Scope):
        return _Keys({}).scope(expression)
    keys = _Keys(dict(expression.statements))
    for _, statement in expression.statements:
        keys.add_statements_read(statement)
    return interned("program", *(keys.scope(expression[name]) for name in expression.outputs))


def key_among(scope: Scope, classes: Mapping[Scope, int]) -> InternedTuple:
    """Return the key of a scope in which the inner scopes of one class are the same, and nothing
    but that class.

    >>> import einalg as ea
    >>> i, A = ea.indices("i"), ea.tensor("A", (4,))
    >>> first, second = ea.parse("T[i] = 2*A[i]", A=A), ea.parse("T[i] = A[i] + A[3-i]", A=A)
    >>> one, two = [ea.L[i:4](sympy.exp(inner[i])) for inner in (first, second)]
    >>> key_among(one, {first: 0, second: 0}) == key_among(two, {first: 0, second: 0})
    True
    """
    return _Keys({}, classes).scope(scope)


class _Keys:
    """Keys of the parts of a program, in which a read of a statement is that of its scope, and one
    of a scope that has a class is that of its class.
    """

    def __init__(self, statements: Mapping[str, Scope], classes: Mapping[Scope, int] = NO_CLASSES):
        self.statements = statements
        self.classes = classes
        self.cached: dict[Any, InternedTuple] = {}

    def scope(self, scope: Scope, axes: frozenset[int] | None = None) -> InternedTuple:
        """Return the key with the axes at these positions, by default with all; nothing can tell
        the others, of extent 1.
        """
        if axes is not None and scope in self.classes:
            return interned("class", self.classes[scope], tuple(sorted(axes)))
        cached = _CACHED_KEYS if self._is_closed(scope) else self.cached
        key = cached.get((scope.identity, axes))
        if key is None:
            key = self._scope(scope, axes)
            if len(cached) >= MAX_CACHED_KEYS:
                cached.clear()
            cached[scope.identity, axes] = key
        return key

    def add_statements_read(self, statement: Scope) -> None:
        """Remember the keys of the statements that a statement reads: done for one after another,
        from the first on, no key waits for more than one other, however many there are.
        """
        for scope in all_scopes(statement):
            for access in accesses(scope.body):
                if isinstance(access.tensor, Tensor) and access.tensor.name in self.statements:
                    self.scope(*self._read_part(access))

    def _read_part(self, access: Access) -> tuple[Scope, frozenset[int]]:
        """Return the scope that is read, and the axes that tell where; an axis of one element that
        is read at that alone is nothing to the value.
        """
        base = access.tensor
        if isinstance(base, Tensor):
            base = self.statements[base.name]
        axes = [
            axis
            for axis, (it, widest) in enumerate(zip(base.iterators, padded_box(access.base)))
            if it.extent != 1 or widest != (it.low, it.high)
        ]
        return base, frozenset(axes)

    def _scope(self, scope: Scope, axes: frozenset[int] | None) -> InternedTuple:
        named, extents = [], []
        for position, it in enumerate(scope.iterators):
            if it.extent != 1:
                named.append(it)
            if axes is None or position in axes:
                extents.append(_extent_key(it))
        names = _named(scope.iterators, named, 0)
        body = self.body(scope.body, names, len(named))
        return interned("L", tuple(extents), _conditions(scope.where, names), body)

    def _is_closed(self, scope: Scope) -> bool:
        """Return whether a scope reads no statement, so that its key is the same in every
        program.
        """
        if self.classes:
            return False
        return len(self.statements) < 2 or self.statements.keys().isdisjoint(scope.tensors)

    def body(self, body: Any, names: Names, depth: int) -> InternedTuple:
        if isinstance(body, Access):
            return self.access(body, names)
        if isinstance(body, Reduce):
            return self.reduction(body, names, depth)
        if isinstance(body, (IndexArithmetic, sympy.Add, sympy.Mul)):
            indices, others = _index_terms(body)
            if indices.terms:
                number = interned("index", indices.substitute(names).sort_tuple)
                if not others:
                    return number
                return interned(
                    "apply", "Add", *sorted([number, *(self.body(a, names, depth) for a in others)])
                )
        operands = body.args  # pyright: ignore[reportAttributeAccessIssue]
        if not operands:
            return _constant(body)
        parts = [self.body(operand, names, depth) for operand in operands]
        if isinstance(body, _COMMUTATIVE):
            parts.sort()
        return interned("apply", _function(body), *parts)

    def access(self, access: Access, names: Names) -> InternedTuple:
        subscripts = [subscript.substitute(names) for subscript in access.subscripts]
        base = access.tensor
        if isinstance(base, Tensor) and base.name not in self.statements:
            read = tuple(subscript.sort_tuple for subscript in subscripts)
            may_have_gaps = base.role == "intermediate"  # a statement that is not known here
            padding = self.padding(access.base, may_have_gaps, range(base.rank))
            return interned(*_tensor(base), padding, read)
        scope, axes = self._read_part(access)
        read = [(subscripts[axis] - scope.iterators[axis].low).sort_tuple for axis in sorted(axes)]
        padding = self.padding(access.base, bool(scope.where), sorted(axes))
        return interned("scope", self.scope(scope, axes), padding, tuple(read))

    def padding(self, view: Any, has_gaps: bool, axes: Sequence[int]) -> tuple[Any, ...]:
        """Return what a view holds where its base has no value: fills, the innermost first, and how
        far all but the last reach.

        A layer of no elements holds nothing, but for the innermost one where the base `has_gaps`;
        neighbours of one fill are one.
        """
        fills: list[InternedTuple] = []
        reach: list[tuple[int, ...]] = []
        for padded in _views(view):
            amounts = _amounts(padded, axes)
            fill = self.body(padded.fill, {}, 0)
            if fills and fills[-1] == fill:
                reach[-1] = tuple(map(operator.add, reach[-1], amounts))
            elif any(amounts) or (has_gaps and not fills):
                fills.append(fill)
                reach.append(amounts)
        return tuple(fills), tuple(reach[:-1])

    def reduction(self, node: Reduce, names: Names, depth: int) -> InternedTuple:
        """Return the key of a reduction. Its indices have no order: they are told apart by where
        they occur, and of those that are alike every order is tried.
        """
        units, free = [], []
        for it in node.iterators:
            (units if it.extent == 1 else free).append(it)
        return self._ordered(node, {**names, **_named(units, [], depth)}, depth, [], free)

    def _ordered(
        self, node: Reduce, names: Names, depth: int, placed: list[LoopIndex], rest: list[LoopIndex]
    ) -> InternedTuple:
        """Return the least key of a reduction with some indices placed already."""
        if not rest:
            return self._placed(node, names, depth, placed)
        keys = []
        for it in self._next(node, names, depth, placed, rest):
            others = [other for other in rest if other is not it]
            keys.append(self._ordered(node, names, depth, [*placed, it], others))
        return min(keys)

    def _placed(
        self, node: Reduce, names: Names, depth: int, placed: list[LoopIndex]
    ) -> InternedTuple:
        """Return the key of a reduction whose indices are all placed."""
        inner_names = {**names, **_named(placed, placed, depth)}
        body = self.body(node.body, inner_names, depth + len(placed))
        conditions = _conditions(node.where, inner_names)
        if not placed and not conditions and not _counts(node):
            return body
        extents = tuple(_extent_key(it) for it in placed)
        return interned("reduce", node.op, extents, conditions, body)

    def _next(
        self, node: Reduce, names: Names, depth: int, placed: list[LoopIndex], rest: list[LoopIndex]
    ) -> list[LoopIndex]:
        """Return the indices of which one is to be placed next: those that nothing tells apart."""
        if len(rest) == 1:
            return rest
        alike = _first_alike(rest, self._occurrences(node, names, rest))
        if len(alike) == 1:
            return alike
        marks = [self._mark(node, names, depth, placed, rest, it) for it in alike]
        first = min(marks)
        choices = [it for mark, it in zip(marks, alike) if mark == first]
        if first[0] == "unused":
            return choices[:1]
        return choices

    def _occurrences(
        self, node: Reduce, names: Names, rest: list[LoopIndex]
    ) -> dict[Index, list[Any]]:
        """Return for each index its extent and the axes of tensors in which it occurs, which tell
        most indices apart at little cost, e.g. `[5, ("A", 1), ("B", 0)]`.
        """
        shifted: dict[Index, Affine] = dict(names)
        for inner in reductions(node.body):
            shifted.update(_named([it for it in inner.iterators if it.extent == 1], [], 0))
        occurrences: dict[Index, list[Any]] = {}
        for it in rest:
            shifted[it.index] = affine(it.index) + it.low
            occurrences[it.index] = [_extent_key(it)]
        for access in accesses(node.body):
            for place, subscript in self._places(access):
                for index in subscript.indices.intersection(occurrences):
                    if index in subscript.substitute(shifted).indices:
                        occurrences[index].append(place)
        return occurrences

    def _places(self, access: Access) -> Iterator[tuple[tuple[str, int], Affine]]:
        """Yield the subscripts of an access with the tensor and axis in which each stands; scopes
        have no names, and their axes no order.
        """
        tensor = access.tensor
        is_named = isinstance(tensor, Tensor) and tensor.name not in self.statements
        for axis, (subscript, (low, high)) in enumerate(zip(access.subscripts, tensor.box)):
            if is_named:
                yield (tensor.name, axis), subscript
            elif high - low != 1:  # else the key of the scope may not have the axis
                yield ("", 0), subscript

    def _mark(
        self,
        node: Reduce,
        names: Names,
        depth: int,
        placed: list[LoopIndex],
        rest: list[LoopIndex],
        it: LoopIndex,
    ) -> InternedTuple:
        """Return the key of the body as it looks from one index, with the indices that are not
        placed yet told by their extents alone.
        """
        in_conditions = any(it.index in condition.indices for condition in node.where)
        if not in_conditions and it.index not in node.body.free_symbols:
            return interned("unused", _extent_key(it))
        inner_names = {**names, **_named([*placed, it], [*placed, it], depth)}
        for other in rest:
            if other is not it:
                inner_names[other.index] = affine(Index(f"_n{_extent_word(other)}")) + other.low
        conditions = _conditions(node.where, inner_names)
        body = self.body(node.body, inner_names, depth + len(placed) + len(rest))
        return interned("used", _extent_key(it), conditions, body)


def _extent_key(it: LoopIndex) -> Any:
    """Return the extent of a range as a part of a key."""
    return ordered_extent(it.extent)


def _extent_word(it: LoopIndex) -> str:
    """Return an extent as a part of a name, e.g. `8`."""
    if is_number(it.extent):
        return str(it.extent)
    return str(it.extent).encode().hex()


def _counts(node: Reduce) -> bool:
    """Return whether a reduction makes integers of truth values, be it over one point."""
    return node.op in ("Sum", "Prod") and result_dtype(node.body) == "bool"


def _first_alike(rest: list[LoopIndex], occurrences: dict[Index, list[Any]]) -> list[LoopIndex]:
    """Return the indices that come first by where they occur."""
    marks = []
    for it in rest:
        extent, *places = occurrences[it.index]
        marks.append((extent, sorted(places)))
    first = min(marks)
    return [it for mark, it in zip(marks, rest) if mark == first]


def _index_terms(body: Any) -> tuple[Affine, list[Any]]:
    """Return the part of a sum that is index arithmetic, and the other terms."""
    total, others = affine(0), []
    for term in sympy.Add.make_args(body):
        coefficient, atom = term.as_coeff_Mul()
        if isinstance(atom, IndexArithmetic) and coefficient.is_Integer:
            total = total + affine(atom) * int(coefficient)
        elif term.is_Integer:
            total = total + int(term)
        else:
            others.append(term)
    return total, others


def _named(
    bound: Iterable[LoopIndex], named: Sequence[LoopIndex], depth: int
) -> dict[Index, Affine]:
    """Return positional names from origin 0 for `named`; the others that are `bound`, of extent 1,
    are their constant value.
    """
    names: dict[Index, Affine] = {}
    for it in bound:
        if it not in named:
            names[it.index] = affine(it.low)
    for position, it in enumerate(named, depth):
        names[it.index] = affine(Index(f"_{position}")) + it.low
    return names


def _conditions(where: tuple[Constraint, ...], names: Names) -> tuple[Any, ...]:
    conditions = []
    for condition in where:
        placed = condition.substitute(names)
        if placed.truth is not True:
            conditions.append((placed.relation, placed.form.sort_tuple))
    return tuple(sorted(conditions))


def _views(view: Any) -> list[Padded]:
    """Return the paddings of a view, the innermost first."""
    views: list[Padded] = []
    while isinstance(view, Padded):
        views.append(view)
        view = view.base
    return views[::-1]


def _amounts(view: Padded, axes: Iterable[int]) -> tuple[int, ...]:
    """Return how far a padding reaches before and after each of some axes, e.g. `(1, 1, 0, 2)`."""
    amounts: list[int] = []
    for axis in axes:
        amounts += view.amounts[axis]
    return tuple(amounts)


def _tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Return the first parts of the key of a tensor; whether its values are known before run time
    does not change them.
    """
    described = tensor.name, tensor.axes, tensor.dtype
    if isinstance(tensor, Constant):
        return "constant tensor", *described, tuple((int(v.p), int(v.q)) for v in tensor.values)
    return "tensor", *described


def _function(body: Any) -> str:
    """Return the name of the operation of a node; that of a function without a meaning is told from
    those that SymPy defines.
    """
    name = type(body).__name__
    if isinstance(body, AppliedUndef):
        return f"undefined {name}"
    return name


def _constant(value: Any) -> InternedTuple:
    """Return the key of a number, exactly: a rational one, a binary one, or one that has a name."""
    if value.is_Rational:
        return interned("number", int(value.p), int(value.q))
    if value.is_Float:
        sign, mantissa, exponent, _ = value._mpf_
        return interned("float", int(sign), int(mantissa), int(exponent))
    return interned("constant", str(value))
