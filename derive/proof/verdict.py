"""The outcome of a comparison: a verdict, how it was reached, and where the two sides differ (design §9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROVED, TESTED, DIFFERENT = "proved", "tested", "different"


@dataclass(frozen=True)
class Proof:
    """`verdict` is `"proved"`, `"tested"` or `"different"`.

    `region` is the `islpy.Set` of the output points on which the two sides differ (None where they do not), counted from 0 on
    every axis; `output` names the output that it belongs to. `error_probability` bounds the chance that two different
    expressions were called `"tested"`: 0 for an exact method, None where no bound is known.
    """

    verdict: str
    method: str
    region: Any = None
    output: str | None = None
    error_probability: float | None = 0.0

    def __bool__(self) -> bool:
        """Whether the two sides are equal, as far as the method can tell."""
        return self.verdict != DIFFERENT

    def __str__(self) -> str:
        chance = "" if not self.error_probability else f", error probability {self.error_probability:.1e}"
        where = "" if self.region is None else f"\n  where they differ{f' ({self.output})' if self.output else ''}: {_short(str(self.region))}"
        return f"{self.verdict} ({self.method}{chance}){where}"

    __repr__ = __str__


def _short(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
