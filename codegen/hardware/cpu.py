"""Facts of this machine for the code generator: vector registers, caches and cores."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from einalg.runtime.processors import thread_count

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20}


@dataclass(frozen=True)
class CpuModel:
    """Bytes of a vector register and the number of these; bytes of the caches of one core; cores.

    `cores` are those that generated code uses. `turns` are the steps in which an operation on a
    whole register goes through units that are narrower than that. `level3` are the bytes of the
    cache that cores share.
    """

    vector: int = 16
    registers: int = 16
    level1: int = 32 << 10
    level2: int = 512 << 10
    cores: int = 1
    turns: int = 1
    level3: int = 32 << 20

    def widths(self, size: int) -> tuple[int, ...]:
        """Return the elements of so many bytes in a register, and in what an operation takes.

        These are fewer where its units are narrow: more of these fill less in vain.

        >>> CpuModel(64, turns=2).widths(4), CpuModel(64).widths(8)
        ((16, 8), (8,))
        """
        return tuple(dict.fromkeys((self.vector // size, self.vector // self.turns // size)))

    def passes(self, lanes: int, size: int) -> int:
        """Turns that an operation on so many elements of so many bytes takes."""
        return -(-lanes * size * self.turns // self.vector)


@lru_cache(maxsize=1)
def machine() -> CpuModel:
    """This machine."""
    flags = set(cpu().split())
    vector, registers, turns = 16, 16, 1
    if "avx512f" in flags:
        vector, registers = 64, 32
        if _has_narrow_units(cpu()):
            turns = 2
    elif "avx2" in flags:
        vector = 32
    elif _is_arm():
        registers = 32
    level1 = _cache("1") or CpuModel.level1
    level2 = _cache("2") or CpuModel.level2
    level3 = _cache("3") or CpuModel.level3
    return CpuModel(vector, registers, level1, level2, thread_count(), turns, level3)


def _has_narrow_units(text: str) -> bool:
    """Whether a processor has AVX-512 in units of 256 bits: AMD's Zen 4.

    >>> _has_narrow_units("vendor_id : AuthenticAMD\\ncpu family : 25")
    True
    >>> _has_narrow_units("vendor_id : AuthenticAMD\\ncpu family : 26")
    False
    """
    return bool(
        re.search(r"^vendor_id\s*: AuthenticAMD$", text, re.M)
        and re.search(r"^cpu family\s*: 25$", text, re.M)
    )


def _is_arm() -> bool:
    return platform.machine().lower() in ("aarch64", "arm64")


def _cache(level: str) -> int:
    """Bytes of the data cache of a level, or 0 where the system does not say."""
    for folder in sorted(CACHES.glob("index*")):
        try:
            cache_level, kind, size = (
                (folder / name).read_text().strip() for name in ("level", "type", "size")
            )
            if cache_level == level and kind != "Instruction":
                return int(size[:-1]) * UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return 0


@lru_cache(maxsize=1)
def cpu() -> str:
    """Return the facts that `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
    wanted = (
        "vendor_id",
        "cpu family",
        "model name",
        "flags",
        "features",
        "cpu part",
        "cpu implementer",
    )
    return (
        "\n".join(dict.fromkeys(line for line in lines if line.lower().startswith(wanted)))
        + platform.machine()
    )
