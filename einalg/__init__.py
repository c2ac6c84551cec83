"""einalg: tensor programs rewritten as mathematics, proven equal, and run fast (after EinNet,
OSDI'23).

Everything is imported on first use, so that `import einalg` costs nothing:

>>> import einalg as ea
>>> conv = ea.parse(
...     "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]", A=(1,8,8,4), K=(3,3,5,4)
... )
>>> conv.shape
(1, 8, 8, 5)
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "einalg.language.notation.builders": "L Max Min Prod Sum indices tensor",
    "einalg.language.notation.constant": "constant",
    "einalg.language.index.remainder": "Mod",
    "einalg.language.index.size": "size",
    "einalg.language.index.cases": "Piecewise",
    "einalg.language.notation.einsum": "einsum",
    "einalg.language.notation.parser": "parse",
    "einalg.errors": "CodegenError DeviceError EinalgError MatchError NotationError "
    "RangeError RecordError RepeatedTermWarning RuleError ShapeError UndefinedError UseError",
    "einalg.language.ir.program": "Program",
    "einalg.language.ir.body": "Reduce",
    "einalg.language.ir.scope": "Scope",
    "einalg.language.notation.text_arguments": "evaluate",
    "einalg.display.footprint": "footprint",
    "einalg.api.derivation": "Derivation History derive",
    "einalg.api.optimization": "Optimized optimize",
    "einalg.api.questions": "Move Mutant Proof Rule RuleReport check_rule distance doctor "
    "mapping_table mutants prove rule rules",
    "einalg.api.session": "Session",
    "einalg.api.schedules.by_hand": "Schedule",
    "einalg.api.schedules.tuning": "Tuning tune",
}
_NAMES = {name: module for module, names in _HOME.items() for name in names.split()}
_MODULES = {
    "ops": "einalg.language.ops",
    "substitutions": "derive.substitutions",
    "testing": "einalg.testing",
}

__all__ = [*_NAMES, *_MODULES]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        _show_mathematics()
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES:
        _show_results()
        value = import_module(_MODULES[name])
    else:
        boundary = import_module("einalg.boundary")
        try:
            raise boundary.missing_attribute("ea", name, __all__)
        except AttributeError as error:
            boundary.hide_inside(error)
            raise
    globals()[name] = value
    return value


def _show_mathematics() -> None:
    """Let a notebook show expressions as MathML."""
    if "IPython" in sys.modules:
        import_module("einalg.display.mathml").attach_to_expressions()


def _show_results() -> None:
    """Let a notebook show what the functions of a module return, as mathematics and tables."""
    if "IPython" in sys.modules:
        import_module("einalg.api")


def __dir__() -> list[str]:
    return sorted(__all__)
