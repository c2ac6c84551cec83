"""The verdict of a proof (design §9, §12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from einalg.language.analysis.sizes import smallest

PROVED, TESTED, DIFFERENT = "proved", "tested", "different"
UNKNOWN = "unknown"  # where a proof was given up, since its time was over
MAX_REGION_CHARACTERS = 400  # of a region in a text


@dataclass(frozen=True, repr=False)
class Proof:
    """The verdict on whether two expressions are equal, and how it was reached. A proof is true
    where the verdict is `"proved"`; `holds` is true for `"tested"` as well.

    `verdict` is `"proved"`, `"tested"` or `"different"`. `region` is None, or an `islpy.Set` of
    output points that differ, counted from 0 on every axis: of all of them where `is_region_exact`,
    else of those that were seen to. `output` is the name of the output that it belongs to. `method`
    says how the verdict was reached, `coverage` at which output points inputs were tried, `reason`
    what differs, in words. `error_probability` bounds the probability that the verdict is wrong: 0
    for what is exact, None where no bound is known.

    Where expressions have symbolic sizes, the parameters of the region are the sizes, and `sizes`
    is the isl set of those at which the two differ, empty where they never do; None without
    symbolic sizes. It has all of them where `are_sizes_exact`, else those that were seen to.
    `counterexample` gives the smallest of them.

    >>> Proof("proved", None, "access relations", 0.0)
    proved: equal at every output point, for all inputs (access relations)
    >>> bool(Proof("tested")), Proof("tested").holds, Proof("different").holds
    (False, True, False)
    """

    verdict: str
    region: Any = None
    method: str = ""
    error_probability: float | None = None
    output: str | None = None
    reason: str = ""
    is_region_exact: bool = False
    coverage: str = ""
    sizes: Any = None
    are_sizes_exact: bool = False

    @property
    def counterexample(self) -> dict[str, int] | None:
        """The smallest sizes at which the two differ; None where there are none."""
        if self.sizes is None:
            return None
        return smallest(self.sizes) or None

    def __bool__(self) -> bool:
        return self.verdict == PROVED

    @property
    def holds(self) -> bool:
        """True where no difference is known: proved, or tested."""
        return self.verdict != DIFFERENT

    def __str__(self) -> str:
        text = f"{self.verdict}: {self.explanation} ({self.evidence})"
        if self.region is not None:
            text += f"\n  {self.where}: {_shortened(str(self.region))}"
        if self.counterexample is not None:
            text += f"\n  at sizes: {_shortened(str(self.sizes))}; {self.smallest_sizes}"
        return text

    __repr__ = __str__

    @property
    def explanation(self) -> str:
        """The verdict in words: "no difference was found"."""
        if self.reason:
            return self.reason
        if self.verdict == PROVED and self.sizes is not None:
            return "equal at every output point, for all inputs and all sizes"
        if self.verdict == PROVED:
            return "equal at every output point, for all inputs"
        if self.verdict == TESTED:
            return "no difference was found"
        return f"{self.output or 'the output'} differs"

    @property
    def smallest_sizes(self) -> str:
        """The counterexample in words: "the smallest N = 2"; nothing where there is none."""
        numbers = [f"{name} = {number}" for name, number in (self.counterexample or {}).items()]
        return f"the smallest {', '.join(numbers)}" if numbers else ""

    @property
    def evidence(self) -> str:
        """The method, what it covered, and the bound on its error, in words."""
        return "; ".join([part for part in (self.method, self.coverage, self._bound()) if part])

    @property
    def where(self) -> str:
        """The words before a region: whether it is all that differs."""
        return "where" if self.is_region_exact else "where, at least"

    def _bound(self) -> str:
        if self.error_probability:
            return f"error probability {self.error_probability:.1g}"
        if self.verdict == TESTED and self.error_probability is None:
            return "no bound on the error is known"
        return ""


def _shortened(text: str) -> str:
    if len(text) <= MAX_REGION_CHARACTERS:
        return text
    return f"{text[:MAX_REGION_CHARACTERS]} …"
