"""Operators and the statements that read their results, as one kernel each (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.program.building.deduplicate import KernelSignature
from codegen.tuning.spaces.unit import Reader
from einalg.language.analysis.padded_reads import fills_gaps
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True)
class Fused:
    """An operator, `product`, and statements that are one `kernel` with it.

    Each of `readers`, as its code sees it, is the only one that reads the results of the one before
    it. `signature` is what code of them depends on.
    """

    product: Kernel
    kernel: Kernel
    readers: tuple[Reader, ...]
    signature: KernelSignature

    @property
    def inside(self) -> list[str]:
        """Return the statements that have no kernel of their own then."""
        return [self.product.output, *(name for name, _ in self.readers[:-1])]


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
    search = _FusionSearch(program, kernels, constants, signatures)
    pairs: dict[str, list[Fused]] = {}
    for reader in kernels:
        found = list(search.of(reader))
        if found:
            pairs[reader.output] = found
    return pairs


class _FusionSearch:
    """Looks for operators that a statement reads, at once or through another statement."""

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        constants: Collection[str],
        signatures: Mapping[str, KernelSignature],
    ):
        self.scopes, self.signatures = dict(program.statements), signatures
        self.by_output = {kernel.output: kernel for kernel in kernels}
        self.positions = {kernel.output: position for position, kernel in enumerate(kernels)}
        self.constants = constants
        self.single_readers = _single_readers(program)
        for name in (*program.outputs, *constants):
            self.single_readers.pop(name, None)

    def of(self, reader: Kernel) -> Iterator[Fused]:
        """Yield what a statement may be one kernel with."""
        name = reader.output
        if not reader.is_eop or name in self.constants:
            return
        has_rows = _has_reductions(self.scopes[name])
        if has_rows and self.scopes[name].where:
            return  # slices have all of their values
        for operand in self._operands(name):
            if self._is_product(operand, has_rows):
                yield from self._fused(operand, (name,))
        for between in self._operands(name):
            is_plain = self.by_output[between].is_eop and not _has_reductions(self.scopes[between])
            if has_rows and is_plain:
                for operand in self._operands(between):
                    if self._is_product(operand, False):
                        yield from self._fused(operand, (between, name))

    def _operands(self, name: str) -> list[str]:
        """Return the statements that only one of a name reads, the last ones first."""
        tensors = self.scopes[name].tensors
        own = [tensor for tensor in tensors if self.single_readers.get(tensor) == name]
        known = [tensor for tensor in own if tensor in self.positions]
        return sorted(known, key=self.positions.__getitem__, reverse=True)

    def _is_product(self, name: str, has_rows: bool) -> bool:
        """Whether a statement is an operator; for a reader that `has_rows`, any sum of products."""
        if not self.by_output[name].is_eop:
            return True
        return has_rows and _reduces_products(self.scopes[name])

    def _fused(self, product: str, readers: Sequence[str]) -> Iterator[Fused]:
        """Yield an operator with its readers as one kernel.

        None where one of them knows of points without a value, or two read a tensor, one of them a
        part of it.
        """
        signatures = [self.signatures[name] for name in (product, *readers)]
        offsets: dict[str, int] = {}
        inside = {product, *readers}
        for number, signature in enumerate(signatures):
            if any(signature.offsets.get(name) for name in inside):
                return
            others = {name for n, s in enumerate(signatures) if n != number for name in s.tensors}
            if signature.offsets.keys() & others - inside:
                return
            offsets |= signature.offsets
        if self.scopes[product].where or any(
            fills_gaps(self.scopes[name], self.scopes) for name in readers
        ):
            return
        if any(self.scopes[name].where for name in readers[:-1]):
            return
        yield self._one_kernel(product, readers, offsets)

    def _one_kernel(
        self, product: str, readers: Sequence[str], offsets: Mapping[str, int]
    ) -> Fused:
        first, operator = self.signatures[product], self.by_output[product]
        last = readers[-1]
        tensors, scope = dict.fromkeys(first.tensors), self.scopes[product]
        parts, epilogue = [first.key], self.scopes[last]
        previous = product
        for name in readers:
            own = self.signatures[name]
            positions = {tensor: position for position, tensor in enumerate(tensors)}
            parts.append((own.key, tuple(positions.get(tensor, -1) for tensor in own.tensors)))
            tensors |= dict.fromkeys(own.tensors)
            del tensors[previous]
            scope = substitute_tensors(self.scopes[name], {previous: scope})
            previous = name
        del tensors[last]
        for name in reversed(readers[:-1]):
            epilogue = substitute_tensors(epilogue, {name: self.scopes[name]})
        used = {name: offset for name, offset in offsets.items() if name in tensors}
        signature = KernelSignature(("fused", *parts), (*tensors, last), scope, used)
        inputs = list(operator.inputs)
        inputs += [name for name in tensors if name not in inputs]
        kernel = replace(
            operator, inputs=tuple(inputs), output=last, scope=scope, epilogue=epilogue
        )
        seen = tuple((name, self.signatures[name].scope) for name in readers)
        return Fused(replace(operator, scope=first.scope), kernel, seen, signature)


def fused_program(
    program: Program,
    kernels: Sequence[Kernel],
    candidates: Mapping[str, Sequence[Fused]],
    is_better: Callable[[Fused], bool],
) -> FusedProgram:
    """Return a program with operators and their readers in one wherever that `is_better`."""
    fused = dict(chosen_pairs(candidates, is_better))
    if not fused:
        return FusedProgram(program, tuple(kernels), fused)
    products = {name for pair in fused.values() for name in pair.inside}
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


def chosen_pairs(
    candidates: Mapping[str, Sequence[Fused]], is_better: Callable[[Fused], bool]
) -> Iterator[tuple[str, Fused]]:
    """Yield the first pair of each statement that `is_better`, with the statement's name.

    Operators with several readers are asked first: they have something in between that would be one
    kernel with the operator, too.
    """
    chosen: set[str] = set()
    inside: set[str] = set()
    for has_several in (True, False):
        for name, pairs in candidates.items():
            for pair in pairs:
                if (len(pair.readers) > 1) != has_several or name in chosen | inside:
                    continue
                if not chosen & set(pair.inside) and is_better(pair):
                    chosen.add(name)
                    inside.update(pair.inside)
                    yield name, pair


def _has_reductions(scope: Scope) -> bool:
    return any(True for _ in reductions(scope.body))


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
