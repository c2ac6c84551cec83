"""Statements that differ in the names of their tensors alone share their code, as the equal layers of a network do (design §10)."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace

from codegen.ir import Buf, Function
from einalg.access import Constant, Tensor
from einalg.kernel import EOP, Kernel
from einalg.program import substitute_tensors
from einalg.scope import Scope
from einalg.traverse import accesses, reductions

Names = Mapping[str, str]


@dataclass(frozen=True)
class Unit:
    """A statement without the names of its tensors, of which equal `key`s need one code; `names` are these, in an order that equal units share."""

    key: Hashable
    names: tuple[str, ...]

    def renaming(self, other: Unit) -> Names:
        """The names of this unit's tensors to those of an equal one.

        >>> Unit("sum", ("A", "O")).renaming(Unit("sum", ("B", "P")))
        {'A': 'B', 'O': 'P'}
        """
        return dict(zip(self.names, other.names, strict=True))


def unit(kernel: Kernel, known: Mapping[str, Scope], ahead: Collection[str]) -> Unit:
    """A statement of a program, as code generation sees it; `ahead` names what is known before a run."""
    scope = known[kernel.output]
    uses = _uses(scope)
    order = sorted(scope.tensors.items(), key=lambda item: (item[0] in ahead, str(item[1].axes), item[1].dtype, uses[item[0]]))
    plain = substitute_tensors(scope, {name: _labelled(f"A{k}", tensor, name in ahead) for k, (name, tensor) in enumerate(order)})
    holes = tuple(name if name in known and known[name].where else None for name, _ in order)
    operator = kernel.op if kernel.op == EOP else str(replace(kernel, inputs=(), output="O"))
    return Unit((operator, plain.identity, holes), (*(name for name, _ in order), kernel.output))


def _uses(scope: Scope) -> dict[str, list[str]]:
    """How every tensor is read, in words without names."""
    names = {it.index.name: f"o{k}" for k, it in enumerate(scope.iterators)}
    for node in reductions(scope.body):
        names.update((it.index.name, f"r{len(names)}") for it in node.iterators)
    uses: dict[str, list[str]] = {name: [] for name in scope.tensors}
    for access in accesses(scope.body):
        uses[access.tensor.name].append(re.sub(r"\b[^\W\d]\w*", lambda word: names.get(word[0], word[0]), str(access.subscripts)))
    return {name: sorted(texts) for name, texts in uses.items()}


def _labelled(label: str, tensor: Tensor, ahead: bool) -> Tensor:
    if isinstance(tensor, Constant):
        return Constant(label, tensor.axes, tensor.dtype, tensor.values)
    return Tensor(label, tensor.axes, tensor.dtype, "weight" if ahead else "input")


def renamed(function: Function, names: Names) -> Function:
    """A function whose inputs and output have other names, to be called with; its body is as it was."""
    return replace(function, inputs=tuple(_named(b, names) for b in function.inputs), output=_named(function.output, names))


def _named(buf: Buf, names: Names) -> Buf:
    return replace(buf, name=names.get(buf.name, buf.name))
