"""The system's C compiler: looked for, tried out, and run on generated sources (design §10)."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from codegen.hardware.cpu import cpu
from einalg.errors import CodegenError
from einalg.runtime.processes import run_command
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

LOG = logging.getLogger("einalg")
KERNEL_CACHE = DiskCache("kernels", ".so", "compiled kernels")
COMPILE_TIMEOUT_SECONDS = 300.0  # for one source
PROBE_TIMEOUT_SECONDS = 30.0
MAX_MESSAGE_LINES = 12  # of a compiler, in an error
FULL_OPTIMIZATION = "-O3"
QUICK_OPTIMIZATION = "-Og"  # compiles in a quarter of the time; what it makes takes twice as long
REQUIRED_FLAGS = ("-std=c11", FULL_OPTIMIZATION, "-fPIC", "-shared", "-w")
# Floating point may be reassociated (design §2), but infinities and NaN keep their meaning: no
# -ffast-math. Sums stay in the order in which they are written all the same: gcc would divide them
# to shorten chains. Only its vectors may reorder them. What a turn of a loop reads is read again in
# the next one: gcc would carry it over, and run out of registers for the sums. A process of Linux
# has 65,530 maps of files, of which a shared object takes 2 in this layout, and 5 in the usual one.
OPTIONAL_FLAGS = (
    "-fopenmp",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-fno-tree-reassoc",
    "-fno-predictive-commoning",
    "-Wl,-z,noseparate-code,-z,norelro",
)
# The flags before and after these on an x86. Below the stack pointer, gcc places rows that it
# clears at once out of their alignment, where its own aligned moves fault: no red zone.
X86_FLAGS = ("-march=native", "-mprefer-vector-width=512", "-mno-red-zone")
# On another processor gcc moves reads ahead before it gives out registers, and sums would be in
# memory: no such scheduling.
OTHER_CPU_FLAGS = ("-mcpu=native", "-fno-schedule-insns")
ALTERNATIVE_FLAGS = {
    "-march=native": "-mcpu=native",
    "-mcpu=native": "-march=native",
    "-fopenmp": "-fopenmp-simd",
}
VECTOR_MATH = (
    ("-DEINALG_VECTOR_MATH=2", "-Wl,-z,defs", "-lmvec"),
    ("-DEINALG_VECTOR_MATH=1", "-Wl,-z,defs", "-lmvec"),
)
PROBE = """\
#include <math.h>
#include <stdint.h>
#if EINALG_VECTOR_MATH >= 1
__attribute__((simd("notinbranch"))) float expf(float);
#endif
#if EINALG_VECTOR_MATH >= 2
__attribute__((simd("notinbranch"))) float tanhf(float);
__attribute__((simd("notinbranch"))) float powf(float, float);
#else
#define tanhf sqrtf
#define powf fmaxf
#endif
float probe(const float *restrict a, float *restrict b, int n) {
  float total = 0;
  #pragma omp simd
  for (int i = 0; i < n; ++i) b[i] = expf(a[i]) + tanhf(a[i]) + powf(a[i], a[i]);
  #pragma omp parallel for reduction(+:total)
  for (int i = 0; i < n; ++i) total += a[i];
  return total;
}
"""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that works, with the flags that it accepts."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]

    def key(self, source: str) -> str:
        """Return what a compiled source is stored under.

        It changes with everything that the machine code depends on.
        """
        return text_digest(source, *self.command, self.version, *self.flags, cpu())

    def with_flags(self, *flags: str) -> Compiler:
        """Return the same compiler with more flags."""
        return replace(self, flags=(*flags, *self.flags))

    def quick(self) -> Compiler:
        """Return the same compiler, which optimizes less and so takes less time."""
        flags = [QUICK_OPTIMIZATION if f == FULL_OPTIMIZATION else f for f in self.flags]
        return replace(self, flags=tuple(flags))

    @property
    def is_quick(self) -> bool:
        """Whether it optimizes less than it can."""
        return FULL_OPTIMIZATION not in self.flags

    def compile(self, source: str, timeout: float = COMPILE_TIMEOUT_SECONDS) -> Path:
        """Return the shared object of a C source, from the cache or compiled now.

        `timeout` is in seconds. Raises `CodegenError` with the compiler's message.
        """
        key = self.key(source)
        cached = KERNEL_CACHE.find(key)
        if cached is not None:
            return cached
        content = self._run(source, timeout)
        try:
            return KERNEL_CACHE.store(key, content)
        except OSError as error:
            raise CodegenError(
                f"the compiled kernels cannot be written: {error}\n"
                "  make room, or set EINALG_CACHE and TMPDIR to other folders"
            ) from None

    def load(self, source: str, timeout: float = COMPILE_TIMEOUT_SECONDS) -> ctypes.CDLL:
        """Return the shared object of a C source, loaded into this process."""
        return load_library(self.compile(source, timeout))

    def _run(self, source: str, timeout: float) -> bytes:
        try:
            return run_compiler((*self.command, *self.flags), source, timeout)[0]
        except subprocess.TimeoutExpired:
            raise timeout_error(self.command[0], timeout) from None
        except OSError as error:
            remedy = "set CC to a C compiler"
            if error.errno == errno.ENOSPC:
                remedy = "make room, or set TMPDIR to another folder"
            raise CodegenError(f"{self.command[0]} cannot be run: {error}\n  {remedy}") from None


@cache
def load_library(path: Path) -> ctypes.CDLL:
    """Return a shared object, loaded once: its name holds the digest of its content."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CodegenError(
            f"the compiled kernels {path} cannot be loaded: {error}\n"
            "  remove the file, or set EINALG_CACHE to another folder"
        ) from None


