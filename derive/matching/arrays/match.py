"""Matching of operators on arrays of any rank: parameters are proposed from what a scope reads, and verified (design §7).

Nothing here knows an operator. What reads inner scopes is inlined first, so that the statements of a softmax are one scope. A proposal
is right where the definition, called with it, has the canonical key of the scope: both in the normal form of `matching.profile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice, permutations, product
from typing import Any

from derive.matching.arrays.axis_order import AxisOrder, in_output_order
from derive.matching.arrays.inlining import functions, inlined
from derive.matching.arrays.parameter_sources import SOURCES, ReadSummary
from derive.matching.patterns.normal_form import NormalForm, normal_form
from derive.matching.patterns.operand_views import strides
from derive.matching.patterns.scalar_parameters import as_python
from derive.matching.patterns.unify import Reason, unlike
from einalg.errors import EinalgError
from einalg.language.analysis.canonical import key
from einalg.language.index.identifiers import with_article
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor, unpadded
from einalg.language.ops.definition.axes import kept
from einalg.language.ops.templates import AnyTemplate, ArrayTemplate

UNLIKE = 1.0
MOST_TRIES = 48
SIZES = 2, 3  # of the axes of an example
NUMBER, BOOLEAN = "f32", "bool"
Solution = tuple[tuple[Any, ...], Mapping[str, Any]]  # operands, and the other arguments


def matches(scope: Scope, output: str, among: Sequence[AnyTemplate]) -> Iterator[Kernel]:
    """The kernels that compute a scope, in the order of the templates on arrays of any rank; others are passed over."""
    for template in among:
        if not isinstance(template, ArrayTemplate):
            continue
        whole = _whole(scope)
        solution = _solution(whole, template)
        if solution is not None:
            yield _kernel(whole, template, solution, scope, output)


def reasons(scope: Scope, template: ArrayTemplate) -> list[Reason]:
    """What separates a scope from an operator; empty exactly when it is one."""
    whole = _whole(scope)
    if not _alike(whole, template):
        return [
            unlike(
                whole.scope.body, _example(template, len(template.operands) + template.many).body
            )
        ]
    if _solution(whole, template) is not None:
        return []
    texts = dict.fromkeys(_failure(whole, template, *tried) for tried in _tries(whole, template))
    missing = (
        f"no {name} makes it {with_article(template.name)}" for name in _unsourced(whole, template)
    )
    return [
        Reason(
            next(iter(texts), None) or next(missing, f"it is no {template.name}"),
            UNLIKE,
            "parameters",
        )
    ]


class InlinedScope:
    """A scope with everything that it reads inlined, as it is written and with its operands' axes in the order of its own."""

    def __init__(self, scope: Scope):
        self.given = scope
        self.solutions: dict[int, Solution | None] = {}
        self._keys: dict[bool, Any] = {}

    @cached_property
    def functions(self) -> frozenset[str]:
        return functions(self.given)

    @cached_property
    def scope(self) -> Scope:
        return inlined(self.given)

    @cached_property
    def profile(self) -> NormalForm:
        return normal_form(self.scope)

    @cached_property
    def straight(self) -> AxisOrder:
        return in_output_order(self.profile.scope)

    def look(self, views: bool) -> ReadSummary:
        return ReadSummary(self.straight.scope if views else self.scope)

    def key(self, views: bool) -> Any:
        """What a definition must have to be this scope: of a view the shape is free."""
        if views not in self._keys:
            self._keys[views] = _key(
                self.straight.scope if views else self.profile.scope,
                None if views else self.scope.shape,
            )
        return self._keys[views]


def _whole(scope: Scope) -> InlinedScope:
    kept_there = normal_form(scope).solved
    found = kept_there.get("whole")
    if found is None:
        found = kept_there["whole"] = InlinedScope(scope)
    return found


def _key(normal_scope: Scope, shape: tuple[int, ...] | None) -> Any:
    return key(normal_scope), shape


def _solution(whole: InlinedScope, template: ArrayTemplate) -> Solution | None:
    """The first operands and arguments with which the definition is the scope, found once."""
    if id(template) not in whole.solutions:
        found = (
            tried for tried in _tries(whole, template) if _failure(whole, template, *tried) is None
        )
        whole.solutions[id(template)] = next(found, None) if _alike(whole, template) else None
    return whole.solutions[id(template)]


