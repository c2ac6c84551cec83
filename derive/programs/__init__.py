"""The program-level optimizer: whole networks, one subprogram after the other, put together again (design §11)."""

from __future__ import annotations

from derive.programs.layers import Layer
from derive.programs.optimize import optimized
from derive.programs.optimized import Optimized
from derive.programs.optimized_program import Part

__all__ = ["Layer", "Optimized", "Part", "optimized"]
