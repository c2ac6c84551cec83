"""Samples of a batch, or other slices, each of which a program computes by itself (design §11)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slices:
    """How many there are, along the first axis of all outputs and of the inputs called `names`; what else is read is the same for all."""

    count: int
    names: frozenset[str]
