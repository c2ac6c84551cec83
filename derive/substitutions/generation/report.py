"""What a generation was: its programs and rules in numbers, and the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.substitutions.files.json_writer import text_of_rules
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import RecordError
from einalg.options import NEW_FILE, checked
from einalg.storage.atomic_file import write_whole
from einalg.text.tables import aligned

COLUMNS = {
    "enumerated": "programs",
    "distinct": "of distinct values",
    "candidates": "candidates",
    "after_renaming": "after renaming",
    "after_common_parts": "after common parts",
    "after_derivable": "not derivable",
    "proved": "proved",
    "under_conditions": "under conditions",
    "refused": "refused",
}


@dataclass(frozen=True)
class SizeReport:
    """The numbers of one size: of programs of so many operators, applied to programs that stand for
    classes, at the largest size those that read the first inputs of each shape; of distinct values
    among them that no smaller program has; of candidates, pairs of equal programs; of those that
    are left where no pair is a renaming of another one, where none has a part in common whose place
    may be taken by an input, and where none follows from the rules before it. Of these, so many are
    proved, of which some under conditions, and refused. Of two outputs, a program is a pair of such
    that share work, in place of two that compute more.
    """

    size: int
    outputs: int = 1
    enumerated: int = 0
    distinct: int = 0
    candidates: int = 0
    after_renaming: int = 0
    after_common_parts: int = 0
    after_derivable: int = 0
    proved: int = 0
    under_conditions: int = 0
    refused: int = 0

    @property
    def name(self) -> str:
        return str(self.size) if self.outputs == 1 else f"{self.size}, {self.outputs} outputs"


@dataclass(frozen=True)
class GenerationReport:
    """The numbers of each size, the seconds that all took, and whether all was looked at.

    The `unused` operators took none of the inputs, such as for a parameter that does not fit.
    """

    sizes: tuple[SizeReport, ...]
    seconds: float
    is_complete: bool
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("size", *COLUMNS.values(), "")]
        for size in self.sizes:
            numbers = [f"{getattr(size, name):,}" for name in COLUMNS]
            rows.append((size.name, *numbers, ""))
        text = aligned(rows, str.rjust)
        end = "complete" if self.is_complete else "the time was over before all was looked at"
        lines = [text, *(f"{one} takes none of the inputs" for one in self.unused)]
        return "\n".join([*lines, f"{self.seconds:.1f} s, {end}"])

    __repr__ = __str__

    def total(self, name: str) -> int:
        """Return the sum of one number over all sizes."""
        return sum([getattr(size, name) for size in self.sizes])


@dataclass(frozen=True, repr=False)
class GeneratedRules:
    """The rules that `generate` proved, in the order in which it met them, smaller ones first, with
    their verdicts and the numbers of the search.

    It is iterable and has a length; `save` writes a file that `load` and `einalg verify` read.
    `refused` are pairs of programs that are equal at the sizes of the inputs, but not in general or
    not by a proof.
    """

    rules: tuple[Substitution, ...]
    verdicts: tuple[RuleVerdict, ...]
    texts: tuple[str, ...]
    refused: tuple[tuple[str, RuleVerdict], ...]
    report: GenerationReport

    def __iter__(self) -> Iterator[Substitution]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, place: int) -> Substitution:
        return self.rules[place]

    @checked(path=NEW_FILE)
    def save(self, path: Any) -> None:
        """Write the rules to a file of JSON, whole or not at all. Raises `RecordError` where it
        cannot be written.
        """
        try:
            write_whole(Path(path), text_of_rules(self.rules).encode())
        except OSError as error:
            raise RecordError(
                f"{path} cannot be written: {error.strerror}\n  give a file in a folder of yours"
            ) from None

    def __str__(self) -> str:
        lines = []
        for text, verdict in zip(self.texts, self.verdicts):
            condition = f"   where {verdict.condition_text}" if verdict.condition_text else ""
            lines.append(f"{verdict.rule}: {text}{condition}")
        return "\n".join([*lines, "", str(self.report)])

    __repr__ = __str__
