"""Kernels as a C file: each with an entry that takes the addresses of its buffers (design §10)."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.nodes import Function
from codegen.targets.c.helpers import HALF, vector_declarations
from codegen.targets.c.printer import ALIGNED, Printer
from codegen.targets.c.vector_math import elementary

SEQUENCE = "kernels"  # the exported function that makes several calls in one
_SEQUENCE = f"""
void {SEQUENCE}(long count, void (*const *kernels)(void *const *), void *const *const *buffers) {{
  for (long k = 0; k < count; k++)
    kernels[k](buffers[k]);
}}
"""


def c_source(functions: Sequence[Function]) -> str:
    """A C file with one static function for each kernel, and for each an entry `kernel_<position>(void *const *buffers)`.

    The entry takes the inputs in order, then the output. What a kernel packs ahead has entries of its own. `kernels(count, entries, buffers)`
    calls several entries in order.
    """
    return _file([_printers(function) for function in functions]) + _SEQUENCE


_OWN: dict[
    int, tuple[Function, str]
] = {}  # by identity: comparing functions costs as much as printing them
_MOST_OWN = 256


def own_sources(functions: Sequence[Function]) -> list[str]:
    """The C file of each kernel by itself."""
    return [_own(function) for function in functions]


def _own(function: Function) -> str:
    found = _OWN.get(id(function))
    if found is None:
        if len(_OWN) >= _MOST_OWN:
            _OWN.clear()
        found = _OWN[id(function)] = function, _file([_printers(function)])
    return found[1]


def _printers(function: Function) -> tuple[Printer, list[Printer]]:
    return Printer(function), [Printer(pack) for pack in function.packs]


def _file(groups: Sequence[tuple[Printer, Sequence[Printer]]]) -> str:
    """A C file with kernels and what they pack ahead."""
    packs = [
        (pack, f"{position}_{n}")
        for position, (_, packs) in enumerate(groups)
        for n, pack in enumerate(packs)
    ]
    numbered = [*packs, *((printer, str(position)) for position, (printer, _) in enumerate(groups))]
    texts = [printer.function(position) for printer, position in numbered]
    helpers = dict.fromkeys(h for printer, _ in numbered for h in sorted(printer.helpers))
    uses_half = any(
        b.dtype == "f16"
        for printer, _ in groups
        for b in (*printer.source.inputs, printer.source.output)
    )
    head = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>"]
    called = {call for printer, _ in numbered for call in printer.called}
    head += [
        *vector_declarations(called - Printer.own),
        *elementary({name for name, _ in called & Printer.own}),
    ]
    arena = max((printer.arena for printer, _ in numbered), default=0)
    held = (
        [f"static _Thread_local char arena[{arena}] __attribute__((aligned({ALIGNED})));"]
        if arena
        else []
    )
    head += [*([HALF.rstrip()] if uses_half else []), *helpers, *held]
    return "\n".join(head) + "\n\n" + "\n".join(texts)


def entry_name(position: int, pack: int | None = None) -> str:
    """The exported function of the kernel at `position` of a C file, or of what it packs ahead.

    >>> entry_name(2), entry_name(2, 0)
    ('kernel_2', 'kernel_2_0')
    """
    return f"kernel_{position}" if pack is None else f"kernel_{position}_{pack}"
