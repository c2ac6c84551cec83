"""The header of an exported function: its declaration, and all that a caller must know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from codegen.export.c_file import ExportedFunction
from codegen.export.call_plan import Buffer
from codegen.export.types import NOTES, value_type
from codegen.hardware.cpu import machine
from einalg.text.tables import aligned

COMMENT_WIDTH = 95
MOST_NAMES = 12  # of weights that are listed
HEADS = ("parameter", "type", "shape", "strides", "bytes")


def header(function: ExportedFunction) -> str:
    """Return the text of the header, for C and for C++."""
    return header_file(function.name, _comment(function), function.prototype())


def header_file(
    name: str, comment: Iterable[str], prototype: str, includes: str = "", more: str = ""
) -> str:
    """Return a header with the function of a name and that of its workspace.

    `includes` are lines before those of the standard library, `more` declarations at the end.
    """
    guard = f"{name.upper()}_H"
    text = "\n".join(f"   {line}".rstrip() for line in comment).lstrip()
    return f"""\
/* {text} */
#ifndef {guard}
#define {guard}

{includes}#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{prototype};

/* The bytes that a workspace needs. */
size_t {name}_workspace_size(void);
{more}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _comment(function: ExportedFunction) -> Iterator[str]:
    """Yield the lines of the comment at the head."""
    yield from function.summary
    yield ""
    yield from _table(function)
    for paragraph in (
        _arrays(function),
        _stored(function),
        _workspace(function),
        _threads(function),
        _requirements(function),
    ):
        if paragraph:
            yield ""
            yield from wrap(paragraph, COMMENT_WIDTH)


def _table(function: ExportedFunction) -> Iterator[str]:
    plan = function.plan
    rows = [HEADS]
    rows += [_row(buffer, "const ") for buffer in plan.inputs]
    rows += [_row(buffer, "") for buffer in plan.outputs]
    yield from (line.rstrip() for line in aligned(rows, str.ljust).splitlines())


def _row(buffer: Buffer, qualifier: str) -> tuple[str, ...]:
    kind = value_type(buffer.dtype)
    is_value = bool(qualifier) and not buffer.shape
    text = f"{kind} (a number)"
    if not is_value:
        text = f"{qualifier}{kind} *"
    if buffer.dtype in NOTES:
        text = f"{text} ({buffer.dtype})"
    return (
        buffer.name,
        text,
        " x ".join(map(str, buffer.shape)) or "-",
        ", ".join(map(str, strides(buffer))) or "-",
        str(buffer.bytes),
    )


def strides(buffer: Buffer) -> list[int]:
    """Return the elements from one index to the next, for every axis."""
    strides: list[int] = []
    step = 1
    for extent in reversed(buffer.shape):
        strides.insert(0, step)
        step *= max(1, extent)
    return strides


def _dtypes(function: ExportedFunction) -> list[str]:
    plan = function.plan
    return list(dict.fromkeys(buffer.dtype for buffer in (*plan.inputs, *plan.outputs)))


def _arrays(function: ExportedFunction) -> str:
    text = (
        "Arrays are dense and in row-major order: the last index varies fastest. Shapes are fixed, "
        "and strides count elements. Addresses need the alignment of one element; 64 bytes are "
        "best for speed. Inputs are only read, and every element of the outputs is written. An "
        "output must overlap nothing else."
    )
    for dtype in _dtypes(function):
        if dtype in NOTES:
            text += f" {dtype} is {NOTES[dtype]}."
    return text


def _stored(function: ExportedFunction) -> str:
    """Return the text on weights and constants that no caller passes; empty without any."""
    data = function.plan.data
    if not data:
        return ""
    names = ", ".join(one.buffer.name for one in data[:MOST_NAMES])
    if len(data) > MOST_NAMES:
        names += ", …"
    size = sum(one.buffer.bytes for one in data)
    return (
        f"Weights and constants are inside, {size} bytes in all, some packed for the kernels or "
        f"computed ahead: {names}."
    )


def _workspace(function: ExportedFunction) -> str:
    size = function.workspace_bytes
    if not size:
        return (
            f"workspace: none is needed ({function.name}_workspace_size() is 0), and NULL will do."
        )
    threads = ""
    if function.is_parallel:
        threads = " for one thread"
    return (
        f"workspace: {function.name}_workspace_size() bytes ({size}{threads}), at any "
        "address. What it holds before a call does not matter, and nothing is kept in it after one."
    )


def _threads(function: ExportedFunction) -> str:
    text = (
        "The function has no state and allocates nothing: threads may call it at the same time, "
        "each with a workspace and outputs of its own. It cannot fail, and returns nothing."
    )
    if function.is_parallel:
        text += (
            " It runs on the calling thread. Where it is compiled with -fopenmp "
            f"-D{function.threads}=4, four threads of OpenMP share its loops."
        )
    return text


def _requirements(function: ExportedFunction) -> str:
    text = (
        "It needs C11 with the vectors of GNU C (gcc 9 or clang 10 or later), and -lm. It has no "
        "instructions of one processor in it, and any can run it; its tiles were chosen for one "
        f"with vector registers of {machine().vector} bytes. It is fast only with the flags of the "
        "Makefile, of which -O3, -march=native and -fopenmp-simd matter most."
    )
    if function.integers_wrap:
        text += " Integers wrap round on overflow: that needs -fwrapv."
    if function.blob is not None:
        text += (
            f" The weights are in {function.blob.file_name}, of which "
            f"{function.blob.assembler_name} makes an object: link that, too."
        )
    return text
