"""How the indices of a scope can play the roles of a pattern's, and what stands in the way (design §7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from derive.matching.patterns.normal_form import OUTPUT, NormalForm, ReadAxis, Row
from derive.matching.patterns.pattern import Pattern, named
from einalg.language.index.affine import Index
from einalg.language.ir.printing.text import outline

BODY, STRAY, MIXED, SUM_MIXED, TWICE, CONDITION, PADDED, MISSING = (
    20.0,
    4.0,
    3.0,
    6.0,
    3.0,
    0.25,
    0.25,
    4.0,
)

PAIR = 2
LONGEST = 100  # letters of a body in a reason


@dataclass(frozen=True)
class Reason:
    """One thing that separates an expression from an operator, and about how many rule applications mend it.

    `kind` says which; `read` and `axis` (numbers) and `indices` say where, for the moves that mend it.
    """

    text: str
    weight: float
    kind: str = ""
    read: int | None = None
    axis: int | None = None
    indices: tuple[Index, ...] = ()


@dataclass
class Assignment:
    """Operand by operand the number of the read; role by role the indices that play it, in their order in the scope."""

    operands: dict[str, int]
    roles: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    axes: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # mixed axis of a read: axis of the operand
    batch: tuple[Index, ...] = ()
    reasons: list[Reason] = field(default_factory=list)

    @property
    def weight(self) -> float:
        return sum(r.weight for r in self.reasons)


def unlike(body: Any, form: Any) -> Reason:
    """A body with other operations than that of an operator's definition: both without their sizes."""
    own = outline(body)
    shown = own if len(own) <= LONGEST else f"{own[: LONGEST - 1]}…"
    return Reason(f"the body {shown} is not of the form {outline(form)}", BODY, "body")


def assignments(profile: NormalForm, pattern: Pattern) -> Iterator[Assignment]:
    """Every way to give the indices of a scope the roles of a pattern, with what is wrong in it; none where the body is another one."""
    if profile.skeleton != pattern.example.skeleton or len(profile.reads) != len(pattern.names):
        return
    for order in permutations(pattern.names):
        names = list(order)
        if len(names) > PAIR and profile.named_skeleton(names) != pattern.named_skeleton:
            continue  # of two operands both orders are few
        for mixed in _mixed(profile, pattern, names):
            found = Assignment(
                {name: k for k, name in enumerate(names)},
                axes={key: axis for key, (_, axis) in mixed.items()},
            )
            if _axes_agree(profile, pattern, names, mixed, found):
                _rest(profile, pattern, names, found)
                yield found


Mixed = dict[tuple[int, int], tuple[ReadAxis, int]]


def _mixed(profile: NormalForm, pattern: Pattern, names: list[str]) -> Iterator[Mixed]:
    """Every pairing of axes that several indices share with such axes of the operands; axes without a partner are left out."""
    yield from _choices(
        [
            (k, axis)
            for k, read in enumerate(profile.reads)
            for axis in read.axes
            if axis.index is None
        ],
        {},
        profile,
        pattern,
        names,
    )


def _choices(
    left: Sequence[tuple[int, ReadAxis]],
    chosen: Mixed,
    profile: NormalForm,
    pattern: Pattern,
    names: list[str],
) -> Iterator[Mixed]:
    if not left:
        yield dict(chosen)
        return
    (read, axis), *rest = left
    rows = [named(profile.rows[i], names) for i in axis.indices]
    used = {a for (r, _), (_, a) in chosen.items() if r == read}
    partners = [
        a
        for (name, a), roles in pattern.mixed.items()
        if name == names[read]
        and a not in used
        and _inside(rows, [pattern.roles[r] for r in roles])
    ]
    for partner in partners:
        yield from _choices(
            rest, {**chosen, (read, axis.position): (axis, partner)}, profile, pattern, names
        )
    if not partners or profile.separable(axis):
        yield from _choices(rest, chosen, profile, pattern, names)


def _inside(rows: Sequence[Row], roles: Sequence[Row]) -> bool:
    left = list(roles)
    for row in rows:
        if row not in left:
            return False
        left.remove(row)
    return True


