"""Matching of operators on arrays of any rank: parameters are proposed from what a scope reads, and
verified (design §7).

Nothing here knows an operator. What reads inner scopes is inlined first, so that the statements of
a softmax are one scope. A proposal is right where the definition, called with it, has the canonical
key of the scope: both in the normal form of `matching.patterns.normal_form`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice, permutations, product
from typing import Any

from derive.matching.arrays.axis_order import AxisOrder, contiguous_view, in_output_order
from derive.matching.arrays.inlining import functions, inlined
from derive.matching.arrays.parameter_sources import SOURCES, ReadSummary
from derive.matching.patterns.normal_form import NormalForm, normal_form
from derive.matching.patterns.reason import DISTANCE_WEIGHTS, Reason, body_mismatch
from derive.matching.patterns.scalar_parameters import as_python
from einalg.errors import EinalgError, first_line
from einalg.language.analysis.canonical import key
from einalg.language.index.identifiers import with_article
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.templates import AnyTemplate, ArrayTemplate

MAX_PROPOSALS = 48  # of parameters, for one order of the operands
EXAMPLE_SIZES = 2, 3  # of the axes of an example
NUMBER, BOOLEAN = "f32", "bool"
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]  # operands, and the other arguments


class InlinedScope:
    """A scope with everything that it reads inlined, as it is written and with its operands' axes
    in the order of its own.
    """

    def __init__(self, original: Scope):
        self.original = original
        self.solutions: dict[int, Arguments | None] = {}  # by the identity of the template
        self._keys: dict[bool, Any] = {}

    @cached_property
    def functions(self) -> frozenset[str]:
        return functions(self.original)

    @cached_property
    def scope(self) -> Scope:
        return inlined(self.original)

    @cached_property
    def normalized(self) -> NormalForm:
        return normal_form(self.scope)

    @cached_property
    def in_order(self) -> AxisOrder:
        return in_output_order(self.normalized.scope)

    def summary(self, views: bool) -> ReadSummary:
        """Return what sources see, with `views` of operands whose axes are in order."""
        if views:
            return ReadSummary(self.in_order.scope)
        return ReadSummary(self.scope)

    def key(self, views: bool) -> Any:
        """Return what a definition must have to be this scope: of a view the shape is free."""
        if views not in self._keys:
            if views:
                self._keys[views] = key(self.in_order.scope), None
            else:
                self._keys[views] = key(self.normalized.scope), self.scope.shape
        return self._keys[views]


def matches(scope: Scope, output: str, among: Sequence[AnyTemplate]) -> Iterator[Kernel]:
    """Yield the kernels that compute a scope, in the order of the templates on arrays of any rank;
    others are passed over.
    """
    for template in among:
        if isinstance(template, ArrayTemplate):
            whole = _inlined_scope(scope)
            arguments = _solution(whole, template)
            if arguments is not None:
                yield _kernel(whole, template, arguments, scope, output)


def reasons(scope: Scope, template: ArrayTemplate) -> list[Reason]:
    """Return what separates a scope from an operator; empty exactly when it is one."""
    whole = _inlined_scope(scope)
    if not _has_body_of(whole, template):
        count = len(template.operands) + template.many
        return [body_mismatch(whole.scope.body, _example(template, count).body)]
    if _solution(whole, template) is not None:
        return []
    text = _failed_proposal(whole, template)
    return [Reason(text, DISTANCE_WEIGHTS.parameters, "parameters")]


def _failed_proposal(whole: InlinedScope, template: ArrayTemplate) -> str:
    """Say what the first proposal comes to, or for which parameter there is none."""
    for arguments in _proposals(whole, template):
        text = _failure(whole, template, arguments)
        if text is not None:
            return text
    for name in _unsourced(whole, template):
        return f"no {name} makes it {with_article(template.name)}"
    return f"it is no {template.name}"


def _inlined_scope(scope: Scope) -> InlinedScope:
    """Return the inlined form of a scope, made once."""
    cache_of_scope = normal_form(scope).cache
    cached = cache_of_scope.get("inlined")
    if cached is None:
        cached = cache_of_scope["inlined"] = InlinedScope(scope)
    return cached


def _solution(whole: InlinedScope, template: ArrayTemplate) -> Arguments | None:
    """Return the first operands and arguments with which the definition is the scope, solved for
    once.
    """
    if id(template) not in whole.solutions:
        whole.solutions[id(template)] = _solved(whole, template)
    return whole.solutions[id(template)]


def _solved(whole: InlinedScope, template: ArrayTemplate) -> Arguments | None:
    if not _has_body_of(whole, template):
        return None
    for arguments in _proposals(whole, template):
        if _failure(whole, template, arguments) is None:
            return arguments
    return None


def _proposals(whole: InlinedScope, template: ArrayTemplate) -> Iterator[Arguments]:
    """Yield every assignment of tensors to operands with every proposal for each parameter."""
    if 0 in whole.normalized.extents.values():
        return
    summary = whole.summary(template.views)
    for operands in _operand_orders(summary, template):
        values = [list(SOURCES[source](summary, operands)) for source in template.sources.values()]
        for row in islice(product(*values), MAX_PROPOSALS):
            yield operands, dict(zip(template.sources, row))


def _unsourced(whole: InlinedScope, template: ArrayTemplate) -> Iterator[str]:
    """Yield the parameters for which there is no proposal."""
    summary = whole.summary(template.views)
    for operands in _operand_orders(summary, template):
        for name, source in template.sources.items():
            if not list(SOURCES[source](summary, operands)):
                yield name


def _operand_orders(summary: ReadSummary, template: ArrayTemplate) -> Iterator[tuple[Any, ...]]:
    """Yield the tensors in every order that fits the ranks of the example; many operands in the
    order in which they lie along some axis.
    """
    if template.many:
        yield from summary.joined_orders()
        return
    ranks = [len(letters) for letters in template.operands.values()]
    if len(summary.bases) == len(ranks):
        for row in permutations(summary.bases):
            if len(ranks) == 1 or _fit_ranks(row, ranks, summary.rank):
                yield row


def _fit_ranks(operands: Sequence[Any], ranks: Sequence[int], result_rank: int) -> bool:
    """Return whether no operand is smaller than the result where that of the example is not."""
    for base, rank in zip(operands, ranks):
        if base.rank < result_rank and rank >= max(ranks):
            return False
    return True


def _failure(whole: InlinedScope, template: ArrayTemplate, proposal: Arguments) -> str | None:
    """Say why the definition with these arguments is not the scope; None where it is."""
    operands, arguments = proposal
    try:
        definition = template.build(operands, arguments)
    except EinalgError as error:
        return first_line(error)
    shape = definition.shape
    if template.views:
        shape = None
    if (key(NormalForm(inlined(definition)).scope), shape) == whole.key(template.views):
        return None
    values = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"{template.name} with {values} is {definition}"


def _has_body_of(whole: InlinedScope, template: ArrayTemplate) -> bool:
    """Return whether the body has the operations of the definition's: what rules out most templates
    at little cost.
    """
    dtype = NUMBER
    if template.many and whole.original.dtype == BOOLEAN:
        dtype = BOOLEAN
    if whole.functions != _functions(template, dtype):
        return False
    count = len(template.operands)
    if template.many:
        count = len(whole.summary(template.views).bases)
    return count > 0 and whole.normalized.skeleton == _skeleton(template, count, dtype)


@cache
def _functions(template: ArrayTemplate, dtype: str) -> frozenset[str]:
    return functions(_example(template, len(EXAMPLE_SIZES), dtype))


@cache
def _skeleton(template: ArrayTemplate, count: int, dtype: str) -> Any:
    return NormalForm(_example(template, count, dtype)).skeleton


@cache
def _example(template: ArrayTemplate, count: int, dtype: str = NUMBER) -> Scope:
    """Return one instance of a definition, of `count` operands where it has many."""
    letters = sorted(set("".join(template.operands.values())))
    sizes = dict(zip(letters, EXAMPLE_SIZES))
    operands = []
    for name, its_letters in template.operands.items():
        shape = tuple(sizes[letter] for letter in its_letters)
        if template.many:
            operands += [Tensor(f"{name}{k}", shape, dtype) for k in range(count)]
        else:
            operands.append(Tensor(name, shape, dtype))
    return inlined(template.build(operands, template.example))


def _kernel(
    whole: InlinedScope,
    template: ArrayTemplate,
    solution: Arguments,
    scope: Scope,
    output: str,
) -> Kernel:
    operands, arguments = solution
    inputs, views = [], []
    for base in operands:
        name = getattr(base, "name", "the inner scope")
        inputs.append(name)
        if template.views:
            views.append(whole.in_order.view(base))
        else:
            views.append(contiguous_view(base, name))
    views.append(contiguous_view(scope, output))
    return Kernel(
        template.name,
        {it.index.name: it.extent for it in scope.iterators},
        tuple(inputs),
        output,
        scope=scope,
        views=tuple(views),
        parameters=as_python({**arguments, **template.fixed}),
        plain=template.plain,
    )
