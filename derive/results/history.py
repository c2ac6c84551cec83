"""A derivation as a sequence of checked steps: what a session records, and what a record replays
(design §6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.results.script import brief, python_script
from derive.rewriting.moves import Move, Rule, apply
from derive.rules import ALL
from einalg.boundary import public
from einalg.errors import RecordError, RuleError
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.program import Program, as_program, statement_tensor
from einalg.language.notation.program_json import program_from_record, program_record
from einalg.options import NEW_FILE, PATH, Kind, accepting, checked
from einalg.storage import record
from einalg.text.terminal import fitted

KIND = "einalg history"


def _is_table_of_rules(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(rule, Rule) for rule in value.values())


RULE_TABLE = Kind(
    "rules by their names", accepting(_is_table_of_rules), "e.g. {name}=einalg.rules", RuleError
)


@dataclass(frozen=True, repr=False)
class HistoryStep:
    """One move with the program after it, and the verdict on the two being equal."""

    move: Move
    program: Program
    verdict: str

    def as_record(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        row = self.move.as_record()
        return {**row, "verdict": self.verdict, "after": str(self.program)}

    def __str__(self) -> str:
        return f"{self.move}   ({self.verdict})\n{indented(self.program)}"

    __repr__ = __str__


def indented(node: Any, by: str = "    ") -> str:
    return "\n".join(by + line for line in str(node).splitlines())


@public
@dataclass
class History:
    """A program and the steps from it; saves, loads and replays. A session makes it.

    >>> import einalg as ea
    >>> s = ea.Session(ea.parse("O[i] += A[i,j,k]*x[k]", A=(4, 5, 6), x=(6,)))
    >>> step = s.apply(s.moves("summation splitting")[0])
    >>> print(s.history)
    given
        O[i:4] = Sum[j:5, k:6](A[i, j, k]*x[k])
    1. summation splitting at O: reduction=0, outer=(j)   (proved)
        O[i:4] = Sum[j:5]((L[j:5, i:4](Sum[k:6](A[i, j, k]*x[k])))[j, i])
    >>> s.history.replay() == s.expr
    True
    """

    start: Program
    steps: list[HistoryStep] = field(default_factory=list)

    @property
    def program(self) -> Program:
        """The program after the last step."""
        return self.steps[-1].program if self.steps else self.start

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves of all steps."""
        return tuple(step.move for step in self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        lines = ["given", indented(self.start)]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number}. {step}")
        return fitted("\n".join(lines))

    def __repr__(self) -> str:
        """Return the steps in few lines; `print` writes all of their programs."""
        steps = [(f"{step.verdict}: {step.move}", step.program) for step in self.steps]
        return brief(self.start, steps)

    @checked(path=NEW_FILE)
    def save(self, path: Any) -> None:
        """Write the start and the moves as JSON, whole or not at all."""
        record.write(path, KIND, self.as_record())

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        return record.text(KIND, self.as_record())

    def as_record(self) -> dict[str, Any]:
        """Return the start and the steps as JSON values."""
        steps = [step.as_record() for step in self.steps]
        return {"start": program_record(self.start), "steps": steps}

    def latex(self) -> str:
        """Every step in the paper's notation, as a LaTeX `align*` environment."""
        rows = [_latex_row(self.start, "")]
        for step in self.steps:
            rows.append(_latex_row(step.program, rf"\text{{({step.move.rule})}}"))
        return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"

    def script(self) -> str:
        """Return Python that makes the start, applies the moves and proves the end equal to it."""
        return python_script(self.start, self.moves)

    @staticmethod
    @checked(path=PATH, rules=RULE_TABLE)
    def load(path: Any, rules: Mapping[str, Rule] = ALL) -> History:
        """Read a history and replay it; `RecordError` where the file is broken or a step does not
        give what it gave.
        """
        content = record.read(path, KIND)
        steps = content.get("steps")
        if not isinstance(steps, list):
            raise RecordError(f"{path} has no list of steps")
        history = History(program_from_record(content.get("start")))
        for number, entry in enumerate(steps, 1):
            where = f"step {number} of {path}"
            history.steps.append(replayed_step(entry, history.program, rules, where))
        return history

    @checked(rules=RULE_TABLE)
    def replay(self, rules: Mapping[str, Rule] = ALL) -> Program:
        """Apply every move again from the start; the same program as the last step's."""
        return replay(self.start, self.moves, rules)[-1] if self.steps else self.start


def replayed_step(
    entry: Any, before: Program, rules: Mapping[str, Rule], where: str
) -> HistoryStep:
    """Return the step of a record, applied again to the program before it.

    Raises `RecordError` where it does not give what it gave; `where` says which step that is.
    """
    move = Move.from_record(entry)
    program = apply(before, move, rules)
    if entry.get("after") not in (None, str(program)):
        raise RecordError(
            f"{where} ({move.rule}) gives another program than when it was saved\n"
            "  load it with the rules and the version of einalg that it was saved with"
        )
    return HistoryStep(move, program, str(entry.get("verdict", "unchecked")))


def _latex_row(program: Program, name: str) -> str:
    """The statements of a program below each other, the name of a rule beside the last."""
    lines = []
    for key, scope in program.statements:
        lines.append(f"{latex(statement_tensor(key, scope))} &= {latex(scope)} &&")
    lines[-1] += f" {name}"
    return " \\\\\n".join(lines)


def replay(start: Any, moves: Iterable[Move], rules: Mapping[str, Rule] = ALL) -> Sequence[Program]:
    """The programs after each move."""
    programs = [as_program(start)]
    for move in moves:
        programs.append(apply(programs[-1], move, rules))
    return programs[1:]
