"""Where, and by what, times of generated code were measured: what they hold for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from codegen.hardware.cpu import cpu
from codegen.targets.c.compiler import Compiler
from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.nvcc import Nvcc
from einalg.errors import RecordError
from einalg.runtime.processors import core_count, thread_count
from einalg.storage.fingerprint import KERNEL_CODE, code_digest, text_digest

SCHEMA = 5
DIGITS = 16  # of a digest


@dataclass(frozen=True)
class Provenance:
    """Digests of the processor with its threads, of the compiler with its flags, and of the code.

    `code` is that of einalg which writes kernels: a point may mean another nest after a change.
    """

    machine: str
    compiler: str
    code: str
    schema: int = SCHEMA

    @classmethod
    def here(cls, compiler: Compiler) -> Provenance:
        """Return the provenance of what this process measures."""
        machine = f"{text_digest(cpu())[:DIGITS]} {core_count()} {thread_count()}"
        tools = text_digest(*compiler.command, compiler.version, *compiler.flags)
        return cls(machine, tools[:DIGITS], code_digest(*KERNEL_CODE)[:DIGITS])

    @classmethod
    def on_device(cls, device: Driver, nvcc: Nvcc) -> Provenance:
        """Return the provenance of what is measured on a device."""
        machine = f"{text_digest(device.name)[:DIGITS]} sm{device.sm}"
        tools = text_digest(nvcc.version)[:DIGITS]
        return cls(machine, tools, code_digest(*KERNEL_CODE)[:DIGITS])

    def row(self) -> dict[str, Any]:
        return asdict(self)

    def require(self, row: Any, where: str) -> None:
        """Raise `RecordError` for a record of another machine, compiler or schema.

        Records of other code may be read: what they say of a point may hold no longer.
        """
        for name in ("schema", "machine", "compiler"):
            own, other = getattr(self, name), row.get(name)
            if own != other:
                raise RecordError(
                    f"{where} is of another {name}: {other!r}, here it is {own!r}\n"
                    "  tune on this machine, with the same compiler and version of einalg"
                )
