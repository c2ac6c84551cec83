"""A derivation as text: told step by step, and as a Python script that makes it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pprint import pformat
from textwrap import indent, shorten
from typing import Any

from derive.results.candidates import Candidate, format_kernels
from derive.rewriting.moves import Move, Rule
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.tensor import Constant, Tensor
from einalg.text.terminal import differing, fitted, width, wrapped
from einalg.text.wording import counted

WIDTH = 120
INDENT = "    "
MAX_BRIEF_LINES = 30  # of an explanation that a terminal shows
MAX_BRIEF_PROGRAM = 2  # lines of a program in it


@dataclass(frozen=True)
class ExplainedStep:
    """A move with the rule that it applies, and the program after it."""

    move: Move
    rule: Rule
    program: Program


class Explanation(str):
    """The derivation of a candidate: a text, which Jupyter shows as mathematics.

    It is told from the `start`, in `steps`, to the `candidate`; `time` says how long the search
    took. A terminal that shows the value has a short form, with what a step leaves as it was
    left out; `print` writes the whole.
    """

    start: Program
    steps: tuple[ExplainedStep, ...]
    candidate: Candidate
    time: str

    @classmethod
    def of(
        cls, start: Program, steps: Sequence[ExplainedStep], candidate: Candidate, time: str
    ) -> Explanation:
        """Tell a derivation."""
        explanation = cls("\n".join(_explanation(start, steps, candidate, time)))
        explanation.start, explanation.steps = start, tuple(steps)
        explanation.candidate, explanation.time = candidate, time
        return explanation

    def __str__(self) -> str:
        return fitted(str.__str__(self))

    def __repr__(self) -> str:
        steps = [(str(step.move), step.program) for step in self.steps]
        return brief(self.start, steps, list(_end(self.candidate, self.time)))


def _explanation(
    start: Program, steps: Sequence[ExplainedStep], candidate: Candidate, time: str
) -> Iterator[str]:
    yield "given"
    yield indent(str(start), INDENT)
    for number, step in enumerate(steps, 1):
        yield f"{number}. {step.move}"
        yield f"   {step.rule.before} ⇒ {step.rule.after}"
        yield indent(str(step.program), INDENT)
    if str(lifted(start)) != str(candidate.program):
        yield "as kernels"
        yield indent(str(candidate.program), INDENT)
    yield from _end(candidate, time)


def _end(candidate: Candidate, time: str) -> Iterator[str]:
    yield from format_kernels(candidate.kernels)
    yield f"verdict: {candidate.verdict}"
    yield time


def brief(start: Program, steps: Sequence[tuple[str, Program]], end: Sequence[str] = ()) -> str:
    """Return a derivation within the width of a terminal and in few lines: its steps in words, and
    their programs, without what a step leaves as it was, as far as there is room.
    """
    columns = width()
    before = str(start)
    head = ["given", *_cut_program(before, columns)]
    tail = [_cut(line, columns) for line in end]
    lines, detailed = list(head), list(head)
    for number, (words, program) in enumerate(steps, 1):
        line = _cut(f"{number}. {words}", columns)
        lines.append(line)
        detailed += [line, *_cut_program(differing(str(program), before), columns)]
        before = str(program)
    if len(detailed) + len(tail) <= MAX_BRIEF_LINES:
        return "\n".join([*detailed, *tail])
    room = max(len(head), MAX_BRIEF_LINES - len(tail) - 2)
    if len(lines) > room:
        lines = [*lines[:room], f"… and {counted(len(lines) - room, 'more step')}"]
    return "\n".join([*lines, *tail, "print(...) writes the program after every step"])


def _cut_program(program: str, columns: int) -> list[str]:
    """Return a program within some columns, and not more than its first lines."""
    lines = wrapped(indent(program, INDENT), columns).splitlines()
    if len(lines) > MAX_BRIEF_PROGRAM:
        lines = [
            *lines[: MAX_BRIEF_PROGRAM - 1],
            _cut(f"{lines[MAX_BRIEF_PROGRAM - 1]} …", columns),
        ]
    return lines


def _cut(line: str, columns: int) -> str:
    """Return a line within some columns."""
    if len(line) <= columns:
        return line
    leading = line[: len(line) - len(line.lstrip())]
    return leading + shorten(line, columns - len(leading), placeholder=" …")


def python_script(start: Program, moves: Iterable[Move]) -> str:
    """Return the script: tensors, expression, one `s.apply` a move, and a proof.

    >>> import einalg as ea
    >>> product = ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,))
    >>> print(python_script(ea.Program([("O", product)]), ()))
    import einalg as ea
    <BLANKLINE>
    A = ea.tensor("A", (4, 5), "f32", "input")
    B = ea.tensor("B", (5,), "f32", "input")
    expr = ea.parse("O[i:4] = Sum[k:5](A[i, k]*B[k])", A=A, B=B)
    s = ea.Session(expr)
    assert ea.prove(expr, s.expr).verdict != "different"
    print(s)
    """
    steps = tuple(moves)
    lines = start_lines(start)
    user_rules = ", ".join(sorted({move.rule for move in steps} - ALL.keys()))
    if user_rules:
        lines += [
            f"rules = []  # fill in the rules of your own that are applied below: {user_rules}",
            "s = ea.Session(expr, rules)",
        ]
    else:
        lines.append("s = ea.Session(expr)")
    lines += map(_step, steps)
    return "\n".join([*lines, 'assert ea.prove(expr, s.expr).verdict != "different"', "print(s)"])


def start_lines(start: Program) -> list[str]:
    """Return the lines that make the tensors of a program, and the program as `expr`."""
    lines = ["import einalg as ea", ""]
    for name, tensor in start.tensors.items():
        lines += _tensor(name, tensor)
    return [*lines, *_expression(start)]


def _value(value: Any) -> str:
    return str(value) if value.q == 1 else f"Fraction({value.p}, {value.q})"


def _tensor(name: str, tensor: Tensor) -> list[str]:
    """Return the lines that make a tensor."""
    axes = tuple(high if low == 0 else (low, high) for low, high in tensor.axes)
    if isinstance(tensor, Constant):
        values = ", ".join(map(_value, tensor.values))
        made = f'{name} = Constant("{name}", {axes}, "{tensor.dtype}", [{values}])'
        return [
            "from fractions import Fraction",
            "from einalg.language.ir.tensor import Constant",
            made,
        ]
    return [f'{name} = ea.tensor("{name}", {axes}, "{tensor.dtype}", "{tensor.role}")']


def _expression(start: Program) -> list[str]:
    """The program from its text, which holds all but the name of a single statement."""
    tensors = "".join(f", {name}={name}" for name in start.tensors)
    lines = str(start).splitlines()
    if len(start.names) > 1:
        return ['expr = ea.parse(\n    """', *lines, f'""",\n    {tensors[2:]})']
    parsed = f'ea.parse("{lines[0]}"{tensors})'
    name, scope = start.statements[0]
    if as_program(scope).names == start.names:
        return [f"expr = {parsed}"]
    return [f'expr = ea.Program([("{name}", {parsed})])']


def _step(move: Move) -> str:
    record: dict[str, Any] = move.as_record()
    args = pformat(record["args"], width=WIDTH, compact=True, sort_dicts=False).replace(
        "\n", "\n        "
    )
    return f's.apply(ea.Move("{move.rule}", {tuple(record["path"])}, {args}))'