def _tries(whole: InlinedScope, template: ArrayTemplate) -> Iterator[Solution]:
    """Every assignment of tensors to operands with every proposal for each parameter."""
    if any(extent == 0 for extent in whole.profile.extents.values()):
        return
    look = whole.look(template.views)
    for operands in _operands(look, template):
        proposals = [list(SOURCES[source](look, operands)) for source in template.sources.values()]
        for row in islice(product(*proposals), MOST_TRIES):
            yield operands, dict(zip(template.sources, row))


def _unsourced(whole: InlinedScope, template: ArrayTemplate) -> Iterator[str]:
    """Parameters for which there is no proposal."""
    look = whole.look(template.views)
    for operands in _operands(look, template):
        yield from (
            name
            for name, source in template.sources.items()
            if not list(SOURCES[source](look, operands))
        )


def _operands(look: ReadSummary, template: ArrayTemplate) -> Iterator[tuple[Any, ...]]:
    """The tensors in every order that fits the ranks of the example; many operands in the order in which they lie along some axis."""
    if template.many:
        yield from look.joined_orders()
        return
    ranks = [len(letters) for letters in template.operands.values()]
    if len(look.bases) == len(ranks):
        for row in permutations(look.bases):
            if len(ranks) == 1 or all(
                (base.rank < look.rank) <= (rank < max(ranks)) for base, rank in zip(row, ranks)
            ):
                yield row


def _failure(
    whole: InlinedScope,
    template: ArrayTemplate,
    operands: Sequence[Any],
    arguments: Mapping[str, Any],
) -> str | None:
    """Why the definition with these arguments is not the scope, in words; None where it is."""
    try:
        built = template.build(operands, arguments)
    except EinalgError as error:
        return str(error).splitlines()[0]
    profile = NormalForm(inlined(built))
    if _key(profile.scope, None if template.views else built.shape) == whole.key(template.views):
        return None
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"{template.name} with {given} is {built}"


def _alike(whole: InlinedScope, template: ArrayTemplate) -> bool:
    """Whether the body has the operations of the definition's: what rules out most templates at little cost."""
    boolean = template.many and whole.given.dtype == "bool"
    if whole.functions != _functions(template, boolean):
        return False
    count = len(whole.look(template.views).bases) if template.many else len(template.operands)
    return count > 0 and whole.profile.skeleton == _skeleton(template, count, boolean)


@cache
def _functions(template: ArrayTemplate, boolean: bool) -> frozenset[str]:
    return functions(_example(template, len(SIZES), BOOLEAN if boolean else NUMBER))


@cache
def _skeleton(template: ArrayTemplate, count: int, boolean: bool) -> Any:
    return NormalForm(_example(template, count, BOOLEAN if boolean else NUMBER)).skeleton


@cache
def _example(template: ArrayTemplate, count: int, dtype: str = NUMBER) -> Scope:
    letters = sorted({letter for own in template.operands.values() for letter in own})
    sizes = dict(zip(letters, SIZES))
    shapes = {
        name: tuple(sizes[letter] for letter in own) for name, own in template.operands.items()
    }
    if template.many:
        ((name, shape),) = shapes.items()
        shapes = {f"{name}{k}": shape for k in range(count)}
    return inlined(
        template.build(
            [Tensor(name, shape, dtype) for name, shape in shapes.items()], template.example
        )
    )


def _kernel(
    whole: InlinedScope, template: ArrayTemplate, solution: Solution, scope: Scope, output: str
) -> Kernel:
    operands, arguments = solution
    sizes = {it.index.name: it.extent for it in scope.iterators}
    inputs = tuple(getattr(base, "name", "the inner scope") for base in operands)
    views = (
        *(whole.straight.view(base) if template.views else _natural(base) for base in operands),
        _natural(scope, output),
    )
    return Kernel(
        template.name,
        sizes,
        inputs,
        output,
        scope=scope,
        views=views,
        parameters=as_python({**arguments, **template.fixed}),
        plain=template.plain,
    )


def _natural(base: Any, name: str | None = None) -> View:
    """An array as it lies in memory."""
    shape = unpadded(base).shape
    axes = {
        letter.name: ((size, stride),)
        for letter, size, stride in zip(kept(len(shape)), shape, strides(shape))
    }
    return View(name or getattr(base, "name", "the inner scope"), 0, axes)
