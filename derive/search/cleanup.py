"""Tidying: moves that never make a program worse and are therefore not searched but done (design §8).

Copies of inner scopes merge into their reader, conditions of inner domains and of sums are relaxed away, and what is only read
through padding shrinks to what matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from math import prod
from typing import Any

from derive.rewriting.body_queries import ReadContext, reads
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import child, paths
from derive.rules.algebra import staging
from derive.rules.inter.lifting_nesting import NESTING
from derive.rules.intra import (
    boundary_relaxing,
    boundary_tightening,
    summation_splitting,
    traversal_merging,
    variable_substitution,
)
from derive.search.repairs import split_move
from einalg.errors import EinalgError
from einalg.language.analysis.simplify import with_joined_quotients
from einalg.language.index.affine import Affine, Index, Modulo, floordiv, modulo
from einalg.language.index.convert import affine
from einalg.language.ir.body import fresh_index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor, unpadded
from einalg.language.ir.traversal import accesses, reductions

MAX_CLEANUP_MOVES = 48  # moves of one tidying


def cleaned_up(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, list[Move]]:
    """The program after all tidying moves, and these."""
    done: list[Move] = []
    while len(done) < MAX_CLEANUP_MOVES:
        for move in _proposals(program):
            try:
                program = apply(program, move, rules)
            except EinalgError:
                continue
            done.append(move)
            break
        else:
            break
    return program, done


def fully_inlined(
    program: Program, rules: Mapping[str, Rule], allowed: Callable[[Program], bool] = lambda _: True
) -> tuple[Program, list[Move]]:
    """The program with every statement and inner scope that merges into its reader merged, and the moves: one spelling for many.

    A merging that gives what is not `allowed` is left out.
    """
    program, done = cleaned_up(program, rules)
    while len(done) < MAX_CLEANUP_MOVES:
        for move in _mergings(program):
            try:
                merged, tidying = cleaned_up(apply(program, move, rules), rules)
            except EinalgError:
                continue
            if not allowed(merged):
                continue
            program = merged
            done += [move, *tidying]
            break
        else:
            break
    return program, done


def fissioned(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, list[Move]]:
    """The program with a scope for every reduction that is part of a body, and for every summed factor that need not be computed so often.

    Equal ones are then computed once. The moves come with it.
    """
    done: list[Move] = []
    while len(done) < MAX_CLEANUP_MOVES and (move := next(_partings(program), None)) is not None:
        program = apply(program, move, rules)
        done.append(move)
    return program, done


def _partings(program: Program) -> Iterator[Move]:
    """Innermost reductions that have something around them, then factors."""
    for path, scope in paths(program):
        for position, node in enumerate(reductions(scope.body)):
            if (
                node is not scope.body
                and node.iterators
                and not any(True for _ in reductions(node.body))
            ):
                yield Move(
                    summation_splitting.RULE.name, path, {"reduction": position, "outer": []}
                )
    for path, scope in paths(program):
        yield from (
            Move(staging.RULE.name, path, args)
            for args in staging.subterms(scope)
            if args.get("factors") and args["reduction"] is not None
        )


def _mergings(program: Program) -> Iterator[Move]:
    """Statements of which nothing is computed twice first, then the innermost scopes before those around them."""
    for name, scope in program.statements:
        readers = [reader for reader, other in program.statements if name in other.tensors]
        if name not in program.outputs and (
            len(readers) == 1 or isinstance(scope.body, Access) or _in_parts(program, name)
        ):
            yield from (Move(NESTING.name, (reader,), {"producer": name}) for reader in readers)
    for path, scope in reversed(list(paths(program))):
        yield from (
            Move(traversal_merging.RULE.name, path, {"inner": k})
            for k in range(len(inner_scopes(scope)))
        )
        yield from _joins(path, scope)
        yield from (
            Move(boundary_tightening.RULE.name, path, args)
            for args in boundary_tightening.find(scope)
            if "reduction" in args
        )


def _in_parts(program: Program, name: str) -> bool:
    """Whether the boxes that are read of a statement have no more points together than it has: each reader has a part of its own."""
    boxes: set[tuple[tuple[int, int], ...]] = set()
    for _, scope in program.statements:
        for inner in all_scopes(scope) if name in scope.tensors else ():
            for read in reads(inner):
                if isinstance(read.access.tensor, Tensor) and read.access.tensor.name == name:
                    used = [next(iter(s.indices)) for s in read.access.subscripts if s.terms]
                    if len(set(used)) < len(used) or not all(
                        s.as_index() for s in read.access.subscripts if s.terms
                    ):
                        return False
                    boxes.add(tuple(_interval(s, read) for s in read.access.subscripts))
    return sum(prod(high - low for low, high in box) for box in boxes) <= prod(program[name].shape)


def _interval(subscript: Affine, read: ReadContext) -> tuple[int, int]:
    low, high = subscript.interval(read.ranges)
    return low, high + 1


def _joins(path: Any, scope: Scope) -> Iterator[Move]:
    """Two summed indices that occur only as digits of one number become that number."""
    for position, node in enumerate(reductions(scope.body)):
        forms = [s for a in accesses(node.body) for s in a.subscripts] + [
            c.form for c in node.where
        ]
        taken = {*scope.indices, *(i for n in reductions(scope.body) for i in n.indices)}
        for high, low in permutations(node.iterators, 2):
            base = low.extent
            whole = fresh_index(high.index.name, taken)
            if (
                low.low
                or high.extent < 2
                or base < 2
                or not all(
                    _are_digits(form, (high.index, low.index), whole, base) for form in forms
                )
            ):
                continue
            forward = {
                it.index.name: it.index.name for it in node.iterators if it not in (high, low)
            }
            backward = dict(forward)
            forward[whole.name] = str(affine(high.index) * base + low.index)
            backward[high.index.name], backward[low.index.name] = (
                str(affine(whole) // base),
                str(affine(whole) % base),
            )
            yield Move(
                variable_substitution.RULE.name,
                path,
                {"target": position, "forward": forward, "backward": backward},
            )


def _are_digits(form: Affine, digits: tuple[Index, Index], whole: Index, base: int) -> bool:
    """Whether two indices stand in a form as the digits of one number, whatever that number is then called."""
    if form.indices.isdisjoint(digits):
        return True
    high, low = digits
    joined = with_joined_quotients(
        form.substitute({high: floordiv(affine(whole), base), low: modulo(affine(whole), base)})
    )
    return not _has_digits(joined, whole)


def _has_digits(form: Affine, whole: Index) -> bool:
    """Whether a quotient or a remainder of an index by itself occurs."""
    parts = [atom.argument for atom, _ in form.terms if not isinstance(atom, Index)]
    return any(part.indices == {whole} or _has_digits(part, whole) for part in parts)


def _proposals(program: Program) -> Iterator[Move]:
    yield from _of_statements(program)
    spots = list(paths(program))
    for path, scope in spots:
        yield from _of_conditions(path, scope)
    for path, scope in spots:
        yield from _of_lattices(path, scope)
    for path, scope in spots:
        yield from _of_copies(path, scope)
    for path, scope in spots:
        yield from _of_padding(path, scope)


def _of_statements(program: Program) -> Iterator[Move]:
    """A sum, or a copy of a scope, that one other statement reads, and a copy of another statement, is an inner scope of its readers."""
    readers: dict[str, list[str]] = {}
    for name, scope in program.statements:
        for tensor in scope.tensors:
            readers.setdefault(tensor, []).append(name)
    for name, scope in program.statements:
        copied = isinstance(scope.body, Access) and any(t in program.names for t in scope.tensors)
        alone = len(readers.get(name, ())) == 1 and (
            is_copy(scope) or any(True for _ in reductions(scope.body))
        )
        if name not in program.outputs and (copied or alone):
            yield from (
                Move(NESTING.name, (reader,), {"producer": name})
                for reader in readers.get(name, ())
            )


def _of_copies(path: Any, scope: Scope) -> Iterator[Move]:
    """Copies of scopes below this one, or this one as the copy of a copy; a copy of a copy of a tensor is one copy of the tensor."""
    for position, inner in enumerate(inner_scopes(scope)):
        if is_copy(inner):
            if [
                isinstance(deep.body, Access) and not is_copy(deep) for deep in inner_scopes(inner)
            ] == [True]:
                yield Move(traversal_merging.RULE.name, (*path, position), {"inner": 0})
            yield Move(traversal_merging.RULE.name, path, {"inner": position})
    if len(path) == 1 and is_copy(scope) and inner_scopes(scope) and _same_axes(scope):
        yield Move(traversal_merging.RULE.name, path, {"inner": 0})


def is_copy(scope: Scope) -> bool:
    """Whether a scope only reads another scope, or another statement."""
    if not isinstance(scope.body, Access):
        return False
    base = unpadded(scope.body.base)
    return isinstance(base, Scope) or base.role == "intermediate"


def _same_axes(scope: Scope) -> bool:
    """Whether a copy of a scope has its axes in the same order, and so changes nothing but the box."""
    body: Any = scope.body
    bare = [s.as_index() for s in body.subscripts if s.terms]
    return bare == [it.index for it in scope.iterators if it.extent != 1]


def _of_conditions(path: Any, scope: Scope) -> Iterator[Move]:
    for position, inner in enumerate(inner_scopes(scope)):
        yield from _relaxed(path, {"inner": position}, inner)
    for position, node in enumerate(reductions(scope.body)):
        if node.iterators:
            yield from _relaxed(path, {"reduction": position}, node)


def _relaxed(path: Any, place: dict[str, int], domain: Any) -> Iterator[Move]:
    """Conditions that only cut corners off a box are left out; one that leaves a lattice says that another box fits, and stays."""
    lattice = [c for c in domain.where if c.relation != ">="]
    if len(lattice) < len(domain.where):
        box = [[it.low, it.high] for it in domain.iterators]
        yield Move(
            boundary_relaxing.RULE.name,
            path,
            {**place, "box": box, "where": [str(c) for c in lattice]},
        )


def _of_lattices(path: Any, scope: Scope) -> Iterator[Move]:
    """Summed indices that a condition holds to one residue class are split by its modulus, and only that class is left."""
    for position, node in enumerate(reductions(scope.body)):
        found: dict[Index, int] = {}
        for condition in node.where:
            atoms = [a for a, _ in condition.form.terms]
            if condition.relation == "==" and len(atoms) == 1 and isinstance(atoms[0], Modulo):
                (modulo,) = atoms
                alone = modulo.argument.indices
                if (
                    len(alone) == 1
                    and alone <= set(node.indices)
                    and abs(modulo.argument.coefficient(next(iter(alone)))) == 1
                ):
                    found[next(iter(alone))] = modulo.divisor
        if found:
            taken = {*scope.indices, *(i for n in reductions(scope.body) for i in n.indices)}
            yield split_move(path, node.iterators, found, position, taken)


def _of_padding(path: Any, scope: Scope) -> Iterator[Move]:
    padded = any(
        isinstance(a.base, Padded) for inner in inner_scopes(scope) for a in accesses(inner.body)
    )
    conditioned = any(node.where for node in reductions(scope.body))
    if (
        padded
        or conditioned
        or any(
            isinstance(a.base, Padded) and isinstance(a.tensor, Scope) for a in accesses(scope.body)
        )
    ):
        for args in boundary_tightening.find(scope):
            if "reduction" in args or _smaller(child(scope, args["inner"]), args["box"]):
                yield Move(boundary_tightening.RULE.name, path, args)


def _smaller(inner: Scope, box: Any) -> bool:
    """Whether the box cuts away points that are never read, or padding that is read along an axis by itself."""
    return any(high > low for low, high in box) and any(
        (low, high) != (it.low, it.high) for it, (low, high) in zip(inner.iterators, box)
    )