def _axes_agree(
    profile: NormalForm, pattern: Pattern, names: list[str], mixed: Mixed, found: Assignment
) -> bool:
    """Give the indices of mixed axes their roles; False where two axes ask for different ones."""
    taken: dict[Index, str] = {}
    for (read, _), (axis, partner) in mixed.items():
        roles = list(pattern.mixed[names[read], partner])
        for index in axis.indices:
            row = named(profile.rows[index], names)
            role = taken.get(index) or next(r for r in roles if pattern.roles[r] == row)
            if role not in roles:
                return False
            roles.remove(role)
            taken[index] = role
    if len(set(taken.values())) != len(taken):
        return False
    found.roles = {role: (index,) for index, role in taken.items()}
    return True


def _rest(profile: NormalForm, pattern: Pattern, names: list[str], found: Assignment) -> None:
    """The other indices, and everything that does not fit."""
    assigned = {i for members in found.roles.values() for i in members}
    everywhere = frozenset([*names, OUTPUT])
    grouped: dict[Row, list[Index]] = {}
    for index in profile.extents:
        if index not in assigned:
            grouped.setdefault(named(profile.rows[index], names), []).append(index)
    in_mixed = {role for roles in pattern.mixed.values() for role in roles}
    for row, members in grouped.items():
        roles = [r for r, own in pattern.roles.items() if own == row and r not in found.roles]
        if roles:
            found.roles[min(roles, key=lambda r: r in in_mixed)] = tuple(members)
        elif row == everywhere and pattern.template.batch:
            found.batch = tuple(members)
        else:
            found.reasons += [_stray(profile, names, index, pattern) for index in members]
    if pattern.sums and not any(
        found.roles.get(role) for role, row in pattern.roles.items() if OUTPUT not in row
    ):
        found.reasons.append(
            Reason(f"no index is summed as in {pattern.template.name}", MISSING, "sum")
        )
    found.reasons += _axis_reasons(profile, pattern, found)
    extra = len(profile.conditions) - len(pattern.example.conditions)
    found.reasons += [
        Reason(f"the domain has the condition {c}", CONDITION, "condition")
        for c in profile.conditions[: max(0, extra)]
    ]


def _stray(profile: NormalForm, names: list[str], index: Index, pattern: Pattern) -> Reason:
    places = [profile.reads[p].name for p in sorted(profile.rows[index] - {OUTPUT})]
    places += ["the output"] if OUTPUT in profile.rows[index] else []
    where = " and ".join(places) or "nothing"
    return Reason(
        f"index {index} occurs in {where}; {pattern.template.name} has no such index left",
        STRAY,
        "stray",
        indices=(index,),
    )


def _by_name(index: Index) -> str:
    return index.name


def _axis_reasons(profile: NormalForm, pattern: Pattern, found: Assignment) -> Iterator[Reason]:
    outputs = set(profile.scope.indices)
    for number, read in enumerate(profile.reads):
        seen: set[Index] = set()
        for axis in read.axes:
            own = set(axis.indices)
            place = {"read": number, "axis": axis.position, "indices": axis.indices}
            if seen & own:
                yield Reason(
                    f"{', '.join(map(str, sorted(seen & own, key=_by_name)))} stands twice in {read.name}",
                    TWICE,
                    "twice",
                    **place,
                )
            seen |= own
            if read.is_padded_twice and axis.overrun != (0, 0):
                yield Reason(
                    f"{read.name} is read through two paddings at {axis.form}",
                    PADDED,
                    "padded",
                    **place,
                )
                continue
            if (number, axis.position) in found.axes:
                if not axis.form.is_affine() and not pattern.quotients:
                    yield Reason(
                        f"the subscript {axis.form} of {read.name} has a quotient",
                        MIXED,
                        "quotient",
                        **place,
                    )
                continue
            if axis.index is None and not profile.separable(axis):
                weight = SUM_MIXED if own & outputs and own - outputs else MIXED
                yield Reason(
                    f"the subscript {axis.form} of {read.name} is not a bare index",
                    weight,
                    "mixed",
                    **place,
                )
            elif axis.overrun != (0, 0):
                yield Reason(
                    f"{read.name} is read through padding at {axis.form}", PADDED, "padded", **place
                )
