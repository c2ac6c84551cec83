"""What derivation asks of code generation, as a protocol: the two packages do not know each other (design §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from einalg.kernel import Kernel
from einalg.program import Program


class Runnable(Protocol):
    """A compiled program: call it with arrays by name."""

    def __call__(self, **arrays: Any) -> Any: ...

    def source(self, language: str = "c") -> str: ...


class Backend(Protocol):
    """Compiles, checks and times flat programs on one target."""

    def compile(self, program: Program, kernels: Sequence[Kernel], target: str) -> Runnable: ...

    def seconds(self, runnables: Sequence[Runnable], arrays: Mapping[str, Any]) -> list[float]:
        """What a run of each takes, measured in turns so that a busy moment of the machine meets all of them."""
        ...

    def reference(self, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]: ...
