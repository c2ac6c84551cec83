"""A process that makes one network faster, and says how long that took.

`python -m tests.helpers.timed_search optimize convolutions 40 20` prints JSON: the seconds by the
clock and by the processors, and the report.
"""

from __future__ import annotations

import json
import resource
import sys
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

import einalg as ea
from einalg.language.ir.program import Program
from tests.helpers.deep_networks import KINDS
from tests.helpers.networks import sample


def processor_seconds() -> float:
    """Return the time of the processors for this process and those that it has waited for."""
    seconds = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(whose)
        seconds += used.ru_utime + used.ru_stime
    return seconds


def inputs_of(program: Program) -> dict[str, Any]:
    """Return arrays, with weights that keep values of their size through any number of layers."""
    arrays: dict[str, Any] = {}
    for name, array in sample(program).items():
        scale = 1.0
        if program.inputs[name].role == "weight":
            summed = array.shape[0] if array.ndim == 2 else prod(array.shape[1:])
            scale = (2 / summed) ** 0.5
        arrays[name] = (scale * array).astype(np.float32)
    return arrays


def optimized(program: Program, seconds: float) -> str:
    """Return the report of an optimization."""
    return str(
        ea.optimize(program, inputs_of(program), seconds=seconds, progress=False).report.text
    )


def derived(program: Program, seconds: float) -> str:
    """Return the report of a derivation."""
    return str(ea.derive(program, seconds=seconds, progress=False))


SEARCHES = {"optimize": optimized, "derive": derived}


def timed(search: str, kind: str, layers: int, seconds: float) -> dict[str, Any]:
    """Return how long a search took, and its report."""
    program = KINDS[kind](layers)
    began, used = perf_counter(), processor_seconds()
    report = SEARCHES[search](program, seconds)
    return {
        "seconds": perf_counter() - began,
        "processor seconds": processor_seconds() - used,
        "report": report,
    }


if __name__ == "__main__":
    name, network, count, limit = sys.argv[1:]
    print(json.dumps(timed(name, network, int(count), float(limit))))
