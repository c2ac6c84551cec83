"""How the indices of a scope can play the roles of a pattern's, and what stands in the way
(design §7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from derive.matching.patterns.normal_form import OUTPUT, NormalForm, ReadAxis, Row, TensorRead
from derive.matching.patterns.pattern import Pattern, with_operand_names
from derive.matching.patterns.reason import DISTANCE_WEIGHTS, Reason
from einalg.language.index.affine import Index

MAX_OPERANDS_IN_ANY_ORDER = 2  # of more, only orders that give the body of the definition are tried
Roles = dict[str, tuple[Index, ...]]
Mixed = dict[tuple[int, int], tuple[ReadAxis, int]]  # (read, its axis): the axis, and the operand's


@dataclass(frozen=True)
class Assignment:
    """The roles that the indices of a scope play, and the reasons why they cannot.

    `operands` gives the number of the read for every operand, `roles` the indices that play each
    role, in their order in the scope, `axes` the operand's axis for a mixed axis of a read. For
    `O[b,i,j] += A[b,i,k]*B[b,k,j]` as a matmul these are `{"A": 0, "B": 1}`,
    `{"b": (b,), "m": (i,), "n": (j,), "k": (k,)}` and `{}`.
    """

    operands: Mapping[str, int]
    roles: Mapping[str, tuple[Index, ...]]
    axes: Mapping[tuple[int, int], int]
    batch: tuple[Index, ...]
    reasons: list[Reason]

    @property
    def weight(self) -> float:
        return sum(reason.weight for reason in self.reasons)


@dataclass(frozen=True)
class _NamedReads:
    """A scope and a pattern, with the operand that each read of the scope is: `["A", "K"]`."""

    normalized: NormalForm
    pattern: Pattern
    names: list[str]

    def row(self, index: Index) -> Row:
        """Return where an index occurs, by the names of operands: `{"A", "output"}`."""
        return with_operand_names(self.normalized.rows[index], self.names)


def assignments(normalized: NormalForm, pattern: Pattern) -> Iterator[Assignment]:
    """Yield every way to give the indices of a scope the roles of a pattern, with what is wrong in
    it; none where the body is another one.
    """
    if normalized.skeleton != pattern.example.skeleton:
        return
    if len(normalized.reads) != len(pattern.names):
        return
    for order in permutations(pattern.names):
        reads = _NamedReads(normalized, pattern, list(order))
        if _has_body_of_pattern(reads):
            for mixed in _pairings(reads, _mixed_axes(normalized), {}):
                assignment = _assignment(reads, mixed)
                if assignment is not None:
                    yield assignment


def _has_body_of_pattern(reads: _NamedReads) -> bool:
    if len(reads.names) <= MAX_OPERANDS_IN_ANY_ORDER:
        return True
    return reads.normalized.named_skeleton(reads.names) == reads.pattern.named_skeleton


def _mixed_axes(normalized: NormalForm) -> list[tuple[int, ReadAxis]]:
    """List the axes that several indices share, or one in unequal steps, with the number of their
    read.
    """
    mixed = []
    for number, read in enumerate(normalized.reads):
        for axis in read.axes:
            if axis.index is None:
                mixed.append((number, axis))
    return mixed


def _pairings(
    reads: _NamedReads, axes: Sequence[tuple[int, ReadAxis]], chosen: Mixed
) -> Iterator[Mixed]:
    """Yield every pairing of mixed axes with such axes of the operands, beside what is chosen
    already; axes without a partner are left out.
    """
    if not axes:
        yield dict(chosen)
        return
    (read, axis), *rest = axes
    partners = _partners(reads, read, axis, chosen)
    for partner in partners:
        extended = {**chosen, (read, axis.position): (axis, partner)}
        yield from _pairings(reads, rest, extended)
    if not partners or reads.normalized.separable(axis):
        yield from _pairings(reads, rest, chosen)


def _partners(reads: _NamedReads, read: int, axis: ReadAxis, chosen: Mixed) -> list[int]:
    """List the mixed axes of an operand that have roles for all indices of an axis of its read."""
    used = set()
    for (other_read, _), (_, partner) in chosen.items():
        if other_read == read:
            used.add(partner)
    rows = [reads.row(index) for index in axis.indices]
    partners = []
    for (name, partner), roles in reads.pattern.mixed.items():
        if name != reads.names[read] or partner in used:
            continue
        if _contains(rows, [reads.pattern.roles[role] for role in roles]):
            partners.append(partner)
    return partners


def _contains(rows: Sequence[Row], roles: Sequence[Row]) -> bool:
    """Return whether every row has a role of its own with the same row."""
    left = list(roles)
    for row in rows:
        if row not in left:
            return False
        left.remove(row)
    return True


def _assignment(reads: _NamedReads, mixed: Mixed) -> Assignment | None:
    """Return the roles of all indices and everything that does not fit; None where mixed axes ask
    for different roles of one index.
    """
    mixed_roles = _roles_of_mixed_axes(reads, mixed)
    if mixed_roles is None:
        return None
    axes = {place: partner for place, (_, partner) in mixed.items()}
    roles, batch, stray = _all_roles(reads, mixed_roles)
    reasons = [_stray_index(reads, index) for index in stray]
    if reads.pattern.has_sum and not _has_sum(reads.pattern, roles):
        text = f"no index is summed as in {reads.pattern.template.name}"
        reasons.append(Reason(text, DISTANCE_WEIGHTS.missing_sum, "sum"))
    reasons += _axis_reasons(reads, axes)
    reasons += _condition_reasons(reads)
    operands = dict(zip(reads.names, range(len(reads.names))))
    return Assignment(operands, roles, axes, batch, reasons)


def _roles_of_mixed_axes(reads: _NamedReads, mixed: Mixed) -> Roles | None:
    """Give the indices of mixed axes their roles; None where two axes ask for different ones."""
    role_of: dict[Index, str] = {}
    for (read, _), (axis, partner) in mixed.items():
        free = list(reads.pattern.mixed[reads.names[read], partner])
        for index in axis.indices:
            role = role_of.get(index) or _role_with_row(reads.pattern, free, reads.row(index))
            if role not in free:
                return None
            free.remove(role)
            role_of[index] = role
    roles: Roles = {}
    for index, role in role_of.items():
        if role in roles:
            return None
        roles[role] = (index,)
    return roles


def _role_with_row(pattern: Pattern, roles: Sequence[str], row: Row) -> str:
    return next(role for role in roles if pattern.roles[role] == row)


def _all_roles(
    reads: _NamedReads, mixed_roles: Roles
) -> tuple[Roles, tuple[Index, ...], list[Index]]:
    """Return the roles of all indices, the batch, and the indices that are left without a role."""
    pattern = reads.pattern
    roles, batch, stray = dict(mixed_roles), tuple[Index, ...](), list[Index]()
    everywhere = frozenset([*reads.names, OUTPUT])
    for row, members in _unassigned_by_row(reads, mixed_roles).items():
        role = _free_role(pattern, row, roles)
        if role is not None:
            roles[role] = tuple(members)
        elif row == everywhere and pattern.template.batch:
            batch = tuple(members)
        else:
            stray += members
    return roles, batch, stray


def _unassigned_by_row(reads: _NamedReads, roles: Roles) -> dict[Row, list[Index]]:
    """Group the indices that have no role yet by where they occur."""
    assigned = set().union(*roles.values())
    groups: dict[Row, list[Index]] = {}
    for index in reads.normalized.extents:
        if index not in assigned:
            groups.setdefault(reads.row(index), []).append(index)
    return groups


def _free_role(pattern: Pattern, row: Row, roles: Roles) -> str | None:
    """Return the first role with this row that nobody plays, rather one that has an axis of its
    own.
    """
    free = [role for role, its_row in pattern.roles.items() if its_row == row and role not in roles]
    for role in free:
        if role not in pattern.mixed_roles:
            return role
    return next(iter(free), None)


def _has_sum(pattern: Pattern, roles: Roles) -> bool:
    """Return whether some index plays a summed role."""
    return any(OUTPUT not in row and roles.get(role) for role, row in pattern.roles.items())


def _stray_index(reads: _NamedReads, index: Index) -> Reason:
    row = reads.normalized.rows[index]
    places = [reads.normalized.reads[number].name for number in sorted(row - {OUTPUT})]
    if OUTPUT in row:
        places.append("the output")
    where = " and ".join(places) or "nothing"
    return Reason(
        f"index {index} occurs in {where}; {reads.pattern.template.name} has no such index left",
        DISTANCE_WEIGHTS.stray_index,
        "stray",
        indices=(index,),
    )


def _condition_reasons(reads: _NamedReads) -> Iterator[Reason]:
    """Yield a reason for every condition that the scope has more than the definition."""
    conditions = reads.normalized.conditions
    extra = len(conditions) - len(reads.pattern.example.conditions)
    for condition in conditions[: max(0, extra)]:
        text = f"the domain has the condition {condition}"
        yield Reason(text, DISTANCE_WEIGHTS.condition, "condition")


def _axis_reasons(reads: _NamedReads, axes: Mapping[tuple[int, int], int]) -> Iterator[Reason]:
    """Yield what is wrong with the subscripts of every read."""
    for number, read in enumerate(reads.normalized.reads):
        seen: set[Index] = set()
        for axis in read.axes:
            repeated = seen.intersection(axis.indices)
            if repeated:
                letters = ", ".join(sorted(index.name for index in repeated))
                text = f"{letters} stands twice in {read.name}"
                weight = DISTANCE_WEIGHTS.repeated_index
                yield Reason(text, weight, "twice", number, axis.position, axis.indices)
            seen.update(axis.indices)
            wrong = _subscript_mismatch(reads, read, axis, (number, axis.position) in axes)
            if wrong is not None:
                text, weight, kind = wrong
                yield Reason(text, weight, kind, number, axis.position, axis.indices)


def _subscript_mismatch(
    reads: _NamedReads, read: TensorRead, axis: ReadAxis, is_paired: bool
) -> tuple[str, float, str] | None:
    """Return what is wrong with one subscript, with the weight and the kind of the reason."""
    weights = DISTANCE_WEIGHTS
    is_padded = axis.overrun != (0, 0)
    if read.is_padded_twice and is_padded:
        text = f"{read.name} is read through two paddings at {axis.form}"
        return text, weights.padding, "padded"
    if is_paired:
        if axis.form.is_affine() or reads.pattern.has_quotients:
            return None
        text = f"the subscript {axis.form} of {read.name} has a quotient"
        return text, weights.mixed_subscript, "quotient"
    if axis.index is None and not reads.normalized.separable(axis):
        text = f"the subscript {axis.form} of {read.name} is not a bare index"
        return text, _mixed_weight(reads.normalized, axis), "mixed"
    if is_padded:
        return f"{read.name} is read through padding at {axis.form}", weights.padding, "padded"
    return None


def _mixed_weight(normalized: NormalForm, axis: ReadAxis) -> float:
    count = len(set(axis.indices).intersection(normalized.scope.indices))
    if 0 < count < len(axis.indices):
        return DISTANCE_WEIGHTS.mixed_sum_subscript
    return DISTANCE_WEIGHTS.mixed_subscript
