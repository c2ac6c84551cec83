"""The exact canonical key (design §3).

Two expressions have equal keys if and only if they are equal up to index names, order of reduction indices, order of
commutative operands, unused unit indices, shifts of origin, and the amounts of padding that a view offers. Named statements
and nested scopes, two spellings of one thing, have the same key. A key is a nested tuple of ints and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.interning import InternedTuple, interned
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor
from einalg.language.ir.traversal import accesses, reductions

Names = Mapping[Index, Affine]
_COMMUTATIVE = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min, sympy.And, sympy.Or, sympy.Eq, sympy.Ne)


_KNOWN: dict[Any, InternedTuple] = {}  # of scopes that read no statement, by identity
_MOST_KNOWN = 100_000


def key(expression: Scope | Program) -> InternedTuple:
    """The canonical key of a scope or a program.

    >>> import einalg as ea
    >>> one = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 6))
    >>> two = ea.parse("O[x,y] += B[z,y]*A[x,z]", A=(4, 5), B=(5, 6))
    >>> key(one) == key(two)
    True
    """
    if isinstance(expression, Scope):
        return _Keys({}).scope(expression, keep_units=True)
    keys = _Keys(dict(expression.statements))
    return interned(
        "program", *(keys.scope(expression[name], keep_units=True) for name in expression.outputs)
    )


class _Keys:
    def __init__(self, statements: Mapping[str, Scope]):
        self.statements = statements
        self.known: dict[Any, InternedTuple] = {}

    def scope(self, scope: Scope, keep_units: bool = False) -> InternedTuple:
        """`keep_units` keeps the unit axes of an output; in an inner scope nothing can tell them."""
        known = _KNOWN if self._is_closed(scope) else self.known
        memo = known.get((scope.identity, keep_units))
        if memo is None:
            kept = [it for it in scope.iterators if keep_units or it.extent != 1]
            names = _named(scope.iterators, [it for it in scope.iterators if it.extent != 1], 0)
            extents = tuple(it.extent for it in kept)
            memo = interned(
                "L",
                extents,
                _conditions(scope.where, names),
                self.body(scope.body, names, len(scope.iterators)),
            )
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[scope.identity, keep_units] = memo
        return memo

    def _is_closed(self, scope: Scope) -> bool:
        """Whether a scope reads no statement, so that its key is the same in every program."""
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
                return (
                    interned(
                        "Add", *sorted([number, *(self.body(a, names, depth) for a in others)])
                    )
                    if others
                    else number
                )
        operands = body.args  # pyright: ignore[reportAttributeAccessIssue]
        if not operands:
            return _constant(body)
        parts = [self.body(a, names, depth) for a in operands]
        return interned(
            type(body).__name__, *(sorted(parts) if isinstance(body, _COMMUTATIVE) else parts)
        )

    def access(self, access: Access, names: Names) -> InternedTuple:
        subscripts = [s.substitute(names) for s in access.subscripts]
        base, fills = access.base, []
        padded = [False] * len(subscripts)
        while isinstance(base, Padded):
            fills.append(_constant(base.fill))
            padded = [p or any(amount) for p, amount in zip(padded, base.amounts)]
            base = base.base
        if isinstance(base, Tensor) and base.name in self.statements:
            base = self.statements[base.name]
        if isinstance(base, Tensor):
            values = (
                tuple((int(v.p), int(v.q)) for v in base.values)
                if isinstance(base, Constant)
                else ()
            )
            return interned(
                "tensor",
                base.name,
                base.axes,
                base.dtype,
                tuple(fills),
                tuple(s.sort_tuple for s in subscripts),
                values,
            )
        keep_units = any(p and it.extent == 1 for p, it in zip(padded, base.iterators))
        read = [
            s - it.low for s, it in zip(subscripts, base.iterators) if keep_units or it.extent != 1
        ]
        return interned(
            "scope", self.scope(base, keep_units), tuple(fills), tuple(s.sort_tuple for s in read)
        )

    def reduction(self, node: Reduce, names: Names, depth: int) -> InternedTuple:
        """Reduction indices have no order: they are told apart by where they occur, and ties are tried both ways."""
        free = [it for it in node.iterators if it.extent != 1]
        units = _named([it for it in node.iterators if it.extent == 1], [], depth)
        return self._ordered(node, {**names, **units}, depth, [], free)

    def _ordered(
        self, node: Reduce, names: Names, depth: int, placed: list[LoopIndex], rest: list[LoopIndex]
    ) -> InternedTuple:
        if not rest:
            own = {**names, **_named(placed, placed, depth)}
            inner = self.body(node.body, own, depth + len(placed))
            if not placed and not _conditions(node.where, own):
                return inner
            return interned(
                node.op, tuple(it.extent for it in placed), _conditions(node.where, own), inner
            )
        alike = _first_alike(rest, self._occurrences(node, names, rest)) if len(rest) > 1 else rest
        if len(alike) == 1:
            return self._ordered(
                node, names, depth, [*placed, *alike], [it for it in rest if it is not alike[0]]
            )
        marks = [(self._mark(node, names, depth, placed, rest, it), it) for it in alike]
        first = min(mark for mark, _ in marks)
        choices = [it for mark, it in marks if mark == first][: 1 if first[0] == "unused" else None]
        return min(
            self._ordered(node, names, depth, [*placed, one], [it for it in rest if it is not one])
            for one in choices
        )

    def _occurrences(
        self, node: Reduce, names: Names, rest: list[LoopIndex]
    ) -> dict[Index, list[Any]]:
        """For each index, the axes of tensors in which it occurs: what tells most indices apart at little cost."""
        units = {
            it.index: affine(it.low)
            for inner in reductions(node.body)
            for it in inner.iterators
            if it.extent == 1
        }
        shifted: dict[Index, Affine] = {
            **names,
            **units,
            **{it.index: affine(it.index) + it.low for it in rest},
        }
        found: dict[Index, list[Any]] = {it.index: [it.extent] for it in rest}
        for access in accesses(node.body):
            tensor = access.tensor
            name = (
                tensor.name
                if isinstance(tensor, Tensor) and tensor.name not in self.statements
                else ""
            )
            for axis, (subscript, (low, high)) in enumerate(zip(access.subscripts, tensor.box)):
                if not name and high - low == 1:
                    continue  # an axis of an inner scope that its key may not have
                for index in subscript.indices:
                    if index in found and index in subscript.substitute(shifted).indices:
                        found[index].append((name, axis if name else 0))
        return found

    def _mark(
        self,
        node: Reduce,
        names: Names,
        depth: int,
        placed: list[LoopIndex],
        rest: list[LoopIndex],
        it: LoopIndex,
    ) -> InternedTuple:
        """What the body looks like from one index, with the indices not placed yet told by their extents alone."""
        if all(it.index not in part.free_symbols for part in (node.body,)) and all(
            it.index not in c.indices for c in node.where
        ):
            return interned("unused", it.extent)
        own = {**names, **_named([*placed, it], [*placed, it], depth)}
        for other in rest:
            if other is not it:
                own[other.index] = affine(Index(f"_n{other.extent}")) + other.low
        return interned(
            "used",
            it.extent,
            _conditions(node.where, own),
            self.body(node.body, own, depth + len(placed) + len(rest)),
        )


def _first_alike(rest: list[LoopIndex], occurrences: dict[Index, list[Any]]) -> list[LoopIndex]:
    """The indices that come first by where they occur."""
    marks = [(occurrences[it.index][0], sorted(occurrences[it.index][1:])) for it in rest]
    first = min(marks)
    return [it for mark, it in zip(marks, rest) if mark == first]


def _index_terms(body: Any) -> tuple[Affine, list[Any]]:
    """The part of a sum that is index arithmetic, and the other terms."""
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


def _named(bound: Any, kept: list[LoopIndex], depth: int) -> dict[Index, Affine]:
    """Positional names from origin 0 for `kept`; the others, of extent 1, are their constant value."""
    names: dict[Index, Affine] = {it.index: affine(it.low) for it in bound if it not in kept}
    names.update({it.index: affine(Index(f"_{depth + k}")) + it.low for k, it in enumerate(kept)})
    return names


def _conditions(where: tuple[Constraint, ...], names: Names) -> tuple[Any, ...]:
    placed = [c.substitute(names) for c in where]
    return tuple(sorted((c.relation, c.form.sort_tuple) for c in placed if c.truth is not True))


def _constant(value: Any) -> InternedTuple:
    if value.is_Rational:
        return interned("number", int(value.p), int(value.q))
    return interned("constant", repr(float(value)) if value.is_Float else str(value))
