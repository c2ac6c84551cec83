"""What a proof says (design §9, §12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROVED, TESTED, DIFFERENT = "proved", "tested", "different"
LONGEST_REGION = 400  # characters of a region that a text shows


@dataclass(frozen=True, repr=False)
class Proof:
    """Whether two expressions are equal, and how that is known. It is true unless the verdict is `"different"`.

    `verdict` is `"proved"`, `"tested"` or `"different"`. `region` is None, or the `islpy.Set` of the output points that differ,
    counted from 0 on every axis, and `output` the name of the output that it belongs to. `method` says how the verdict was
    found, `reason` what differs, in words. `error_probability` bounds the probability that the verdict is wrong: 0 for what is
    exact, None where no bound is known.

    >>> Proof("proved", None, "access relations", 0.0)
    proved: equal at every output point, for all inputs (access relations)
    """

    verdict: str
    region: Any = None
    method: str = ""
    error_probability: float | None = None
    output: str | None = None
    reason: str = ""

    def __bool__(self) -> bool:
        return self.verdict != DIFFERENT

    def __str__(self) -> str:
        place = f"\n  where: {_shortened(str(self.region))}" if self.region is not None else ""
        return f"{self.verdict}: {self.reason or self._explanation()} ({self.method}{self._bound()}){place}"

    __repr__ = __str__

    def _explanation(self) -> str:
        if self.verdict == PROVED:
            return "equal at every output point, for all inputs"
        if self.verdict == TESTED:
            return "no difference was found"
        return f"{self.output or 'the output'} differs"

    def _bound(self) -> str:
        if self.error_probability:
            return f"; error probability {self.error_probability:.1g}"
        return (
            "; no bound on the error is known"
            if self.verdict == TESTED and self.error_probability is None
            else ""
        )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REGION else f"{text[:LONGEST_REGION]} …"
