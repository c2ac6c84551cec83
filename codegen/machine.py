"""What the code generator knows of this machine: vector registers, caches and cores."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache

from codegen.compiler import cpu

CACHES = {"SC_LEVEL1_DCACHE_SIZE": 32 << 10, "SC_LEVEL2_CACHE_SIZE": 512 << 10}  # bytes, where the system does not say


@dataclass(frozen=True)
class Machine:
    """Bytes of a vector register and the number of these; bytes of the caches of one core; cores that this process may use."""

    vector: int = 16
    registers: int = 16
    level1: int = 32 << 10
    level2: int = 512 << 10
    cores: int = 1


@lru_cache(maxsize=1)
def machine() -> Machine:
    """This machine."""
    flags = set(cpu().split())
    vector, registers = (64, 32) if "avx512f" in flags else (32, 16) if "avx2" in flags else (16, 32 if _is_arm() else 16)
    level1, level2 = (_system(name, usual) for name, usual in CACHES.items())
    return Machine(vector, registers, level1, level2, cores())


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_arm() -> bool:
    return platform.machine().lower() in ("aarch64", "arm64")


def _system(name: str, usual: int) -> int:
    try:
        return max(os.sysconf(name), 0) or usual
    except (AttributeError, ValueError, OSError):
        return usual
