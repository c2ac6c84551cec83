"""Derivation by hand: see the moves, apply one, take it back; every step is proven."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import islpy as isl

from derive.cost.backend import BACKEND, Backend, Runnable
from derive.interactive.branches import Branches, SessionState
from derive.interactive.choices import Aim, MoveList, NumberedMove, aimed, program_distance
from derive.interactive.parts import Part, PartList, changes, parts, parts_at, paths_of
from derive.interactive.session_record import load_branches, session_record
from derive.matching import (
    Distances,
    distances,
    kernels_of,
    nearest_distance,
    templates,
    why_not,
    with_operator_names,
)
from derive.proof import prove
from derive.results.candidates import Candidate
from derive.results.history import KIND, History, HistoryStep, indented
from derive.rewriting.moves import Move, Rule, apply, moves
from derive.rewriting.paths import Path, paths, scope_at
from derive.rules import ALL, RULES
from derive.rules.inter.lifting_nesting import fresh_statement, lifted
from derive.rules.intra import variable_substitution
from derive.search.best_first import RULE_LIST, rules_by_name
from derive.search.search_tree import SearchNode, SearchTree
from einalg.boundary import public, similar
from einalg.errors import CodegenError, DeviceError, MatchError, RuleError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, as_program
from einalg.options import (
    FUNCTION,
    NEW_FILE,
    PATH,
    Kind,
    accepting,
    checked,
    either,
    instance_of,
    optional,
    several,
    shown,
    text,
    whole,
)
from einalg.storage import record
from einalg.text.wording import counted

MOVE = instance_of((Move, NumberedMove), "a move", "see s.moves()", RuleError)
MOVES = several(MOVE, "moves in a list", "e.g. {name}=d.best.moves")


def _is_part(value: Any) -> bool:
    return isinstance(value, (Part, str)) and bool(value)


PLACE = several(
    either(whole(), text("O")), "a path, the name of a statement first", "see s.places()"
).raising(RuleError)
PART = either(Kind("a part of the formula", accepting(_is_part), "see s.parts()", RuleError), PLACE)
STATE = instance_of(SessionState, "a state", "see s.branches", RuleError)
MAP = instance_of(
    (str, isl.Map), "an isl map, or its text", "e.g. {name}='{{ [h, w] -> [w, h] }}'", RuleError
)


@public
class DerivationSession:
    """A derivation by hand (EinNet §4); in Jupyter a widget that shows the moves and applies them
    by a click.

    `moves()` lists what is possible, `apply(number)` does it and `undo()` takes it back; another
    move then begins a branch: `branches` shows them, `go_to(number)` goes to a state of any;
    `aim(operator)` lists those moves first that lead nearer to it; `moves(at=part)` lists those
    that change one of `parts()`;
    `distances()` and `why_not(operator)` say what separates the program from operators; `script()`,
    `latex()` and `save(path)` keep the derivation, `plot()` draws it.

    >>> import einalg as ea
    >>> s = ea.Session(ea.parse("O[h] += A.pad(1)[h+r-1]*K[r,c]", A=(8,), K=(3, 4)))
    >>> choices = s.moves("summation splitting")
    >>> print(s.apply(choices[0]).verdict)
    proved
    >>> s.undo().expr == s.history.start
    True
    """

    @checked(rules=RULE_LIST, backend=optional(BACKEND), search=optional(FUNCTION))
    def __init__(
        self,
        expression: Any,
        rules: Iterable[Rule | str] | Rule | str = (),
        backend: Backend | None = None,
        search: Callable[..., Any] | None = None,
    ):
        more = rules_by_name(rules)
        self.rules = {**ALL, **more}
        self.offered = [
            *RULES.values(),
            *(rule for rule in more.values() if rule.name not in RULES),
        ]
        self.branches = Branches(as_program(expression))
        self.history = History(self.branches[0].program)
        self.watchers: list[Callable[[], None]] = []
        self._backend, self._search = backend, search
        self._listed: tuple[Program, MoveList] | None = None
        self._operator: str | None = None

    @property
    def expr(self) -> Program:
        """The program as it is now."""
        return self.history.program

    @checked(rule=optional(text("staging", RuleError)), path=optional(PLACE), at=optional(PART))
    def moves(
        self, rule: str | None = None, path: Path | None = None, at: Part | str | Path | None = None
    ) -> MoveList:
        """The moves that are possible now, numbered; of one rule, or at one place, if given.

        `path` is that of the scope which the moves rewrite. `at` is a part of the formula that they
        change: one of `parts()`, its name such as "O.0", or the name of a tensor or a reduction.
        The numbers hold for `apply` until the next step or the next call. After `aim(operator)`,
        those come first that lead nearest to it. Raises `RuleError` for an unknown rule or part.

        >>> import einalg as ea
        >>> s = ea.Session("O[f,h] += A.pad(0,1)[c,h+r-1] * K[f,c,r]", A=(4, 9), K=(5, 4, 3))
        >>> sorted({choice.move.rule for choice in s.moves(at="Sum")})
        ['bilinear factorisation', 'summation splitting']
        """
        choices = self.possible(rule, path, at)
        self._listed = (self.expr, choices)
        return choices

    @checked(rule=optional(text("staging", RuleError)), path=optional(PLACE), at=optional(PART))
    def possible(
        self, rule: str | None = None, path: Path | None = None, at: Part | str | Path | None = None
    ) -> MoveList:
        """Return the same as `moves`, but the numbers that `apply` takes stay as they are."""
        if rule is not None and rule not in self.rules:
            meant = similar(rule, self.rules)
            remedy = f"known: {', '.join(sorted(self.rules))}"
            if meant:
                remedy = f"write {meant[0]!r}; {remedy}"
            raise RuleError(f"there is no rule {rule!r}\n  {remedy}")
        offered = self.offered if rule is None else [self.rules[rule]]
        if at is None:
            offered_moves = moves(self.expr, offered, path)
        else:
            offered_moves = self._moves_at(parts_at(self.expr, at), offered, path)
        aim = self.aimed
        return aimed(
            NumberedMove(number, move, self.expr, self.rules, aim)
            for number, move in enumerate(offered_moves)
        )

    def _moves_at(
        self, wanted: Iterable[Part], offered: Iterable[Rule], path: Path | None
    ) -> list[Move]:
        """Return the moves that change some part of a program; with a path those at that place."""
        changing: dict[Move, None] = {}
        for part in wanted:
            for place in paths_of(part):
                if path not in (None, place):
                    continue
                for move in moves(self.expr, offered, place):
                    if move not in changing and self._changes(part, move):
                        changing[move] = None
        return list(changing)

    def _changes(self, part: Part, move: Move) -> bool:
        """Return whether a move changes a part; one that cannot be applied changes nothing."""
        try:
            return changes(part, move.path, self.expr, apply(self.expr, move, self.rules))
        except RuleError:
            return False

    def parts(self) -> PartList:
        """The parts of the program that `moves(at=…)` takes: scopes, reductions and reads."""
        return parts(self.expr)

    @checked(operator=optional(text("matmul", MatchError)))
    def aim(self, operator: str | None) -> DerivationSession:
        """Go towards an operator: `moves()` lists first those that lessen the distance to it.

        None aims at nothing in particular. Raises `MatchError` for an unknown operator.

        >>> import einalg as ea
        >>> s = ea.Session("O[f,h] += A.pad(0,1)[c,h+r-1] * K[f,c,r]", A=(4, 9), K=(5, 4, 3))
        >>> print(s.aim("matmul"))
        0 steps; towards matmul, which is 6 away
            O[f:5, h:9] = Sum[c:4, r:3](A.pad(0, 1)[c, h + r - 1]*K[f, c, r])
        >>> choice = s.moves("summation splitting")[0]
        >>> choice.nearness, choice.is_nearer
        ('matmul 6 → 3', True)
        """
        if operator is not None:
            templates(operator)
        self._operator = operator
        self._listed = None
        self._tell()
        return self

    @property
    def aimed(self) -> Aim | None:
        """The operator that the session aims at, with the distance from it; None without one."""
        if self._operator is None:
            return None
        return Aim(self._operator, nearest_distance(self.expr, self._operator))

    @checked(move=either(MOVE, whole(None)))
    def apply(self, move: Move | NumberedMove | int) -> HistoryStep:
        """Apply a move, a choice or the number of a choice; the step is proven before it counts.

        Raises `RuleError` where the move does not apply, or where a (user's) rule made something
        that is not equal.
        """
        self.go_to(self._state_after(self.branches.current, self._chosen(move)))
        return self.history.steps[-1]

    @checked(steps=either(MOVES, instance_of(Candidate, "a candidate", "see d.candidates")))
    def follow(self, steps: Iterable[Move] | Candidate) -> DerivationSession:
        """Apply moves one after the other, or those of a candidate of `search`; none counts where
        one does not apply.
        """
        moves = steps.moves if isinstance(steps, Candidate) else steps
        number, states = self.branches.current, len(self.branches)
        try:
            for move in moves:
                number = self._state_after(number, self._chosen(move))
        except RuleError:
            self.branches.forget_from(states)
            raise
        return self.go_to(number)

    def _state_after(self, number: int, move: Move) -> int:
        """Return the number of the state that a move makes of another one; new if need be."""
        state = self.branches.child(number, move)
        if state is None:
            state = self.branches.add(self._step(move, self.branches[number].program), number)
        return state.number

    def _step(self, move: Move, before: Program) -> HistoryStep:
        after = apply(before, move, self.rules)
        proof = prove(before, after)
        if proof.verdict == "different":
            wrong = "its result differs from what it was applied to"
            raise RuleError(f"{move.rule} is wrong here: {wrong}\n  {proof}")
        return HistoryStep(move, after, proof.verdict)

    def _chosen(self, move: Move | NumberedMove | int) -> Move:
        if isinstance(move, NumberedMove):
            return move.move
        if isinstance(move, Move):
            return move
        if self._listed is None or self._listed[0] is not self.expr:
            self.moves()
        assert self._listed is not None
        choices = self._listed[1]
        if not 0 <= move < len(choices):
            raise RuleError(
                f"there is no move number {shown(move)}: there are {len(choices)}\n  see s.moves()"
            )
        return choices[move].move

    @checked(steps=whole(None).raising(RuleError))
    def undo(self, steps: int = 1) -> DerivationSession:
        """Take the last steps back."""
        if not 0 < steps <= len(self.history):
            done = counted(len(self.history), "step")
            raise RuleError(
                f"{shown(steps)} steps cannot be taken back: the history has {done}\n"
                "  see s.history"
            )
        return self.go_to(self._line()[len(self.history) - steps])

    def redo(self) -> DerivationSession:
        """Apply again the step that was taken back last."""
        future = self.branches.future()
        if not future:
            raise RuleError("no step was taken back\n  take one back first: s.undo()")
        return self.go_to(future[0].number)

    @property
    def timeline(self) -> list[HistoryStep]:
        """The steps that were done and, after them, those that were taken back and can be done
        again.
        """
        states = [*self.branches.path(), *self.branches.future()]
        return [state.step for state in states if state.step is not None]

    def _line(self) -> list[int]:
        """Return the numbers of the states from the start to the present one."""
        return [0, *(state.number for state in self.branches.path())]

    @checked(state=either(whole(None), STATE).raising(RuleError))
    def go_to(self, state: int | SessionState) -> DerivationSession:
        """Go to a state of `branches`, by its number; 0 is the start.

        What was done elsewhere stays. Raises `RuleError` where there is no such state.

        >>> import einalg as ea
        >>> s = ea.Session("O[i] += A[i,j,k]*x[k]", A=(4, 5, 6), x=(6,))
        >>> step = s.apply(0)
        >>> s.go_to(0).expr == s.history.start, s.go_to(1).expr == step.program
        (True, True)
        """
        number = state.number if isinstance(state, SessionState) else state
        if not 0 <= number < len(self.branches):
            raise RuleError(
                f"there is no state {shown(number)}: the last is {len(self.branches) - 1}\n"
                "  see s.branches; 0 is the start"
            )
        self.branches.go_to(number)
        self.history.steps[:] = [
            state.step for state in self.branches.path() if state.step is not None
        ]
        self._tell()
        return self

    @checked(mapping=MAP, path=optional(PLACE), target=either(whole(), text("traversal")))
    def substitute(
        self, mapping: Any, path: Path | None = None, target: Any = variable_substitution.TRAVERSAL
    ) -> HistoryStep:
        """Rename the points of a traversal (or of reduction number `target`) by any isl map: text
        or `islpy.Map`.
        """
        place = tuple(path) if path is not None else (self.expr.names[-1],)
        args = variable_substitution.from_isl(scope_at(self.expr, place), mapping, target)
        return self.apply(Move(variable_substitution.RULE.name, place, args))

    @checked(path=PLACE, name=optional(text("T", RuleError)))
    def lift(self, path: Path, name: str | None = None) -> HistoryStep:
        """Give the inner scope at `path` a name: it becomes a statement."""
        return self.apply(Move("lifting", path, {"name": name or fresh_statement(self.expr)}))

    def places(self) -> dict[Path, str]:
        """Every scope with the path that moves use for it."""
        return {path: str(scope) for path, scope in paths(self.expr)}

    @property
    def distance(self) -> float:
        """How far the program is from the operators of the libraries, as the search counts it."""
        return program_distance(self.expr)

    def distances(self) -> Distances:
        """The distance to every operator, with its reasons, the nearest operator first."""
        return distances(self.expr)

    @checked(operator=text("matmul", MatchError))
    def why_not(self, operator: str) -> str:
        """Say what separates each statement from an operator.

        Raises `MatchError` for an unknown operator.
        """
        return why_not(self.expr, operator)

    def search(self, **options: Any) -> Any:
        """`einalg.derive` from here on, with the same options; `follow` takes a candidate that it
        finds.
        """
        if self._search is None:
            raise RuleError("this session cannot search\n  make it with einalg.Session")
        return self._search(self.expr, **options)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the program would run on now.

        A kernel is a library operator where a statement matches one, generated code elsewhere.
        """
        return with_operator_names(kernels_of(lifted(self.expr)))

    @checked(target=text("cpu", DeviceError))
    def compile(self, target: str = "cpu") -> Runnable:
        """The program as a callable `run(**arrays)` of the inputs that it had at first; those that
        it does not read any more are ignored.
        """
        if self._backend is None:
            raise CodegenError(
                "this session has no backend to compile with\n  make it with einalg.Session"
            )
        run = self._backend.compile(lifted(self.expr), self.kernels, target)
        return run.accepting(self.history.start.inputs)

    @checked(path=NEW_FILE)
    def save(self, path: Any) -> None:
        """Save the history with all branches; `Session.load` continues it."""
        record.write(path, KIND, session_record(self.history, self.branches))

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        return record.text(KIND, session_record(self.history, self.branches))

    @classmethod
    @checked(path=PATH, rules=RULE_LIST)
    def load(cls, path: Any, rules: Iterable[Rule] = (), **parts: Any) -> DerivationSession:
        """A session that continues a saved one, or a saved history.

        Raises `RecordError` where the file is broken.
        """
        rules = tuple(rules)
        branches = load_branches(path, {**ALL, **{rule.name: rule for rule in rules}})
        session = cls(branches[0].program, rules, **parts)
        session.branches = branches
        session.history = History(branches[0].program)
        return session.go_to(branches.current)

    def script(self) -> str:
        """Return Python that makes the start, applies the moves and proves the end equal to it."""
        return self.history.script()

    def plot(self) -> SearchTree:
        """The programs of all branches, each coloured by its distance to an operator; that
        of a search is `s.search().plot()`.
        """
        rows = []
        for state in self.branches:
            distance = program_distance(state.program)
            move, steps = "", ()
            if state.step is not None:
                move, steps = str(state.step.move), (state.step.move,)
            rows.append(SearchNode(state.number, state.parent, move, distance, False, None, steps))
        return SearchTree(rows, self.history.start, self.rules)

    def latex(self) -> str:
        """Every step in the paper's notation, as a LaTeX `align*` environment."""
        return self.history.latex()

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher()

    def __str__(self) -> str:
        return f"{self._heading()}\n{indented(self.expr)}"

    def _heading(self) -> str:
        """Return, say, "2 steps; state 4 of 2 branches, see s.branches"."""
        heading = counted(len(self.history), "step")
        ends = len(self.branches.ends)
        if ends > 1:
            heading += f"; state {self.branches.current} of {ends} branches, see s.branches"
        aim = self.aimed
        if aim is not None:
            heading += f"; towards {aim.operator}, {_away(aim.distance)}"
        return heading

    __repr__ = __str__


def _away(distance: float) -> str:
    """Return a distance in words.

    >>> _away(1.5), _away(0.0)
    ('which is 1.5 away', 'which is reached')
    """
    if distance == 0:
        return "which is reached"
    return f"which is {float(distance):g} away"
