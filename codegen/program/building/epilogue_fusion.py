"""Operators and the statements that read their results, as one kernel each (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.program.building.deduplicate import KernelSignature
from einalg.language.analysis.padded_reads import fills_gaps
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True)
class Fused:
    """An operator, `product`, and the one statement that reads its results: `kernel` computes both.

    `signature` is what code of it depends on, and `scope` the statement as this code sees it.
    """

    product: Kernel
    kernel: Kernel
    scope: Scope
    signature: KernelSignature


@dataclass(frozen=True)
class FusedProgram:
    """A flat program in which some operators and their readers are one kernel, by its output."""

    program: Program
    kernels: tuple[Kernel, ...]
    fused: Mapping[str, Fused]


def fusible_pairs(
    program: Program,
    kernels: Sequence[Kernel],
    constants: Collection[str],
    signatures: Mapping[str, KernelSignature],
) -> dict[str, list[Fused]]:
    """Return the operators that can be one kernel with a statement, by that statement's name.

    The best place for it comes first. `constants` are known before a run, and stay as they are.
    """
    scopes = dict(program.statements)
    products: dict[str, Kernel] = {}
    for kernel in kernels:
        if not kernel.is_eop or _reduces_products(scopes[kernel.output]):
            products[kernel.output] = kernel
    positions = {name: position for position, name in enumerate(products)}
    single_readers = _single_readers(program)
    pairs: dict[str, list[Fused]] = {}
    for reader in kernels:
        if not reader.is_eop or reader.output in constants:
            continue
        operands = [name for name in scopes[reader.output].tensors if name in positions]
        for name in sorted(operands, key=positions.__getitem__, reverse=True):
            if name in program.outputs or name in constants:
                continue
            if single_readers.get(name) != reader.output:
                continue
            if products[name].is_eop and not any(True for _ in reductions(scopes[reader.output].body)):
                continue
            pair = _pair(products[name], reader, scopes, signatures)
            if pair is not None:
                pairs.setdefault(reader.output, []).append(pair)
    return pairs


def fused_program(
    program: Program,
    kernels: Sequence[Kernel],
    candidates: Mapping[str, Sequence[Fused]],
    is_better: Callable[[Fused], bool],
) -> FusedProgram:
    """Return a program with operators and their readers in one wherever that `is_better`."""
    fused: dict[str, Fused] = {}
    for name, pairs in candidates.items():
        for pair in pairs:
            if is_better(pair):
                fused[name] = pair
                break
    if not fused:
        return FusedProgram(program, tuple(kernels), fused)
    products = {pair.product.output for pair in fused.values()}
    scopes = dict(program.statements)
    statements: list[tuple[str, Scope]] = []
    remaining: list[Kernel] = []
    for kernel in kernels:
        name = kernel.output
        if name in products:
            continue
        if name in fused:
            kernel = fused[name].kernel
            assert kernel.scope is not None
            scopes[name] = kernel.scope
        remaining.append(kernel)
        statements.append((name, scopes[name]))
    return FusedProgram(Program(statements, program.outputs), tuple(remaining), fused)


def _reduces_products(scope: Scope) -> bool:
    """Whether a statement is computed of one reduction, whose terms read several tensors."""
    reduces = list(reductions(scope.body))
    return len(reduces) == 1 and len({access.tensor for access in accesses(reduces[0].body)}) > 1


def _single_readers(program: Program) -> dict[str, str]:
    """Return the statement that alone reads a tensor, for each tensor that only one reads."""
    readers: dict[str, list[str]] = {}
    for output, scope in program.statements:
        for name in scope.tensors:
            readers.setdefault(name, []).append(output)
    return {name: outputs[0] for name, outputs in readers.items() if len(outputs) == 1}


def _pair(
    product: Kernel,
    reader: Kernel,
    scopes: Mapping[str, Scope],
    signatures: Mapping[str, KernelSignature],
) -> Fused | None:
    """Return two kernels as one.

    None where one of them knows of points without a value, or both read a tensor, one of them a
    part of it.
    """
    name = product.output
    if scopes[name].where or fills_gaps(scopes[reader.output], scopes):
        return None
    first, second = signatures[name], signatures[reader.output]
    if second.offsets.get(name) or second.offsets.keys() & set(first.tensors) - {name}:
        return None
    signature = _joint_signature(name, reader.output, scopes, signatures)
    inputs = list(product.inputs)
    inputs += [tensor for tensor in signature.tensors[:-1] if tensor not in product.inputs]
    kernel = replace(
        product,
        inputs=tuple(inputs),
        output=reader.output,
        scope=signature.scope,
        epilogue=scopes[reader.output],
    )
    return Fused(replace(product, scope=scopes[name]), kernel, second.scope, signature)


def _joint_signature(
    product: str,
    reader: str,
    scopes: Mapping[str, Scope],
    signatures: Mapping[str, KernelSignature],
) -> KernelSignature:
    """Return what the code of an operator with its reader depends on."""
    first, second = signatures[product], signatures[reader]
    tensors = dict.fromkeys((*first.tensors, *second.tensors))
    del tensors[product]
    tensors.pop(reader, None)
    scope = substitute_tensors(scopes[reader], {product: scopes[product]})
    positions = {name: position for position, name in enumerate(first.tensors)}
    places = tuple(positions.get(name, -1) for name in second.tensors)
    offsets = {name: offset for name, offset in second.offsets.items() if name != product}
    key = ("fused", first.key, second.key, places)
    return KernelSignature(key, (*tensors, reader), scope, offsets)
