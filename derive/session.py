"""Derivation by hand: see the moves, apply one, take it back; every step is proven (design §6, §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from derive.backend import Backend, Runnable
from derive.history import History, Step, indented
from derive.moves import Move, Rule, apply, moves
from derive.places import Path, places, scope_at
from derive.proof import prove
from derive.rules import ALL, RULES, variable_substitution
from derive.rules.spelling import fresh_statement, lifted
from derive.search import kernels_of
from einalg.errors import CodegenError, RuleError
from einalg.kernel import Kernel
from einalg.printing import latex
from einalg.program import Program, as_program


class Choice:
    """One numbered move with the place it changes, before and after."""

    def __init__(self, number: int, move: Move, before: str, after: str):
        self.number, self.move, self.before, self.after = number, move, before, after

    def __str__(self) -> str:
        return f"{self.number:3}. {self.move}\n       {self.before}\n     ⇒ {self.after}"

    __repr__ = __str__

    def html(self) -> str:
        return f"{escape(str(self.move))}<br><code>{escape(self.before)}</code><br>⇒ <code>{escape(self.after)}</code>"


class Choices(list[Choice]):
    """The moves that are possible, numbered from 0; shown with what each makes of its place."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no move is possible"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{c.number}</td><td style='text-align:left'>{c.html()}</td></tr>" for c in self)
        return f"<table>{rows}</table>"


class Session:
    """A derivation by hand.

    >>> import einalg as ea
    >>> s = ea.Session(ea.parse("O[h] += A.pad(1)[h+r-1]*K[r,c]", A=(8,), K=(3, 4)))
    >>> choices = s.moves("summation splitting")
    >>> print(s.apply(choices[0]).verdict)
    proved
    >>> s.undo().expr == s.history.start
    True
    """

    def __init__(self, expression: Any, rules: Iterable[Rule] = (), backend: Backend | None = None, search: Callable[..., Any] | None = None):
        self.rules = {**ALL, **{rule.name: rule for rule in rules}}
        self.offered = [*RULES.values(), *(rule for rule in rules if rule.name not in RULES)]
        self.history = History(as_program(expression))
        self.undone: list[Step] = []
        self._backend, self._search = backend, search
        self._listed: tuple[Program, Choices] | None = None

    @property
    def expr(self) -> Program:
        """The program as it is now."""
        return self.history.program

    def moves(self, rule: str | None = None, path: Path | None = None) -> Choices:
        """The moves that are possible now, numbered; of one rule, or at one place, if given.

        The numbers hold for `apply` until the next step or the next call.
        """
        if rule is not None and rule not in self.rules:
            raise RuleError(f"there is no rule {rule!r}\n  known: {', '.join(sorted(self.rules))}")
        offered = self.offered if rule is None else [self.rules[rule]]
        found = moves(self.expr, offered, None if path is None else tuple(path))
        choices = Choices(Choice(k, move, *self._preview(move)) for k, move in enumerate(found))
        self._listed = (self.expr, choices)
        return choices

    def _preview(self, move: Move) -> tuple[str, str]:
        after = apply(self.expr, move, self.rules)
        if self.rules[move.rule].level == "scope":
            return str(scope_at(self.expr, move.path)), str(scope_at(after, move.path))
        old, new = str(self.expr).splitlines(), str(after).splitlines()
        return "; ".join(line for line in old if line not in new), "; ".join(line for line in new if line not in old)

    def apply(self, move: Move | Choice | int) -> Step:
        """Apply a move, a choice or the number of a choice; the step is proven before it counts.

        Raises `RuleError` where the move does not apply, or where a (user's) rule made something that is not equal.
        """
        chosen = self._chosen(move)
        after = apply(self.expr, chosen, self.rules)
        proof = prove(self.expr, after)
        if proof.verdict == "different":
            raise RuleError(f"{chosen.rule} is wrong here: its result differs from what it was applied to\n  {proof}")
        step = Step(chosen, after, proof.verdict)
        self.history.steps.append(step)
        self.undone.clear()
        return step

    def _chosen(self, move: Move | Choice | int) -> Move:
        if isinstance(move, Choice):
            return move.move
        if isinstance(move, Move):
            return move
        if self._listed is None or self._listed[0] is not self.expr:
            self.moves()
        assert self._listed is not None
        choices = self._listed[1]
        if isinstance(move, bool) or not isinstance(move, int) or not 0 <= move < len(choices):
            raise RuleError(f"there is no move number {move}: there are {len(choices)}\n  see s.moves()")
        return choices[move].move

    def undo(self, steps: int = 1) -> Session:
        """Take the last steps back."""
        if not 0 < steps <= len(self.history):
            raise RuleError(f"there are {len(self.history)} steps to take back, not {steps}")
        for _ in range(steps):
            self.undone.append(self.history.steps.pop())
        return self

    def redo(self) -> Session:
        """Apply again the step that was taken back last."""
        if not self.undone:
            raise RuleError("no step was taken back")
        self.history.steps.append(self.undone.pop())
        return self

    def substitute(self, mapping: Any, path: Path | None = None, target: Any = variable_substitution.TRAVERSAL) -> Step:
        """Rename the points of a traversal (or of reduction number `target`) by any isl map: text or `islpy.Map`."""
        place = tuple(path) if path is not None else (self.expr.names[-1],)
        args = variable_substitution.from_isl(scope_at(self.expr, place), mapping, target)
        return self.apply(Move(variable_substitution.RULE.name, place, args))

    def lift(self, path: Path, name: str | None = None) -> Step:
        """Give the inner scope at `path` a name: it becomes a statement."""
        return self.apply(Move("lifting", path, {"name": name or fresh_statement(self.expr)}))

    def places(self) -> dict[Path, str]:
        """Every scope with the path that moves use for it."""
        return {path: str(scope) for path, scope in places(self.expr)}

    def search(self, **options: Any) -> Any:
        """`einalg.derive` from here on, with the same options."""
        if self._search is None:
            raise RuleError("this session cannot search\n  make it with einalg.Session")
        return self._search(self.expr, **options)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What the program would run on now: a library operator where a statement matches one, generated code elsewhere."""
        return kernels_of(lifted(self.expr))

    def compile(self, target: str = "cpu") -> Runnable:
        """The program as a callable `run(**arrays)`."""
        if self._backend is None:
            raise CodegenError("this session has no backend to compile with\n  make it with einalg.Session")
        return self._backend.compile(lifted(self.expr), self.kernels, target)

    def save(self, path: Any) -> None:
        """Save the history; `Session.load` continues it."""
        self.history.save(path)

    @classmethod
    def load(cls, path: Any, rules: Iterable[Rule] = (), **parts: Any) -> Session:
        """A session that continues a saved history. Raises `RecordError` where the file is broken."""
        rules = tuple(rules)
        history = History.load(path, {**ALL, **{rule.name: rule for rule in rules}})
        session = cls(history.start, rules, **parts)
        session.history = history
        return session

    def __str__(self) -> str:
        return f"{len(self.history)} steps\n{indented(self.expr)}"

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return self.expr._repr_latex_()

    def latex(self) -> str:
        """Every step in the paper's notation, as a LaTeX `align*` environment."""
        rows = [self.history.start, *(s.program for s in self.history.steps)]
        names = ["", *(rf"\text{{({s.move.rule})}}" for s in self.history.steps)]
        lines = [rf"&{latex(p[p.outputs[-1]])} && {name}" for p, name in zip(rows, names)]
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
