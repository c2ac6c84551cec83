"""Matching: a scope as a kernel of a library operator, with its parameters solved for and verified (design §7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from derive.matching.pattern import Pattern, pattern
from derive.matching.profile import OUTPUT, Profile
from derive.matching.unify import BODY, Assignment, Reason, assignments
from einalg.access import Access, Padded, Tensor, unpadded
from einalg.affine import Affine, Index, affine
from einalg.canonical import key
from einalg.errors import EinalgError, MatchError
from einalg.kernel import Kernel, View
from einalg.ops.templates import TEMPLATES, Setting, Template
from einalg.scope import Iterator as Range
from einalg.scope import Reduce, Scope
from einalg.traverse import rebuild

UNLIKE = Reason("its strides, offsets or sizes are not those of such an operator", 1.0, "parameters")
Steps = Mapping[Index, int]


def templates(name: str | None = None) -> tuple[Template, ...]:
    """All templates, or those of one operator; `MatchError` for a name that none has."""
    found = tuple(t for t in TEMPLATES if name in (None, t.name))
    if not found:
        known = ", ".join(dict.fromkeys(t.name for t in TEMPLATES))
        raise MatchError(f"there is no template {name!r}\n  known: {known}")
    return found


def matches(scope: Scope, output: str, among: Sequence[Template] = TEMPLATES) -> Iterator[Kernel]:
    """The kernels that compute a scope, the one that leaves the fewest roles of its operator empty first."""
    profile = profile_of(scope)
    for solved in _solutions(profile, tuple(among)):
        yield _kernel(profile, solved, scope, output)


def match(scope: Scope, output: str, among: Sequence[Template] = TEMPLATES) -> Kernel | None:
    """The first of `matches`, or None."""
    return next(matches(scope, output, among), None)


def reasons(scope: Scope, template: Template) -> list[Reason]:
    """What separates a scope from an operator; empty exactly when it is one."""
    profile, found = profile_of(scope), pattern(template)
    ways = sorted(assignments(profile, found), key=lambda a: a.weight)
    if not ways:
        return [Reason(f"the body is not {_words(found)}", BODY, "body")]
    if ways[0].reasons:
        return ways[0].reasons
    return [] if any(_solved(profile, found, way) is not None for way in ways if not way.reasons) else [UNLIKE]


def _words(found: Pattern) -> str:
    """The body of a definition, in the words of its own text."""
    return f"of the form {found.example.scope.body}"


class Lazy:
    """What an iterator yields, kept for those who ask again."""

    def __init__(self, source: Iterator[Any]):
        self.source, self.kept = source, list[Any]()

    def __iter__(self) -> Iterator[Any]:
        position = 0
        while True:
            while position < len(self.kept):
                yield self.kept[position]
                position += 1
            try:
                self.kept.append(next(self.source))
            except StopIteration:
                return


_PROFILES: dict[int, tuple[Scope, Profile]] = {}  # by identity: comparing expressions costs more than looking at one again
_MOST_PROFILES = 4096


def profile_of(scope: Scope) -> Profile:
    found = _PROFILES.get(id(scope))
    if found is None:
        if len(_PROFILES) >= _MOST_PROFILES:
            _PROFILES.clear()
        found = _PROFILES[id(scope)] = (scope, Profile(scope))
    return found[1]


def plausible(profile: Profile, among: tuple[Template, ...]) -> tuple[Template, ...]:
    """The templates with the body of a scope, and as many windows as it has, or none: the others say nothing that these do not."""
    found = profile.solved.get(("plausible", among))
    if found is None:
        alike = [t for t in among if pattern(t).example.skeleton == profile.skeleton]
        shared = [axis for read in profile.reads for axis in read.axes if axis.index is None]
        windows = sorted({len(pattern(t).mixed) for t in alike})
        least, most = sum(1 for axis in shared if not profile.separable(axis)), len(shared)
        wanted = {
            0,
            *(w for w in windows if least <= w <= most),
            *[w for w in windows if w <= most][-1:],
            *[w for w in windows if w >= least > 0][:1],
        }
        quotients = any(not axis.form.is_affine() for axis in shared)
        found = tuple(t for t in alike if len(pattern(t).mixed) in wanted and (not pattern(t).mixed or pattern(t).quotients == quotients))
        profile.solved["plausible", among] = found
    return found


Solved = tuple[Pattern, Assignment, dict[Setting, int]]


def _solutions(profile: Profile, among: tuple[Template, ...]) -> Iterator[Solved]:
    """One solution a template at most, the fullest first; found when asked for, and kept."""
    ways = profile.solved.get(among)
    if ways is None:
        open_ways = [(pattern(t), way) for t in plausible(profile, among) for way in assignments(profile, pattern(t)) if not way.reasons]
        open_ways.sort(key=lambda pair: len(pair[0].roles) - len(pair[1].roles))
        ways = profile.solved[among] = Lazy(_verified(profile, open_ways))
    yield from ways


def _verified(profile: Profile, ways: list[tuple[Pattern, Assignment]]) -> Iterator[Solved]:
    done: set[Template] = set()
    for found, way in ways:
        values = None if found.template in done else _solved(profile, found, way)
        if values is not None:
            done.add(found.template)
            yield found, way, values


def _solved(profile: Profile, found: Pattern, way: Assignment) -> dict[Setting, int] | None:
    """The parameters with which the definition has the key of the scope; None where there are none."""
    if any(extent == 0 for extent in profile.extents.values()):
        return None
    target, shapes = _realised(profile, found, way)
    values = None if target is None else found.solve(target, shapes)
    return values if values is not None and target is not None and _same(found.template, target, shapes, values) else None


def _same(template: Template, target: Scope, shapes: Mapping[str, tuple[int, ...]], values: Mapping[Setting, int]) -> bool:
    try:
        return key(template.build(shapes, values)) == key(target)
    except EinalgError:
        return False


def _realised(profile: Profile, found: Pattern, assignment: Assignment) -> tuple[Scope | None, dict[str, tuple[int, ...]]]:
    """The scope over the roles of a pattern: one index a role, operands with the definition's axes, of the part that is read."""
    extents = {role: prod(profile.extents[i] for i in members) for role, members in assignment.roles.items()}
    names = {members[0]: Index(role) for role, members in assignment.roles.items() if len(members) == 1}
    operands = {number: name for name, number in assignment.operands.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    counter = iter(range(len(profile.reads)))

    def access(node: Access) -> Any:
        number = next(counter)
        name = operands[number]
        subscripts, box = _axes(profile, found, assignment, number, name, names, extents)
        shapes[name] = tuple(high - low for low, high in box)
        tensor = Tensor(name, shapes[name])
        pads = [_overrun(s, size, extents) for s, size in zip(subscripts, shapes[name])]
        if not any(map(any, pads)):
            return Access.of(tensor, tuple(subscripts))
        fill = node.base.fill if isinstance(node.base, Padded) else 0
        return Access.of(Padded(tensor, pads, fill), tuple(subscripts))

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return access(node)
        if isinstance(node, Reduce):
            roles = [r for r, members in assignment.roles.items() if members[0] in node.indices]
            body = rebuild(node.body, leaf)
            where = tuple(c.substitute({k: affine(v) for k, v in names.items()}) for c in node.where)
            return Reduce(node.op, [Range(Index(r), 0, extents[r]) for r in roles], where, body)
        return node.substitute({k: affine(v) for k, v in names.items()})

    body = rebuild(profile.scope.body, leaf)
    where = tuple(c.substitute({k: affine(v) for k, v in names.items()}) for c in profile.scope.where)
    iterators = [Range(Index(role), 0, extents.get(role, 1)) for role in found.output]
    known = {*(Index(r) for r in extents), *(it.index for it in iterators)}
    if any(not c.indices <= known for c in where):
        return None, shapes
    return Scope(iterators, where, body), shapes


def _axes(
    profile: Profile, found: Pattern, assignment: Assignment, number: int, name: str, names: Mapping[Index, Index], extents: Mapping[str, int]
) -> tuple[list[Affine], list[tuple[int, int]]]:
    """The subscripts of an operand in the definition's axes, and the part of each axis that is read, from 0."""
    mixed = {partner: axis for axis in profile.reads[number].axes if (partner := assignment.axes.get((number, axis.position))) is not None}
    subscripts: list[Affine] = []
    box: list[tuple[int, int]] = []
    for position, letter in enumerate(found.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = max(axis.box[0], axis.reads[0]), min(axis.box[1], axis.reads[1] + 1)
            subscripts.append(axis.form.substitute({k: affine(v) for k, v in names.items()}) - low)
            box.append((0, max(0, high - low)))
            continue
        role = _walker(found, name, position, letter)
        subscripts.append(affine(Index(role)) if role in extents else affine(0))
        box.append((0, extents.get(role, 1)))
    return subscripts, box


def _walker(found: Pattern, name: str, position: int, letter: str) -> str:
    """The role that walks along an axis by itself: of a mixed axis, the output's."""
    mixed = found.mixed.get((name, position))
    if mixed is None:
        read = next(r for r in found.example.reads if r.name == name)
        axis = next(a for a in read.axes if a.position == position)
        return axis.indices[0].name
    return next((r for r in mixed if OUTPUT in found.roles[r]), letter)


def _overrun(form: Affine, size: int, extents: Mapping[str, int]) -> tuple[int, int]:
    low, high = form.interval({i: (0, extents[i.name]) for i in form.indices})
    return max(0, -low), max(0, high + 1 - size)


def _kernel(profile: Profile, solved: Solved, scope: Scope, output: str) -> Kernel:
    found, assignment, values = solved
    template = found.template
    sizes = {role: prod(profile.extents[i] for i in assignment.roles.get(role, ())) for role in _role_order(found)}
    for (name, axis, side), value in values.items():
        if value != template.settings()[name, axis, side]:
            sizes["_".join(part for part in (name, axis, side) if part)] = value
    if assignment.batch:
        assert template.batch is not None
        sizes[template.batch] = prod(profile.extents[i] for i in assignment.batch)
    names = tuple(_name(profile.reads[assignment.operands[name]].access) for name in template.operands)
    views = tuple(_view(profile, found, assignment, name) for name in template.operands)
    return Kernel(template.name, sizes, names, output, scope=scope, views=(*views, _output_view(profile, found, assignment, output)))


def _role_order(found: Pattern) -> list[str]:
    """Roles in the order of the operands' axes."""
    order = [letter for letters in found.template.operands.values() for letter in letters if letter in found.roles]
    return list(dict.fromkeys([*order, *found.roles]))


def _name(access: Access) -> str:
    base = unpadded(access.base)
    return "the inner scope" if isinstance(base, Scope) else base.name


def _view(profile: Profile, found: Pattern, assignment: Assignment, name: str) -> View:
    """An operand as strided axes, one group a letter."""
    read = profile.reads[assignment.operands[name]]
    strides = _strides(unpadded(read.access.base).shape)
    mixed = {assignment.axes[key]: axis for axis in read.axes if (key := (assignment.operands[name], axis.position)) in assignment.axes}
    steps: dict[Index, int] = {}
    offset = 0
    for position, (form, stride, (low, _)) in enumerate(zip(read.access.subscripts, strides, unpadded(read.access.base).box)):
        axis = next((a for a in mixed.values() if a.position == position), None)
        if axis is not None:
            offset += max(0, axis.reads[0] - low) * stride
            continue
        offset += (form.const - low) * stride
        for atom, coefficient in form.terms:
            if isinstance(atom, Index):
                steps[atom] = steps.get(atom, 0) + coefficient * stride
    axes: dict[str, tuple[tuple[int, int], ...]] = {}
    pads: dict[str, tuple[int, int]] = {}
    for position, letter in enumerate(found.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = max(axis.box[0], axis.reads[0]), min(axis.box[1], axis.reads[1] + 1)
            axes[letter], pads[letter] = ((max(0, high - low), strides[axis.position]),), axis.overrun
        else:
            members = assignment.roles.get(_walker(found, name, position, letter), ())
            axes[letter] = tuple((profile.extents[i], steps.get(i, 0)) for i in members)
    batch = tuple((profile.extents[i], steps.get(i, 0)) for i in assignment.batch)
    return View(_name(read.access), offset, axes, pads, batch)


def _output_view(profile: Profile, found: Pattern, assignment: Assignment, output: str) -> View:
    strides = dict(zip(profile.scope.indices, _strides(profile.scope.shape)))
    axes = {role: tuple((profile.extents[i], strides[i]) for i in assignment.roles.get(role, ())) for role in found.output}
    return View(output, 0, axes, {}, tuple((profile.extents[i], strides[i]) for i in assignment.batch))


def _strides(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis of a contiguous array."""
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    return steps[::-1]
