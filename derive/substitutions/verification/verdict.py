"""What is known of a substitution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_CHARACTERS = 300  # of a set in a text


@dataclass(frozen=True, repr=False)
class RuleVerdict:
    """The verdict on a substitution: `"proved"`, `"tested"` or `"different"`; true where it is
    proved.

    `condition` is None where the two sides are equal at all sizes at which both have a meaning;
    else the isl set of sizes at which they are, and `condition_text` the same in words: "one
    group", "K = 1". The parameters of a condition on groups are `G1`, the groups of the first
    convolution, `P1`, the outputs of each, and so on. Where there is a condition, or the verdict is
    `"different"`, `counterexample` has the smallest sizes at which the sides differ, by name, and
    `region` the isl set of output points that do. `coverage` says what was tried where that was not
    everything.
    """

    rule: str
    verdict: str
    condition: Any = None
    condition_text: str = ""
    counterexample: dict[str, int] | None = None
    region: Any = None
    coverage: str = ""

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    def __str__(self) -> str:
        text = f"{self.rule}: {self.verdict}"
        if self.condition_text:
            text += f" where {self.condition_text}"
        if self.coverage:
            text += f" ({self.coverage})"
        if self.counterexample:
            numbers = ", ".join(f"{k} = {v}" for k, v in self.counterexample.items())
            text += f"\n  different at {numbers}"
            if self.region is not None:
                text += f", where {_shortened(str(self.region))}"
        return text

    __repr__ = __str__


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"
