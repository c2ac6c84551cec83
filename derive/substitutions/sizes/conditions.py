"""Conditions on the groups of convolutions, inferred from the choices at which a rule holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import islpy as isl

from derive.substitutions.sizes.sizing import Group


@dataclass(frozen=True)
class GroupTest:
    """A simple condition: in isl's notation, and as a test of one choice of groups."""

    text: str
    kind: str
    holds: Callable[[tuple[Group, ...]], bool]


@dataclass(frozen=True)
class GroupCondition:
    """A conjunction of atoms; the parameters are `G1` and `P1`, the groups of the first convolution
    and the outputs of each, and so on.
    """

    atoms: tuple[GroupTest, ...]
    count: int

    def holds(self, groups: tuple[Group, ...]) -> bool:
        return all(atom.holds(groups) for atom in self.atoms)

    @property
    def text(self) -> str:
        return " and ".join(dict.fromkeys(atom.kind for atom in self.atoms))

    @property
    def sizes(self) -> Any:
        """The condition as an isl set of parameters."""
        names = [name for k in range(1, self.count + 1) for name in (f"G{k}", f"P{k}")]
        conditions = [f"{name} > 0" for name in names] + [atom.text for atom in self.atoms]
        return isl.Set(f"[{', '.join(names)}] -> {{ : {' and '.join(conditions)} }}")


ONE_GROUP = "one group"
EQUAL_OUTPUTS = "outputs per group equal"
EQUAL_GROUPS = "numbers of groups equal"


def inferred(
    holding: Sequence[tuple[Group, ...]], failing: Sequence[tuple[Group, ...]]
) -> GroupCondition | None:
    """Return the weakest conjunction of atoms that is true of all choices that hold and of none
    that fails, of few kinds of atoms; None where no conjunction is.

    >>> one, two = ((1, 1), (1, 1)), ((2, 1), (2, 1))
    >>> inferred([one], [two]).text
    'one group'
    >>> inferred([one, two], [((2, 1), (2, 2))]).text
    'outputs per group equal'
    """
    if not holding:
        return None
    count = len(holding[0])
    atoms = [a for a in _atoms(count) if all(a.holds(groups) for groups in holding)]
    by_kind: dict[str, list[GroupTest]] = {}
    for atom in atoms:
        by_kind.setdefault(atom.kind, []).append(atom)
    for number in range(1, len(by_kind) + 1):
        for kinds in combinations(by_kind, number):
            chosen = [atom for kind in kinds for atom in by_kind[kind]]
            if _excludes(chosen, failing):
                return GroupCondition(_needed(chosen, failing), count)
    return None


def may_be_excluded(groups: tuple[Group, ...]) -> bool:
    """Return whether some condition excludes a choice of groups.

    >>> may_be_excluded(((1, 2), (1, 2))), may_be_excluded(((2, 1), (2, 1)))
    (False, True)
    """
    return not all(atom.holds(groups) for atom in _atoms(len(groups)))


def _excludes(atoms: Sequence[GroupTest], failing: Sequence[tuple[Group, ...]]) -> bool:
    return not any(all(atom.holds(groups) for atom in atoms) for groups in failing)


def _needed(atoms: list[GroupTest], failing: Sequence[tuple[Group, ...]]) -> tuple[GroupTest, ...]:
    """Leave out the atoms without which the others still exclude what fails, last ones first."""
    for atom in reversed(list(atoms)):
        rest = [other for other in atoms if other is not atom]
        if rest and _excludes(rest, failing):
            atoms = rest
    return tuple(atoms)


def _atoms(count: int) -> list[GroupTest]:
    atoms = []
    for i, j in combinations(range(count), 2):
        atoms.append(_equal(f"P{i + 1} = P{j + 1}", EQUAL_OUTPUTS, i, j, 1))
    for i, j in combinations(range(count), 2):
        atoms.append(_equal(f"G{i + 1} = G{j + 1}", EQUAL_GROUPS, i, j, 0))
    for i in range(count):
        atoms.append(_one(f"G{i + 1} = 1", ONE_GROUP, i))
    return atoms


def _equal(text: str, kind: str, one: int, two: int, part: int) -> GroupTest:
    return GroupTest(text, kind, lambda groups: groups[one][part] == groups[two][part])


def _one(text: str, kind: str, place: int) -> GroupTest:
    return GroupTest(text, kind, lambda groups: groups[place][0] == 1)
