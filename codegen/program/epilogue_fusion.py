"""Operators and the statements that read their results, as one kernel each (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lowering.guards import fills_gaps
from codegen.program.deduplicate import KernelSignature
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope


@dataclass(frozen=True)
class Fused:
    """`product` as it is matched, and the one statement that reads its results: `kernel` computes both.

    `unit` is what code of it depends on, and `scope` the statement as this code sees it.
    """

    product: Kernel
    kernel: Kernel
    scope: Scope
    unit: KernelSignature


def pairs(
    program: Program,
    kernels: Sequence[Kernel],
    ahead: Collection[str],
    unit_of: Callable[[Kernel], KernelSignature],
) -> dict[str, list[Fused]]:
    """For statements of a flat program, by their names, the operators that can be one kernel with them, the best place for it first.

    `ahead` names what is known before a run, which stays as it is.
    """
    known, makers = dict(program.statements), {kernel.output: kernel for kernel in kernels}
    order, readers = {name: k for k, name in enumerate(makers)}, _readers(program)

    def products(kernel: Kernel) -> list[str]:
        """The operators whose results an eOperator alone reads, the last first."""
        if not kernel.is_eop or kernel.output in ahead:
            return []
        alone = [
            name
            for name in known[kernel.output].tensors
            if name in makers and readers[name] == [kernel.output]
        ]
        usable = [
            name
            for name in alone
            if not makers[name].is_eop and name not in program.outputs and name not in ahead
        ]
        return sorted(usable, key=lambda name: -order[name])

    found = {
        kernel.output: [
            pair
            for name in products(kernel)
            if (pair := _pair(makers[name], kernel, known, unit_of))
        ]
        for kernel in kernels
    }
    return {name: some for name, some in found.items() if some}


def fused(
    program: Program,
    kernels: Sequence[Kernel],
    among: Mapping[str, Sequence[Fused]],
    is_better: Callable[[Fused], bool],
) -> tuple[Program, list[Kernel], dict[str, Fused]]:
    """A flat program with operators and their readers in one wherever that `is_better`; its kernels; and what is fused, by its output."""
    chosen = {
        name: next((pair for pair in some if is_better(pair)), None) for name, some in among.items()
    }
    found = {name: pair for name, pair in chosen.items() if pair}
    if not found:
        return program, list(kernels), found
    gone = {pair.product.output for pair in found.values()}
    scopes = {
        **dict(program.statements),
        **{name: pair.kernel.scope for name, pair in found.items()},
    }
    kept = [
        found[kernel.output].kernel if kernel.output in found else kernel
        for kernel in kernels
        if kernel.output not in gone
    ]
    return (
        Program([(kernel.output, scopes[kernel.output]) for kernel in kept], program.outputs),
        kept,
        found,
    )


def _readers(program: Program) -> Mapping[str, list[str]]:
    """The statements that read each tensor."""
    found: dict[str, list[str]] = {}
    for output, scope in program.statements:
        for name in scope.tensors:
            found.setdefault(name, []).append(output)
    return found


def _pair(
    product: Kernel,
    reader: Kernel,
    known: Mapping[str, Scope],
    unit_of: Callable[[Kernel], KernelSignature],
) -> Fused | None:
    """Two kernels as one.

    None where one of them knows of points without a value, or both read a tensor, one of them a part of it.
    """
    name = product.output
    if fills_gaps(known[reader.output], known):
        return None
    one, two = unit_of(product), unit_of(reader)
    if known[name].where or two.offsets.keys() & set(one.tensors) - {name} or two.offsets.get(name):
        return None
    tensors = dict.fromkeys(
        t for t in (*one.tensors, *two.tensors) if t not in (name, reader.output)
    )
    scope = substitute_tensors(known[reader.output], {name: known[name]})
    places = tuple(one.tensors.index(t) if t in one.tensors else -1 for t in two.tensors)
    offsets = {t: offset for t, offset in two.offsets.items() if t != name}
    own = KernelSignature(
        ("fused", one.key, two.key, places), (*tensors, reader.output), scope, offsets
    )
    inputs = (*product.inputs, *(t for t in tensors if t not in product.inputs))
    kernel = replace(
        product, inputs=inputs, output=reader.output, scope=scope, epilogue=known[reader.output]
    )
    return Fused(replace(product, scope=known[name]), kernel, two.scope, own)
