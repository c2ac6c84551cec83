"""The cycles of lines that are not in the first cache (design §10)."""

from __future__ import annotations

from codegen.hardware.cpu import CpuModel
from codegen.kernels.cpu_costs import CPU_COSTS


def line_cycles(moved_bytes: float, between_bytes: float, machine: CpuModel) -> float:
    """Return the cycles of moving so many bytes in whole lines, one line after the other.

    Each line was used before, and `between_bytes` of others since, which a cache may have no room
    for.

    >>> machine = CpuModel(level1=32 << 10, level2=512 << 10)
    >>> line_cycles(6400, 1 << 10, machine), line_cycles(6400, 1 << 18, machine)
    (0.0, 75.0)
    """
    return moved_bytes / CPU_COSTS.line_bytes * cycles_of_line(between_bytes, machine)


def cycles_of_line(between_bytes: float, machine: CpuModel) -> float:
    """Return the cycles of a line, of which so many bytes were used since its last use."""
    if between_bytes <= machine.level1:
        return 0.0
    if between_bytes <= machine.level2:
        return CPU_COSTS.level2_line
    return CPU_COSTS.memory_line


def touched_lines(elements: int, step: int, element_bytes: int) -> float:
    """Return the lines in which elements lie that are so many steps apart.

    >>> touched_lines(32, 1, 4), touched_lines(32, 2, 4), touched_lines(32, 100, 4)
    (2.0, 4.0, 32.0)
    """
    return elements * min(1.0, abs(step) * element_bytes / CPU_COSTS.line_bytes)
