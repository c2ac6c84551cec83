"""nvcc, found where it is and run on generated CUDA; the machine code and what it needs are kept on disk (design §10)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codegen.targets.c.compiler import (
    COMPILE_TIMEOUT_SECONDS,
    PROBE_TIMEOUT_SECONDS,
    run_compiler,
    timeout_error,
)
from einalg.errors import DeviceError
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

CUBINS = DiskCache("cubins", ".cubin", "compiled CUDA kernels")
REPORTS = DiskCache("cubins", ".txt", "reports on compiled CUDA kernels")
ARCHITECTURES = (80, 90)  # compute capabilities that every kernel must compile for
FLAGS = ("-cubin", "-O3", "-std=c++17", "-w", "-Xptxas", "-v")
PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")


@dataclass(frozen=True)
class Usage:
    """What a thread of a kernel needs: registers, and bytes that did not fit into them; `shared` is the bytes of a block."""

    registers: int
    spilled: int
    shared: int


@dataclass(frozen=True)
class Cubin:
    """Machine code for one compute capability (90 is 9.0), and what each kernel in it needs."""

    image: bytes
    sm: int
    usage: dict[str, Usage]


@dataclass(frozen=True)
class Nvcc:
    """A compiler of CUDA."""

    program: str
    version: str

    def compile(self, source: str, sm: int, timeout: float = COMPILE_TIMEOUT_SECONDS) -> Cubin:
        """The machine code of a CUDA source, from the cache or compiled now; `CodegenError` with the compiler's message.

        `timeout` is in seconds.
        """
        key = text_digest(source, self.program, self.version, *FLAGS, str(sm))
        image, report = CUBINS.read(key), REPORTS.read(key)
        if image is None or report is None:
            image, said = self._run(source, sm, timeout)
            report = said.encode()
            CUBINS.replace(key, image)
            REPORTS.replace(key, report)
        return Cubin(image, sm, usages(report.decode()))

    def _run(self, source: str, sm: int, timeout: float) -> tuple[bytes, str]:
        command = (self.program, *FLAGS, f"-arch=sm_{sm}")
        try:
            return run_compiler(
                command, source, timeout, (".cu", ".cubin"), f"the generated code for sm_{sm}"
            )
        except subprocess.TimeoutExpired:
            raise timeout_error(self.program, timeout) from None
        except OSError as error:
            raise DeviceError(
                f"nvcc cannot be run: {error}\n  set CUDA_HOME to the folder of a CUDA toolkit"
            ) from None


def usages(report: str) -> dict[str, Usage]:
    """What ptxas says about each kernel.

    >>> usages('''ptxas info    : Compiling entry function 'kernel_0' for 'sm_80'
    ...     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
    ... ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]''')
    {'kernel_0': Usage(registers=32, spilled=12, shared=1024)}
    """
    found: dict[str, Usage] = {}
    for part in report.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]
        stored, loaded, registers, shared = (
            int(match[1]) if (match := re.search(pattern, part)) else 0
            for pattern in (
                r"(\d+) bytes spill stores",
                r"(\d+) bytes spill loads",
                r"Used (\d+) registers",
                r"(\d+) bytes smem",
            )
        )
        found[name] = Usage(registers, stored + loaded, shared)
    return found


def compile_all(
    source: str,
    architectures: Sequence[int] = ARCHITECTURES,
    timeout: float = COMPILE_TIMEOUT_SECONDS,
) -> list[Cubin]:
    """A CUDA source compiled for several compute capabilities; needs no device."""
    nvcc = require_nvcc()
    return [nvcc.compile(source, sm, timeout) for sm in architectures]


def require_nvcc() -> Nvcc:
    """nvcc, or a `DeviceError` that says where it was looked for."""
    found = find_nvcc()
    if found is None:
        raise DeviceError(
            "nvcc is not found on the PATH, in CUDA_HOME or in /usr/local/cuda\n"
            "  install the CUDA toolkit, or set CUDA_HOME to its folder; source('cuda') works without it"
        )
    return found


def find_nvcc() -> Nvcc | None:
    """nvcc of `$CUDA_HOME` or `$CUDA_PATH`, else of the PATH, else where toolkits are installed; None where there is none."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return _find(tuple(homes), os.environ.get("PATH", ""))


@lru_cache(maxsize=16)
def _find(homes: tuple[str, ...], path: str) -> Nvcc | None:
    for folder in (*(str(Path(home) / "bin") for home in homes), path, *PLACES):
        program = shutil.which("nvcc", path=folder) if folder else None
        if not program:
            continue
        try:
            done = subprocess.run(
                (program, "--version"),
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return Nvcc(program, done.stdout.strip())
    return None
