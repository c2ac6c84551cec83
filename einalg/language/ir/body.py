"""Bodies: reductions inside a scope, and how a body is built, rebuilt and substituted (design
§2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

import sympy
from sympy import Basic, Expr
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean
from sympy.printing.precedence import PRECEDENCE

from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint, constraints
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex, loop_indices
from einalg.language.index.remainder import applied, as_number
from einalg.language.ir.element import Element
from einalg.language.ir.tensor import Access
from einalg.language.node import Node

REDUCTIONS = ("Sum", "Max", "Min", "Prod")


IDENTITY = {"Sum": sympy.S.Zero, "Prod": sympy.S.One, "Max": -sympy.oo, "Min": sympy.oo}


class Reduce(Node, Element, Expr):
    """`Sum`, `Max`, `Min` or `Prod` of `body` over the points of `iterators` that meet `where`;
    part of a scope's body.

    Made by `ea.Sum` and its kin; rules take it apart and make it anew. Raises `NotationError` for
    another `op`.

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
    is_reduction = True

    def __new__(cls, op: Any, iterators: Iterable[Any], where: Any, body: Any) -> Reduce:
        if str(op) not in REDUCTIONS:
            raise NotationError(f"{op} is not a reduction\n  use one of: {', '.join(REDUCTIONS)}")
        return cls._build(
            str(op), loop_indices(iterators), constraints(where), sympy.sympify(body, strict=True)
        )

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
        return substitute(self, {old: new}) if isinstance(old, Index) else None

    def _sympystr(self, printer: Any) -> str:
        ranges = ", ".join(map(str, self.iterators)) or "()"
        return f"{self.op}[{ranges}]({printer._print(self.body)}{where_text(self.where, printer)})"


def where_text(where: tuple[Constraint, ...], printer: Any) -> str:
    if not where:
        return ""
    parts = [printer._print(c) for c in where]
    return f", where={parts[0]}" if len(parts) == 1 else f", where=({', '.join(parts)})"


Leaf = Callable[[Any], Any]


_ORDER = cmp_to_key(sympy.Basic.compare)


def rebuild(body: Any, leaf: Leaf) -> Any:
    """Apply `leaf` to every access, index form and reduction of `body` (not inside reductions:
    `leaf` decides that).
    """
    return _rebuilt(body, leaf)[0]


def _rebuilt(body: Any, leaf: Leaf) -> tuple[Any, bool]:
    """The new body, and whether it is built as the old one was: of the same operations on leaves of
    the same kinds.
    """
    if isinstance(body, (Access, IndexArithmetic, Reduce)):
        new = leaf(body)
        return new, new is body or (
            type(new) is type(body) and not isinstance(body, IndexArithmetic)
        )
    if not body.args:
        return body, True
    parts = [_rebuilt(a, leaf) for a in body.args]
    changed = tuple(part for part, _ in parts)
    if all(a is b for a, b in zip(changed, body.args)):
        return body, True
    if all(alike for _, alike in parts) and (same := _built_alike(body, changed)) is not None:
        return same, True
    # As many terms as before are no other kind of sum, of which SymPy would ask much where it is
    # raised to a power.
    power = (
        body.is_Pow
        and changed[1] is body.args[1]
        and changed[0].is_Add
        and len(changed[0].args) == len(body.args[0].args)
    )
    if any(is_truth(new) and not is_truth(old) for new, old in zip(changed, body.args)):
        return _of_truths(body, changed), False
    return (body.func(*changed, evaluate=False) if power else _built(body, changed)), False


def _built(body: Any, operands: Sequence[Any]) -> Any:
    """What SymPy makes of other operands."""
    if isinstance(body, ExprCondPair):
        return sympy.Tuple.__new__(ExprCondPair, *operands)
    return cases(operands) if isinstance(body, sympy.Piecewise) else applied(body.func, operands)


def cases(pairs: Sequence[Any]) -> Any:
    """Values and conditions as SymPy's `Piecewise`; it would move cases in a condition out of that,
    also out of a sum, away from their indices.
    """
    if not any(condition.has(sympy.Piecewise) for _, condition in pairs):
        return sympy.Piecewise(*pairs)
    kept = [
        sympy.Tuple.__new__(ExprCondPair, value, condition)
        for value, condition in pairs
        if condition != False
    ]  # noqa: E712 - as SymPy compares
    return kept[0].args[0] if kept[0].args[1] == True else Basic.__new__(sympy.Piecewise, *kept)  # noqa: E712


def is_truth(body: Any) -> bool:
    """Whether a body is a condition, which SymPy does not take for a number."""
    return isinstance(body, Boolean) and not isinstance(body, Expr)


