"""Walking and rebuilding bodies. A traversal returns the same object where nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

import sympy
from sympy import Basic, Expr, Integer
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean

from einalg.access import Access, Padded, Tensor, unpadded
from einalg.affine import Affine, Index, IndexArithmetic, affine
from einalg.dtypes import is_float, promote
from einalg.errors import NotationError
from einalg.scope import Constraint, Reduce, Scope
from einalg.scope import Iterator as Range

Leaf = Callable[[Any], Any]
_ORDER = cmp_to_key(sympy.Basic.compare)


def rebuild(body: Any, leaf: Leaf) -> Any:
    """Apply `leaf` to every access, index form and reduction of `body` (not inside reductions: `leaf` decides that)."""
    return _rebuilt(body, leaf)[0]


def _rebuilt(body: Any, leaf: Leaf) -> tuple[Any, bool]:
    """The new body, and whether it is built as the old one was: of the same operations on leaves of the same kinds."""
    if isinstance(body, (Access, IndexArithmetic, Reduce)):
        new = leaf(body)
        return new, new is body or (type(new) is type(body) and not isinstance(body, IndexArithmetic))
    if not body.args:
        return body, True
    parts = [_rebuilt(a, leaf) for a in body.args]
    changed = tuple(part for part, _ in parts)
    if all(a is b for a, b in zip(changed, body.args)):
        return body, True
    if all(alike for _, alike in parts) and (same := _built_alike(body, changed)) is not None:
        return same, True
    # As many terms as before are no other kind of sum, of which SymPy would ask much where it is raised to a power.
    power = body.is_Pow and changed[1] is body.args[1] and changed[0].is_Add and len(changed[0].args) == len(body.args[0].args)
    if any(is_truth(new) and not is_truth(old) for new, old in zip(changed, body.args)):
        return _of_truths(body, changed), False
    return (body.func(*changed, evaluate=False) if power else _built(body, changed)), False


def _built(body: Any, operands: Sequence[Any]) -> Any:
    """What SymPy makes of other operands."""
    if isinstance(body, ExprCondPair):
        return sympy.Tuple.__new__(ExprCondPair, *operands)
    return cases(operands) if isinstance(body, sympy.Piecewise) else body.func(*operands)


def cases(pairs: Sequence[Any]) -> Any:
    """Values and conditions as SymPy's `Piecewise`; it would move cases in a condition out of that, also out of a sum, away from their indices."""
    if not any(condition.has(sympy.Piecewise) for _, condition in pairs):
        return sympy.Piecewise(*pairs)
    kept = [sympy.Tuple.__new__(ExprCondPair, value, condition) for value, condition in pairs if condition != False]  # noqa: E712 - as SymPy compares
    return kept[0].args[0] if kept[0].args[1] == True else Basic.__new__(sympy.Piecewise, *kept)  # noqa: E712


def is_truth(body: Any) -> bool:
    """Whether a body is a condition, which SymPy does not take for a number."""
    return isinstance(body, Boolean) and not isinstance(body, Expr)


def _of_truths(body: Any, changed: tuple[Any, ...]) -> Any:
    """A body with conditions in the place of numbers, 1 or 0: what asks whether they are is the condition; elsewhere they are numbers again."""
    if isinstance(body, (sympy.Eq, sympy.Ne)) and body.rhs in (0, 1):
        return changed[0] if (body.rhs == 1) == isinstance(body, sympy.Eq) else sympy.Not(changed[0])
    numbers = [as_truth_number(new) if is_truth(new) and not is_truth(old) else new for new, old in zip(changed, body.args)]
    return _built(body, numbers)


def as_truth_number(condition: Any) -> Any:
    """1 where a condition holds, else 0."""
    return sympy.Piecewise((1, condition), (0, True))


def _built_alike(body: Any, changed: tuple[Any, ...]) -> Any:
    """What SymPy makes of operands like those before, where it would do no more than bring them into its order; else None.

    To find that out it asks much of the operands of products, powers and functions, which takes milliseconds each.
    """
    if body.is_Pow or isinstance(body, (sympy.exp, sympy.log, sympy.Max, sympy.Min)):
        return body.func(*changed, evaluate=False)
    if isinstance(body, sympy.Function) and len(changed) == 1:  # odd and even ones choose the sign of their operand
        return None if changed[0].could_extract_minus_sign() else body.func(*changed, evaluate=False)
    if body.is_Add or body.is_Mul:
        numbers, others = [a for a in changed if a.is_Number], [a for a in changed if not a.is_Number]
        if len({a.as_coeff_Mul()[1] if body.is_Add else a.as_base_exp()[0] for a in others}) == len(others):  # nothing to join
            return body.func(*numbers, *sorted(others, key=_ORDER), evaluate=False)
    return None


