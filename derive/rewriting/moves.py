"""Moves: one application of a rule at one place, as a frozen value (design §6).

`moves(program)` lists what is possible, `apply(program, move)` does it. Search, sessions, replay
and tests use these two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import islpy as isl

from derive.rewriting.body_queries import has_infinite_truths
from derive.rewriting.element_types import may_lose_type, of_type
from derive.rewriting.paths import Path, paths, replace_at, scope_at
from derive.rewriting.stored_integers import check_stored_integers, reads_integers
from einalg.boundary import public
from einalg.errors import RecordError, RuleError, without_remedy
from einalg.language.analysis.validate import check_scope
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.node import forget_evaluations
from einalg.options import (
    FUNCTION,
    TEXT,
    Kind,
    Misfit,
    checked_fields,
    instance_of,
    one_of,
    optional,
    shown,
    text,
)
from einalg.runtime.clock import check_time

Args = dict[str, Any]


class Example(NamedTuple):
    """An expression that a rule has a move for: its text and, for `einalg.parse`, its shapes."""

    text: str
    shapes: Mapping[str, Any]


@public
@checked_fields(
    name=text("twice"),
    before=TEXT,
    after=TEXT,
    requires=TEXT,
    find=FUNCTION,
    rewrite=FUNCTION,
    level=one_of("scope", "program"),
    section=TEXT,
    example=optional(instance_of(Example, "an example", "leave it out")),
)
@dataclass(frozen=True)
class Rule:
    """A card that a person can read, with the functions that find and perform its moves.

    `find(scope)` yields the arguments of every move that holds at a scope; `rewrite(scope, **args)`
    returns the scope with the same box and the same values, or raises `RuleError` where the
    precondition fails. A rule that concerns several statements has `level="program"`: then
    `find(program)` yields `(path, args)` and `rewrite(program, path, **args)` returns a program.
    `example` is where the documentation shows the rule, by the first move there (EinNet §4).

    >>> from derive.rules import RULES
    >>> print(RULES["summation splitting"].card())
    summation splitting
      L[x] Σ[s1,s2] f
      ⇒ L[x] Σ[s1] {L[s1,x] Σ[s2] f}[s1,x]
      requires: nothing
    """

    name: str
    before: str
    after: str
    requires: str
    find: Callable[..., Iterator[Any]] = field(repr=False)
    rewrite: Callable[..., Any] = field(repr=False)
    level: str = "scope"
    section: str = "EinNet §4"
    example: Example | None = field(default=None, repr=False)

    def card(self) -> str:
        """The rule in L-notation, on three lines."""
        requires = self.requires or "nothing"
        return f"{self.name}\n  {self.before}\n  ⇒ {self.after}\n  requires: {requires}"


NAME = text("staging", RuleError)


def _read_path(value: Any) -> Path:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise Misfit
    path = tuple(value)
    for place in path:
        if not isinstance(place, (str, int)):
            raise Misfit
    return path


PLACE = Kind("a path in a list", _read_path, "e.g. {name}=['O', 0]", RuleError)
ARGUMENTS = instance_of(
    Mapping, "a dict from names of arguments to values", "see s.moves()", RuleError
)
RULE = instance_of(
    Rule, "a rule", "make one with einalg.rule, or take one of einalg.rules", RuleError
)


@public
@dataclass(frozen=True)
class Move:
    """The application of a rule at a path, with arguments that are JSON values.

    >>> move = Move("summation splitting", ("O",), {"reduction": 0, "outer": ["r"]})
    >>> Move.from_json(move.to_json()) == move
    True
    """

    rule: str
    path: Path
    args: Mapping[str, Any]

    def __init__(self, rule: str, path: Iterable[Any], args: Mapping[str, Any]):
        object.__setattr__(self, "rule", NAME.check("rule", rule))
        object.__setattr__(self, "path", PLACE.check("path", path))
        arguments = _frozen_items(ARGUMENTS.check("args", args))
        object.__setattr__(self, "args", _Frozen(arguments))

    def __str__(self) -> str:
        return f"{self.rule} at {self.place}: {self.arguments}"

    @property
    def place(self) -> str:
        """The path as text."""
        return ".".join(map(str, self.path))

    @property
    def arguments(self) -> str:
        """The arguments as a person reads them."""
        return ", ".join(f"{name}={_argument_text(value)}" for name, value in self.args.items())

    def to_json(self) -> str:
        """The move as a line of JSON."""
        return json.dumps(self.as_record())

    def as_record(self) -> dict[str, Any]:
        """The move as JSON values."""
        return {"rule": self.rule, "path": list(self.path), "args": _thawed(self.args)}

    @staticmethod
    def from_record(record: Any) -> Move:
        """Read a move from what `as_record` gives; `RecordError` for anything else."""
        try:
            rule, path, args = record["rule"], record["path"], record["args"]
            if not (isinstance(rule, str) and isinstance(args, dict) and _is_path(path)):
                raise TypeError
            return Move(rule, path, args)
        except (KeyError, IndexError, TypeError):
            raise RecordError(
                f"this is not a move: {shown(record)}\n  a move has a rule, a path and args"
            ) from None

    @staticmethod
    def from_json(text: str) -> Move:
        """Read a move from what `to_json` wrote; `RecordError` for anything else."""
        try:
            return Move.from_record(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise RecordError(f"this is not a move: {without_remedy(error)}") from None


def _is_path(path: Any) -> bool:
    """Tell whether a JSON value is a path: a list like `["O", 0, 1]`."""
    if not isinstance(path, list) or not path or not isinstance(path[0], str):
        return False
    return all(
        isinstance(position, int) and not isinstance(position, bool) for position in path[1:]
    )


class _Frozen(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items(), key=lambda item: item[0])))

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("a move is a value: make a new one")

    __setitem__ = __delitem__ = update = setdefault = _refuse  # type: ignore[assignment]
    pop = popitem = clear = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


class _FrozenOrder(_Frozen):
    """A mapping inside an argument: the order of its names counts, as that of new axes does."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def _frozen_items(args: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): _frozen(value) for name, value in args.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(element) for element in value)
    if isinstance(value, Mapping):
        return _FrozenOrder(_frozen_items(value))
    if value is None or isinstance(value, (str, int, bool, float)):
        return value
    return str(value)


