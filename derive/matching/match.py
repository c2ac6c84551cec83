"""Matching: a scope as a kernel of a library operator, with its parameters solved for and verified (design §7)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import sympy

from derive.matching.arrays import match as arrays
from derive.matching.patterns.instantiate import Instance, instantiate
from derive.matching.patterns.normal_form import NormalForm, normal_form
from derive.matching.patterns.operand_views import output_view, read_name, role_order, view
from derive.matching.patterns.pattern import Pattern, pattern
from derive.matching.patterns.scalar_parameters import as_python, assignments_of, numbers
from derive.matching.patterns.unify import Assignment, Reason, assignments, unlike
from einalg.errors import EinalgError, MatchError
from einalg.language.analysis.canonical import key
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.identifiers import with_article
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ops.templates import EVERY, AnyTemplate, ArrayTemplate, Setting, Template

UNLIKE = "its strides, offsets or sizes are not those of such an operator"
NUMBER = sympy.Integer(7)  # in the place of every number
UNLIKE_NUMBERS = "its numbers, strides, offsets or sizes are not those of such an operator"


def templates(name: str | None = None) -> tuple[AnyTemplate, ...]:
    """All templates, or those of one operator; `MatchError` for a name that none has."""
    found = tuple(t for t in EVERY if name in (None, t.name))
    if not found:
        known = ", ".join(dict.fromkeys(t.name for t in EVERY))
        raise MatchError(f"there is no template {name!r}\n  known: {known}")
    return found


def matches(scope: Scope, output: str, among: Sequence[AnyTemplate] = EVERY) -> Iterator[Kernel]:
    """The kernels that compute a scope, the one that leaves the fewest roles of its operator empty first."""
    profile, whole = normal_form(scope), bool(inner_scopes(scope))
    if whole:
        yield from arrays.matches(
            scope, output, among
        )  # all of it is one operator, rather than what is outermost
    for solved in _solutions(profile, _alike(profile, among)):
        yield _kernel(profile, solved, scope, output)
    if not whole:
        yield from arrays.matches(scope, output, among)


def match(scope: Scope, output: str, among: Sequence[AnyTemplate] = EVERY) -> Kernel | None:
    """The first of `matches`, or None."""
    return matched_once(
        scope, output, tuple(among), lambda: next(matches(scope, output, among), None)
    )


def reasons(scope: Scope, template: AnyTemplate) -> list[Reason]:
    """What separates a scope from an operator; empty exactly when it is one."""
    if isinstance(template, ArrayTemplate):
        return arrays.reasons(scope, template)
    profile, found = normal_form(scope), pattern(template)
    ways = sorted(assignments(profile, found), key=lambda a: a.weight)
    if not ways:
        return [unlike(scope.body, found.plain)]
    if ways[0].reasons:
        return ways[0].reasons
    if any(_solved(profile, found, way) is not None for way in ways if not way.reasons):
        return []
    others = (_other_numbers(profile, found, way) for way in ways if not way.reasons)
    text = next((text for text in others if text), UNLIKE_NUMBERS if template.numbers else UNLIKE)
    return [Reason(text, 1.0, "parameters")]


def _other_numbers(profile: NormalForm, found: Pattern, way: Assignment) -> str | None:
    """What is wrong where the definition has other numbers and is the scope besides; None elsewhere."""
    target = instantiate(profile, found, way)
    values = None if target is None else found.solve(target.scope, target.shapes)
    if target is None or values is None or found.template.numbers:
        return None
    try:
        definition = found.template.build(target.shapes, values, {}, target.dtypes)
    except EinalgError:
        return None
    if key(_without_numbers(definition)) != key(_without_numbers(target.scope)):
        return None
    own, its = (
        ", ".join(dict.fromkeys(str(float(n) if n.is_Float else n) for n in numbers(scope.body)))
        for scope in (target.scope, definition)
    )
    return (
        f"its numbers are {own}, where {with_article(found.template.name)} of these sizes has {its}"
    )


def _without_numbers(scope: Scope) -> Scope:
    def other(node: Any) -> Any:
        if isinstance(node, Reduce):
            return Reduce(node.op, node.iterators, node.where, other(node.body))
        if isinstance(node, (Access, IndexArithmetic)) or not (node.args or node.is_number):
            return node
        return node.func(*map(other, node.args)) if node.args else NUMBER

    return Scope(scope.iterators, scope.where, other(scope.body))


class Lazy:
    """What an iterator yields, kept for those who ask again."""

    def __init__(self, source: Iterator[Any]):
        self.source, self.kept = source, list[Any]()

    def __iter__(self) -> Iterator[Any]:
        position = 0
        while True:
            while position < len(self.kept):
                yield self.kept[position]
                position += 1
            try:
                self.kept.append(next(self.source))
            except StopIteration:
                return


def plausible(profile: NormalForm, among: tuple[Template, ...]) -> tuple[Template, ...]:
    """The templates with the body of a scope, and as many windows as it has, or none: the others say nothing that these do not."""
    found = profile.solved.get(("plausible", among))
    if found is None:
        alike = _alike(profile, among)
        shared = [axis for read in profile.reads for axis in read.axes if axis.index is None]
        windows = sorted({len(pattern(t).mixed) for t in alike})
        least, most = sum(1 for axis in shared if not profile.separable(axis)), len(shared)
        wanted = {
            0,
            *(w for w in windows if least <= w <= most),
            *[w for w in windows if w <= most][-1:],
            *[w for w in windows if w >= least > 0][:1],
        }
        quotients = any(not axis.form.is_affine() for axis in shared)
        found = tuple(
            t
            for t in alike
            if len(pattern(t).mixed) in wanted
            and (not pattern(t).mixed or pattern(t).quotients == quotients)
        )
        profile.solved["plausible", among] = found
    return found


_BY_BODY: dict[
    int, tuple[Any, Mapping[Any, tuple[Template, ...]]]
] = {}  # by identity: there are few lists, and long ones
_MOST_LISTS = 64


def _alike(profile: NormalForm, among: Sequence[AnyTemplate]) -> tuple[Template, ...]:
    """The templates with the body of a scope."""
    known = _BY_BODY.get(id(among))
    if known is None:
        by_body: dict[Any, tuple[Template, ...]] = {}
        for template in among:
            if isinstance(template, Template):
                skeleton = pattern(template).example.skeleton
                by_body[skeleton] = (*by_body.get(skeleton, ()), template)
        if len(_BY_BODY) >= _MOST_LISTS:
            _BY_BODY.clear()
        known = _BY_BODY[id(among)] = among, by_body
    return known[1].get(profile.skeleton, ())


class Solved(NamedTuple):
    """How a scope is an operator: the roles of its indices, the integers and the numbers with which the definition is called."""

    pattern: Pattern
    assignment: Assignment
    values: Mapping[Setting, int]
    numbers: Mapping[str, Any]


def _solutions(profile: NormalForm, among: tuple[Template, ...]) -> Iterator[Solved]:
    """One solution a template at most, the fullest first; found when asked for, and kept."""
    ways = profile.solved.get(among)
    if ways is None:
        open_ways = [
            (pattern(t), way)
            for t in plausible(profile, among)
            for way in assignments(profile, pattern(t))
            if not way.reasons
        ]
        open_ways.sort(key=lambda pair: len(pair[0].roles) - len(pair[1].roles))
        ways = profile.solved[among] = Lazy(_verified(profile, open_ways))
    yield from ways


def _verified(profile: NormalForm, ways: list[tuple[Pattern, Assignment]]) -> Iterator[Solved]:
    done: set[Template] = set()
    for found, way in ways:
        solved = None if found.template in done else _solved(profile, found, way)
        if solved is not None:
            done.add(found.template)
            yield solved


def _solved(profile: NormalForm, found: Pattern, way: Assignment) -> Solved | None:
    """The parameters with which the definition has the key of the scope; None where there are none."""
    if any(extent == 0 for extent in profile.extents.values()):
        return None
    target = instantiate(profile, found, way)
    values = None if target is None else found.solve(target.scope, target.shapes)
    if target is None or values is None:
        return None
    wanted = key(target.scope)
    for chosen in assignments_of(
        found.template.numbers, target.scope.body, found.example.scope.body
    ):
        if _built(found.template, target, values, chosen) == wanted:
            return Solved(found, way, values, chosen)
    return None


def _built(
    template: Template, target: Instance, values: Mapping[Setting, int], numbers: Mapping[str, Any]
) -> Any:
    """The key of the definition with these parameters; None where it has no meaning."""
    try:
        return key(template.build(target.shapes, values, numbers, target.dtypes))
    except EinalgError:
        return None


def _kernel(profile: NormalForm, solved: Solved, scope: Scope, output: str) -> Kernel:
    found, assignment, values, numbers = solved
    template = found.template
    sizes = {
        role: prod(profile.extents[i] for i in assignment.roles.get(role, ()))
        for role in role_order(found)
    }
    for (name, axis, side), value in values.items():
        if value != template.settings()[name, axis, side]:
            sizes["_".join(part for part in (name, axis, side) if part)] = value
    if assignment.batch:
        assert template.batch is not None
        sizes[template.batch] = prod(profile.extents[i] for i in assignment.batch)
    names = tuple(
        read_name(profile.reads[assignment.operands[name]].access) for name in template.operands
    )
    views = (
        *(view(profile, found, assignment, name) for name in template.operands),
        output_view(profile, found, assignment, output),
    )
    parameters = as_python({**template.fixed, **numbers}) if template.plain else {}
    return Kernel(
        template.name,
        sizes,
        names,
        output,
        scope=scope,
        views=views,
        parameters=parameters,
        plain=template.plain,
    )


_SPELLED: dict[int, tuple[Scope, Any]] = {}  # by identity, with the scope, which is kept for that


_FOUND: dict[Hashable, tuple[tuple[str, ...], Kernel | None]] = {}


_MOST = 4096


def spelled(scope: Scope) -> tuple[Hashable, tuple[str, ...]]:
    """What a scope is with numbers in the places of the names of its tensors, and these in the order of their numbers.

    >>> import einalg as ea
    >>> one, other = ea.parse("O[i] = A[i]*B[i]", A=(4,), B=(4,)), ea.parse("P[i] = S[i]*T[i]", S=(4,), T=(4,))
    >>> spelled(one)[0] == spelled(other)[0], spelled(other)[1]
    (True, ('S', 'T'))
    """
    known = _SPELLED.get(id(scope))
    if known is None:
        numbers: dict[str, int] = {}
        known = scope, (_scope(scope, numbers), tuple(numbers))
        if len(_SPELLED) >= _MOST:
            _SPELLED.clear()
        _SPELLED[id(scope)] = known
    return known[1]


def _scope(scope: Scope, numbers: dict[str, int]) -> Hashable:
    return scope.iterators, scope.where, _body(scope.body, numbers)


def _body(body: Any, numbers: dict[str, int]) -> Hashable:
    if isinstance(body, Access):
        return _base(body.base, numbers), body.subscripts
    if isinstance(body, Reduce):
        return body.op, body.iterators, body.where, _body(body.body, numbers)
    if isinstance(body, IndexArithmetic) or not body.args:
        return body
    return body.func, tuple([_body(part, numbers) for part in body.args])


def _base(base: Any, numbers: dict[str, int]) -> Hashable:
    if isinstance(base, Padded):
        return base.amounts, base.fill, _base(base.base, numbers)
    if isinstance(base, Tensor):
        return numbers.setdefault(base.name, len(numbers)), base.kind
    return _scope(base, numbers)


def matched_once(
    scope: Scope, output: str, among: Hashable, find: Callable[[], Kernel | None]
) -> Kernel | None:
    """What `find` gives for a scope, or gave for one that is written alike, with the names of this one."""
    written, names = spelled(scope)
    known = _FOUND.get((written, among))
    if known is None:
        if len(_FOUND) >= _MOST:
            _FOUND.clear()
        known = _FOUND[written, among] = names, find()
    own, found = known
    return (
        None
        if found is None
        else _renamed(found, {**dict(zip(own, names)), found.output: output}, scope)
    )


def _renamed(kernel: Kernel, names: Mapping[str, str], scope: Scope) -> Kernel:
    views = tuple(replace(view, name=names.get(view.name, view.name)) for view in kernel.views)
    return replace(
        kernel,
        inputs=tuple(names.get(name, name) for name in kernel.inputs),
        output=names[kernel.output],
        scope=scope,
        views=views,
    )
