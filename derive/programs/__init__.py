"""The program-level optimizer: whole networks, one subprogram after the other, put together again (design §11)."""

from __future__ import annotations

from derive.programs.layers import Layer
from derive.programs.optimize import optimized
from derive.programs.optimized import OptimizedNetwork
from derive.programs.optimized_program import OptimizedProgram

__all__ = ["Layer", "OptimizedNetwork", "OptimizedProgram", "optimized"]
