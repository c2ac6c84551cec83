"""The rows of tables that measure the cases of `bench.kernel_cases`, on any target."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import bench
from bench.kernel_cases import Case
from derive.cost.model import traffic
from einalg.language.ir.program import Program


def measured(
    cases: Iterable[Callable[[], Case]], only: str, measure: Callable[[Case], bench.Row]
) -> Iterator[bench.Row]:
    """Yield the rows of the cases that have a word in their name, each printed when it is there.

    A case that fails is reported and left out.
    """
    for make in cases:
        case = make()
        if only.lower() not in case.name.lower():
            continue
        try:
            measured_row = measure(case)
        except Exception as error:  # one case less, not the whole table
            print(f"{case.name} failed: {error!r}", file=sys.stderr, flush=True)
            continue
        print(bench.table([columns(measured_row)]).splitlines()[1], file=sys.stderr, flush=True)
        yield measured_row


def columns(row: bench.Row) -> bench.Row:
    """Return the columns of a row that a table shows: all but `more`."""
    return {name: value for name, value in row.items() if name != "more"}


def bytes_moved(program: Program) -> int:
    """Return how many bytes the statements of a program must read and write at least."""
    return sum(traffic(scope) for _, scope in program.statements)
