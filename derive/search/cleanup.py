"""Cleanup: moves that never make a program worse, and are therefore not searched but done.

Copies of inner scopes merge into their reader, conditions of inner domains and of sums are relaxed
away, and what is only read through padding shrinks to what matters (design §8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import prod
from typing import Any

from derive.rewriting.body_queries import (
    ReadContext,
    bound_indices,
    has_conditions,
    has_reduction,
    memoized_per_scope,
    reads,
    reads_padding,
)
from derive.rewriting.domains import box_of
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, child, paths, place_count
from derive.rules.algebra import staging
from derive.rules.inter.lifting_nesting import NESTING
from derive.rules.intra import (
    axis_elimination,
    boundary_relaxing,
    boundary_tightening,
    summation_splitting,
    traversal_merging,
)
from derive.rules.intra.variable_substitution import substitution_move
from derive.search.repairs import split_move
from einalg.errors import EinalgError
from einalg.language.analysis.simplify import with_joined_quotients
from einalg.language.index.affine import Affine, Index, Modulo, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor, unpadded
from einalg.language.ir.traversal import accesses, reductions

MAX_CLEANUP_MOVES = 48
MAX_REPETITION = 4  # times the places of a program: what more is read by many is left apart
MIN_PLACES = 64  # that merging may make of a small program

Rules = Mapping[str, Rule]


def cleaned_up(program: Program, rules: Rules) -> tuple[Program, list[Move]]:
    """Return the program after all cleanup moves, and these."""
    return _repeated(_proposals, program, rules)


def _repeated(
    propose: Callable[[Program], Iterator[Move]], program: Program, rules: Rules
) -> tuple[Program, list[Move]]:
    """Return the program after the first move that applies, and so on until none does, with the
    moves.
    """
    steps: list[Move] = []
    while len(steps) < MAX_CLEANUP_MOVES:
        step = _first_applicable(program, propose(program), rules)
        if step is None:
            break
        program, move = step
        steps.append(move)
    return program, steps


def _first_applicable(
    program: Program, proposals: Iterator[Move], rules: Rules
) -> tuple[Program, Move] | None:
    for move in proposals:
        try:
            return apply(program, move, rules), move
        except EinalgError:
            continue
    return None


def fully_inlined(
    program: Program, rules: Rules, is_allowed: Callable[[Program], bool] = lambda _: True
) -> tuple[Program, list[Move]]:
    """Return the program with all merged that merges into its reader: one spelling for many.

    Statements and inner scopes merge, and the moves come with the program. A merging that gives
    what is not allowed is left out; so is one by which a scope that many read has far more places,
    as in blocks that are added to what they read: every block multiplies them.
    """
    program, steps = cleaned_up(program, rules)
    limit = max(MIN_PLACES, MAX_REPETITION * place_count(program))

    def is_small(merged: Program) -> bool:
        return place_count(merged) <= limit and is_allowed(merged)

    while len(steps) < MAX_CLEANUP_MOVES:
        merging = _first_merging(program, rules, is_small)
        if merging is None:
            break
        program, moves = merging
        steps += moves
    return program, steps


def _first_merging(
    program: Program, rules: Rules, is_allowed: Callable[[Program], bool]
) -> tuple[Program, list[Move]] | None:
    for move in _mergings(program):
        try:
            merged, cleaning = cleaned_up(apply(program, move, rules), rules)
        except EinalgError:
            continue
        if is_allowed(merged):
            return merged, [move, *cleaning]
    return None


def fissioned(program: Program, rules: Rules) -> tuple[Program, list[Move]]:
    """Return the program with a scope for every reduction that is part of a body, and the moves.

    So has every summed factor that need not be computed so often. Equal ones are computed once. A
    reduction stays where the rules do not allow its split, as that of `S - S` in a model.
    """
    return _repeated(_fissions, program, rules)


def with_reductions_apart(program: Program, rules: Rules) -> tuple[Program, list[Move]]:
    """Return the program with a scope for every reduction that is part of a body, and the moves;
    factors stay where they are.
    """
    return _repeated(_reduction_splits, program, rules)


def _fissions(program: Program) -> Iterator[Move]:
    """Split off innermost reductions that have something around them, then factors."""
    yield from _reduction_splits(program)
    for path, scope in paths(program):
        for args in staging.subterms(scope):
            if args.get("factors") and args["reduction"] is not None:
                yield Move(staging.RULE.name, path, args)


def _reduction_splits(program: Program) -> Iterator[Move]:
    """Split off innermost reductions that have something around them."""
    for path, scope in paths(program):
        for position, node in enumerate(reductions(scope.body)):
            if node is not scope.body and node.iterators and not has_reduction(node.body):
                args = {"reduction": position, "outer": []}
                yield Move(summation_splitting.RULE.name, path, args)


def _mergings(program: Program) -> Iterator[Move]:
    """Merge statements of which nothing is computed twice, then scopes, the innermost first."""
    for name, scope in program.statements:
        if name in program.outputs:
            continue
        readers = [reader for reader, other in program.statements if name in other.tensors]
        if len(readers) == 1 or isinstance(scope.body, Access) or _is_read_in_parts(program, name):
            yield from _nestings(readers, name)
    for path, scope in reversed(list(paths(program))):
        for position in range(len(inner_scopes(scope))):
            yield Move(traversal_merging.RULE.name, path, {"inner": position})
        yield from _joins(path, scope)
        for args in boundary_tightening.find(scope):
            if "reduction" in args:
                yield Move(boundary_tightening.RULE.name, path, args)


def _nestings(readers: Iterable[str], producer: str) -> Iterator[Move]:
    for reader in readers:
        yield Move(NESTING.name, (reader,), {"producer": producer})


Box = tuple[tuple[int, int], ...]


def _is_read_in_parts(program: Program, name: str) -> bool:
    """Tell whether the readers of a statement share none of its points.

    The boxes that are read then have no more points together than the statement has.
    """
    boxes: set[Box] = set()
    for read in _reads_of_statement(program, name):
        box = _box_read(read)
        if box is None:
            return False
        boxes.add(box)
    return sum(map(_points, boxes)) <= prod(program[name].shape)


def _reads_of_statement(program: Program, name: str) -> Iterator[ReadContext]:
    for _, scope in program.statements:
        if name not in scope.tensors:
            continue
        for inner in all_scopes(scope):
            for read in reads(inner):
                if isinstance(read.access.tensor, Tensor) and read.access.tensor.name == name:
                    yield read


def _box_read(read: ReadContext) -> Box | None:
    """Return the box that a read runs through; None where it is no box with an index an axis."""
    indices: list[Index] = []
    for subscript in read.access.subscripts:
        if subscript.terms:
            index = subscript.as_index()
            if index is None or index in indices:
                return None
            indices.append(index)
    return tuple(_half_open_interval(s, read) for s in read.access.subscripts)


def _half_open_interval(subscript: Affine, read: ReadContext) -> tuple[int, int]:
    low, high = subscript.interval(read.ranges)
    return low, high + 1


def _points(box: Box) -> int:
    return prod(high - low for low, high in box)


def _joins(path: Path, scope: Scope) -> Iterator[Move]:
    """Make one number of two summed indices that occur only as its digits.

    In `A[4*i + j]`, with j from 0 to 3, they are the digits of a number that runs over A. Digits of
    one number occur in the same places.
    """
    for position, node in enumerate(reductions(scope.body)):
        forms = _forms(node)
        places = _places(node, forms)
        used = bound_indices(scope)
        for high, low in permutations(node.iterators, 2):
            if places[high] != places[low]:
                continue
            if low.low or high.extent < 2 or low.extent < 2:
                continue
            whole = fresh_index(high.index.name, used)
            if all(_are_digits(form, high, low, whole) for form in forms):
                yield _join_move(path, position, node, (high, low, whole))


def _forms(node: Reduce) -> list[Affine]:
    """Return the subscripts of what is reduced, and the conditions."""
    forms: list[Affine] = []
    for access in accesses(node.body):
        forms += access.subscripts
    for condition in node.where:
        forms.append(condition.form)
    return forms


def _places(node: Reduce, forms: Sequence[Affine]) -> dict[LoopIndex, list[int]]:
    """Return the positions of the forms that each summed index occurs in."""
    places: dict[LoopIndex, list[int]] = {it: [] for it in node.iterators}
    for position, form in enumerate(forms):
        for it in node.iterators:
            if it.index in form.indices:
                places[it].append(position)
    return places


def _join_move(
    path: Path, position: int, node: Reduce, digits: tuple[LoopIndex, LoopIndex, Index]
) -> Move:
    high, low, whole = digits
    forward: dict[str, str] = {}
    for it in node.iterators:
        if it not in (high, low):
            forward[it.index.name] = it.index.name
    backward = dict(forward)
    forward[whole.name] = str(affine(high.index) * low.extent + low.index)
    backward[high.index.name] = str(affine(whole) // low.extent)
    backward[low.index.name] = str(affine(whole) % low.extent)
    return substitution_move(path, position, forward, backward)


def _are_digits(form: Affine, high: LoopIndex, low: LoopIndex, whole: Index) -> bool:
    """Tell whether two indices stand in a form as the digits of one number, then called `whole`."""
    if form.indices.isdisjoint((high.index, low.index)):
        return True
    base = low.extent
    digits = {
        high.index: floordiv(affine(whole), base),
        low.index: modulo(affine(whole), base),
    }
    return not _has_digits(with_joined_quotients(form.substitute(digits)), whole)


def _has_digits(form: Affine, whole: Index) -> bool:
    """Tell whether a quotient or a remainder of an index by itself occurs."""
    for atom, _ in form.terms:
        if isinstance(atom, Index):
            continue
        if atom.argument.indices == {whole} or _has_digits(atom.argument, whole):
            return True
    return False


def _proposals(program: Program) -> Iterator[Move]:
    yield from _statement_moves(program)
    places = list(paths(program))
    for propose in (_axis_moves, _condition_moves, _lattice_moves, _copy_moves, _padding_moves):
        for path, scope in places:
            yield from propose(path, scope)


def _statement_moves(program: Program) -> Iterator[Move]:
    """Nest statements in their readers.

    These are sums and copies of scopes that one other statement reads, and copies of statements.
    """
    readers: dict[str, list[str]] = {}
    for name, scope in program.statements:
        for tensor in scope.tensors:
            readers.setdefault(tensor, []).append(name)
    for name, scope in program.statements:
        if name in program.outputs or name not in readers:
            continue
        if _copies_statement(program, scope) or (
            len(readers[name]) == 1 and (is_copy(scope) or has_reduction(scope.body))
        ):
            yield from _nestings(readers[name], name)


def _copies_statement(program: Program, scope: Scope) -> bool:
    if not isinstance(scope.body, Access):
        return False
    return any(tensor in program.names for tensor in scope.tensors)


def _axis_moves(path: Path, scope: Scope) -> Iterator[Move]:
    """Leave a scope that reduces the axes that its body depends on; a copy may repeat elements."""
    for args in _axis_arguments(scope):
        yield Move(axis_elimination.RULE.name, path, args)


@memoized_per_scope
def _axis_arguments(scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield the eliminations in a scope that reduces something.

    A reduction without indices, under a condition, is the padding of a copy.
    """
    if any(node.iterators for node in reductions(scope.body)):
        yield from axis_elimination.find(scope)


