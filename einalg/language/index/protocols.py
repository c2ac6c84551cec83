"""Protocols of index arithmetic: what its printers and evaluators need of a form, and no more.

They are below the nodes, so that the nodes can use them: `2*h + h//3 - 1` has the terms
`((h, 2), (h//3, 1))` and the constant `-1`.
"""

from __future__ import annotations

from typing import Any, Protocol


class LinearForm(Protocol):
    """A sum of atoms with whole coefficients, and a constant."""

    @property
    def terms(self) -> tuple[tuple[Any, int], ...]: ...

    @property
    def const(self) -> int: ...

    def as_index(self) -> Any: ...

    def as_atom(self) -> Any: ...


class DividedForm(Protocol):
    """A form divided by a positive number: `argument // divisor` or `argument % divisor`."""

    @property
    def argument(self) -> LinearForm: ...

    @property
    def divisor(self) -> int: ...

    @property
    def sign(self) -> str: ...
