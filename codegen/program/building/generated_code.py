"""Compiled code of kernels, and its records in the cache on disk.

A record says that a kernel runs through generated code (its place in a shared object, and what its
function takes), through a library, or that an operator and its reader are not one kernel.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.ir.nodes import Buf, Function
from codegen.runtime.kernel_call import GeneratedKernel, generated_kernel
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.object_store import Place, loaded
from einalg.frontends.graph import unique_name
from einalg.storage.disk_cache import DiskCache

LOG = logging.getLogger("einalg")
KERNEL_RECORDS = DiskCache("made", ".json", "generated kernels")
EINALG = "einalg"  # the library of a loop nest that is made for one operator
NOT_FUSED: Mapping[
    str, Any
] = {}  # the record of an operator and its reader that are not one kernel


@dataclass(frozen=True)
class KernelCall:
    """The call that runs one kernel: its output, the library whose code it is, and the function."""

    output: str
    library: str
    run: KernelFunction


@dataclass(frozen=True)
class GeneratedCode:
    """A generated function that is compiled.

    `library` says whose code it is, `tensors` are the function's names for those of a signature,
    `source` is its C file, and `place` is where it lies: `("9f…", 3)`, the fourth function of a
    shared object. Where the code was read from a record, the function has no body.
    """

    library: str
    function: Function
    tensors: tuple[str, ...]
    source: str
    place: Place

    def kernel(
        self, compiler: Compiler, tensors: Sequence[str], offsets: Mapping[str, int], timeout: float
    ) -> GeneratedKernel | None:
        """Return the call with `tensors` in the places of its own.

        None where its shared object is no longer there.
        """
        shared_object = loaded(compiler, self.place, timeout)
        if shared_object is None:
            return None
        names = dict(zip(self.tensors, tensors, strict=True))
        used_names = set(tensors)
        for pack in self.function.packs:
            name = unique_name(pack.output.name, used_names)
            names[pack.output.name] = name
            used_names.add(name)
        return generated_kernel(shared_object, self.function, self.place[1], names, offsets)

    def record(self) -> dict[str, Any]:
        """Return the code as JSON values."""
        return {
            "name": self.library,
            "tensors": self.tensors,
            "source": self.source,
            "place": self.place,
            "function": _function_record(self.function),
        }

    @classmethod
    def from_record(cls, row: Any) -> GeneratedCode:
        """Return the code that a record is of; any of the usual exceptions for another value."""
        shared_object, position = row["place"]
        return cls(
            str(row["name"]),
            _function_from_record(row["function"]),
            tuple(map(str, row["tensors"])),
            str(row["source"]),
            (str(shared_object), int(position)),
        )


Implementation = GeneratedCode | str  # generated, or the name of a library's: "numpy"


@dataclass(frozen=True)
class KernelRecord:
    """A record of the cache: `row` are its values, such as `{"library": "numpy"}`.

    It is conclusive where another measurement would hardly say something else.
    """

    row: Mapping[str, Any]
    is_conclusive: bool = True


def read_record(key: str) -> KernelRecord | None:
    """Return the record under a key; None, with a warning for a damaged one, where there is none.

    >>> store_record("0" * 64, KernelRecord({"library": "numpy"}))
    >>> read_record("0" * 64)
    KernelRecord(row={'library': 'numpy'}, is_conclusive=True)
    """
    try:
        row, is_conclusive = json.loads(KERNEL_RECORDS.read(key) or b"[null, true]")
        if row is None:
            return None
        return KernelRecord(dict(row), bool(is_conclusive))
    except (ValueError, TypeError) as error:
        warn_of_damage(error)
        return None


def store_record(key: str, record: KernelRecord) -> None:
    """Put a record in the place of an older one."""
    KERNEL_RECORDS.replace(key, json.dumps([record.row, record.is_conclusive]).encode())


def warn_of_damage(error: Exception) -> None:
    """Warn of a record that cannot be used."""
    LOG.warning(
        "einalg: a generated kernel in the cache is damaged (%s); it is generated again", error
    )


def _function_record(function: Function) -> dict[str, Any]:
    """Return what a function takes and packs, as JSON values."""
    buffers = (*function.inputs, function.output)
    return {
        "name": function.name,
        "buffers": [[buf.name, buf.shape, buf.dtype, buf.space] for buf in buffers],
        "packs": list(map(_function_record, function.packs)),
    }


def _function_from_record(row: Any) -> Function:
    buffers: list[Buf] = []
    for name, shape, dtype, space in row["buffers"]:
        buffers.append(Buf(str(name), tuple(map(int, shape)), str(dtype), str(space)))
    *inputs, output = buffers
    packs = tuple(map(_function_from_record, row["packs"]))
    return Function(str(row["name"]), tuple(inputs), output, (), "", packs)
