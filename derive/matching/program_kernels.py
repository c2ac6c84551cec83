"""Kernels of a program: each statement as the operator that it is, or as an eOperator."""

from __future__ import annotations

from collections.abc import Sequence

from derive.matching.match import match
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, unpadded
from einalg.language.ir.traversal import accesses
from einalg.language.ops.templates import TEMPLATES, Template


def kernels_of(program: Program, templates: Sequence[Template] = TEMPLATES) -> tuple[Kernel, ...]:
    """Return a kernel for each statement of a flat program: its operator, or an eOperator."""
    return tuple(kernel_of(name, scope, templates) for name, scope in program.statements)


def kernel_of(name: str, scope: Scope, templates: Sequence[Template] = TEMPLATES) -> Kernel:
    """Return the kernel of one statement."""
    if not multiplies_by_constants(scope):
        kernel = match(scope, name, templates)
        if kernel:
            return kernel
    sizes = {it.index.name: it.extent for it in scope.iterators}
    return Kernel(EOP, sizes, tuple(scope.tensors), name, scope=scope)


def multiplies_by_constants(scope: Scope) -> bool:
    """Tell whether a scope reads a constant, as those do that a factorisation makes."""
    return any(isinstance(unpadded(access.base), Constant) for access in accesses(scope.body))
