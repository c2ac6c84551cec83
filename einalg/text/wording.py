"""Numbers and labels of things as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

LEFT_OUT = "…"
# An expression with its own statements, compiled as every candidate is that is compared with it.
AS_WRITTEN = "as it is written"


def counted(number: int, what: str) -> str:
    """Return so many of a thing.

    >>> counted(1, "move"), counted(2, "move")
    ('1 move', '2 moves')
    """
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}s"


def either_of(values: Sequence[object]) -> str:
    """Return values as alternatives in words.

    >>> either_of([4, 8, 16]), either_of([4])
    ('4, 8 or 16', '4')
    """
    *others, last = map(str, values)
    if not others:
        return last
    return f"{', '.join(others)} or {last}"


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds.

    >>> milliseconds(0.0123)
    '12.300 ms'
    """
    return f"{seconds * 1e3:.3f} ms"


def in_bytes(size: float) -> str:
    """Return a size as a person reads it.

    >>> in_bytes(12), in_bytes(3 * 2**20), in_bytes(5 * 2**32)
    ('12 B', '3.0 MiB', '20.0 GiB')
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} GiB"


DECIMAL = ((1e0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
BINARY = ((1.0, ""), (2.0**10, "Ki"), (2.0**20, "Mi"), (2.0**30, "Gi"))


@dataclass(frozen=True)
class Unit:
    """A prefix that makes numbers short to read, and what it stands for.

    >>> unit = Unit.of([20, 3_600_000], DECIMAL)
    >>> unit.prefix, unit.text(3_600_000), unit.text(20_000)
    ('M', '3.60', '0.020')
    """

    factor: float
    prefix: str

    @classmethod
    def of(cls, numbers: Iterable[float], prefixes: Sequence[tuple[float, str]]) -> Unit:
        """Return the unit of which the largest number has at least one."""
        largest = max(numbers, default=0.0)
        chosen = cls(*prefixes[0])
        for factor, prefix in prefixes:
            if factor <= largest:
                chosen = cls(factor, prefix)
        return chosen

    def text(self, number: float) -> str:
        """Return a number in this unit; the number itself where it has no prefix."""
        if not self.prefix:
            return f"{number:.0f}"
        return significant(number / self.factor)


def significant(number: float) -> str:
    """Return a number with about three digits that say something, and no exponent.

    >>> [significant(number) for number in (1234.5, 123.4, 12.34, 1.234, 0.1234, 0.0)]
    ['1234', '123', '12.3', '1.23', '0.123', '0']
    """
    if not number:
        return "0"
    for limit, places in ((99.95, 0), (9.995, 1), (0.9995, 2)):
        if abs(number) >= limit:
            return f"{number:.{places}f}"
    return f"{number:.3f}"


def shortened(labels: Iterable[str], longest: int) -> dict[str, str]:
    """Labels in at most so many letters; those that differ look different, if need be by a number.

    What a long one begins with like another one is left out, but for its first words.

    >>> labels = [f"staging at O.0.0: access=1, axes=(c, {index})" for index in "fr"]
    >>> list(shortened(labels, 26).values())
    ['staging … axes=(c, f)', 'staging … axes=(c, r)']
    """
    ordered = sorted(set(labels))
    alike = dict.fromkeys(ordered, 0)  # how many letters another one begins with too
    for one, other in pairwise(ordered):
        same = _common_letters(one, other)
        alike[one], alike[other] = max(alike[one], same), max(alike[other], same)
    cut = {label: _cut(label, same, longest) for label, same in alike.items()}
    seen: Counter[str] = Counter()
    for label, short in cut.items():
        seen[short] += 1
        if seen[short] > 1:
            mark = f" #{seen[short]}"
            cut[label] = short[: longest - len(mark)] + mark
    return cut


def _common_letters(one: str, other: str) -> int:
    """Return how many letters two texts begin with alike."""
    for position, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return position
    return min(len(one), len(other))


def _cut(label: str, alike: int, longest: int) -> str:
    """The beginning of a label, or where another one is the same there its first words and what
    differs.
    """
    if len(label) <= longest:
        return label
    if alike < longest - 1:
        return label[: longest - 1] + LEFT_OUT
    first = label[: longest // 2].rpartition(" ")[0].partition(" at")[0]
    start = label.rfind(" ", 0, alike + 1) + 1  # of what differs
    room = longest - len(first) - len(f" {LEFT_OUT} ")
    earlier = label.find(" ", len(label) - room - 1) + 1  # where there is room for more
    whole = f"{first} {LEFT_OUT} {label[min(start, earlier or start) :]}"
    return whole if len(whole) <= longest else whole[: longest - 1] + LEFT_OUT
