"""Rules of the user's own: made by a decorator, tested like the built-in ones (design §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from derive.rewriting.comparison import OriginalExpression, random_arrays
from derive.rewriting.moves import RULE, Move, Rule, apply, moves, rewritten, scopes_of
from derive.rewriting.paths import Path, program_scopes, replace_at, scope_at
from einalg.errors import EinalgError, RuleError, without_remedy
from einalg.language.analysis.validate import check
from einalg.language.ir.program import Program, as_program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ir.traversal import reductions
from einalg.options import TEXT, Kind, accepting, checked, optional, text, whole
from einalg.testing.verdict_log import FAILED, Verdict, note
from einalg.text.wording import counted

STRATEGY = Kind(
    "a strategy of hypothesis",
    accepting(lambda value: hasattr(value, "example") and hasattr(value, "flatmap")),
    "e.g. {name}=einalg.testing.strategies.scopes()",
)


@checked(name=text("twice"), before=TEXT, after=TEXT, requires=TEXT)
def rule(
    name: str, *, before: str, after: str, requires: str = ""
) -> Callable[[Callable[[Scope], Iterator[Any]]], Rule]:
    """Make a rule (EinNet §4) from a function that takes a scope and yields what it may become.

    It yields scopes, or `(args, scope)`, where `args` is a dict of JSON values that tells the
    results apart; without it they are numbered. The card (`before`, `after`, `requires`, in
    L-notation) is what `explain()` shows. Test the rule with `einalg.testing.check_rule`.
    `Session.apply` raises `RuleError` where a move of it has no result, or one that differs in
    value.

    >>> import einalg as ea
    >>> @ea.rule("twice", before="L[x] f", after="L[x] (f + f)/2")
    ... def twice(scope):
    ...     yield ea.Scope(scope.iterators, scope.where, (scope.body + scope.body)/2)
    >>> twice.name
    'twice'
    """

    def decorate(function: Callable[[Scope], Iterator[Any]]) -> Rule:
        def find(scope: Scope) -> Iterator[dict[str, Any]]:
            for args, _ in _results(name, function, scope):
                yield args

        def rewrite(scope: Scope, **args: Any) -> Scope:
            wanted = Move(name, ("",), args).args
            for proposed, result in _results(name, function, scope):
                if Move(name, ("",), proposed).args == wanted:
                    return result
            raise RuleError(f"{name} has no result for {args} here")

        # A rule at the top level of a module travels to other processes by its place there.
        for part in (find, rewrite):
            part.__module__ = function.__module__
            part.__qualname__ = f"{function.__qualname__}.{part.__name__}"
        return Rule(name, before, after, requires, find, rewrite, section="user's rule")

    return decorate


def _results(
    name: str, function: Callable[[Scope], Iterator[Any]], scope: Scope
) -> Iterator[tuple[dict[str, Any], Scope]]:
    """Yield the arguments and the scope of each result of a user's function."""
    results = function(scope)
    if not isinstance(results, Iterable) or isinstance(results, Scope):
        raise RuleError(
            f"{name} gives {_kind(results)}\n  a rule is a generator: yield what a scope may become"
        )
    for number, result in enumerate(results):
        args, after = {"choice": number}, result
        if isinstance(result, tuple) and len(result) == 2:
            args, after = result
        if not isinstance(after, Scope):
            raise RuleError(f"{name} yields {_kind(after)}\n  yield scopes, or pairs (args, scope)")
        yield args, after


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Scope):
        return f"a {type(value).__name__}"
    return f"{value!r}, which is no scope"


@dataclass(frozen=True)
class RuleReport:
    """The extent of a check: distinct random programs, and distinct moves that were applied,
    evaluated and replayed. A move that rewrites an equal scope in an equal way counts once.

    >>> print(RuleReport("mine", 20, 35))
    mine: 35 distinct moves on 20 distinct programs, all equal
    >>> print(RuleReport("mine", 20, 0))
    mine: no move on 20 distinct programs, so nothing was tested
      give expressions that it applies to: check_rule(..., strategy=...)
    """

    rule: str
    programs: int
    moves: int

    @property
    def extent(self) -> str:
        """The extent in words."""
        programs = counted(self.programs, "distinct program")
        moves = counted(self.moves, "distinct move") if self.moves else "no move"
        return f"{moves} on {programs}"

    def __str__(self) -> str:
        if not self.moves:
            remedy = "give expressions that it applies to: check_rule(..., strategy=...)"
            return f"{self.rule}: {self.extent}, so nothing was tested\n  {remedy}"
        return f"{self.rule}: {self.extent}, all equal"


