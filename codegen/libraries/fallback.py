"""A library's call with generated code to fall back to: whatever it raises, values are right."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from codegen.runtime.protocol import (
    Buffers,
    KernelFunction,
    Packed,
    packed_inputs,
    prepared,
)

LOG = logging.getLogger("einalg")


class Fallback:
    """Calls `run`; from the first time on that it raises, `instead()`, with a warning.

    `what` names the library's implementation and the kernel.
    """

    def __init__(self, run: KernelFunction, instead: Callable[[], KernelFunction], what: str):
        self.run, self.instead, self.what = run, instead, what
        self._lock, self._fallen = threading.Lock(), False

    def __call__(self, buffers: Buffers) -> None:
        try:
            self.run(buffers)
        except Exception as error:  # a library may raise anything
            self._fall(error)
            self.run(buffers)

    def prepared(self, known: Buffers, packed: Packed) -> Fallback:
        """The same with what is known ahead packed by the library."""
        try:
            return Fallback(prepared(self.run, known, packed), self.instead, self.what)
        except Exception as error:  # it may do without
            LOG.warning("einalg: %s packs nothing ahead: %s", self.what, str(error))
            return self

    @property
    def packed_inputs(self) -> frozenset[str]:
        """What the library packed, or what the generated code did that took its place."""
        return packed_inputs(self.run)

    def _fall(self, error: Exception) -> Any:
        with self._lock:
            if not self._fallen:
                LOG.warning(
                    "einalg: %s failed, generated code is used instead: %s", self.what, str(error)
                )
                self.run, self._fallen = self.instead(), True
