"""The code of a unit: the fastest that was measured, else the cheapest by the model.

What was measured is stored by `codegen.tuning`; the spaces of all code that there is for a unit are
`codegen.tuning.spaces`.
"""

from __future__ import annotations

from codegen.hardware.cpu import machine
from codegen.targets.c.compiler import Compiler
from codegen.tuning.records.winners import tuned
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest, starts


def best_candidate(unit: CodeUnit, compiler: Compiler | None = None) -> CodeCandidate | None:
    """Return the space and the point with which a unit is computed on this machine.

    What was measured with the `compiler` counts, or with the usual one. None where it is no one
    kernel with its epilogue. Raises `OutOfTime` where the time for the work under way is over.

    >>> import einalg as ea
    >>> from einalg.language.ir.kernel import Kernel
    >>> unit = CodeUnit(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)))
    >>> best_candidate(unit).space.name
    'loops'
    """
    return tuned(unit.digest, starts(unit, machine()), compiler) or cheapest(unit, machine())