@checked(tested=RULE, examples=whole(1), strategy=optional(STRATEGY), seed=optional(whole()))
def check_rule(
    tested: Rule, examples: int = 200, strategy: Any = None, seed: int | None = None
) -> RuleReport:
    """Apply a rule alone to random expressions: each of its moves must keep every value of the
    scope that it rewrites, and of the whole program.

    Values are compared exactly, on integers and fractions; where a function such as exp has values
    of real numbers, in double precision, within its rounding. `strategy` is a hypothesis strategy
    of scopes or programs (by default `einalg.testing.strategies.scopes()`). Returns what was
    checked. Raises `RuleError` with the smallest expression found on which the rule fails,
    `ImportError` where hypothesis is not installed.

    >>> import einalg as ea
    >>> ea.check_rule(ea.rules["summation splitting"], examples=20).moves > 0
    True
    """
    from einalg.testing import strategies

    expressions = strategy
    if strategy is None and tested.level == "program":
        expressions = strategies.programs()
    elif strategy is None:
        expressions = strategies.scopes()

    from hypothesis import (  # after a strategy, which says what to install where it is missing
        HealthCheck,
        Phase,
        given,
        settings,
    )
    from hypothesis import seed as hypothesis_seed
    from hypothesis.strategies import data

    programs: set[str] = set()
    rewrites: set[tuple[str, str]] = set()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(data())
    def run(choices: Any) -> None:
        program = as_program(choices.draw(expressions))
        arrays = choices.draw(strategies.arrays_for(program))
        programs.add(str(program))
        rewrites.update(_checked_moves(tested, program, arrays))

    if seed is not None:
        run = hypothesis_seed(seed)(run)
    try:
        run()
    except RuleError:
        note(Verdict(tested.name, FAILED, "rule"))
        raise
    report = RuleReport(tested.name, len(programs), len(rewrites))
    note(Verdict(tested.name, "tested", f"rule, {report.extent}"))
    return report


def check_moves(tested: Rule, expression: Any, arrays: Any) -> int:
    """Check every move that a rule proposes on one expression; return the number of moves."""
    return len(set(_checked_moves(tested, as_program(expression), arrays)))


def _checked_moves(tested: Rule, program: Program, arrays: Any) -> Iterator[tuple[str, str]]:
    """Check every move of a rule; yield what it rewrites, and how."""
    whole_program = OriginalExpression(program, arrays)
    scopes: dict[Path, OriginalExpression] = {}
    for move in moves(program, [tested]):
        after = _checked_result(tested, program, move)
        # Small integers often lie at a pole.
        _check_values(move, whole_program, after, domains=tested.level == "program")
        if tested.level == "program":
            _check_replay(move, program, after, apply(program, _reread(move), {move.rule: tested}))
            yield whole_program.text, str(move)
            continue
        # Readers of the scope may hide a difference, so that it is compared by itself too.
        scope = scope_at(program, move.path)
        if move.path not in scopes:
            by_itself = _by_itself(scope)
            scopes[move.path] = OriginalExpression(by_itself, random_arrays(by_itself, seed=0))
        scope_after = rewritten(tested, scope, _reread(move), scopes_of(program))
        _check_replay(move, program, after, replace_at(program, move.path, scope_after))
        _check_values(move, scopes[move.path], _by_itself(scope_after))
        yield scopes[move.path].text, move.arguments


def _checked_result(tested: Rule, program: Program, move: Move) -> Program:
    """Return what a move makes of a program: an expression that is right."""
    try:
        after = apply(program, move, {tested.name: tested})
        check(after)
    except EinalgError as error:
        raise RuleError(
            f"{move} was proposed for\n{program}\nbut fails: {without_remedy(error)}\n"
            "  yield scopes of the same box only"
        ) from error
    return after


def _reread(move: Move) -> Move:
    """Return a move as it is read from a file."""
    return Move.from_json(move.to_json())


def _check_replay(move: Move, program: Program, after: Program, again: Program) -> None:
    """Raise `RuleError` where a move that is read from JSON makes something else of a program."""
    is_same = again == after and _index_names(again) == _index_names(after)
    if not is_same and str(again) != str(after):
        raise RuleError(
            f"{move} gives another result when it is replayed from JSON on\n{program}\n"
            "  yield the same results for the same scope"
        )


def _index_names(program: Program) -> list[str]:
    """Return the names of the indices that a program binds; equality leaves them out."""
    names = []
    for scope in program_scopes(program):
        names += [it.index.name for it in scope.iterators]
        for node in reductions(scope.body):
            names += [it.index.name for it in node.iterators]
    return names


def _by_itself(scope: Scope) -> Scope:
    """Return a scope of a program on inputs in the place of the statements that it reads."""
    inputs = {}
    for name, tensor in scope.tensors.items():
        if tensor.role == "intermediate":
            inputs[name] = Tensor(name, tensor.axes, tensor.dtype, "input")
    return substitute_tensors(scope, inputs)


def _check_values(
    move: Move, original: OriginalExpression, after: Any, domains: bool = True
) -> None:
    if original.differs_from(after, domains):
        raise RuleError(
            f"{move} changes the value of\n{original.expression}\ninto that of\n{after}\n"
            f"on {original.arrays}\n"
            "  mend the rule, or what it requires"
        )
