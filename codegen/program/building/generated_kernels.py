"""The generated function of a unit: the fastest that was measured, else the cheapest by the model.

What was measured is stored by `codegen.tuning`; the spaces of all code that there is for a unit are
`codegen.tuning.spaces`.
"""

from __future__ import annotations

from codegen.hardware.cpu import machine
from codegen.ir.nodes import Function
from codegen.tuning.spaces.contraction import contraction_space
from codegen.tuning.spaces.space import CodeCandidate, Epilogue
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest
from codegen.tuning.tile_search import tuned


def best_candidate(unit: CodeUnit) -> CodeCandidate:
    """Return the space and the point with which a unit is computed on this machine.

    Raises `OutOfTime` where the time for the work under way is over.

    >>> import einalg as ea
    >>> from einalg.language.ir.kernel import Kernel
    >>> unit = CodeUnit(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)))
    >>> best_candidate(unit).space.name
    'loops'
    """
    return _measured(unit) or cheapest(unit, machine())


def _measured(unit: CodeUnit) -> CodeCandidate | None:
    """Return the tiling of a contraction that was measured as the fastest."""
    if not unit.is_operator:
        return None
    space = contraction_space(unit, machine())
    best = space and tuned(space.contraction)
    if space is None or best is None:
        return None
    return CodeCandidate(space, space.point(*best))


def fused_function(unit: CodeUnit, epilogue: Epilogue) -> Function | None:
    """Return a function of an operator that stores a statement which reads its results.

    None where no code does, or loops of their own are cheaper.
    """
    fused = best_candidate(unit).with_epilogue(epilogue)
    if fused is None:
        return None
    return fused.build()
