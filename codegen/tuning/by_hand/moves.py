"""A step of a schedule as a value that prints, travels as JSON, and is applied elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from einalg.options import shown


@dataclass(frozen=True)
class ScheduleMove:
    """A step that writes a kernel as another kind of code, or with other numbers, or both.

    `space` is the kind of code; without one it stays. `values` are numbers by their names, of a
    `part` where the code has several, else of all of them.

    >>> print(ScheduleMove("O", values=(("rows", 6), ("vectors", 2))))
    O: rows=6, vectors=2
    """

    kernel: str
    space: str | None = None
    values: tuple[tuple[str, Any], ...] = ()
    part: int | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        row = {"kernel": self.kernel, "space": self.space, "part": self.part}
        return {**row, "values": dict(self.values)}

    @property
    def numbers(self) -> str:
        """Return the numbers as a call has them: `rows=6, vectors=2`."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.values)

    def __str__(self) -> str:
        where = self.kernel
        if self.part is not None:
            where += f", part {self.part}"
        what = ", ".join(text for text in (self.space, self.numbers) if text)
        return f"{where}: {what}"


def move_from_record(row: Any) -> ScheduleMove:
    """Return the step that a row of JSON is of; `ValueError` for anything else.

    >>> move = ScheduleMove("O", "loops", (("row", 64),))
    >>> move_from_record(move.as_record()) == move
    True
    """
    if not isinstance(row, Mapping) or row.keys() != ScheduleMove("").as_record().keys():
        raise ValueError("a step has a kernel, a space, values and a part")
    kernel, space, values, part = row["kernel"], row["space"], row["values"], row["part"]
    is_right = (
        isinstance(kernel, str)
        and isinstance(space, str | None)
        and isinstance(values, Mapping)
        and (part is None or type(part) is int)
    )
    if not is_right:
        raise ValueError("a field of a step has another type")
    return ScheduleMove(kernel, space, tuple(values.items()), part)
