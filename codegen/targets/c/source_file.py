"""Kernels as a C file: each with an entry that takes the addresses of its buffers (design §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.ir.nodes import Function
from codegen.targets.c.functions.conversions import conversions
from codegen.targets.c.functions.elementary import elementary
from codegen.targets.c.functions.library import vector_declarations
from codegen.targets.c.printer import ARENA_ALIGNMENT_BYTES, Printer
from einalg.runtime.live_entries import LiveEntries

SEQUENCE = "kernels"  # the exported function that makes several calls in one
_SEQUENCE = f"""
void {SEQUENCE}(long count, void (*const *kernels)(void *const *), void *const *const *buffers) {{
  for (long k = 0; k < count; k++)
    kernels[k](buffers[k]);
}}
"""
# By identity, since comparing functions costs as much as printing them.
_PRINTERS: LiveEntries[Function, Printer] = LiveEntries()


def c_source(functions: Sequence[Function]) -> str:
    """Return a C file with an entry `kernel_<position>(void *const *buffers)` for each kernel.

    An entry takes the inputs in order, then the output. What a kernel packs ahead has entries of
    its own. `kernels(count, entries, buffers)` calls several entries in order.
    """
    return _file(functions) + _SEQUENCE


def own_sources(functions: Sequence[Function]) -> list[str]:
    """Return the C file of each kernel by itself."""
    return [_file([function]) for function in functions]


def _printer(function: Function) -> Printer:
    """Return the printer of a function, which prints the body once, whatever files it is in."""
    cached = _PRINTERS.get(id(function))
    if cached is not None and cached[0] is function:
        return cached[1]
    printer = Printer(function)
    _PRINTERS.put(id(function), function, printer)
    return printer


@dataclass(frozen=True)
class _Entry:
    """A printer of a kernel and its position in a file: `2`, or `2_0` for what it packs ahead."""

    printer: Printer
    position: str


def _file(functions: Sequence[Function]) -> str:
    """Return a C file with kernels and what they pack ahead."""
    packs: list[_Entry] = []
    kernels: list[_Entry] = []
    for position, function in enumerate(functions):
        kernels.append(_Entry(_printer(function), str(position)))
        for number, pack in enumerate(function.packs):
            packs.append(_Entry(_printer(pack), f"{position}_{number}"))
    entries = [*packs, *kernels]
    texts = [entry.printer.function(entry.position) for entry in entries]
    head = file_head([entry.printer for entry in entries], texts)
    arena_bytes = max((entry.printer.arena_bytes for entry in entries), default=0)
    if arena_bytes:
        aligned = f"__attribute__((aligned({ARENA_ALIGNMENT_BYTES})))"
        head.append(f"static _Thread_local char arena[{arena_bytes}] {aligned};")
    return "\n".join(head) + "\n\n" + "\n".join(texts)


def file_head(
    printers: Sequence[Printer], texts: Sequence[str], has_vector_library: bool = True
) -> list[str]:
    """Return what stands before printed kernels: headers, declarations and helper functions.

    Without the library of vector functions, only those of one number are called.
    """
    head = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>"]
    called: set[tuple[str, str]] = set()
    helpers: dict[str, None] = {}  # a set that keeps its order
    for printer in printers:
        called |= printer.called
        helpers |= dict.fromkeys(sorted(printer.helpers))
    if has_vector_library:
        head += vector_declarations(called - Printer.generated_functions)
    generated = {name for name, _ in called & Printer.generated_functions}
    head += elementary(generated)
    head += conversions(texts, has_vector_library)
    head += helpers
    return list(dict.fromkeys(head))


def entry_name(position: int, pack: int | None = None) -> str:
    """Return the exported function of a kernel of a C file, or of what it packs ahead.

    >>> entry_name(2), entry_name(2, 0)
    ('kernel_2', 'kernel_2_0')
    """
    if pack is None:
        return f"kernel_{position}"
    return f"kernel_{position}_{pack}"
