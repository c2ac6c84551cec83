"""What this machine has for code generation, and what is missing, as facts (design §12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from codegen.compiler import find_compiler
from codegen.cuda.compiler import ARCHITECTURES, find_nvcc
from codegen.cuda.driver import find_driver
from codegen.shim import cpp_compiler
from einalg.cache import cache_folder
from einalg.errors import EinalgError


@dataclass(frozen=True)
class Fact:
    """One thing that einalg can use: `found` says whether it is there, `detail` which one, or what to do without it."""

    name: str
    found: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok' if self.found else 'missing':8}{self.name}: {self.detail}"


def facts() -> list[Fact]:
    """What is there and what is missing; nothing raises, nothing is changed.

    >>> [fact.name for fact in facts()]
    ['C compiler', 'C++ compiler', 'nvcc', 'PyCUDA', 'CUDA device', 'torch', 'cache']
    """
    return [_c_compiler(), _cpp_compiler(), _nvcc(), _package("PyCUDA", "pycuda", "cuda"), _device(), _package("torch", "torch", "torch"), _cache()]


def _c_compiler() -> Fact:
    found = find_compiler()
    if found is None:
        return Fact("C compiler", False, "programs run through NumPy, often ten times slower; install gcc or clang, or set CC")
    return Fact("C compiler", True, f"{' '.join(found.command)} ({_first_line(found.version)})")


def _cpp_compiler() -> Fact:
    return _tried("C++ compiler", lambda: " ".join(cpp_compiler().command), "tests of CUDA kernels need one; install g++ or clang++, or set CXX")


def _nvcc() -> Fact:
    found = find_nvcc()
    if found is None:
        return Fact("nvcc", False, "target='cuda' gives sources only; install the CUDA toolkit, or set CUDA_HOME")
    return Fact(
        "nvcc", True, f"{found.program} ({found.version.splitlines()[-1]}), for {', '.join(f'sm_{sm}' for sm in ARCHITECTURES)} and the device"
    )


def _device() -> Fact:
    def describe() -> str:
        driver = find_driver()
        return f"{driver.name}, sm_{driver.sm}"

    return _tried("CUDA device", describe)


def _package(name: str, module: str, extra: str) -> Fact:
    if find_spec(module) is None:
        return Fact(name, False, f"pip install 'einalg[{extra}]'")
    try:
        return Fact(name, True, version(module))
    except PackageNotFoundError:
        return Fact(name, True, "of unknown version")


def _cache() -> Fact:
    folder = cache_folder()
    return Fact("cache", True, str(folder) if folder.is_dir() else f"{folder} (made when it is needed)")


def _tried(name: str, describe: Callable[[], str], remedy: str = "") -> Fact:
    try:
        return Fact(name, True, describe())
    except EinalgError as error:
        return Fact(name, False, remedy or " ".join(str(error).split()))


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "of unknown version"
