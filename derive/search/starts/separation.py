"""Separation: sums are split in two where that leaves less arithmetic.

The sum over a window of 21 by 21 becomes one over 21 columns, of sums over 21 rows; a sum over the
channels of a window with one kernel for all of them is made before the window is; what costs much
is computed once for each of its values. Cleanup leaves each inner scope the axes that its body
depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import isqrt, prod
from typing import Any, NamedTuple

import sympy

from derive.cost.model import operations
from derive.rewriting.body_queries import bound_indices, enclosing_domain, is_empty, names_of
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, paths, program_scopes, scope_at
from derive.rules.algebra import distribution, staging
from derive.rules.intra import axis_elimination, summation_splitting, variable_substitution
from einalg.errors import EinalgError, RuleError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, reductions

MIN_SAVING = 1.25  # of the arithmetic of a sum, for which it is split
MAX_SUBSETS_OF = 5  # summed indices; of more, single ones and all but one are tried
MAX_STEPS = 12
MAX_REST = 2  # taps that a window of windows may leave over
STORED = 2  # operations that it takes to write a value and to read it again
FUNCTION = 8  # operations that a function, a root or a division takes

Cleanup = Callable[[Program, Mapping[str, Rule]], tuple[Program, list[Move]]]
Domain = tuple[LoopIndex, ...]


class _Step(NamedTuple):
    """Moves, with the arithmetic that they leave in proportion to what it was."""

    ratio: float
    moves: tuple[Move, ...]


def separated(
    program: Program, rules: Mapping[str, Rule], clean: Cleanup, by_digits: bool = False
) -> tuple[Program, list[Move]]:
    """Return the program with its sums split while that saves arithmetic, and the moves.

    `clean` is what is done after each of them, such as `derive.search.cleanup.cleaned_up`. With
    `by_digits` a long window becomes a window of windows, as one of 31 becomes 6 of 5, and a tap.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> from derive.search.cleanup import cleaned_up
    >>> from einalg.language.ir.program import as_program
    >>> box = as_program(ea.parse("O[i:8,j:8] = Sum[r:3,s:3](A[i+r,j+s])", A=(10, 10)))
    >>> print(separated(box, ALL, cleaned_up)[0])
    O[i:8, j:8] = Sum[s:3]((L[i:8, t:10](Sum[r:3](A[i + r, t])))[i, j + s])
    """
    done: list[Move] = []
    while len(done) < MAX_STEPS:
        step = _best_step(program, rules, clean, by_digits)
        if step is None:
            break
        program, moves = step
        done += moves
    return program, done


def _best_step(
    program: Program, rules: Mapping[str, Rule], clean: Cleanup, by_digits: bool
) -> tuple[Program, list[Move]] | None:
    """Return the program after the first of the best steps that does less than before."""
    before = _arithmetic(program)
    for step in sorted(_steps(program, by_digits), key=lambda step: step.ratio):
        after = _applied(program, step.moves, rules, clean)
        if after is not None and _arithmetic(after[0]) < before:
            return after
    for move in _distributions(program):
        after = _applied(program, (move,), rules, clean)
        if after is not None and _arithmetic(after[0]) * MIN_SAVING <= before:
            return after
    return None


def _applied(
    program: Program, moves: Sequence[Move], rules: Mapping[str, Rule], clean: Cleanup
) -> tuple[Program, list[Move]] | None:
    """Return the program after some moves, those of a subterm that was staged, and cleanup."""
    try:
        for move in moves:
            program = apply(program, move, rules)
        done = list(moves)
        if moves[-1].rule == staging.RULE.name:
            program, eliminated = _with_fewer_axes(program, moves[-1].path, rules)
            done += eliminated
        program, cleaning = clean(program, rules)
    except EinalgError:
        return None
    return program, [*done, *cleaning]


def _with_fewer_axes(
    program: Program, path: Path, rules: Mapping[str, Rule]
) -> tuple[Program, list[Move]]:
    """Return the program whose scopes inside one scope have the axes that they depend on."""
    done: list[Move] = []
    for position, inner in enumerate(inner_scopes(scope_at(program, path))):
        for args in axis_elimination.find(inner):
            move = Move(axis_elimination.RULE.name, (*path, position), args)
            program = apply(program, move, rules)
            done.append(move)
    return program, done


def _arithmetic(program: Program) -> int:
    return sum(map(operations, program_scopes(program)))


def _steps(program: Program, by_digits: bool) -> Iterator[_Step]:
    """Yield the splittings and stagings of every reduction that are worth it."""
    for step in _all_steps(program, by_digits):
        if step.ratio * MIN_SAVING <= 1:
            yield step


def _all_steps(program: Program, by_digits: bool) -> Iterator[_Step]:
    for path, scope in paths(program):
        for position, node in enumerate(reductions(scope.body)):
            try:
                around, _ = enclosing_domain(scope, node)
            except RuleError:
                continue
            if is_empty((*around, *node.iterators)):
                continue
            yield from _splits(path, scope, position, around)
            yield from _stagings(path, position, node, around)
            yield from _prefix_splits(path, scope, position, around)
            if by_digits:
                yield from _digit_splits(path, scope, position, around)


def _node(scope: Scope, position: int) -> Reduce:
    return list(reductions(scope.body))[position]


def _splits(path: Path, scope: Scope, position: int, around: Domain) -> Iterator[_Step]:
    node = _node(scope, position)
    whole = _work(node.body, (*around, *node.iterators))
    for inside in _choices(node, may_be_all=node is not scope.body):
        ratio = _work_after(node, around, inside) / whole
        yield _Step(ratio, (_split_move(path, position, node, inside),))


def _split_move(path: Path, position: int, node: Reduce, inside: Sequence[LoopIndex]) -> Move:
    outer = [it.index.name for it in node.iterators if it not in inside]
    args = {"reduction": position, "outer": outer}
    return Move(summation_splitting.RULE.name, path, args)


def _choices(node: Reduce, may_be_all: bool) -> Iterator[tuple[LoopIndex, ...]]:
    """Yield the summed indices that may be moved inside together; never none of them."""
    live = [it for it in node.iterators if it.extent > 1]
    sizes: Sequence[int] = range(1, len(live))
    if len(live) > MAX_SUBSETS_OF:
        sizes = (1, len(live) - 1)
    if may_be_all and live:
        sizes = (*sizes, len(live))
    return chain.from_iterable(combinations(live, size) for size in sizes)


def _work(body: Any, iterators: Sequence[LoopIndex]) -> int:
    return prod(it.extent for it in iterators) * (1 + _cost(body))


def _cost(body: Any) -> int:
    """Return the operations of a body at one point: of products, sums and functions.

    >>> import einalg as ea
    >>> _cost(ea.parse("O[i] = A[i]*B[i] + exp(A[i])", A=4, B=4).body)
    10
    """
    if isinstance(body, (Access, Reduce)) or not body.args:
        return 0
    if next(accesses(body), None) is None:
        return 0
    below = sum(map(_cost, body.args))
    if isinstance(body, (sympy.Add, sympy.Mul, sympy.Max, sympy.Min)):
        return below + len(body.args) - 1
    if isinstance(body, sympy.Pow) and body.exp.is_Integer and body.exp > 0:
        return below + 1
    return below + FUNCTION


def _work_after(node: Reduce, around: Domain, inside: Sequence[LoopIndex]) -> int:
    """Return the work of both sums once some of the indices are reduced by an inner scope."""
    moved = {it.index for it in inside}
    free, dependent = _factors(node, moved)
    axes = [*(it for it in node.iterators if it.index not in moved), *around]
    points = axis_elimination.distinct_points(dependent, axes)
    inner = points * prod(it.extent for it in inside) * (1 + _cost(dependent))
    outer = prod(it.extent for it in axes) * (1 + len(free) + sum(map(_cost, free)))
    return inner + outer


def _factors(node: Reduce, moved: set[Index]) -> tuple[list[Any], Any]:
    """Return the operands that stay outside of the inner reduction, and the rest of the body."""
    operation = summation_splitting.DISTRIBUTES_OVER.get(node.op)
    if operation is None or node.where or not isinstance(node.body, operation):
        return [], node.body
    free: list[Any] = []
    dependent: list[Any] = []
    for operand in node.body.args:
        if operand.free_symbols.isdisjoint(moved):
            free.append(operand)
        else:
            dependent.append(operand)
    return free, operation(*dependent, evaluate=False)


def _stagings(path: Path, position: int, node: Reduce, around: Domain) -> Iterator[_Step]:
    """Compute a factor once for each of its values that is costly and has few of them."""
    domain = (*around, *node.iterators)
    for number, factor in enumerate(sympy.Mul.make_args(node.body)):
        cost = _cost(factor)
        if cost < FUNCTION or factor.has(Reduce):
            continue
        once = axis_elimination.distinct_points(factor, domain) * (cost + STORED)
        whole = _work(node.body, domain)
        left = whole - cost * prod(it.extent for it in domain)
        axes = names_of([it.index for it in domain if it.index in factor.free_symbols])
        args = {"factors": [number], "reduction": position, "axes": axes}
        yield _Step((once + left) / whole, (Move(staging.RULE.name, path, args),))


def _digit_splits(path: Path, scope: Scope, position: int, around: Domain) -> Iterator[_Step]:
    """Make a window of windows of each window: they overlap, or leave a few taps over."""
    node = _node(scope, position)
    whole = _work(node.body, (*around, *node.iterators))
    for it in node.iterators:
        blocks = _overlapping_window if node.op in ("Max", "Min") else _nested_window
        nesting = blocks(path, scope, position, it)
        if nesting is None:
            continue
        nested = nesting.node
        inside, outside = nested.iterators[-1:], nested.iterators[:-1]
        left = _work_after(nested, around, inside)
        left += STORED * axis_elimination.distinct_points(nested.body, (*around, *outside))
        left += whole * nesting.rest // it.extent
        split = _split_move(path, nesting.position, nested, inside)
        yield _Step(left / whole, (*nesting.moves, split))


def _prefix_splits(path: Path, scope: Scope, position: int, around: Domain) -> Iterator[_Step]:
    """Reduce blocks of a range once, of which every prefix of it has some, and a rest."""
    node = _node(scope, position)
    points = prod(it.extent for it in around)
    for it in node.iterators:
        block = isqrt(it.extent)
        if block < 2 or distribution.prefix_of(scope, node, it.index.name) is None:
            continue
        names = _digit_names(scope, it.index)
        args = {
            "step": "by blocks",
            "reduction": position,
            "index": it.index.name,
            "names": names_of(names),
            "block": block,
        }
        try:
            after = distribution.distribute(scope, **args)
            place = _position_of(after, LoopIndex(names[0], 0, it.extent // block))
        except EinalgError:  # where it is not known that what is read is there
            continue
        nested = _node(after, place)
        inside = [other for other in nested.iterators if other.index == names[1]]
        once = axis_elimination.distinct_points(nested.body, (*around, *nested.iterators))
        others = prod(other.extent for other in node.iterators if other is not it)
        steps = points * others * (it.extent // block + block)
        cost = 1 + _cost(node.body)
        ratio = (once * (cost + STORED) + steps * cost) / (points * others * it.extent * cost)
        moves = Move(distribution.RULE.name, path, args), _split_move(path, place, nested, inside)
        yield _Step(ratio, moves)


class _Nesting(NamedTuple):
    """The moves that make two indices of one, and the reduction with them, the inner one last.

    A `rest` of the taps is reduced beside it.
    """

    moves: tuple[Move, ...]
    node: Reduce
    position: int
    rest: int = 0


def _overlapping_window(path: Path, scope: Scope, position: int, it: LoopIndex) -> _Nesting | None:
    """Return how an extreme over a window becomes one over overlapping windows."""
    digits = best_cover(it.extent)
    if digits is None:
        return None
    names = _digit_names(scope, it.index)
    args = {
        "step": "overlapping",
        "reduction": position,
        "index": it.index.name,
        "names": names_of(names),
        "blocks": digits.outer,
        "block": digits.inner,
    }
    after = distribution.distribute(scope, **args)
    place = _position_of(after, LoopIndex(names[1], 0, digits.inner))
    return _Nesting((Move(distribution.RULE.name, path, args),), _node(after, place), place)


def _digit_names(scope: Scope, index: Index) -> tuple[Index, Index]:
    used = bound_indices(scope)
    high = fresh_index(index.name + "1", used)
    return high, fresh_index(index.name + "2", used | {high})


class Digits(NamedTuple):
    """A number of taps as `outer` windows of `inner` ones, and a rest."""

    outer: int
    inner: int
    rest: int


def best_digits(taps: int) -> Digits | None:
    """Return the windows that take the fewest operations together; None for few taps.

    >>> best_digits(21), best_digits(31), best_digits(5)
    (Digits(outer=7, inner=3, rest=0), Digits(outer=6, inner=5, rest=1), None)
    """
    choices: list[tuple[int, int, Digits]] = []
    for rest in range(MAX_REST + 1):
        for inner in range(2, isqrt(max(taps - rest, 0)) + 1):
            outer, remainder = divmod(taps - rest, inner)
            if not remainder:
                choices.append((outer + inner + rest, rest, Digits(outer, inner, rest)))
    if not choices:
        return None
    operations, _, digits = min(choices)
    return digits if operations + STORED < taps else None


def best_cover(taps: int) -> Digits | None:
    """Return windows at equal distances that cover taps, some twice; None for few taps.

    >>> best_cover(31), best_cover(9), best_cover(5)
    (Digits(outer=5, inner=7, rest=0), Digits(outer=3, inner=3, rest=0), None)
    """
    choices: list[tuple[int, Digits]] = []
    for inner in range(2, taps):
        outer = -(-taps // inner)
        if (taps - inner) % (outer - 1) == 0:
            choices.append((outer + inner, Digits(outer, inner, 0)))
    if not choices:
        return None
    operations, digits = min(choices)
    return digits if operations + STORED < taps else None


def _position_of(scope: Scope, part: LoopIndex) -> int:
    """Return the position of the reduction that runs through a range of an index."""
    for position, node in enumerate(reductions(scope.body)):
        if part in node.iterators:
            return position
    raise RuleError(f"nothing is reduced over {part}")


def _nested_window(path: Path, scope: Scope, position: int, it: LoopIndex) -> _Nesting | None:
    """Return how a reduction over a window becomes one over windows, but for a rest."""
    digits = best_digits(it.extent)
    if digits is None or it.low:
        return None
    moves: list[Move] = []
    if digits.rest:
        at = it.high - digits.rest
        args = {"step": "in ranges", "reduction": position, "index": it.index.name, "at": at}
        moves.append(Move(distribution.RULE.name, path, args))
        scope = distribution.distribute(scope, **args)
        position = _position_of(scope, LoopIndex(it.index, 0, at))
    high, low = _digit_names(scope, it.index)
    number = affine(high) * digits.inner + low
    others = {other.name: other.name for other in _node(scope, position).indices}
    others.pop(it.index.name)
    forward = {
        **others,
        high.name: str(affine(it.index) // digits.inner),
        low.name: str(affine(it.index) % digits.inner),
    }
    backward = {**others, it.index.name: str(number)}
    moves.append(variable_substitution.substitution_move(path, position, forward, backward))
    scope = variable_substitution.substituted(scope, position, forward, backward)
    place = _position_of(scope, LoopIndex(low, 0, digits.inner))
    return _Nesting(tuple(moves), _node(scope, place), place, digits.rest)


def _distributions(program: Program) -> Iterator[Move]:
    """Take sums of several terms apart, and multiply them out."""
    for path, scope in paths(program):
        if next(reductions(scope.body), None) is None:
            continue
        for args in distribution.find(scope):
            if args["step"] in ("apart", "expand"):
                yield Move(distribution.RULE.name, path, args)
