"""nvcc, looked for and run on generated CUDA (design §10).

The machine code, and the registers and memory that it needs, are stored on disk.
"""

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
TOOLKIT_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin")


@dataclass(frozen=True)
class Usage:
    """The registers of a thread of a kernel, and the bytes that did not fit into them.

    `shared` is the bytes of a block.
    """

    registers: int
    spilled: int
    shared: int


@dataclass(frozen=True)
class Cubin:
    """Machine code for one compute capability (90 is 9.0), and the usage of each kernel in it."""

    image: bytes
    sm: int
    usage: dict[str, Usage]


@dataclass(frozen=True)
class Nvcc:
    """A compiler of CUDA."""

    program: str
    version: str

    def compile(self, source: str, sm: int, timeout: float = COMPILE_TIMEOUT_SECONDS) -> Cubin:
        """Return the machine code of a CUDA source, from the cache or compiled now.

        `timeout` is in seconds. Raises `CodegenError` with the compiler's message.
        """
        key = text_digest(source, self.program, self.version, *FLAGS, str(sm))
        image, report = CUBINS.read(key), REPORTS.read(key)
        if image is not None and report is not None:
            return Cubin(image, sm, usages(report.decode()))
        try:
            image, said = self._run(source, sm, timeout)
        except subprocess.TimeoutExpired:
            raise timeout_error(self.program, timeout) from None
        except OSError as error:
            raise DeviceError(
                f"nvcc cannot be run: {error}\n  set CUDA_HOME to the folder of a CUDA toolkit"
            ) from None
        CUBINS.replace(key, image)
        REPORTS.replace(key, said.encode())
        return Cubin(image, sm, usages(said))

    def compile_anew(self, source: str, sm: int, timeout: float) -> Cubin:
        """Return the machine code of a CUDA source that is not kept, as that of a candidate.

        Raises as `run_compiler` does.
        """
        image, said = self._run(source, sm, timeout)
        return Cubin(image, sm, usages(said))

    def _run(self, source: str, sm: int, timeout: float) -> tuple[bytes, str]:
        command = (self.program, *FLAGS, f"-arch=sm_{sm}")
        what = f"the generated code for sm_{sm}"
        return run_compiler(command, source, timeout, (".cu", ".cubin"), what)


def usages(report: str) -> dict[str, Usage]:
    """Return what ptxas says about each kernel.

    >>> usages('''ptxas info    : Compiling entry function 'kernel_0' for 'sm_80'
    ...     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
    ... ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]''')
    {'kernel_0': Usage(registers=32, spilled=12, shared=1024)}
    """
    usage: dict[str, Usage] = {}
    for part in report.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]
        spilled = _number(r"(\d+) bytes spill stores", part)
        spilled += _number(r"(\d+) bytes spill loads", part)
        registers = _number(r"Used (\d+) registers", part)
        usage[name] = Usage(registers, spilled, _number(r"(\d+) bytes smem", part))
    return usage


def _number(pattern: str, text: str) -> int:
    """Return the number that a pattern matches in a text, 0 where it matches nothing."""
    match = re.search(pattern, text)
    if match is None:
        return 0
    return int(match[1])


def compile_all(
    source: str,
    architectures: Sequence[int] = ARCHITECTURES,
    timeout: float = COMPILE_TIMEOUT_SECONDS,
) -> list[Cubin]:
    """Return a CUDA source compiled for several compute capabilities; needs no device."""
    nvcc = require_nvcc()
    return [nvcc.compile(source, sm, timeout) for sm in architectures]


def require_nvcc() -> Nvcc:
    """Return nvcc; raise a `DeviceError` that says where it was looked for."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise DeviceError(
            "nvcc is not found on the PATH, in CUDA_HOME or in /usr/local/cuda\n"
            "  install the CUDA toolkit, or set CUDA_HOME to its folder; "
            "source('cuda') works without it"
        )
    return nvcc


def find_nvcc() -> Nvcc | None:
    """Return nvcc of `$CUDA_HOME` or `$CUDA_PATH`, else of the PATH, else of an installed toolkit.

    None where there is none.
    """
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return _find(tuple(homes), os.environ.get("PATH", ""))


@lru_cache(maxsize=16)
def _find(homes: tuple[str, ...], path: str) -> Nvcc | None:
    folders = [*(str(Path(home) / "bin") for home in homes), path, *TOOLKIT_FOLDERS]
    for folder in filter(None, folders):
        program = shutil.which("nvcc", path=folder)
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
