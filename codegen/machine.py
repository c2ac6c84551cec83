"""What the code generator knows of this machine: vector registers, caches and cores."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codegen.compiler import cpu
from einalg.turns import cores

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20}


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
    level1, level2 = (_cache(level) or usual for level, usual in (("1", Machine.level1), ("2", Machine.level2)))
    return Machine(vector, registers, level1, level2, cores())


def _is_arm() -> bool:
    return platform.machine().lower() in ("aarch64", "arm64")


def _cache(level: str) -> int:
    """Bytes of the data cache of a level, or 0 where the system does not say."""
    for folder in sorted(CACHES.glob("index*")):
        try:
            found, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            if found == level and kind != "Instruction":
                return int(size[:-1]) * UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return 0
