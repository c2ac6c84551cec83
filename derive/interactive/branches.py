"""The states that a derivation by hand was in, as a tree: a step back and another move begin a
branch, and what was there before stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from derive.results.history import HistoryStep
from derive.rewriting.moves import Move
from einalg.boundary import public
from einalg.language.ir.program import Program
from einalg.text.terminal import width
from einalg.text.wording import shortened

MIN_LABEL_LETTERS = 24
HERE = "   ← here"


@dataclass(frozen=True)
class SessionState:
    """A state of a session: its number, that of the state it was made from, and the step to it.

    The start has number 0, no parent and no step.
    """

    number: int
    parent: int | None
    step: HistoryStep | None
    program: Program

    @property
    def label(self) -> str:
        """The step in words: `staging at O: access=0   (proved)`; `given` for the start."""
        if self.step is None:
            return "given"
        return f"{self.step.move}   ({self.step.verdict})"

    def __str__(self) -> str:
        lines = [f"{self.number}. {self.label}"]
        lines += [f"    {line}" for line in str(self.program).splitlines()]
        return "\n".join(lines)

    __repr__ = __str__


@public
class Branches(Sequence[SessionState]):
    """The states of a session by number, in the order in which they were made; shown as their tree.

    Those on the way to the present state are marked by a star. `Session.go_to(number)` goes to any
    of them.

    >>> import einalg as ea
    >>> s = ea.Session("O[i] += A[i,j,k]*x[k]", A=(4, 5, 6), x=(6,))
    >>> first = s.apply(s.moves("summation splitting")[0])
    >>> second = s.undo().apply(s.moves("summation splitting")[1])
    >>> print(s.branches)
    * 0. given
      ├ 1. summation splitting at O: reduction=0, outer=(j)   (proved)
    * └ 2. summation splitting at O: reduction=0, outer=(k)   (proved)   ← here
    >>> s.go_to(1).expr == first.program
    True
    """

    def __init__(self, start: Program):
        self._states = [SessionState(0, None, None, start)]
        self._children: dict[int, list[int]] = {0: []}
        self._next: dict[int, int] = {}  # by state: the child that was gone through last
        self.current = 0

    @overload
    def __getitem__(self, number: int) -> SessionState: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[SessionState]: ...
    def __getitem__(self, number: int | slice) -> SessionState | Sequence[SessionState]:
        return self._states[number]

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[SessionState]:
        return iter(tuple(self._states))

    @property
    def state(self) -> SessionState:
        """The present state."""
        return self._states[self.current]

    @property
    def ends(self) -> list[SessionState]:
        """The last state of each branch."""
        return [state for state in self._states if not self._children[state.number]]

    def path(self, number: int | None = None) -> list[SessionState]:
        """The states on the way to one, without the start; to the present one, by default."""
        state = self._states[self.current if number is None else number]
        path = []
        while state.parent is not None:
            path.append(state)
            state = self._states[state.parent]
        return path[::-1]

    def future(self) -> list[SessionState]:
        """The states that `redo` leads through, one after the other."""
        future, number = [], self.current
        while number in self._next:
            number = self._next[number]
            future.append(self._states[number])
        return future

    def children(self, number: int) -> list[SessionState]:
        """The states that were made from one."""
        return [self._states[child] for child in self._children[number]]

    def child(self, number: int, move: Move) -> SessionState | None:
        """The state that a move made from one; None where it was not applied there."""
        for child in self.children(number):
            if child.step is not None and child.step.move == move:
                return child
        return None

    def add(self, step: HistoryStep, parent: int) -> SessionState:
        """Add the state that a step made of another one; the present one stays what it is."""
        state = SessionState(len(self._states), parent, step, step.program)
        self._states.append(state)
        self._children[state.number] = []
        self._children[parent].append(state.number)
        return state

    def forget_from(self, number: int) -> None:
        """Remove the states from a number on, of which none is the present one or before it."""
        for state in self._states[number:]:
            del self._children[state.number]
            if state.parent in self._children:
                self._children[state.parent].remove(state.number)
        del self._states[number:]

    def go_to(self, number: int) -> None:
        """Make a state the present one; `redo` leads the same way again."""
        for state in self.path(number):
            if state.parent is not None:
                self._next[state.parent] = state.number
        self.current = number

    def is_next(self, state: SessionState) -> bool:
        """Return whether `redo` leads from its parent to a state."""
        return state.parent is not None and self._next.get(state.parent) == state.number

    def begins_branch(self, state: SessionState) -> bool:
        """Return whether other states too were made from the parent of a state."""
        return state.parent is not None and len(self._children[state.parent]) > 1

    def rows(self) -> list[tuple[SessionState, tuple[bool, ...]]]:
        """Return each state followed by those made from it, with the branches that it is in.

        There is an entry for each fork on the way: whether it is in the last branch of that one.
        """
        rows: list[tuple[SessionState, tuple[bool, ...]]] = []
        todo: list[tuple[int, tuple[bool, ...]]] = [(0, ())]
        while todo:
            number, forks = todo.pop()
            rows.append((self._states[number], forks))
            children = self._children[number]
            if len(children) == 1:
                todo.append((children[0], forks))
                continue
            for child in reversed(children):
                todo.append((child, (*forks, child == children[-1])))
        return rows

    def __str__(self) -> str:
        path = {0, *(state.number for state in self.path())}
        rows = self.rows()
        deepest = max(len(forks) for _, forks in rows)
        room = width() - len("* ") - 2 * deepest - len(f"{len(rows)}. ") - len(HERE)
        labels = shortened((state.label for state, _ in rows), max(room, MIN_LABEL_LETTERS))
        lines = []
        for state, forks in rows:
            mark = "*" if state.number in path else " "
            here = HERE if state.number == self.current else ""
            branch = self._lines_of_branches(state, forks)
            lines.append(f"{mark} {branch}{state.number}. {labels[state.label]}{here}")
        return "\n".join(lines)

    __repr__ = __str__

    def _lines_of_branches(self, state: SessionState, forks: Sequence[bool]) -> str:
        """Return what stands before a state: a line for each branch that goes on below it."""
        if not forks:
            return ""
        lines = ["  " if is_last else "│ " for is_last in forks]
        if self.begins_branch(state):
            lines[-1] = "└ " if forks[-1] else "├ "
        return "".join(lines)