def _copy_moves(path: Path, scope: Scope) -> Iterator[Move]:
    """Merge copies of scopes below this one, and this one where it is the copy of a copy.

    A copy of a copy of a tensor becomes one copy of the tensor.
    """
    for position, inner in enumerate(inner_scopes(scope)):
        if is_copy(inner):
            if _copies_tensor_copy(inner):
                yield Move(traversal_merging.RULE.name, (*path, position), {"inner": 0})
            yield Move(traversal_merging.RULE.name, path, {"inner": position})
    if len(path) == 1 and is_copy(scope) and inner_scopes(scope) and _has_same_axes(scope):
        yield Move(traversal_merging.RULE.name, path, {"inner": 0})


def _copies_tensor_copy(scope: Scope) -> bool:
    """Tell whether the only scope inside is a copy of a tensor that is not computed."""
    inner = inner_scopes(scope)
    return len(inner) == 1 and isinstance(inner[0].body, Access) and not is_copy(inner[0])


def is_copy(scope: Scope) -> bool:
    """Tell whether a scope only reads another scope, or another statement."""
    if not isinstance(scope.body, Access):
        return False
    base = unpadded(scope.body.base)
    return isinstance(base, Scope) or base.role == "intermediate"


def _has_same_axes(scope: Scope) -> bool:
    """Tell whether a copy of a scope keeps the order of its axes, and so changes only the box."""
    body: Any = scope.body
    idle = {it.index for it in scope.iterators if it.extent == 1}
    read: list[Index | None] = []
    for subscript in body.subscripts:
        index = subscript.as_index()
        if subscript.terms and index not in idle:
            read.append(index)
    return read == [it.index for it in scope.iterators if it.extent != 1]


