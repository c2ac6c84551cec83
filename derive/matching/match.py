"""Matching: a scope as a kernel of a library operator, with its parameters solved for and verified
(design §7).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import sympy

from derive.matching.arrays import match as arrays
from derive.matching.match_cache import match_once
from derive.matching.patterns.instantiate import Instance, instantiate
from derive.matching.patterns.normal_form import NormalForm, ReadAxis, normal_form
from derive.matching.patterns.operand_views import operand_view, output_view, read_name, role_order
from derive.matching.patterns.pattern import Pattern, pattern_of
from derive.matching.patterns.reason import DISTANCE_WEIGHTS, Reason, body_mismatch
from derive.matching.patterns.scalar_parameters import as_python, numbers, parameter_values
from derive.matching.patterns.unify import Assignment, assignments
from einalg.boundary import similar
from einalg.errors import EinalgError, MatchError
from einalg.language.analysis.canonical import key
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.identifiers import with_article
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access
from einalg.language.ops.templates import EVERY, AnyTemplate, ArrayTemplate, Setting, Template

OTHER_SIZES = "its strides, offsets or sizes are not those of such an operator"
OTHER_NUMBERS = "its numbers, strides, offsets or sizes are not those of such an operator"
ANY_NUMBER = sympy.Integer(7)  # in the place of every number, where only the rest is compared
MAX_TEMPLATE_LISTS = 64
MAX_CACHED_DEFINITIONS = 4096
OTHER_NAMES = {  # that frameworks and libraries have for an operator
    **dict.fromkeys(("gemm", "mm", "bmm", "dot", "dense", "linear", "fc", "einsum"), "matmul"),
    **dict.fromkeys(("convolution", "conv2"), "conv2d"),
    **dict.fromkeys(("deconv", "deconvolution", "deconv2d"), "conv_transpose2d"),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "reduction"), "reduce"),
    **dict.fromkeys(("permute", "swapaxes", "movedim"), "transpose"),
    **dict.fromkeys(("view", "flatten", "squeeze", "unsqueeze"), "reshape"),
    **dict.fromkeys(("cat", "concatenate", "stack"), "concat"),
    **dict.fromkeys(("divide", "truediv"), "div"),
}
Item = TypeVar("Item")
Candidate = tuple[Pattern, Assignment]


class Solution(NamedTuple):
    """How a scope is an operator: the roles of its indices, the integers and the numbers with which
    the definition is called.

    For `O[h:4] += A[2*h+r]*K[r]` the values of a convolution are `{("stride", "w", ""): 2, …}`.
    """

    pattern: Pattern
    assignment: Assignment
    values: Mapping[Setting, int]
    numbers: Mapping[str, Any]


def templates(name: str | None = None) -> tuple[AnyTemplate, ...]:
    """Return all templates, or those of one operator; `MatchError` for a name that none has."""
    named = tuple(template for template in EVERY if name in (None, template.name))
    if not named:
        raise no_template(str(name))
    return named


def no_template(name: str) -> MatchError:
    """Return the error of an operator that nothing is matched with, with those that may be meant.

    >>> print(no_template("conv").message)
    there is no template 'conv'
      write 'conv2d'; similar: conv1d, conv3d
    """
    known = list(dict.fromkeys(template.name for template in EVERY))
    meant = [OTHER_NAMES[name.lower()]] if name.lower() in OTHER_NAMES else similar(name, known)
    remedy = f"known: {', '.join(known)}"
    if meant:
        remedy = f"write {meant[0]!r}"
        if len(meant) > 1:
            remedy += f"; similar: {', '.join(meant[1:3])}"
    return MatchError(f"there is no template {name!r}\n  {remedy}")


def matches(scope: Scope, output: str, among: Sequence[AnyTemplate] = EVERY) -> Iterator[Kernel]:
    """Yield the kernels that compute a scope, the one that leaves the fewest roles of its operator
    empty first.
    """
    normalized = normal_form(scope)
    has_inner_scopes = bool(inner_scopes(scope))
    if has_inner_scopes:  # all of it is one operator, rather than what is outermost
        yield from arrays.matches(scope, output, among)
    for solution in _solutions(normalized, _templates_with_body(normalized, among)):
        yield _kernel(normalized, solution, scope, output)
    if not has_inner_scopes:
        yield from arrays.matches(scope, output, among)


def match(scope: Scope, output: str, among: Sequence[AnyTemplate] = EVERY) -> Kernel | None:
    """Return the first of `matches`, or None."""

    def first() -> Kernel | None:
        return next(matches(scope, output, among), None)

    return match_once(scope, output, tuple(among), first)


def reasons(scope: Scope, template: AnyTemplate) -> list[Reason]:
    """Return what separates a scope from an operator; empty exactly when it is one."""
    if isinstance(template, ArrayTemplate):
        return arrays.reasons(scope, template)
    normalized, pattern = normal_form(scope), pattern_of(template)
    candidates = sorted(assignments(normalized, pattern), key=lambda candidate: candidate.weight)
    if not candidates:
        return [body_mismatch(scope.body, pattern.plainest_body)]
    if candidates[0].reasons:
        return candidates[0].reasons
    fitting = [candidate for candidate in candidates if not candidate.reasons]
    for assignment in fitting:
        if _solution(normalized, pattern, assignment) is not None:
            return []
    text = _parameter_mismatch(normalized, pattern, fitting)
    return [Reason(text, DISTANCE_WEIGHTS.parameters, "parameters")]


def _parameter_mismatch(
    normalized: NormalForm, pattern: Pattern, fitting: Iterable[Assignment]
) -> str:
    """Say which parameters no operator has, where all indices have their roles."""
    for assignment in fitting:
        text = _number_mismatch(normalized, pattern, assignment)
        if text:
            return text
    if pattern.template.numbers:
        return OTHER_NUMBERS
    return OTHER_SIZES


def _number_mismatch(
    normalized: NormalForm, pattern: Pattern, assignment: Assignment
) -> str | None:
    """Say that the numbers are others, where the definition is the scope but for these; None
    elsewhere.
    """
    target, values = _solved_settings(normalized, pattern, assignment)
    if target is None or values is None or pattern.template.numbers:
        return None
    try:
        definition = pattern.template.build(target.shapes, values, {}, target.dtypes)
    except EinalgError:
        return None
    if key(_with_one_number(definition)) != key(_with_one_number(target.scope)):
        return None
    operator = with_article(pattern.template.name)
    return (
        f"its numbers are {_numbers_text(target.scope)}, where {operator} of these sizes has "
        f"{_numbers_text(definition)}"
    )


def _numbers_text(scope: Scope) -> str:
    texts = []
    for number in numbers(scope.body):
        if number.is_Float:
            number = float(number)
        texts.append(str(number))
    return ", ".join(dict.fromkeys(texts))


def _with_one_number(scope: Scope) -> Scope:
    """Return a scope with the same number in the place of all numbers of its body."""
    return Scope(scope.iterators, scope.where, _body_with_one_number(scope.body))


def _body_with_one_number(node: Any) -> Any:
    if isinstance(node, Reduce):
        return Reduce(node.op, node.iterators, node.where, _body_with_one_number(node.body))
    if isinstance(node, (Access, IndexArithmetic)):
        return node
    if node.args:
        return node.func(*map(_body_with_one_number, node.args))
    if node.is_number:
        return ANY_NUMBER
    return node


class CachedIterator(Generic[Item]):
    """An iterable over what an iterator yields; each item is computed when it is first asked for,
    and only then.
    """

    def __init__(self, source: Iterator[Item]):
        self._source = source
        self._items: list[Item] = []

    def __iter__(self) -> Iterator[Item]:
        position = 0
        while True:
            while position < len(self._items):
                yield self._items[position]
                position += 1
            try:
                self._items.append(next(self._source))
            except StopIteration:
                return


def plausible_templates(
    normalized: NormalForm, among: tuple[Template, ...]
) -> tuple[Template, ...]:
    """Return the templates with the body of a scope, and as many windows as it has, or none: the
    others say nothing that these do not.
    """
    cached = normalized.cache.get(("plausible", among))
    if cached is None:
        cached = _with_similar_windows(normalized, _templates_with_body(normalized, among))
        normalized.cache["plausible", among] = cached
    return cached


def _with_similar_windows(
    normalized: NormalForm, candidates: Sequence[Template]
) -> tuple[Template, ...]:
    shared = _shared_axes(normalized)
    window_counts = _window_counts(normalized, shared, candidates)
    has_quotients = any(not axis.form.is_affine() for axis in shared)
    similar = []
    for template in candidates:
        pattern = pattern_of(template)
        has_same_kind = not pattern.mixed or pattern.has_quotients == has_quotients
        if has_same_kind and len(pattern.mixed) in window_counts:
            similar.append(template)
    return tuple(similar)


def _shared_axes(normalized: NormalForm) -> list[ReadAxis]:
    """List the axes that several indices share, as a window and the output share one."""
    return [axis for read in normalized.reads for axis in read.axes if axis.index is None]


def _window_counts(
    normalized: NormalForm, shared: Sequence[ReadAxis], candidates: Sequence[Template]
) -> set[int]:
    """Return how many windows an operator may have to be worth a look: 0, the numbers between those
    that the scope must and may have, and the next ones to these.
    """
    available = sorted({len(pattern_of(template).mixed) for template in candidates})
    least = sum(not normalized.separable(axis) for axis in shared)
    up_to_most = available[: bisect_right(available, len(shared))]
    from_least = available[bisect_left(available, least) :]
    counts = {0, *up_to_most[-1:]}
    counts.update(set(up_to_most) & set(from_least))
    if least > 0:
        counts.update(from_least[:1])
    return counts


# By identity of the list, which is kept for that: there are few lists, and long ones.
_BY_BODY: dict[int, tuple[Any, Mapping[Any, tuple[Template, ...]]]] = {}


def _templates_with_body(
    normalized: NormalForm, among: Sequence[AnyTemplate]
) -> tuple[Template, ...]:
    """Return the templates with the body of a scope."""
    cached = _BY_BODY.get(id(among))
    if cached is None:
        if len(_BY_BODY) >= MAX_TEMPLATE_LISTS:
            _BY_BODY.clear()
        cached = _BY_BODY[id(among)] = among, _by_body(among)
    return cached[1].get(normalized.skeleton, ())


def _by_body(among: Sequence[AnyTemplate]) -> dict[Any, tuple[Template, ...]]:
    by_body: dict[Any, tuple[Template, ...]] = {}
    for template in among:
        if isinstance(template, Template):
            skeleton = pattern_of(template).example.skeleton
            by_body[skeleton] = (*by_body.get(skeleton, ()), template)
    return by_body


def _solutions(normalized: NormalForm, among: tuple[Template, ...]) -> Iterable[Solution]:
    """Return one solution a template at most, the fullest first; each is computed when it is asked
    for, once.
    """
    cached = normalized.cache.get(among)
    if cached is None:
        cached = CachedIterator(_verified(normalized, _candidates(normalized, among)))
        normalized.cache[among] = cached
    return cached


def _candidates(normalized: NormalForm, among: tuple[Template, ...]) -> list[Candidate]:
    """List the assignments against which there is no reason, those of the fewest roles first."""
    candidates = []
    for template in plausible_templates(normalized, among):
        pattern = pattern_of(template)
        for assignment in assignments(normalized, pattern):
            if not assignment.reasons:
                candidates.append((pattern, assignment))
    candidates.sort(key=lambda candidate: len(candidate[0].roles))
    return candidates


def _verified(normalized: NormalForm, candidates: Iterable[Candidate]) -> Iterator[Solution]:
    solved: set[Template] = set()
    for pattern, assignment in candidates:
        if pattern.template not in solved:
            solution = _solution(normalized, pattern, assignment)
            if solution is not None:
                solved.add(pattern.template)
                yield solution


def _solution(normalized: NormalForm, pattern: Pattern, assignment: Assignment) -> Solution | None:
    """Return the parameters with which the definition has the key of the scope; None where there
    are none.
    """
    if 0 in normalized.extents.values():
        return None
    target, values = _solved_settings(normalized, pattern, assignment)
    if target is None or values is None:
        return None
    template, wanted = pattern.template, key(target.scope)
    for row in parameter_values(template.numbers, target.scope.body, pattern.example.scope.body):
        if _definition_key(template, target, values, row) == wanted:
            return Solution(pattern, assignment, values, row)
    return None


def _solved_settings(
    normalized: NormalForm, pattern: Pattern, assignment: Assignment
) -> tuple[Instance | None, dict[Setting, int] | None]:
    """Return the scope over the roles of the pattern, and the integers that make the definition
    look like it; None for what there is not.
    """
    target = instantiate(normalized, pattern, assignment)
    if target is None:
        return None, None
    return target, pattern.solve(target.scope, target.shapes)


def _definition_key(
    template: Template, target: Instance, values: Mapping[Setting, int], row: Mapping[str, Any]
) -> Any:
    """Return the key of the definition with these parameters; None where it has no meaning."""
    numbers = tuple([(name, type(value), value) for name, value in row.items()])
    shapes, dtypes = tuple(target.shapes.items()), tuple(target.dtypes.items())
    return _cached_definition_key(template, shapes, tuple(values.items()), numbers, dtypes)


@lru_cache(MAX_CACHED_DEFINITIONS)
def _cached_definition_key(
    template: Template,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    values: tuple[tuple[Setting, int], ...],
    numbers: tuple[tuple[str, type, Any], ...],
    dtypes: tuple[tuple[str, str], ...],
) -> Any:
    """Return `_definition_key`; a search meets an operator of the same sizes again and again.

    The types of numbers keep 1 and 1.0 apart.
    """
    row = {name: value for name, _, value in numbers}
    try:
        return key(template.build(dict(shapes), dict(values), row, dict(dtypes)))
    except EinalgError:
        return None


def _kernel(normalized: NormalForm, solution: Solution, scope: Scope, output: str) -> Kernel:
    pattern, assignment, _, scalars = solution
    template = pattern.template
    names, views = [], []
    for name in template.operands:
        names.append(read_name(normalized.reads[assignment.operands[name]].access))
        views.append(operand_view(normalized, pattern, assignment, name))
    views.append(output_view(normalized, pattern, assignment, output))
    parameters = {}
    if template.plain:
        parameters = as_python({**template.fixed, **scalars})
    return Kernel(
        template.name,
        _sizes(normalized, solution),
        tuple(names),
        output,
        scope=scope,
        views=tuple(views),
        parameters=parameters,
        plain=template.plain,
    )


def _sizes(normalized: NormalForm, solution: Solution) -> dict[str, int]:
    """Return the sizes of an operator by name: extents of roles, parameters that do not have their
    least value, and the number of instances.
    """
    pattern, assignment, values, _ = solution
    template = pattern.template
    sizes = {}
    for role in role_order(pattern):
        sizes[role] = normalized.points(assignment.roles.get(role, ()))
    least = template.settings()
    for setting, value in values.items():
        if value != least[setting]:
            sizes["_".join(part for part in setting if part)] = value
    if assignment.batch:
        assert template.batch is not None
        sizes[template.batch] = normalized.points(assignment.batch)
    return sizes
