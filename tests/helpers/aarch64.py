"""Generated C of another processor: compiled for aarch64, and run by an emulator.

The program is a `main` beside the generated file. It reads what the kernels read, calls their
entries in order, and writes what they make.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from codegen.ir.nodes import Buf, Function
from codegen.targets.c.compiler import Compiler, _tried
from codegen.targets.c.source_file import c_source, entry_name
from codegen.targets.c.thread_pool import POOL, REGIONS
from einalg.language.ir.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]
COMPILER, DUMP, EMULATOR = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "qemu-aarch64"
MISSING = " and ".join(name for name in (COMPILER, DUMP, EMULATOR) if not shutil.which(name))
GUARD = 64  # bytes after each buffer, which no kernel may write
TIMEOUT = 120.0
MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { GUARD = 64 };
static FILE *in, *out;
static void *room(long bytes) {
  char *memory = aligned_alloc(64, (bytes + 64 + GUARD) / 64 * 64 + 64);
  memset(memory, 0xab, bytes + GUARD);
  return memory;
}
static void *input(long bytes) {
  void *memory = room(bytes);
  if (fread(memory, 1, bytes, in) != (size_t)bytes) exit(3);
  return memory;
}
static void output(const void *memory, long bytes) { fwrite(memory, 1, bytes + GUARD, out); }
void einalg_use(void (*pool)(void (*)(void *, int), void *, int), int parts);
void pool_run(void (*)(void *, int), void *, int);
void pool_threads(int);
"""


@cache
def compiler(*flags: str, command: str = COMPILER) -> Compiler:
    """The cross compiler, or another `command`, with the flags that it would have on such a
    machine.
    """
    with patch.object(platform, "machine", lambda: "aarch64"):
        return _tried((command, *flags))


def size(buf: Buf) -> int:
    """The bytes of a buffer."""
    return prod(buf.shape) * numpy_dtype(buf.dtype).itemsize


def main_source(kernels: Sequence[Function]) -> str:
    """A program that runs kernels, each after what it packs, on inputs from the file of its first
    argument.
    """
    lines = [
        '  in = fopen(arguments[1], "rb"), out = fopen(arguments[2], "wb");',
        "  pool_threads(2), einalg_use(pool_run, 8);",
    ]
    names: list[str] = []
    for k, kernel in enumerate(kernels):
        own = given(kernel)
        place = {
            b.name: f"b{k}_{n}"
            for n, b in enumerate((*own, *(pack.output for pack in kernel.packs), kernel.output))
        }
        lines += [f"  void *{place[b.name]} = input({size(b)});" for b in own]
        for function, entry in (
            *((pack, entry_name(k, n)) for n, pack in enumerate(kernel.packs)),
            (kernel, entry_name(k)),
        ):
            target, length = place[function.output.name], size(function.output)
            buffers = ", ".join(place[b.name] for b in (*function.inputs, function.output))
            lines += [
                f"  void *{target} = room({length});",
                f"  {entry}((void *[]){{{buffers}}});",
                f"  output({target}, {length});",
            ]
            names.append(entry)
    declared = "".join(f"void {name}(void *const *);\n" for name in names)
    return (
        MAIN
        + declared
        + "int main(int count, char **arguments) {\n"
        + "\n".join(lines)
        + "\n  return fclose(out);\n}\n"
    )


def given(kernel: Function) -> list[Buf]:
    """What a kernel and its packing read that nobody packs."""
    packed = {pack.output.name for pack in kernel.packs}
    every = {
        b.name: b
        for function in (*kernel.packs, kernel)
        for b in function.inputs
        if b.name not in packed
    }
    return list(every.values())


def built(found: Compiler, kernels: Sequence[Function], folder: Path, *more: str) -> Path:
    """The program that runs some kernels, linked with `more`; `kernels.o` beside it holds their
    code.
    """
    texts = {"kernels": REGIONS + c_source(kernels), "pool": POOL, "main": main_source(kernels)}
    for name, text in texts.items():
        (folder / f"{name}.c").write_text(text)
    flags = [flag for flag in found.flags if not flag.startswith(("-l", "-Wl", "-shared"))]
    for name in texts:
        run(
            *found.command,
            *(flags if name == "kernels" else ("-O1", "-std=gnu11")),
            "-fwrapv",
            "-c",
            f"{name}.c",
            folder=folder,
        )
    libraries = [flag for flag in found.flags if flag.startswith("-l")]
    run(
        *found.command,
        "-static",
        *(f"{name}.o" for name in texts),
        "-o",
        "program",
        *more,
        *libraries,
        "-lpthread",
        folder=folder,
    )
    return folder / "program"


def outputs(
    program: Path, kernels: Sequence[Function], arrays: Sequence[Mapping[str, Any]]
) -> list[Array]:
    """What the kernels of a program make of some arrays; nothing but their results may have been
    written.
    """
    folder = program.parent
    content = [
        np.asarray(values[b.name], numpy_dtype(b.dtype), order="C").tobytes()
        for k, values in zip(kernels, arrays)
        for b in given(k)
    ]
    (folder / "in").write_bytes(b"".join(content))
    run(EMULATOR, "program", "in", "out", folder=folder)
    left, results = (folder / "out").read_bytes(), []
    for kernel in kernels:
        own = b""
        for length in (size(function.output) for function in (*kernel.packs, kernel)):
            own, guard, left = left[:length], left[length : length + GUARD], left[length + GUARD :]
            assert guard == b"\xab" * GUARD, (
                f"{kernel.output.name} = {kernel.comment} writes beyond its end"
            )
        results.append(
            np.frombuffer(own, numpy_dtype(kernel.output.dtype)).reshape(kernel.output.shape)
        )
    assert not left
    return results


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
