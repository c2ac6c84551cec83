"""Facts on what this machine has for code generation, and what is missing (design §12)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np

from codegen.targets.c.compiler import find_compiler
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.nvcc import ARCHITECTURES, find_nvcc
from codegen.targets.cuda.shim import cpp_compiler
from einalg.errors import EinalgError
from einalg.storage.disk_cache import cache_folder


@dataclass(frozen=True)
class Capability:
    """One thing that einalg can use: `found` says whether it is there, `detail` which one, or what
    to do without it.
    """

    name: str
    found: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok' if self.found else 'missing':8}{self.name}: {self.detail}"


class Facts(list[Capability]):
    """Facts, one a line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


# The command that installs a compiler, by the package manager that a machine has.
COMMANDS = {
    "apt-get": {
        "gcc": "sudo apt-get install gcc",
        "g++": "sudo apt-get install g++",
        "nvcc": "sudo apt-get install nvidia-cuda-toolkit",
    },
    "dnf": {"gcc": "sudo dnf install gcc", "g++": "sudo dnf install gcc-c++"},
    "pacman": {
        "gcc": "sudo pacman -S gcc",
        "g++": "sudo pacman -S gcc",
        "nvcc": "sudo pacman -S cuda",
    },
    "apk": {"gcc": "sudo apk add gcc musl-dev", "g++": "sudo apk add g++"},
    "xcode-select": {"gcc": "xcode-select --install", "g++": "xcode-select --install"},
    "conda": {
        "gcc": "conda install gcc",
        "g++": "conda install gxx",
        "nvcc": "conda install -c nvidia cuda-nvcc",
    },
}
ELSEWHERE = {
    "gcc": "install gcc or clang",
    "g++": "install g++ or clang++",
    "nvcc": "install the CUDA toolkit: https://developer.nvidia.com/cuda-downloads",
}


def facts() -> Facts:
    """Return what is there and what is missing; nothing raises, nothing is changed.

    >>> [fact.name for fact in facts()]
    ['C compiler', 'BLAS', 'torch', 'ONNX', 'ONNX Runtime', 'nvcc', 'PyCUDA', 'CUDA device', 'C++
    compiler', 'cache']
    """
    packages = [
        _package("torch", "torch", "torch", "; its kernels compete where your program imports it"),
        _package("ONNX", "onnx", "onnx"),
        _package("ONNX Runtime", "onnxruntime", "onnx"),
    ]
    cuda = [_nvcc(), _package("PyCUDA", "pycuda", "cuda"), _device()]
    return Facts([_c_compiler(), _blas(), *packages, *cuda, _cpp_compiler(), _cache()])


def remedy(tool: str) -> str:
    """Return the command that installs a tool here, or what to look for where none is known."""
    commands = (
        known[tool]
        for manager, known in COMMANDS.items()
        if tool in known and shutil.which(manager)
    )
    return next(commands, ELSEWHERE[tool])


def _blas() -> Capability:
    """The library that runs NumPy's matrix products, as it is loaded, or as NumPy was built where
    nothing tells that.
    """
    if find_spec("threadpoolctl") is not None:
        loaded = [
            pool
            for pool in import_module("threadpoolctl").threadpool_info()
            if pool.get("user_api") == "blas"
        ]
        if loaded:
            return Capability("BLAS", True, "; ".join(dict.fromkeys(map(_pool, loaded))))
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    return Capability(
        "BLAS",
        bool(blas.get("found")),
        f"NumPy {np.__version__} with {blas.get('name', 'none')} {blas.get('version', '')}".strip(),
    )


def _pool(pool: dict[str, Any]) -> str:
    threads = pool.get("num_threads", 1)
    kernels = f", for {pool['architecture']}" if pool.get("architecture") else ""
    name = f"{pool.get('internal_api')} {pool.get('version')}"
    return f"{name}, {threads} thread{'s' if threads != 1 else ''}{kernels}"


def _c_compiler() -> Capability:
    compiler = find_compiler()
    if compiler is None:
        return Capability(
            "C compiler",
            False,
            f"programs run through NumPy, often ten times slower; {remedy('gcc')}, or set CC",
        )
    return Capability(
        "C compiler", True, f"{' '.join(compiler.command)} ({_first_line(compiler.version)})"
    )


def _cpp_compiler() -> Capability:
    return _tried(
        "C++ compiler",
        lambda: " ".join(cpp_compiler().command),
        f"tests of CUDA kernels need one; {remedy('g++')}, or set CXX",
    )


def _nvcc() -> Capability:
    nvcc = find_nvcc()
    if nvcc is None:
        return Capability(
            "nvcc", False, f"target='cuda' gives sources only; {remedy('nvcc')}, or set CUDA_HOME"
        )
    return Capability(
        "nvcc",
        True,
        f"{nvcc.program} ({nvcc.version.splitlines()[-1]}), for "
        f"{', '.join(f'sm_{sm}' for sm in ARCHITECTURES)} and the device",
    )


def _device() -> Capability:
    def describe() -> str:
        driver = find_driver()
        return f"{driver.name}, sm_{driver.sm}"

    return _tried("CUDA device", describe)


def _package(name: str, module: str, extra: str, note: str = "") -> Capability:
    if find_spec(module) is None:
        return Capability(name, False, f"pip install 'einalg[{extra}]'")
    try:
        return Capability(name, True, f"{version(module)}{note}")
    except PackageNotFoundError:
        return Capability(name, True, "of unknown version")


def _cache() -> Capability:
    folder = cache_folder()
    return Capability(
        "cache", True, str(folder) if folder.is_dir() else f"{folder} (made when it is needed)"
    )


def _tried(name: str, describe: Callable[[], str], remedy: str = "") -> Capability:
    try:
        return Capability(name, True, describe())
    except EinalgError as error:
        return Capability(
            name, False, remedy or "; ".join(line.strip() for line in str(error).splitlines())
        )


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "of unknown version"
