"""Programs that are compiled when they are first asked for something."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from derive.cost.backend import Runnable


class Postponed:
    """A program that another one runs for now; it is compiled once it is looked at.

    >>> Postponed(lambda: 1 / 0).workspace
    0
    """

    def __init__(self, compiler: Callable[[], Runnable]):
        self._compiler = compiler

    @cached_property
    def _compiled(self) -> Runnable:
        return self._compiler()

    @property
    def workspace(self) -> int:
        """The bytes that it holds for what is between its kernels: none until it is compiled."""
        return self._compiled.workspace if "_compiled" in vars(self) else 0

    def __call__(self, **arrays: Any) -> Any:
        return self._compiled(**arrays)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