def _of_truths(body: Any, changed: tuple[Any, ...]) -> Any:
    """A body with conditions in the place of numbers, 1 or 0: what asks whether they are is the
    condition; elsewhere they are numbers again.
    """
    if isinstance(body, (sympy.Eq, sympy.Ne)) and body.rhs in (0, 1):
        return (
            changed[0] if (body.rhs == 1) == isinstance(body, sympy.Eq) else sympy.Not(changed[0])
        )
    numbers = [
        as_truth_number(new) if is_truth(new) and not is_truth(old) else new
        for new, old in zip(changed, body.args)
    ]
    return _built(body, numbers)


def as_truth_number(condition: Any) -> Any:
    """1 where a condition holds, else 0."""
    return sympy.Piecewise((1, condition), (0, True))


def _built_alike(body: Any, changed: tuple[Any, ...]) -> Any:
    """What SymPy makes of operands like those before, where it would do no more than bring them
    into its order; else None.

    To find that out it asks much of the operands of products, powers and functions, which takes
    milliseconds each.
    """
    if body.is_Pow or isinstance(body, (sympy.exp, sympy.log, sympy.Max, sympy.Min)):
        return body.func(*changed, evaluate=False)
    if (
        isinstance(body, sympy.Function) and len(changed) == 1
    ):  # odd and even ones choose the sign of their operand
        return (
            None if changed[0].could_extract_minus_sign() else body.func(*changed, evaluate=False)
        )
    if body.is_Add or body.is_Mul:
        numbers, others = (
            [a for a in changed if a.is_Number],
            [a for a in changed if not a.is_Number],
        )
        if len({a.as_coeff_Mul()[1] if body.is_Add else a.as_base_exp()[0] for a in others}) == len(
            others
        ):  # nothing to join
            return body.func(*numbers, *sorted(others, key=_ORDER), evaluate=False)
    return None


def substitute(body: Any, mapping: Mapping[Index, Any]) -> Any:
    """Replace free indices by affine forms everywhere in a body; bound indices are renamed where
    they would capture.
    """
    mapping = {i: affine(v) for i, v in mapping.items()}

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            subscripts = tuple(s.substitute(mapping) for s in node.subscripts)
            return (
                node
                if all(a is b for a, b in zip(subscripts, node.subscripts))
                else Access.of(node.base, subscripts)
            )
        if isinstance(node, Reduce):
            return _substitute_reduce(node, mapping)
        form = affine(node)
        changed = form.substitute(mapping)
        return node if changed is form else as_number(changed)

    return rebuild(body, leaf)


def _substitute_reduce(node: Reduce, mapping: Mapping[Index, Affine]) -> Reduce:
    inner: dict[Index, Affine] = {i: v for i, v in mapping.items() if i not in node.indices}
    incoming = {i for v in inner.values() for i in v.indices}
    iterators = node.iterators
    if incoming & set(node.indices):
        taken = (
            incoming
            | {i for i in node.body.free_symbols if isinstance(i, Index)}
            | set(node.indices)
        )
        renamed = []
        for it in iterators:
            fresh = fresh_index(it.index.name, taken) if it.index in incoming else it.index
            taken.add(fresh)
            if fresh is not it.index:
                inner[it.index] = affine(fresh)
            renamed.append(LoopIndex(fresh, it.low, it.high))
        iterators = tuple(renamed)
    body = substitute(node.body, inner)
    where = tuple(c.substitute(inner) for c in node.where)
    if (
        body is node.body
        and iterators is node.iterators
        and all(a is b for a, b in zip(where, node.where))
    ):
        return node
    return Reduce(node.op, iterators, where, body)


def fresh_index(name: str, taken: Any) -> Index:
    """An index named like `name` that is not in `taken`: `h`, then `h1`, `h2`, …"""
    candidate, stem, count = Index(name), name.rstrip("0123456789"), 0
    while candidate in taken:
        count += 1
        candidate = Index(f"{stem}{count}")
    return candidate


def _constraint_order(constraint: Constraint) -> tuple[Any, ...]:
    return constraint.form.sort_tuple, constraint.relation


def _positional(body: Any, depth: int) -> Any:
    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        names = {it.index: affine(Index(f"_{depth + k}")) for k, it in enumerate(node.iterators)}
        inner = _positional(substitute(node.body, names), depth + len(names))
        iterators = tuple(
            LoopIndex(names[it.index].as_index(), it.low, it.high) for it in node.iterators
        )
        return Reduce(node.op, iterators, tuple(c.substitute(names) for c in node.where), inner)

    return rebuild(body, leaf)