def _thawed(value: Any) -> Any:
    """Return the JSON value of a frozen one."""
    if isinstance(value, tuple):
        return [_thawed(element) for element in value]
    if isinstance(value, Mapping):
        return {key: _thawed(element) for key, element in value.items()}
    return value


def _argument_text(value: Any) -> str:
    """Write a map as what it renames; one that renames nothing as its order."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_argument_text, value)) + ")"
    if not isinstance(value, Mapping):
        return str(value)
    renamed = [f"{old}: {new}" for old, new in value.items() if old != new]
    if renamed:
        return "{" + ", ".join(renamed) + "}"
    return "(" + ", ".join(value) + ")"


def moves(program: Program, rules: Iterable[Rule], path: Path | None = None) -> Iterator[Move]:
    """Yield every move of `rules` that holds, at every place or at one."""
    if path is None:
        places = list(paths(program))
    else:
        places = [(path, scope_at(program, path))]
    are_checked: dict[Path, bool] = {}
    for rule in rules:
        for at, scope, args in _proposed(program, rule, places):
            if path is not None and at != path:
                continue
            if at not in are_checked:
                are_checked[at] = _is_checked_by_applying(program, scope)
            move = Move(rule.name, at, args)
            if not are_checked[at] or _may_apply(program, move, rule):
                yield move


def _proposed(
    program: Program, rule: Rule, places: Iterable[tuple[Path, Scope]]
) -> Iterator[tuple[Path, Scope, Args]]:
    """Yield the places that a rule finds, what is rewritten there, and the arguments of moves."""
    if rule.level == "program":
        for at, args in rule.find(program):
            yield tuple(at), scope_at(program, tuple(at)), args
    else:
        for at, scope in places:
            for args in rule.find(scope):
                yield at, scope, args


def _is_checked_by_applying(program: Program, scope: Scope) -> bool:
    """Tell whether moves at a scope may turn out to be impossible when they are applied."""
    if _reads_gaps(program, scope) or may_lose_type(scope) or reads_integers(scope):
        return True
    return scope.dtype == "bool" and has_infinite_truths(scopes_of(program))


def scopes_of(program: Program) -> list[Scope]:
    """Return the scopes of all statements."""
    return [scope for _, scope in program.statements]


def _reads_gaps(program: Program, scope: Scope) -> bool:
    """Tell whether a scope reads a statement that has no value at some points."""
    return any(name in scope.tensors for name, other in program.statements if other.where)


def _may_apply(program: Program, move: Move, rule: Rule) -> bool:
    try:
        apply(program, move, {rule.name: rule})
    except RuleError:
        return False
    return True


def apply(program: Program, move: Move, rules: Mapping[str, Rule]) -> Program:
    """Return the program after `move`.

    The same move of the same program gives the same names of indices, whatever was applied before.
    Raises `RuleError` where the place does not exist, the precondition does not hold, or integers
    may overflow that did not before.
    """
    check_time()
    forget_evaluations()
    rule = rules.get(move.rule)
    if rule is None:
        remedy = f"for a rule of your own give it too: rules=[{move.rule.replace(' ', '_')}]"
        raise RuleError(
            f"there is no rule {move.rule!r}\n  known: {', '.join(sorted(rules))}\n  {remedy}"
        )
    try:
        after = _applied(program, move, rule)
        check_stored_integers(program, after, move.path if rule.level == "scope" else ())
        return after
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, isl.Error) as error:
        raise RuleError(
            f"{move} cannot be applied: {error}\n  see Session.moves() for what is possible"
        ) from error


def _applied(program: Program, move: Move, rule: Rule) -> Program:
    if rule.level == "program":
        return rule.rewrite(program, move.path, **move.args)
    scope = rewritten(rule, scope_at(program, move.path), move, scopes_of(program))
    after = replace_at(program, move.path, scope)
    _check_gaps(after, move.path[0])
    return after


def _check_gaps(program: Program, name: str) -> None:
    """Raise `RangeError` where a statement reads another one at a point without a value.

    A scope does not say of a statement that it reads where that has values.
    """
    cut = {other: scope for other, scope in program.statements if scope.where}
    for scope in all_scopes(program[name]):
        if any(read in cut for read in scope.tensors):
            check_scope(scope, cut)


def rewritten(rule: Rule, scope: Scope, move: Move, readable: Iterable[Scope] = ()) -> Scope:
    """Return what a rule makes of a scope, in the type of that.

    `readable` are the scopes whose values it may read. Raises `RuleError` where the rule does not
    keep the box, or the type does not hold the values.
    """
    after = rule.rewrite(scope, **move.args)
    if not isinstance(after, Scope) or after.box != scope.box:
        raise RuleError(f"{move.rule} does not keep the box {scope.box} of the scope it rewrites")
    return of_type(after, scope.dtype, [scope, *readable])
