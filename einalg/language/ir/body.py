"""Bodies of scopes: their reductions, and how a body is rebuilt and substituted (design §2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cmp_to_key
from typing import Any

import sympy
from sympy import Expr
from sympy.logic.boolalg import Boolean
from sympy.printing.precedence import PRECEDENCE

from einalg.boundary import public
from einalg.errors import NotationError
from einalg.language.conditions import negation
from einalg.language.conversion import Conversion
from einalg.language.index.affine import Affine, Index, IndexArithmetic, as_form
from einalg.language.index.cases import Piecewise
from einalg.language.index.constraint import Constraint, constraints
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex, loop_indices
from einalg.language.index.remainder import applied, as_number, index_form
from einalg.language.ir.element import Element
from einalg.language.ir.tensor import Access
from einalg.language.node import Node

REDUCTIONS = ("Sum", "Max", "Min", "Prod")
IDENTITY = {"Sum": sympy.S.Zero, "Prod": sympy.S.One, "Max": -sympy.oo, "Min": sympy.oo}


@public
class Reduce(Node, Element, Expr):
    """`Sum`, `Max`, `Min` or `Prod` of `body` over the points of `iterators` that meet `where`;
    part of a scope's body.

    `ea.Sum` and its kin make it; rules split it and build others. Raises `NotationError` for
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
    """Return conditions as the text after a body: `""`, or e.g. `", where=i >= j"`."""
    if not where:
        return ""
    parts = [printer._print(c) for c in where]
    if len(parts) == 1:
        return f", where={parts[0]}"
    return f", where=({', '.join(parts)})"


Leaf = Callable[[Any], Any]
Check = Callable[[Any, tuple[Any, ...], Any], None]
_CHECK: ContextVar[Check | None] = ContextVar("check", default=None)
_SYMPY_ORDER = cmp_to_key(sympy.Basic.compare)


def rebuild(body: Any, leaf: Leaf, *, in_order: bool = True) -> Any:
    """Apply `leaf` to every access, index form and reduction of `body` (not inside reductions:
    `leaf` decides that). Return the same object where nothing changed.

    Terms and factors are brought into SymPy's order, for which the scopes that they read are
    compared; without `in_order` those of the same form stay where they are.
    """
    return _rebuild(body, leaf, in_order)[0]


def _rebuild(body: Any, leaf: Leaf, in_order: bool) -> tuple[Any, bool]:
    """Return the new body, and whether it has the form of the old one: the same operations on
    leaves of the same kinds, e.g. `2*A[i] + 1` and `2*B[j] + 1`.
    """
    if isinstance(body, (Access, IndexArithmetic, Reduce)):
        new = leaf(body)
        return new, new is body or _has_kind_of(new, body)
    if not body.args:
        return body, True
    parts = [_rebuild(operand, leaf, in_order) for operand in body.args]
    operands = tuple([new for new, _ in parts])
    if not _differs(operands, body.args):
        return body, True
    if all(same_form for _, same_form in parts):
        same = _of_same_form(body, operands, in_order)
        if same is not None:
            return same, True
    return with_operands(body, operands), False


def with_parts(body: Any, parts: Mapping[Any, Any]) -> Any:
    """Return a body with other parts in the places of some; reductions and reads are whole parts.

    >>> import einalg as ea
    >>> body = ea.parse("O[i] = Max(2*A[i] + 1, 0)", A=(4,)).body
    >>> with_parts(body, {body.args[1]: body.args[1]**2})
    (2*A[i] + 1)**2
    """
    if body in parts:
        return parts[body]
    if isinstance(body, (Access, IndexArithmetic, Reduce)) or not body.args:
        return body
    operands = tuple([with_parts(operand, parts) for operand in body.args])
    if not _differs(operands, body.args):
        return body
    return with_operands(body, operands)


def without_conversions(body: Any) -> Any:
    """Return a body over the reals, where a conversion to another element type is its argument.

    >>> import einalg as ea
    >>> without_conversions(ea.parse("O[i] = f16(2*A[i])*3", A=(4,)).body)
    6*A[i]
    """
    if isinstance(body, Conversion):
        return without_conversions(body.args[0])
    if isinstance(body, Reduce):
        inner = without_conversions(body.body)
        if inner is body.body:
            return body
        return Reduce(body.op, body.iterators, body.where, inner)
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return body
    operands = tuple([without_conversions(operand) for operand in body.args])
    if not _differs(operands, body.args):
        return body
    return with_operands(body, operands)