def as_number(form: Affine) -> Any:
    """An affine form in the place of a number in a body: SymPy's own sum of indices and quotients."""
    return sympy.Add(form.const, *(sympy.Mul(c, atom) for atom, c in form.terms))


def substitute(body: Any, mapping: Mapping[Index, Any]) -> Any:
    """Replace free indices by affine forms everywhere in a body; bound indices are renamed where they would capture."""
    mapping = {i: affine(v) for i, v in mapping.items()}

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            subscripts = tuple(s.substitute(mapping) for s in node.subscripts)
            return node if all(a is b for a, b in zip(subscripts, node.subscripts)) else Access.of(node.base, subscripts)
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
        taken = incoming | {i for i in node.body.free_symbols if isinstance(i, Index)} | set(node.indices)
        renamed = []
        for it in iterators:
            fresh = fresh_index(it.index.name, taken) if it.index in incoming else it.index
            taken.add(fresh)
            if fresh is not it.index:
                inner[it.index] = affine(fresh)
            renamed.append(Range(fresh, it.low, it.high))
        iterators = tuple(renamed)
    body = substitute(node.body, inner)
    where = tuple(c.substitute(inner) for c in node.where)
    if body is node.body and iterators is node.iterators and all(a is b for a, b in zip(where, node.where)):
        return node
    return Reduce(node.op, iterators, where, body)


def fresh_index(name: str, taken: Any) -> Index:
    """An index named like `name` that is not in `taken`: `h`, then `h1`, `h2`, …"""
    candidate, stem, count = Index(name), name.rstrip("0123456789"), 0
    while candidate in taken:
        count += 1
        candidate = Index(f"{stem}{count}")
    return candidate


def accesses(body: Any) -> Iterator[Access]:
    """Every access of a body, also inside reductions, not inside inner scopes."""
    if isinstance(body, Access):
        yield body
    elif isinstance(body, Reduce):
        yield from accesses(body.body)
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from accesses(argument)


def reductions(body: Any) -> Iterator[Reduce]:
    """Every reduction of a body, outer before inner."""
    if isinstance(body, Reduce):
        yield body
        yield from reductions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from reductions(argument)


