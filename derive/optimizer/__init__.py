"""The program-level optimizer: whole networks, one subprogram after the other, put together again (design §11)."""

from __future__ import annotations

from derive.optimizer.layers import Layer
from derive.optimizer.network import Optimized, optimized
from derive.optimizer.parts import Part

__all__ = ["Layer", "Optimized", "Part", "optimized"]