def _condition_moves(path: Path, scope: Scope) -> Iterator[Move]:
    for args in _relaxations(scope):
        yield Move(boundary_relaxing.RULE.name, path, args)


@memoized_per_scope
def _relaxations(scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield the relaxings that leave out conditions which only cut corners off a box.

    Those that the rule refuses are left out here, once for each scope.
    """
    for args in _corner_conditions(scope):
        try:
            boundary_relaxing.relax(scope, **args)
        except EinalgError:
            continue
        yield args


def _corner_conditions(scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield the same boxes without the conditions that cut corners off.

    A condition that leaves a lattice, as `h % 2 == 0`, says that another box fits, and stays.
    """
    domains: list[tuple[dict[str, int], Any]] = [
        ({"inner": position}, inner) for position, inner in enumerate(inner_scopes(scope))
    ]
    for position, node in enumerate(reductions(scope.body)):
        if node.iterators:
            domains.append(({"reduction": position}, node))
    for place, domain in domains:
        lattice = [condition for condition in domain.where if condition.relation != ">="]
        if len(lattice) < len(domain.where):
            yield {**place, "box": box_of(domain.iterators), "where": list(map(str, lattice))}


def _lattice_moves(path: Path, scope: Scope) -> Iterator[Move]:
    """Split summed indices that a condition holds to one residue class by its modulus.

    Only that class is then left of the sum.
    """
    for position, node in enumerate(reductions(scope.body)):
        moduli: dict[Index, int] = {}
        for condition in node.where:
            residue = _residue_class(condition)
            if residue is not None and residue[0] in node.indices:
                moduli[residue[0]] = residue[1]
        if moduli:
            yield split_move(path, node.iterators, moduli, position, bound_indices(scope))


def _residue_class(condition: Constraint) -> tuple[Index, int] | None:
    """Return the index and the modulus of a condition like `(r + 1) % 2 == 0`; None for others."""
    terms = condition.form.terms
    if condition.relation != "==" or len(terms) != 1 or not isinstance(terms[0][0], Modulo):
        return None
    atom = terms[0][0]
    if len(atom.argument.indices) != 1:
        return None
    (index,) = atom.argument.indices
    if abs(atom.argument.coefficient(index)) != 1:
        return None
    return index, atom.divisor


def _padding_moves(path: Path, scope: Scope) -> Iterator[Move]:
    if not _may_have_idle_points(scope):
        return
    for args in boundary_tightening.find(scope):
        if "reduction" in args or _cuts_away(child(scope, args["inner"]), args["box"]):
            yield Move(boundary_tightening.RULE.name, path, args)


def _may_have_idle_points(scope: Scope) -> bool:
    """Tell whether conditions or padding may make points of an inner domain do nothing."""
    if has_conditions(scope.body):
        return True
    if any(reads_padding(inner.body) for inner in inner_scopes(scope)):
        return True
    for access in accesses(scope.body):
        if isinstance(access.base, Padded) and isinstance(access.tensor, Scope):
            return True
    return False


def _cuts_away(inner: Scope, box: Any) -> bool:
    """Tell whether a box that is not empty leaves out points of an inner scope."""
    if all(high <= low for low, high in box):
        return False
    return any((low, high) != (it.low, it.high) for it, (low, high) in zip(inner.iterators, box))
