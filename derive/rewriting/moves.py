"""Moves: one application of a rule at one place, as a frozen value (design §6).

`moves(program)` lists what is possible, `apply(program, move)` does it. Search, sessions, replay and tests use these two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import islpy as isl
import sympy

from derive.rewriting.paths import Path, paths, replace_at, scope_at
from einalg.errors import RecordError, RuleError
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant

Args = dict[str, Any]


class Example(NamedTuple):
    """An expression that a rule has a move for: its text, and the shapes of its tensors as `einalg.parse` takes them."""

    text: str
    shapes: Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A card that a person can read, and the two functions that find and perform its moves (EinNet §4).

    `find(scope)` yields the arguments of every move that holds at a scope; `rewrite(scope, **args)` returns the scope with
    the same box and the same values, or raises `RuleError` where the precondition fails. A rule that concerns several
    statements has `level="program"`: then `find(program)` yields `(path, args)` and `rewrite(program, path, **args)`
    returns a program. `example` is where the documentation shows it: the first move that is found there.

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
        return f"{self.name}\n  {self.before}\n  ⇒ {self.after}\n  requires: {self.requires or 'nothing'}"


@dataclass(frozen=True)
class Move:
    """`rule` applied at `path` (a statement's name, then positions among inner scopes) with JSON-able `args`.

    >>> move = Move("summation splitting", ("O",), {"reduction": 0, "outer": ["r"]})
    >>> Move.from_json(move.to_json()) == move
    True
    """

    rule: str
    path: Path
    args: Mapping[str, Any]

    def __init__(self, rule: str, path: Iterable[Any], args: Mapping[str, Any]):
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "path", tuple(path))
        object.__setattr__(self, "args", _Frozen({k: _frozen(v) for k, v in args.items()}))

    def __str__(self) -> str:
        return f"{self.rule} at {self.place}: {self.arguments}"

    @property
    def place(self) -> str:
        """The path as text."""
        return ".".join(map(str, self.path))

    @property
    def arguments(self) -> str:
        """The arguments as a person reads them."""
        return ", ".join(f"{k}={_shown(v)}" for k, v in self.args.items())

    def to_json(self) -> str:
        """The move as a line of JSON."""
        return json.dumps(self.as_record())

    def as_record(self) -> dict[str, Any]:
        """The move as JSON values."""
        return {
            "rule": self.rule,
            "path": list(self.path),
            "args": {k: _thawed(v) for k, v in self.args.items()},
        }

    @staticmethod
    def from_record(record: Any) -> Move:
        """A move from the JSON values that `as_record` gives; `RecordError` for anything else."""
        try:
            rule, path, args = record["rule"], record["path"], record["args"]
            sound = (
                isinstance(rule, str)
                and isinstance(path, list)
                and isinstance(args, dict)
                and path
                and isinstance(path[0], str)
            )
            if not sound or not all(
                isinstance(p, int) and not isinstance(p, bool) for p in path[1:]
            ):
                raise TypeError
            return Move(rule, path, args)
        except (KeyError, TypeError):
            raise RecordError(
                f"this is not a move: {str(record)[:200]}\n  a move has a rule, a path and args"
            ) from None

    @staticmethod
    def from_json(text: str) -> Move:
        """A move from what `to_json` wrote; `RecordError` for anything else."""
        try:
            return Move.from_record(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise RecordError(f"this is not a move: {error}") from None


class _Frozen(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items(), key=lambda item: item[0])))

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("a move is a value: make a new one")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _Frozen, (dict(self),)


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, Mapping):
        return _Frozen({str(k): _frozen(v) for k, v in value.items()})
    return value if isinstance(value, (str, int, bool, float)) or value is None else str(value)


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_thawed(v) for v in value]
    return {k: _thawed(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _shown(value: Any) -> str:
    """A map shows what it renames; one that renames nothing shows its order."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_shown, value)) + ")"
    if isinstance(value, Mapping):
        renamed = [f"{k}: {v}" for k, v in value.items() if k != v]
        return "{" + ", ".join(renamed) + "}" if renamed else "(" + ", ".join(value) + ")"
    return str(value)


def moves(program: Program, rules: Iterable[Rule], path: Path | None = None) -> Iterator[Move]:
    """Every move of `rules` that holds, at every place or at one."""
    spots = list(paths(program)) if path is None else [(path, scope_at(program, path))]
    for rule in rules:
        if rule.level == "program":
            for where, args in rule.find(program):
                if path is None or tuple(where) == path:
                    yield Move(rule.name, where, args)
        else:
            for where, scope in spots:
                for args in rule.find(scope):
                    yield Move(rule.name, where, args)


def apply(program: Program, move: Move, rules: Mapping[str, Rule]) -> Program:
    """The program after `move`; `RuleError` where the place does not exist or the precondition does not hold."""
    rule = rules.get(move.rule)
    if rule is None:
        own = f"for a rule of your own give it too: rules=[{move.rule.replace(' ', '_')}]"
        raise RuleError(
            f"there is no rule {move.rule!r}\n  known: {', '.join(sorted(rules))}\n  {own}"
        )
    try:
        if rule.level == "program":
            return rule.rewrite(program, move.path, **move.args)
        scope = scope_at(program, move.path)
        rewritten = rule.rewrite(scope, **move.args)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, isl.Error) as error:
        raise RuleError(
            f"{move} cannot be applied: {error}\n  see Session.moves() for what is possible"
        ) from error
    if not isinstance(rewritten, Scope) or rewritten.box != scope.box:
        raise RuleError(f"{move.rule} does not keep the box {scope.box} of the scope it rewrites")
    return replace_at(program, move.path, _of_type(rewritten, scope.dtype))


def _of_type(scope: Scope, dtype: str) -> Scope:
    """A scope of the type that it had: a sum of truth values is no number, and what is multiplied by 0 says nothing of its type of floats."""
    if scope.dtype == dtype:
        return scope
    if dtype == "bool":
        return Scope(scope.iterators, scope.where, sympy.Ne(scope.body, 0))
    if not is_float(dtype):
        return scope
    zero = Constant(f"{dtype}_zero_", (), dtype, (0,))  # no name that a front end gives ends in _
    return Scope(scope.iterators, scope.where, scope.body + zero[()])
