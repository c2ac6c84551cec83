"""Expression merging: two parts, or two statements that share an input, become one expression."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations, permutations
from typing import Any

import sympy

from derive.rewriting.body_queries import bare_subscripts, bound_indices, counts_with
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import Path, paths, replace_at, scope_at
from einalg.errors import RuleError
from einalg.language.analysis.canonical import key
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index
from einalg.language.ir.program import (
    Program,
    in_order,
    statement_tensor,
    substitute_tensors,
)
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, padded_like

MAX_PAIRS = 4  # tensors in which two siblings may differ

Args = dict[str, Any]


def find(program: Program) -> Iterator[tuple[Path, Args]]:
    """Propose parts that fit together inside a scope, and statements that can be stacked.

    These differ only in tensors that can be stacked.
    """
    for path, scope in paths(program):
        for first, second in _pairs_of_parts(scope):
            yield path, {"first": first, "second": second}
    for name, other in _siblings(program):
        for axis in _axes(program, name, other):
            yield (name,), {"sibling": other, "axis": axis}


def merge(program: Program, path: Path, **args: Any) -> Program:
    """Join two parts of one scope, or two statements.

    `first` and `second` are positions in the sum of a scope; or `sibling` is the name of another
    statement, and `axis` a position, None for a new axis.
    """
    if "sibling" in args:
        return _stack(program, path[0], args["sibling"], args.get("axis"))
    scope = scope_at(program, path)
    return replace_at(program, path, _joined(scope, args["first"], args["second"]))


# --- two parts of one scope


def _parts(scope: Scope) -> list[Any]:
    return list(scope.body.args) if isinstance(scope.body, sympy.Add) else []


def _pairs_of_parts(scope: Scope) -> Iterator[tuple[int, int]]:
    for (i, one), (j, two) in permutations(enumerate(_parts(scope)), 2):
        if _union(one, two) is not None:
            yield i, j


def _union(one: Any, two: Any) -> Access | None:
    """Return the read of one scope that is the sum of two reads of its adjacent parts."""
    if not _is_padded_part(one) or not _is_padded_part(two) or one.subscripts != two.subscripts:
        return None
    first, second = one.base.base, two.base.base
    axis = _adjacent_axis(first, second)
    if axis is None:
        return None
    renamed = Scope(_with_ranges(second.iterators, first.iterators), second.where, second.body)
    if renamed != first:
        return None
    whole = Scope(_longer(first, axis, _extent(second, axis)), first.where, first.body)
    amounts = list(one.base.amounts)
    amounts[axis] = (one.base.amounts[axis][0], two.base.amounts[axis][1])
    return Access.of(Padded(whole, amounts), one.subscripts)


def _is_padded_part(part: Any) -> bool:
    """Tell whether a term reads a scope through padding with 0."""
    if not isinstance(part, Access) or not isinstance(part.base, Padded):
        return False
    return part.base.fill == 0 and isinstance(part.base.base, Scope)


def _adjacent_axis(first: Scope, second: Scope) -> int | None:
    """Return the only axis in which two boxes differ, if the second follows the first there."""
    differing = _differing_axes(first, second)
    if len(differing) != 1:
        return None
    (axis,) = differing
    if first.box[axis][1] != second.box[axis][0]:
        return None
    return axis


def _differing_axes(one: Scope, two: Scope) -> set[int]:
    axes: set[int] = set()
    for axis, (bounds, others) in enumerate(zip(one.box, two.box)):
        if bounds != others:
            axes.add(axis)
    return axes


def _with_ranges(iterators: Iterable[LoopIndex], others: Iterable[LoopIndex]) -> list[LoopIndex]:
    """Return iterators of the same indices with the ranges of others."""
    return [LoopIndex(it.index, o.low, o.high) for it, o in zip(iterators, others)]


def _extent(scope: Scope, axis: int) -> int:
    low, high = scope.box[axis]
    return high - low


def _longer(scope: Scope, axis: int, added: int) -> list[LoopIndex]:
    """Return the iterators of a scope with one range made longer."""
    iterators = list(scope.iterators)
    it = iterators[axis]
    iterators[axis] = LoopIndex(it.index, it.low, it.high + added)
    return iterators


def _joined(scope: Scope, first: Any, second: Any) -> Scope:
    parts = _parts(scope)
    if first == second or not _is_position(first, parts) or not _is_position(second, parts):
        raise RuleError(
            f"the body is a sum of {len(parts)} terms; {first} and {second} are not two of them"
        )
    union = _union(parts[first], parts[second])
    if union is None:
        raise RuleError("the two terms are not adjacent parts of one expression")
    rest = [part for position, part in enumerate(parts) if position not in (first, second)]
    return simplify_scope(Scope(scope.iterators, scope.where, sympy.Add(union, *rest)))


def _is_position(value: Any, parts: list[Any]) -> bool:
    return isinstance(value, int) and 0 <= value < len(parts)


# --- two statements


def _siblings(program: Program) -> Iterator[tuple[str, str]]:
    for (name, scope), (other, second) in combinations(program.statements, 2):
        if scope.rank != second.rank or _depends(program, other, name):
            continue
        if not scope.tensors.keys().isdisjoint(second.tensors):
            yield name, other


def _depends(program: Program, reader: str, producer: str) -> bool:
    """Tell whether a statement reads another one, or what is computed from it.

    Statements come after those that they read.
    """
    needed = {reader}
    for name, scope in reversed(program.statements):
        if name in needed:
            needed.update(scope.tensors)
    return producer in needed


def _axes(program: Program, name: str, other: str) -> Iterator[int | None]:
    """Yield the axes along which two statements can be stacked; None for a new one."""
    for axis in (None, *range(program[name].rank)):
        if _pairing(program[name], program[other], axis) is not None:
            yield axis


def _pairing(one: Scope, two: Scope, axis: int | None) -> dict[str, Tensor] | None:
    """Return the tensors of `two` that stand for tensors of `one`: `{"V": W}`.

    The two scopes, which must be flat, are equal once these are exchanged.
    """
    if inner_scopes(one) or inner_scopes(two) or not _differing_axes(one, two) <= {axis}:
        return None
    mine, theirs = _not_shared(one, two), _not_shared(two, one)
    if len(mine) != len(theirs) or not 0 < len(mine) <= MAX_PAIRS:
        return None
    renamed = Scope(_with_ranges(two.iterators, one.iterators), two.where, two.body)
    for candidates in permutations(theirs):
        pairs = list(zip(mine, candidates))
        if not all(_fits(tensor, candidate, one, axis) for tensor, candidate in pairs):
            continue
        exchange = {candidate.name: tensor for tensor, candidate in pairs}
        if key(substitute_tensors(renamed, exchange)) == key(one):
            return {tensor.name: candidate for tensor, candidate in pairs}
    return None


def _not_shared(scope: Scope, other: Scope) -> list[Tensor]:
    return [tensor for name, tensor in scope.tensors.items() if name not in other.tensors]


def _fits(mine: Tensor, theirs: Tensor, scope: Scope, axis: int | None) -> bool:
    """Tell whether a tensor can be stacked with one that a scope reads."""
    if mine.dtype != theirs.dtype or mine.rank != theirs.rank:
        return False
    if axis is None:
        return mine.axes == theirs.axes
    position = _position(mine, scope, axis)
    if position is None:
        return False
    own, others = list(mine.axes), list(theirs.axes)
    del own[position], others[position]
    return own == others


def _position(tensor: Tensor, scope: Scope, axis: int) -> int | None:
    """Return the axis of a tensor that an index of the traversal reads alone, over its extent.

    `axis` is the number of the index. None where a read of the tensor does otherwise, or the index
    occurs elsewhere.
    """
    index, box = scope.indices[axis], scope.box[axis]
    if counts_with(scope, index):
        return None
    positions: set[int] = set()
    for access in accesses(scope.body):
        moving = [k for k, subscript in enumerate(access.subscripts) if index in subscript.indices]
        if access.tensor != tensor:
            if moving:
                return None
            continue
        if len(moving) != 1 or isinstance(access.base, Padded):
            return None
        if access.subscripts[moving[0]].as_index() != index:
            return None
        positions.update(moving)
    if len(positions) != 1:
        return None
    (position,) = positions
    if tensor.axes[position] != box or box[0] != 0:
        return None
    return position


def stacking_key(scope: Scope, axis: int) -> Hashable | None:
    """Return the same for statements that can be stacked along an axis, each with a tensor of its
    own; None for one that cannot be.

    >>> import einalg as ea
    >>> one = ea.parse("O[i,j] += A[i,k]*V[k,j]", A=(8, 3), V=(3, 4))
    >>> two = ea.parse("O[y,x] += A[y,z]*W[z,x]", A=(8, 3), W=(3, 5))
    >>> stacking_key(one, 1) == stacking_key(two, 1), stacking_key(one, 0) == stacking_key(two, 0)
    (True, False)
    """
    if inner_scopes(scope):
        return None
    for tensor in scope.tensors.values():
        position = _position(tensor, scope, axis)
        if position is not None:
            return _key_of_any_length(scope, axis, tensor, position)
    return None


def _key_of_any_length(scope: Scope, axis: int, tensor: Tensor, position: int) -> Hashable:
    """Return the key of a scope for any extent of an axis, and any tensor that only this reads."""
    length = (0, 2)
    axes = list(tensor.axes)
    axes[position] = length
    used = set(scope.tensors) - {tensor.name}
    replacement = Tensor(_fresh_name("W", used), axes, tensor.dtype)
    iterators = list(scope.iterators)
    iterators[axis] = LoopIndex(iterators[axis].index, *length)
    renamed = substitute_tensors(scope, {tensor.name: replacement})
    return key(Scope(iterators, renamed.where, renamed.body))


def _stack(program: Program, name: str, other: str, axis: int | None) -> Program:
    _check_independent(program, name, other)
    one, two = program[name], program[other]
    pairs = _pairing(one, two, axis)
    if pairs is None:
        place = "a new axis" if axis is None else f"axis {axis}"
        raise RuleError(
            f"{name} and {other} do not become equal by exchanging tensors "
            f"that can be stacked along {place}"
        )
    used = {*program.names, *program.tensors}
    added: list[tuple[str, Scope]] = []
    stacked: dict[str, Tensor] = {}
    for mine, theirs in pairs.items():
        label = _fresh_name(f"{mine}_{theirs.name}", used)
        added.append((label, _stacked_tensors(one, one.tensors[mine], theirs, axis)))
        stacked[mine] = statement_tensor(*added[-1])
    if axis is None:
        whole, offset = _with_new_axis(one, stacked), 1
    else:
        whole, offset = (
            _with_longer_axis(one, two, stacked, axis),
            one.box[axis][1] - two.box[axis][0],
        )
    label = _fresh_name(f"{name}_{other}", used)
    added.append((label, whole))
    result = statement_tensor(label, whole)
    slices = {name: _slice(one, result, axis, 0), other: _slice(two, result, axis, offset)}
    return _with_stacked(program, added, slices)


def _check_independent(program: Program, name: str, other: str) -> None:
    known = name in program.names and other in program.names
    if not known or _depends(program, other, name) or _depends(program, name, other):
        raise RuleError(f"{name} and {other} are not two independent statements")


def _with_stacked(
    program: Program, added: list[tuple[str, Scope]], slices: dict[str, Scope]
) -> Program:
    """Return the program with the added statements, and slices of them in the place of a pair.

    They stand after everything that they read.
    """
    statements = [(name, scope) for name, scope in program.statements if name not in slices]
    needed: set[str] = set()
    for _, scope in added:
        needed.update(scope.tensors)
    at = 0
    for position, (name, _) in enumerate(statements):
        if name in needed:
            at = position + 1
    statements[at:at] = [*added, *slices.items()]
    return Program(in_order(statements), program.outputs)


def _fresh_name(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    used.add(name)
    return name


def _stacked_tensors(scope: Scope, mine: Tensor, theirs: Tensor, axis: int | None) -> Scope:
    position = None if axis is None else _position(mine, scope, axis)
    if position is None:
        return _along_new_axis(mine, theirs)
    return _along(mine, theirs, position)


def _traversal(tensor: Tensor) -> list[LoopIndex]:
    iterators = []
    for axis, (low, high) in enumerate(tensor.axes):
        iterators.append(LoopIndex(Index(f"i{axis}"), low, high))
    return iterators


def _along(mine: Tensor, theirs: Tensor, position: int) -> Scope:
    """Return two tensors one after the other along an axis: a sum of two padded reads."""
    iterators = _traversal(mine)
    (low, end), (low2, high2) = mine.axes[position], theirs.axes[position]
    length = high2 - low2
    iterators[position] = LoopIndex(iterators[position].index, low, end + length)
    before, after = [(0, 0)] * mine.rank, [(0, 0)] * mine.rank
    before[position], after[position] = (0, length), (end - low, 0)
    subscripts = bare_subscripts(iterators)
    moved = list(subscripts)
    moved[position] = moved[position] - (end - low2)
    total = mine.pad(*before)[subscripts] + theirs.pad(*after)[tuple(moved)]
    return Scope(iterators, (), total)


def _along_new_axis(mine: Tensor, theirs: Tensor) -> Scope:
    layer = Index("z")
    iterators = [LoopIndex(layer, 0, 2), *_traversal(mine)]
    subscripts = bare_subscripts(iterators)
    total: Any = sympy.S.Zero
    for number, tensor in enumerate((mine, theirs)):
        plane_iterators = [LoopIndex(layer, number, number + 1), *iterators[1:]]
        plane = Scope(plane_iterators, (), Access.of(tensor, subscripts[1:]))
        amounts = [(number, 1 - number)] + [(0, 0)] * mine.rank
        total = total + Access.of(Padded(plane, amounts), subscripts)
    return Scope(iterators, (), total)


def _with_new_axis(one: Scope, stacked: dict[str, Tensor]) -> Scope:
    layer = fresh_index("z", bound_indices(one))

    def change(access: Access) -> Access:
        base = access.tensor
        if not (isinstance(base, Tensor) and base.name in stacked):
            return access
        view = padded_like(access.base, stacked[base.name], lambda amounts: [(0, 0), *amounts])
        return Access.of(view, (affine(layer), *access.subscripts))

    iterators = [LoopIndex(layer, 0, 2), *one.iterators]
    return Scope(iterators, one.where, map_accesses(one.body, change))


def _with_longer_axis(one: Scope, two: Scope, stacked: dict[str, Tensor], axis: int) -> Scope:
    renamed = substitute_tensors(one, stacked)
    return Scope(_longer(one, axis, _extent(two, axis)), renamed.where, renamed.body)


def _slice(scope: Scope, stacked: Tensor, axis: int | None, offset: int) -> Scope:
    """Return the part of a stacked tensor that a scope computed."""
    subscripts = list(bare_subscripts(scope.iterators))
    if axis is None:
        subscripts.insert(0, affine(offset))
    else:
        subscripts[axis] = subscripts[axis] + offset
    return Scope(scope.iterators, scope.where, Access.of(stacked, tuple(subscripts)))


RULE = Rule(
    name="expression merging",
    before="L[X0] f ~ L[X1] f",
    after="L[X0 ∪ X1] f",
    requires=(
        "X0 and X1 disjoint and adjacent; "
        "or two independent statements that differ in tensors, which are stacked"
    ),
    find=find,
    rewrite=merge,
    level="program",
    example=Example(
        "P[i,j] += X[i,k]*V[k,j]\nQ[i,j] += X[i,k]*W[k,j]", {"X": (4, 6), "V": (6, 3), "W": (6, 5)}
    ),
)