def find_compiler() -> Compiler | None:
    """Return the first C compiler that works: `$CC`, else cc, gcc or clang of the PATH; or None."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=16)
def _find(chosen: str, path: str) -> Compiler | None:
    commands: list[tuple[str, ...]] = [("cc",), ("gcc",), ("clang",)]
    if chosen.strip():
        commands.insert(0, _words(chosen))
    for command in commands:
        is_chosen = bool(chosen.strip()) and command == commands[0]
        program = shutil.which(command[0], path=path or None)
        reason = f"{command[0]} is not found"
        if program:
            try:
                return _tried((program, *command[1:]))
            except (CodegenError, OSError, subprocess.TimeoutExpired) as error:
                reason = str(error)
        if is_chosen or program:
            LOG.warning("einalg: the C compiler %s does not work: %s", " ".join(command), reason)
    return None


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:  # a quote that is not closed
        return (command,)


def _tried(command: tuple[str, ...]) -> Compiler:
    """Return the compiler with those flags that a small source compiles with.

    Raises `CodegenError` where it compiles nothing.
    """
    version = subprocess.run(
        (*command, "--version"),
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_SECONDS,
        check=False,
    ).stdout
    first, *last = OTHER_CPU_FLAGS
    if platform.machine().lower() in ("x86_64", "amd64"):
        first, *last = X86_FLAGS
    optional = (first, *OPTIONAL_FLAGS, *last)
    flags = (*REQUIRED_FLAGS, *optional, *VECTOR_MATH[0])
    if not _accepts(command, flags):
        run_compiler((*command, *REQUIRED_FLAGS, "-lm"), PROBE, PROBE_TIMEOUT_SECONDS)
        flags = _accepted_flags(command, optional)
    return Compiler(command, version, (*flags, "-lm"))


def _accepted_flags(command: tuple[str, ...], optional: Sequence[str]) -> tuple[str, ...]:
    """Return the required flags with the optional ones that work, or what stands in their place."""
    choices: list[tuple[tuple[str, ...], ...]] = []
    for flag in optional:
        if flag in ALTERNATIVE_FLAGS:
            choices.append(((flag,), (ALTERNATIVE_FLAGS[flag],)))
        else:
            choices.append(((flag,),))
    flags = REQUIRED_FLAGS
    for alternatives in (*choices, VECTOR_MATH):
        for more in alternatives:
            if _accepts(command, (*flags, *more)):
                flags = (*flags, *more)
                break
    return flags


def _accepts(command: tuple[str, ...], flags: Sequence[str]) -> bool:
    try:
        run_compiler((*command, *flags, "-lm"), PROBE, PROBE_TIMEOUT_SECONDS)
    except CodegenError:
        return False
    return True


def run_compiler(
    command: Sequence[str],
    source: str,
    timeout: float,
    suffixes: tuple[str, str] = (".c", ".so"),
    what: str = "the generated code",
) -> tuple[bytes, str]:
    """Return the file that a compiler makes of a source, and what it says.

    Both files are in a temporary folder. Raises `CodegenError` with the compiler's message where it
    refuses `what`, `subprocess.TimeoutExpired` where it does not finish, and `OSError` where it
    cannot be run.
    """
    with tempfile.TemporaryDirectory(prefix="einalg-") as folder:
        text, out = (Path(folder) / f"kernels{suffix}" for suffix in suffixes)
        text.write_text(source)
        libraries = [flag for flag in command if flag.startswith("-l")]
        flags = [flag for flag in command if not flag.startswith("-l")]
        status, said = run_command([*flags, str(text), "-o", str(out), *libraries], timeout)
        if status or not out.exists():
            lines = said.strip().splitlines()[:MAX_MESSAGE_LINES]
            message = "\n".join(lines) or f"exit status {status}"
            raise CodegenError(f"{command[0]} refused {what}:\n{message}")
        return out.read_bytes(), said


def timeout_error(compiler: str, timeout: float) -> CodegenError:
    """Return the error of a compiler that was stopped."""
    return CodegenError(
        f"{compiler} did not finish within {timeout:g} seconds\n"
        "  split the program into smaller statements, or allow more time"
    )
