"""The exact canonical key (design §3).

Two expressions have equal keys if and only if they are equal up to index names, order of reduction indices, order of
commutative operands, unused unit indices, shifts of origin, and padding that no read can tell: that of no elements, and how far
the outermost one reaches. Named statements and nested scopes, two spellings of one thing, have the same key.

A key is a nested tuple of ints and names. It is written part by part from all that gives an expression its value, and every part
begins with a tag of its own, so that no two kinds of parts are ever equal, or compared beyond their tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.interning import InternedTuple, interned
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor, padded_box
from einalg.language.ir.traversal import accesses, reductions

Names = Mapping[Index, Affine]
_ALL = None  # axes of a scope, all of which its key has
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
        return _Keys({}).scope(expression, _ALL)
    keys = _Keys(dict(expression.statements))
    return interned("program", *(keys.scope(expression[name], _ALL) for name in expression.outputs))


class _Keys:
    def __init__(self, statements: Mapping[str, Scope]):
        self.statements = statements
        self.known: dict[Any, InternedTuple] = {}

    def scope(self, scope: Scope, kept: frozenset[int] | None) -> InternedTuple:
        """The key with the axes at the positions `kept`, by default with all; nothing can tell the others, of extent 1."""
        known = _KNOWN if self._is_closed(scope) else self.known
        memo = known.get((scope.identity, kept))
        if memo is None:
            iterators = scope.iterators
            named = [it for it in iterators if it.extent != 1]
            names = _named(iterators, named, 0)
            extents = tuple(
                it.extent for k, it in enumerate(iterators) if kept is None or k in kept
            )
            body = self.body(scope.body, names, len(named))
            memo = interned("L", extents, _conditions(scope.where, names), body)
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[scope.identity, kept] = memo
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
                if not others:
                    return number
                return interned(
                    "apply", "Add", *sorted([number, *(self.body(a, names, depth) for a in others)])
                )
        operands = body.args  # pyright: ignore[reportAttributeAccessIssue]
        if not operands:
            return _constant(body)
        parts = [self.body(a, names, depth) for a in operands]
        return interned(
            "apply", _function(body), *(sorted(parts) if isinstance(body, _COMMUTATIVE) else parts)
        )

    def access(self, access: Access, names: Names) -> InternedTuple:
        subscripts = [s.substitute(names) for s in access.subscripts]
        base = access.tensor
        if isinstance(base, Tensor) and base.name in self.statements:
            base = self.statements[base.name]
        if isinstance(base, Tensor):
            read = tuple(s.sort_tuple for s in subscripts)
            axes = range(base.rank)
            return interned(*_tensor(base), self.padding(access.base, False, axes), read)
        widest = padded_box(access.base)
        lows = [it.low for it in base.iterators]
        kept = [
            k
            for k, it in enumerate(base.iterators)
            if it.extent != 1 or widest[k] != (it.low, it.high)
        ]
        read = tuple((subscripts[k] - lows[k]).sort_tuple for k in kept)
        padding = self.padding(access.base, bool(base.where), kept)
        return interned("scope", self.scope(base, frozenset(kept)), padding, read)

    def padding(self, view: Any, has_gaps: bool, axes: Iterable[int]) -> tuple[Any, ...]:
        """What a view holds where its base has no value: fills, the innermost first, all but the last with how far they reach.

        A layer of no elements holds nothing, but for the innermost one where the base `has_gaps`; neighbours of one fill are one.
        """
        layers: list[tuple[list[int], InternedTuple]] = []
        for padded in _views(view):
            amounts = [amount for axis in axes for amount in padded.amounts[axis]]
            fill = self.body(padded.fill, {}, 0)
            if layers and layers[-1][1] == fill:
                layers[-1] = [a + b for a, b in zip(layers[-1][0], amounts)], fill
            elif any(amounts) or (has_gaps and not layers):
                layers.append((amounts, fill))
        reach = tuple(tuple(amounts) for amounts, _ in layers[:-1])
        return tuple(fill for _, fill in layers), reach

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
            if not placed and not _conditions(node.where, own) and not _counts(node):
                return inner
            return interned(
                "reduce",
                node.op,
                tuple(it.extent for it in placed),
                _conditions(node.where, own),
                inner,
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


def _counts(node: Reduce) -> bool:
    """Whether a reduction makes integers of truth values, be it over one point."""
    return node.op in ("Sum", "Prod") and result_dtype(node.body) == "bool"


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


def _views(view: Any) -> list[Padded]:
    """The paddings of a view, the innermost first."""
    found: list[Padded] = []
    while isinstance(view, Padded):
        found.insert(0, view)
        view = view.base
    return found


def _tensor(tensor: Tensor) -> tuple[Any, ...]:
    """A tensor as the first parts of a key; whether its values are known before run time does not change them."""
    described = tensor.name, tensor.axes, tensor.dtype
    if isinstance(tensor, Constant):
        return "constant tensor", *described, tuple((int(v.p), int(v.q)) for v in tensor.values)
    return "tensor", *described


def _function(body: Any) -> str:
    """The name of the operation of a node; that of a function without a meaning is told from those that SymPy defines."""
    name = type(body).__name__
    return f"undefined {name}" if isinstance(body, AppliedUndef) else name


def _constant(value: Any) -> InternedTuple:
    """A number, exactly: a rational one, a binary one, or one that has a name."""
    if value.is_Rational:
        return interned("number", int(value.p), int(value.q))
    if value.is_Float:
        sign, mantissa, exponent, _ = value._mpf_
        return interned("float", int(sign), int(mantissa), int(exponent))
    return interned("constant", str(value))
