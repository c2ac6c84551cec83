"""What a proof says (design §9, §12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROVED, TESTED, DIFFERENT = "proved", "tested", "different"
MAX_REGION_CHARACTERS = 400  # of a region in a text


@dataclass(frozen=True, repr=False)
class Proof:
    """Whether two expressions are equal, and how that is known. It is true unless the verdict is
    `"different"`.

    `verdict` is `"proved"`, `"tested"` or `"different"`. `region` is None, or the `islpy.Set` of
    the output points that differ, counted from 0 on every axis, and `output` the name of the output
    that it belongs to. `method` says how the verdict was reached, `reason` what differs, in words.
    `error_probability` bounds the probability that the verdict is wrong: 0 for what is exact, None
    where no bound is known.

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
        explanation = self.reason or self._explanation()
        text = f"{self.verdict}: {explanation} ({self.method}{self._bound()})"
        if self.region is None:
            return text
        return f"{text}\n  where: {_shortened(str(self.region))}"

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
        if self.verdict == TESTED and self.error_probability is None:
            return "; no bound on the error is known"
        return ""


def _shortened(text: str) -> str:
    if len(text) <= MAX_REGION_CHARACTERS:
        return text
    return f"{text[:MAX_REGION_CHARACTERS]} …"
