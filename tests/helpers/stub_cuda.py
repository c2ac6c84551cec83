"""A stub in the place of PyCUDA's modules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Error(Exception):
    """As `pycuda.driver.Error`."""


class LogicError(Error): ...


class MemoryError(Error): ...


class StubCuda(SimpleNamespace):
    """PyCUDA's driver for a device of so many bytes; `failing` says what raises which error."""

    def __init__(self, room: int = 1 << 30, **failing: Exception):
        self.failing, self.room, self.current = failing, room, 0
        context = SimpleNamespace(push=lambda: self.count(1))
        device = SimpleNamespace(
            name=lambda: "a stub",
            compute_capability=lambda: (8, 0),
            retain_primary_context=lambda: context,
            count=lambda: 1,
        )
        super().__init__(
            Error=Error,
            MemoryError=MemoryError,
            Context=SimpleNamespace(pop=lambda: self.count(-1)),
        )
        self.Device = type(
            "Device", (), {"count": staticmethod(lambda: 1), "__new__": lambda cls, number: device}
        )

    def count(self, step: int) -> None:
        self.current += step

    def called(self, name: str) -> None:
        if name in self.failing:
            raise self.failing[name]

    def init(self) -> None: ...

    def module_from_buffer(self, image: bytes) -> Any:
        self.called("load")
        return SimpleNamespace(get_function=lambda name: self.kernel)

    def kernel(self, *arguments: Any, grid: Any, block: Any) -> None:
        self.called("launch")

    def mem_alloc(self, size: int) -> int:
        if size > self.room:
            raise MemoryError("cuMemAlloc failed: out of memory")
        return 1 << 20

    def mem_get_info(self) -> tuple[int, int]:
        return self.room, 2 * self.room

    def memcpy_htod(self, address: int, array: Any) -> None:
        self.called("upload")

    def memcpy_dtoh(self, array: Any, address: int) -> None:
        self.called("download")

    def Event(self) -> Any:
        return SimpleNamespace(
            record=lambda: None,
            synchronize=lambda: self.called("wait"),
            time_till=lambda other: 1.0,
        )