def _has_kind_of(new: Any, leaf: Any) -> bool:
    """Return whether SymPy evaluates what is around `new` as it did around `leaf`; index arithmetic
    may become a number, of which SymPy knows more.
    """
    return type(new) is type(leaf) and not isinstance(leaf, IndexArithmetic)


def _differs(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """Return whether some item is not the same object."""
    return any(a is not b for a, b in zip(new, old))


def with_operands(body: Any, operands: tuple[Any, ...]) -> Any:
    """Return the operation of `body` on other operands, as SymPy evaluates it."""
    if any(is_truth(new) and not is_truth(old) for new, old in zip(operands, body.args)):
        return _of_conditions(body, operands)
    if _is_power_of_as_long_a_sum(body, operands):
        return body.func(*operands, evaluate=False)
    return _checked_operation(body, operands)


def _is_power_of_as_long_a_sum(body: Any, operands: tuple[Any, ...]) -> bool:
    """Return whether a power of a sum gets a sum of as many terms: no other kind of sum, of which
    SymPy would ask much.
    """
    if not body.is_Pow:
        return False
    base, exponent = operands
    return exponent is body.args[1] and base.is_Add and len(base.args) == len(body.args[0].args)


def _checked_operation(body: Any, operands: tuple[Any, ...]) -> Any:
    """Return the operation of `body` on other operands, once a check allows its evaluation."""
    result = applied(body.func, operands)
    check = _CHECK.get()
    if check is not None:
        check(body.func, operands, result)
    return result


@contextmanager
def checked_evaluation(check: Check) -> Iterator[None]:
    """Have `check(function, operands, result)` look at each operation that SymPy evaluates.

    It raises what it likes where a body must not become another one: moves of models keep NaN.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def is_truth(body: Any) -> bool:
    """Return whether a body is a condition, which SymPy does not take for a number."""
    return isinstance(body, Boolean) and not isinstance(body, Expr)


def _of_conditions(body: Any, operands: tuple[Any, ...]) -> Any:
    """Return an operation some of whose numbers have become conditions, which are 1 or 0.

    What asks whether such a number is 1 or 0 is the condition itself, or its contrary; elsewhere
    conditions are made numbers again.
    """
    if isinstance(body, (sympy.Eq, sympy.Ne)) and body.rhs in (0, 1):
        asks_for_truth = (body.rhs == 1) == isinstance(body, sympy.Eq)
        return operands[0] if asks_for_truth else negation(operands[0])
    numbers = []
    for new, old in zip(operands, body.args):
        if is_truth(new) and not is_truth(old):
            new = as_truth_number(new)
        numbers.append(new)
    return _checked_operation(body, tuple(numbers))


def as_factor(body: Any) -> Any:
    """Return a body as what may stand in a product: a condition as 1 or 0."""
    if is_truth(body):
        return as_truth_number(body)
    return body


def as_truth_number(condition: Any) -> Any:
    """Return 1 where a condition holds, else 0."""
    return Piecewise((1, condition), (0, True))


def _of_same_form(body: Any, operands: tuple[Any, ...], in_order: bool) -> Any:
    """Return the operation of `body` on operands of the same form, where SymPy would do no more
    than bring them into its order; else None.

    To find that out SymPy asks much of the operands of products, powers and functions, which takes
    milliseconds each.
    """
    if body.is_Pow or isinstance(body, (sympy.exp, sympy.log, sympy.Max, sympy.Min)):
        return body.func(*operands, evaluate=False)
    if isinstance(body, sympy.Function) and len(operands) == 1:
        # Odd and even functions choose the sign of their operand.
        if operands[0].could_extract_minus_sign():
            return None
        return body.func(*operands, evaluate=False)
    if body.is_Add or body.is_Mul:
        return _sum_or_product(body, operands, in_order)
    return None


def _sum_or_product(body: Any, operands: tuple[Any, ...], in_order: bool) -> Any:
    """Return a sum or product, or None where SymPy would join operands: terms that differ in their
    coefficient alone, or factors that differ in their exponent alone.
    """
    numbers, others, joined = [], [], set()
    for operand in operands:
        if operand.is_Number:
            numbers.append(operand)
            continue
        others.append(operand)
        if body.is_Add:
            joined.add(operand.as_coeff_Mul()[1])
        else:
            joined.add(operand.as_base_exp()[0])
    if len(joined) < len(others):
        return None
    if in_order:
        others.sort(key=_SYMPY_ORDER)
    return body.func(*numbers, *others, evaluate=False)


def with_plain_numbers(body: Any) -> Any:
    """Return a body whose index arithmetic is SymPy's own, as it is read.

    SymPy makes forms of indices anew where it multiplies an index by a number.

    >>> i = Index("i")
    >>> with_plain_numbers(sympy.exp(i + 1)).args[0].func is sympy.Add
    True
    """

    if isinstance(body, Affine):
        return as_number(body)
    if isinstance(body, (Access, IndexArithmetic)):
        return body
    if isinstance(body, Reduce):
        inner = with_plain_numbers(body.body)
        if inner is body.body:
            return body
        return Reduce(body.op, body.iterators, body.where, inner)
    operands = tuple([with_plain_numbers(operand) for operand in body.args])
    if _differs(operands, body.args):
        body = applied(body.func, operands)
    if isinstance(body, sympy.Add):
        return _with_one_row(body)
    return body


def _with_one_row(total: Any) -> Any:
    """Return a sum with its index arithmetic as one row, of which quotients and remainders join.

    >>> i, x = Index("i"), sympy.Symbol("x")
    >>> _with_one_row(sympy.Add(x, 2 * (i // 2), i % 2))
    i + x
    """
    row, others, joined = as_form(0), [], 0
    for term in total.args:
        form = index_form(term)
        if form is None:
            others.append(term)
        else:
            row, joined = row.plus(form), joined + len(form.terms)
    if len(row.terms) == joined:
        return total
    return sympy.Add(as_number(row), *others)


def substitute(body: Any, mapping: Mapping[Index, Any]) -> Any:
    """Replace free indices by affine forms everywhere in a body; bound indices are renamed where
    they would capture.
    """
    mapping = {i: affine(v) for i, v in mapping.items()}

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return _substitute_access(node, mapping)
        if isinstance(node, Reduce):
            return _substitute_reduce(node, mapping)
        form = affine(node)
        changed = form.substitute(mapping)
        return node if changed is form else as_number(changed)

    return rebuild(body, leaf)


def _substitute_access(access: Access, mapping: Mapping[Index, Affine]) -> Access:
    subscripts = tuple([form.substitute(mapping) for form in access.subscripts])
    if not _differs(subscripts, access.subscripts):
        return access
    return Access.of(access.base, subscripts)


def _substitute_reduce(node: Reduce, mapping: Mapping[Index, Affine]) -> Reduce:
    inner = {i: form for i, form in mapping.items() if i not in node.indices}
    iterators, renaming = _without_capture(node, set().union(*(v.indices for v in inner.values())))
    inner.update(renaming)
    body = substitute(node.body, inner)
    where = tuple([condition.substitute(inner) for condition in node.where])
    if body is node.body and iterators is node.iterators and not _differs(where, node.where):
        return node
    return Reduce(node.op, iterators, where, body)


def _without_capture(
    node: Reduce, incoming: set[Index]
) -> tuple[tuple[LoopIndex, ...], dict[Index, Affine]]:
    """Return the iterators of a reduction into which the indices `incoming` come, and the forms of
    those that get another name for that.

    An example: `j` comes into `Sum[j:5](A[i, j])`, which becomes `Sum[j1:5](A[i, j1])`.
    """
    if incoming.isdisjoint(node.indices):
        return node.iterators, {}
    used = incoming | {i for i in node.body.free_symbols if isinstance(i, Index)}
    used.update(node.indices)
    iterators: list[LoopIndex] = []
    renaming: dict[Index, Affine] = {}
    for it in node.iterators:
        index = it.index
        if index in incoming:
            index = fresh_index(index.name, used)
            renaming[it.index] = affine(index)
        used.add(index)
        iterators.append(LoopIndex(index, it.low, it.high))
    return tuple(iterators), renaming


def fresh_index(name: str, used: Any) -> Index:
    """Return an index named like `name` that is not in `used`: `h`, then `h1`, `h2`, …"""
    candidate, stem, count = Index(name), name.rstrip("0123456789"), 0
    while candidate in used:
        count += 1
        candidate = Index(f"{stem}{count}")
    return candidate


def constraint_sort_key(constraint: Constraint) -> tuple[Any, ...]:
    """Return the key by which conditions with positional names are ordered."""
    return constraint.form.sort_tuple, constraint.relation


def positional_reductions(body: Any, depth: int) -> Any:
    """Name the indices of every reduction by their position, `_0`, `_1`, …, from `depth` on."""

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        names: dict[Index, Affine] = {}
        iterators = []
        for position, it in enumerate(node.iterators, depth):
            index = Index(f"_{position}")
            names[it.index] = affine(index)
            iterators.append(LoopIndex(index, it.low, it.high))
        inner = positional_reductions(substitute(node.body, names), depth + len(names))
        return Reduce(node.op, iterators, [c.substitute(names) for c in node.where], inner)

    return rebuild(body, leaf)