def map_accesses(body: Any, change: Callable[[Access], Any]) -> Any:
    """Replace every access of a body, also inside reductions."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return change(node)
        if isinstance(node, Reduce):
            inner = rebuild(node.body, leaf)
            return node if inner is node.body else Reduce(node.op, node.iterators, node.where, inner)
        return node

    return rebuild(body, leaf)


def rebased(access: Access, base: Any) -> Access:
    """The same access to another tensor or scope, under the same padding."""
    return Access.of(_repad(access.base, base), access.subscripts)


def _repad(view: Any, base: Any) -> Any:
    return Padded(_repad(view.base, base), view.amounts, view.fill) if isinstance(view, Padded) else base


def inner_scopes(scope: Scope) -> list[Scope]:
    """The distinct scopes that a body reads directly, in order of their first occurrence."""
    found: dict[Scope, None] = {}
    for access in accesses(scope.body):
        base = unpadded(access.base)
        if isinstance(base, Scope):
            found.setdefault(base)
    return list(found)


def all_scopes(scope: Scope) -> Iterator[Scope]:
    """The scope and every distinct scope below it, inner ones first."""
    seen: set[int] = set()

    def visit(node: Scope) -> Iterator[Scope]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in inner_scopes(node):
            yield from visit(child)
        yield node

    yield from visit(scope)


def tensors(scope: Scope) -> dict[str, Tensor]:
    """Every tensor that a scope or the scopes below it read, by name, in order of first use.

    Raises `NotationError` where two different tensors have one name.
    """
    found: dict[str, Tensor] = {}
    for inner in inner_scopes(scope):
        for tensor in inner.tensors.values():
            add_tensor(found, tensor)
    for access in accesses(scope.body):
        base = unpadded(access.base)
        if isinstance(base, Tensor):
            add_tensor(found, base)
    return found


def add_tensor(found: dict[str, Tensor], tensor: Tensor) -> None:
    """Note a tensor by name; `NotationError` where another one has that name."""
    known = found.setdefault(tensor.name, tensor)
    if known != tensor:
        unlike = next(name for name in ("shape", "axes", "dtype", "role", "values") if getattr(known, name) != getattr(tensor, name))
        values = f"{getattr(known, unlike)} and {getattr(tensor, unlike)}"
        raise NotationError(f"two tensors are called {tensor.name}, of {unlike} {values}\n  give each a name of its own")


def result_dtype(body: Any) -> str:
    """Element type of a body: the promotion of what it reads; comparisons give bool, inexact functions a float."""
    found = _promoted(body)
    return "i64" if found == "bool" and not _is_truth(body) else found


def _is_truth(body: Any) -> bool:
    """Whether a body without a number type of its own holds truth values, and not integers."""
    if isinstance(body, (Access, sympy.Rel, sympy.logic.boolalg.Boolean)):
        return True
    if isinstance(body, Reduce):
        return _is_truth(body.body)
    if isinstance(body, sympy.Piecewise):
        return all(_is_truth(case.args[0]) for case in body.args)
    return isinstance(body, (sympy.Max, sympy.Min)) and all(_is_truth(a) for a in body.args)


def _promoted(body: Any) -> str:
    if isinstance(body, Access):
        return unpadded(body.base).dtype
    if isinstance(body, Reduce):
        inner = _promoted(body.body)
        return "i64" if inner == "bool" and body.op in ("Sum", "Prod") else inner
    if isinstance(body, (IndexArithmetic, Integer)):
        return "bool" if isinstance(body, Integer) else "i64"
    if isinstance(body, sympy.Piecewise):
        return promote(*(_promoted(case.args[0]) for case in body.args))
    if isinstance(body, (sympy.Rel, sympy.logic.boolalg.Boolean)):
        return "bool"
    if not body.args:
        return "f32" if body in (sympy.oo, -sympy.oo) or not body.is_Integer else "bool"
    constants, others = list[Any](), list[Any]()
    for a in body.args:
        (constants if a.is_number else others).append(a)
    inner = promote(*map(_promoted, others))
    if is_float(inner):
        return inner  # a constant never widens an f16
    return inner if _keeps_integers(body) and all(c.is_integer for c in constants) else "f32"


def _keeps_integers(body: Expr) -> bool:
    if isinstance(body, sympy.Pow):
        return bool(body.exp.is_Integer and body.exp >= 0)
    if isinstance(body, sympy.Mul):
        return not any(isinstance(a, sympy.Pow) and a.exp.is_negative or a.is_Rational and not a.is_Integer for a in body.args)
    return isinstance(body, (sympy.Add, sympy.Max, sympy.Min, sympy.Abs, sympy.sign))


def with_positional_names(scope: Scope) -> tuple[Any, ...]:
    """Ranges, conditions and body with indices named by position, so that it is equal exactly up to names."""
    names: dict[Index, Any] = {it.index: Index(f"_{k}") for k, it in enumerate(scope.iterators)}
    body = _positional(substitute(scope.body, names), len(scope.iterators))
    where = sympy.Tuple(*sorted((c.substitute({k: affine(v) for k, v in names.items()}) for c in scope.where), key=_constraint_order))
    return sympy.Tuple(*(sympy.Tuple(it.low, it.high) for it in scope.iterators)), where, body


def _constraint_order(constraint: Constraint) -> tuple[Any, ...]:
    return constraint.form.sort_tuple, constraint.relation


def _positional(body: Any, depth: int) -> Any:
    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        names = {it.index: affine(Index(f"_{depth + k}")) for k, it in enumerate(node.iterators)}
        inner = _positional(substitute(node.body, names), depth + len(names))
        iterators = tuple(Range(names[it.index].as_index(), it.low, it.high) for it in node.iterators)
        return Reduce(node.op, iterators, tuple(c.substitute(names) for c in node.where), inner)

    return rebuild(body, leaf)
